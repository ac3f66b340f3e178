#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <tuple>
#include <unordered_map>

#include "trace/model.hpp"
#include "trace/record.hpp"

namespace isthmus::tool::trace {
namespace {

namespace file = isthmus::trace;
using file::Kind;
using file::Record;

/// What a file says is not trusted: of text, only what a terminal and JSON can show.
template <std::size_t size>
std::string text_of(const std::array<char, size>& from) {
  std::string result;
  for (const char byte : from) {
    if (byte == 0) break;
    result += byte < ' ' || byte > '~' || byte == '"' || byte == '\\' ? '?' : byte;
  }
  return result;
}

class Reader {
 public:
  explicit Reader(Rank& rank) : rank_(rank) {}

  /// False where it is no record.
  bool add(const Record& record) {
    if (record.kind > file::last_kind || record.time < 0 || record.time > most_time) return false;
    if (rank_.first == 0 || record.time < rank_.first) rank_.first = record.time;
    rank_.last = std::max(rank_.last, record.time);
    switch (record.kind) {
      case Kind::none:
        return false;
      case Kind::name:
        names_[record.is.name] = text_of(record.is.text);
        return true;
      case Kind::comm:
        rank_.comms[record.is.context] = {text_of(record.is.text), record.is.bytes};
        return true;
      case Kind::call_begin:
        begin_call(record);
        return true;
      case Kind::call_end:
        end_call(record);
        return true;
      case Kind::collective:
        return add_collective(record);
      case Kind::collective_end:
        end_collective(record.collective, record.thread);
        return true;
      case Kind::send:
        add_send(record);
        return true;
      case Kind::take:
        taken_[record.of.number] = ++order_;
        return true;
      case Kind::receive:
      case Kind::receive_taken:
        add_receive(record);
        return true;
      case Kind::complete:
        complete(record);
        return true;
      case Kind::carry:
        if (const auto found = receiving_.find(record.of.number); found != receiving_.end())
          rank_.receives[found->second].carried = record.time;
        return true;
    }
    return false;
  }

  void end() {
    for (Call& call : rank_.calls)
      if (!call.has_ended) call.end = std::max(rank_.last, call.begin);
  }

 private:
  /// 146 years after the machine started.
  static constexpr std::int64_t most_time = std::int64_t{1} << 62;

  void begin_call(const Record& record) {
    auto& stack = open_[record.thread];
    const auto name = names_.find(record.of.name);
    Call call{.name = name == names_.end() ? "MPI call" : name->second, .thread = record.thread};
    call.begin = call.end = call.waits_until = record.time;
    call.is_outermost = stack.empty();
    stack.push_back(rank_.calls.size());
    rank_.calls.push_back(std::move(call));
  }

  void end_call(const Record& record) {
    auto& stack = open_[record.thread];
    if (stack.empty()) return;  // it began before the trace
    Call& call = rank_.calls[stack.back()];
    stack.pop_back();
    call.end = std::max(record.time, call.begin);
    call.has_ended = true;
  }

  using CollectiveKey = std::tuple<std::uint64_t, file::Form, std::uint64_t>;
  static CollectiveKey key_of(const file::Collective& what) { return {what.context, what.form, what.number}; }

  bool add_collective(const Record& record) {
    const file::Collective& what = record.collective;
    if (what.form > file::Form::persistent || what.needs > file::Needs::neighbours) return false;
    Collective collective{.what = what, .begin = record.time};
    const std::size_t index = rank_.collectives.size();
    if (what.form == file::Form::blocking) {
      const auto& stack = open_[record.thread];
      if (stack.empty()) return true;
      collective.call = stack.back();
      collective.begin = rank_.calls[stack.back()].begin;
      rank_.calls[stack.back()].collective = index;
    } else {
      collective.start = starts_[key_of(what)]++;
      running_[key_of(what)] = index;
    }
    rank_.collectives.push_back(collective);
    return true;
  }

  void end_collective(const file::Collective& what, std::uint32_t thread) {
    const auto found = running_.extract(key_of(what));
    const auto& stack = open_[thread];
    if (found && !stack.empty()) rank_.collectives[found.mapped()].call = stack.back();
  }

  void add_send(const Record& record) {
    if (record.of.number != 0) sending_[record.of.number] = rank_.sends.size();
    rank_.sends.push_back({.thread = record.thread,
                           .begin = record.time,
                           .is_at_once = record.of.number == 0,
                           .context = record.of.context,
                           .bytes = record.of.bytes,
                           .to = record.of.peer,
                           .tag = record.of.tag});
  }

  void add_receive(const Record& record) {
    std::uint64_t order = ++order_;
    if (record.kind == Kind::receive_taken)
      if (const auto found = taken_.extract(record.of.bytes)) order = found.mapped();
    receiving_[record.of.number] = rank_.receives.size();
    rank_.receives.push_back({.thread = record.thread,
                              .end_thread = record.thread,
                              .begin = record.time,
                              .context = record.of.context,
                              .from = record.of.peer,
                              .tag = record.of.tag,
                              .order = order});
  }

  void complete(const Record& record) {
    if ((record.of.flags & file::is_send) != 0) {
      const auto found = sending_.extract(record.of.number);
      if (!found) return;
      Send& send = rank_.sends[found.mapped()];
      send.end = std::max(record.time, send.begin);
      send.is_cancelled = (record.of.flags & file::is_cancelled) != 0;
      return;
    }
    const auto found = receiving_.extract(record.of.number);
    if (!found) return;
    Receive& receive = rank_.receives[found.mapped()];
    receive.end = std::max(record.time, receive.begin);
    receive.end_thread = record.thread;
    if ((record.of.flags & file::is_matched) == 0) return;
    receive.is_matched = true;
    receive.context = record.of.context;
    receive.bytes = record.of.bytes;
    receive.from = record.of.peer;
    receive.tag = record.of.tag;
    receive.way = record.of.way;
  }

  Rank& rank_;
  std::uint64_t order_ = 0;
  std::unordered_map<std::uint16_t, std::string> names_;
  std::unordered_map<std::uint32_t, std::vector<std::size_t>> open_;    ///< by thread: calls, innermost last
  std::unordered_map<std::uint64_t, std::size_t> sending_, receiving_;  ///< by request
  std::unordered_map<std::uint64_t, std::uint64_t> taken_;              ///< by message
  std::map<CollectiveKey, std::uint64_t> starts_;                       ///< so far
  std::map<CollectiveKey, std::size_t> running_;                        ///< that do not block
};

}  // namespace

std::expected<Rank, std::string> read(std::span<const std::byte> bytes) {
  if (bytes.size() < file::header_bytes) return std::unexpected("it is too short");
  file::Header header{};
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != file::magic) return std::unexpected("it is no trace of a rank");
  if (header.header_bytes != file::header_bytes || header.record_bytes != sizeof(Record))
    return std::unexpected("it has been written by another version");
  constexpr std::uint32_t most_ranks = 1 << 24;
  if (header.size == 0 || header.size > most_ranks || header.rank >= header.size)
    return std::unexpected("it names a rank that no job has");
  constexpr std::int64_t most_time = std::int64_t{1} << 61;
  if (header.monotonic < 0 || header.monotonic > most_time || header.realtime < 0 ||
      header.realtime > most_time)
    return std::unexpected("its clocks make no sense");
  Rank rank{.rank = header.rank, .size = header.size, .pid = header.pid};
  rank.host = text_of(header.host);
  rank.boot = text_of(header.boot);
  rank.realtime_ahead = header.realtime - header.monotonic;
  rank.dropped = header.dropped;
  Reader reader(rank);
  for (std::size_t at = file::header_bytes; at + sizeof(Record) <= bytes.size(); at += sizeof(Record)) {
    Record record{};
    std::memcpy(&record, bytes.data() + at, sizeof record);
    if (record.kind == Kind::none) break;
    if (!reader.add(record)) {
      rank.is_cut = true;
      break;
    }
  }
  reader.end();
  return rank;
}

}  // namespace isthmus::tool::trace
