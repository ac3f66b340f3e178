#include "chare/record.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace isthmus::chare {

Result<Record> read_record(std::span<const std::byte>& message) {
  if (message.size() < sizeof(RecordHeader))
    return fail(ErrorClass::truncate,
                fmt::format("a record begins {} bytes before the end of its message", message.size()));
  RecordHeader header;
  std::memcpy(&header, message.data(), sizeof header);
  if (header.kind == 0 || header.kind > static_cast<std::uint8_t>(last_record_kind))
    return fail(ErrorClass::other, fmt::format("there is no record of kind {}", header.kind));
  if ((header.flags & ~record_has_tail) != 0)
    return fail(ErrorClass::other, fmt::format("a record has the unknown flags {:#x}", header.flags));
  const std::size_t front = sizeof header + ((header.flags & record_has_tail) != 0 ? sizeof(RecordTail) : 0);
  if (header.bytes < front || header.bytes > message.size())
    return fail(ErrorClass::truncate, fmt::format("a record of {} bytes is in the last {} of its message",
                                                  header.bytes, message.size()));
  Record record{.kind = static_cast<RecordKind>(header.kind),
                .item = header.item,
                .collection = header.collection,
                .index = {header.low, 0},
                .payload = message.subspan(front, header.bytes - front)};
  if (front > sizeof header) {
    RecordTail tail;
    std::memcpy(&tail, message.data() + sizeof header, sizeof tail);
    record.index.high = tail.high;
    record.priority = tail.priority;
    record.origin = tail.origin;
  }
  message = message.subspan(std::min<std::size_t>(message.size(), padded(header.bytes)));
  return record;
}

}  // namespace isthmus::chare
