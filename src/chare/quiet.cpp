// Quiescence: who asks, who counts. When it is quiet, only `Quiescence` knows.
#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "chare/runtime.hpp"

namespace isthmus::chare {

void Runtime::quiescence(const Callback& callback) {
  send_record(0, {.kind = RecordKind::ask_quiet}, std::as_bytes(std::span(&callback, 1)));
}

void Runtime::ask_quiet(Message& message) {
  Callback callback;
  if (rank() != 0 || message.bytes != sizeof callback) fail("it asks the wrong process, or for nothing");
  std::memcpy(&callback, message.data(), sizeof callback);
  quiescence_.ask(callback);
  begin_wave();
}

void Runtime::begin_wave() {
  if (!quiescence_.begin_wave()) return;
  wave_wanted_ = true;
  for (std::uint32_t to = 1; to < processes(); ++to)
    send_record(to, {.kind = RecordKind::wave}, {});
}

/// With nothing to do. Whether there was a question.
bool Runtime::answer_wave() {
  if (!std::exchange(wave_wanted_, false)) return false;
  const std::string why = count_.kept != 0 ? stuck() : std::string();
  if (rank() == 0) {
    add(count_, why);
    return true;
  }
  const Record record{.kind = RecordKind::wave_answer};
  std::byte* const at = begin_record(0, record, sizeof count_ + why.size());
  std::memcpy(at, &count_, sizeof count_);
  std::memcpy(at + sizeof count_, why.data(), why.size());
  finish_record();
  return true;
}

void Runtime::add_answer(const Record& record) {
  WorkCount count;
  if (record.payload.size() < sizeof count) fail("an answer about quiescence is too short");
  std::memcpy(&count, record.payload.data(), sizeof count);
  const auto why = record.payload.subspan(sizeof count);
  add(count, {reinterpret_cast<const char*>(why.data()), why.size()});
}

void Runtime::add(const WorkCount& count, std::string_view why) {
  if (!quiescence_.answer(count, why)) return;
  if (quiescence_.is_quiet()) {
    if (!quiescence_.stuck().empty()) fail("nothing moves any more" + quiescence_.stuck());
    std::vector<Callback> asked = quiescence_.take();
    if (quiescence_.take_own())
      go_on_quiet(asked);
    else
      for (const Callback& callback : asked)
        call(callback, {});
  }
  begin_wave();
}

}  // namespace isthmus::chare
