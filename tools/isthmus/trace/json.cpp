#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "trace/model.hpp"

namespace isthmus::tool::trace {
namespace {

/// Writes events one after another. Chrome's format counts in microseconds.
class Events {
 public:
  Events(const Job& job, double from, double to) : job_(job) {
    start_ = job.ranks[0].first;
    for (const Rank& rank : job.ranks)
      start_ = std::min(start_, rank.first);
    from_ = from * 1e9;
    to_ = to * 1e9;
  }

  [[nodiscard]] bool shows(std::int64_t begin, std::int64_t end) const {
    return static_cast<double>(end - start_) >= from_ && static_cast<double>(begin - start_) <= to_;
  }
  [[nodiscard]] std::string at(std::int64_t time) const { return microseconds(time - start_); }
  static std::string microseconds(std::int64_t time) {
    const char* const sign = time < 0 ? "-" : "";
    const std::uint64_t size = static_cast<std::uint64_t>(time < 0 ? -time : time);
    return fmt::format("{}{}.{:03}", sign, size / 1000, size % 1000);
  }
  /// `rest`: the members of the event, after its process and thread.
  template <class... Values>
  void add(std::uint32_t rank, std::uint32_t thread, fmt::format_string<Values...> rest, Values&&... values) {
    text_ += text_.empty() ? "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n" : ",\n";
    fmt::format_to(std::back_inserter(text_), "{{\"pid\":{},\"tid\":{},", rank, thread);
    fmt::format_to(std::back_inserter(text_), rest, std::forward<Values>(values)...);
    text_ += '}';
  }
  std::string take() {
    if (text_.empty()) text_ = "{\"traceEvents\":[\n";
    text_ += "\n]}\n";
    return std::move(text_);
  }

 private:
  const Job& job_;
  std::int64_t start_ = 0;
  double from_ = 0, to_ = 0;
  std::string text_;
};

/// Numbers of threads that people can read: 0 is the first that called MPI.
std::map<std::uint32_t, std::uint32_t> threads_of(const Rank& rank) {
  std::map<std::uint32_t, std::uint32_t> result;
  for (const Call& call : rank.calls)
    result.try_emplace(call.thread, static_cast<std::uint32_t>(result.size()));
  for (const Send& send : rank.sends)
    result.try_emplace(send.thread, static_cast<std::uint32_t>(result.size()));
  for (const Receive& receive : rank.receives) {
    result.try_emplace(receive.thread, static_cast<std::uint32_t>(result.size()));
    result.try_emplace(receive.end_thread, static_cast<std::uint32_t>(result.size()));
  }
  return result;
}

/// Lines for what goes on beside the calls, so that what overlaps is on different ones.
class Lines {
 public:
  Lines(Events& events, const Rank& rank, std::uint32_t first, std::string name)
      : events_(events), rank_(rank), first_(first), name_(std::move(name)) {}

  /// Where something is shown that lasts so long; to be called in the order of `begin`.
  std::uint32_t take(std::int64_t begin, std::int64_t end) {
    const auto free = std::ranges::find_if(ends_, [&](std::int64_t each) { return each <= begin; });
    const auto index = static_cast<std::uint32_t>(free - ends_.begin());
    if (free == ends_.end()) {
      ends_.push_back(end);
      events_.add(rank_.rank, first_ + index, R"-("ph":"M","name":"thread_name","args":{{"name":"{}{}"}})-",
                  name_, index == 0 ? std::string() : fmt::format(", {}", index + 1));
    } else {
      *free = end;
    }
    return first_ + index;
  }

 private:
  Events& events_;
  const Rank& rank_;
  std::uint32_t first_;
  std::string name_;
  std::vector<std::int64_t> ends_;
};

/// What GPUs have brought to a rank.
void add_carried(Events& events, const Job& job, const Rank& rank) {
  constexpr std::uint32_t first_line = 1U << 20U;  // threads come before
  std::vector<const Receive*> carried;
  for (const Receive& each : rank.receives)
    if (each.carried != unknown_time && each.end != unknown_time && each.is_matched &&
        carrier_of(each.way) != Carrier::processor && events.shows(each.carried, each.end))
      carried.push_back(&each);
  std::ranges::stable_sort(carried, {}, &Receive::carried);
  Lines copies(events, rank, first_line, "copies by GPUs");
  Lines couriers(events, rank, 2 * first_line, "couriers");
  for (const Receive* const each : carried) {
    const std::int64_t end = std::max(each->end, each->carried);
    Lines& lines = carrier_of(each->way) == Carrier::courier ? couriers : copies;
    const std::uint32_t line = lines.take(each->carried, end);
    events.add(
        rank.rank, line,
        R"-("ph":"X","cat":"gpu","name":"from rank {}, {} bytes","ts":{},"dur":{},"args":{{"from":{},"way":"{}","bytes":{},"tag":{},"communicator":"{}"}})-",
        each->from, each->bytes, events.at(each->carried), Events::microseconds(end - each->carried),
        each->from, name_of_way(each->way), each->bytes, each->tag, name_of_comm(job, each->context));
  }
}

void add_call(Events& events, const Job& job, const Rank& rank, const Call& call, std::uint32_t thread) {
  std::string more = call.has_ended ? "" : R"-(,"ended":"no, when the trace stopped")-";
  if (call.collective != nowhere) {
    const isthmus::trace::Collective& what = rank.collectives[call.collective].what;
    more +=
        fmt::format(R"-(,"communicator":"{}","number":{})-", name_of_comm(job, what.context), what.number);
    if (what.bytes != ~std::uint64_t{0}) more += fmt::format(R"-(,"bytes":{})-", what.bytes);
    if (what.root >= 0) more += fmt::format(R"-(,"root":{})-", what.root);
  }
  if (call.waits_for >= 0)
    more += fmt::format(R"-(,"waited for":"rank {} ({})","waited us":{})-", call.waits_for, call.why,
                        Events::microseconds(call.waits_until - call.begin));
  events.add(rank.rank, thread,
             R"-("ph":"X","cat":"call","name":"{}","ts":{},"dur":{},"args":{{"rank":{}{}}})-", call.name,
             events.at(call.begin), Events::microseconds(call.end - call.begin), rank.rank, more);
  if (!call.is_outermost) return;
  const std::int64_t from = std::max(call.waits_until, call.begin);
  if (call.waits_for >= 0)
    events.add(rank.rank, thread,
               R"-("ph":"X","cat":"wait","name":"waits for rank {} ({})","ts":{},"dur":{})-", call.waits_for,
               call.why, events.at(call.begin), Events::microseconds(from - call.begin));
  if (call.moves_data && call.waits_for >= 0 && from < call.end)
    events.add(rank.rank, thread, R"-("ph":"X","cat":"copy","name":"copies","ts":{},"dur":{})-",
               events.at(from), Events::microseconds(call.end - from));
}

}  // namespace

std::string to_json(const Job& job, double from, double to) {
  Events events(job, from, to);
  std::vector<std::map<std::uint32_t, std::uint32_t>> threads;
  for (const Rank& rank : job.ranks) {
    threads.push_back(threads_of(rank));
    events.add(rank.rank, 0, R"-("ph":"M","name":"process_name","args":{{"name":"rank {} ({}, pid {})"}})-",
               rank.rank, rank.host, rank.pid);
    events.add(rank.rank, 0, R"-("ph":"M","name":"process_sort_index","args":{{"sort_index":{}}})-",
               rank.rank);
    if (rank.clock_error > 0)
      events.add(rank.rank, 0, R"-("ph":"M","name":"process_labels","args":{{"labels":"clock to {} us"}})-",
                 Events::microseconds(rank.clock_error));
    for (const auto& [id, number] : threads.back())
      events.add(rank.rank, number, R"-("ph":"M","name":"thread_name","args":{{"name":"thread {} ({})"}})-",
                 number, id);
    for (const Call& call : rank.calls)
      if (events.shows(call.begin, call.end))
        add_call(events, job, rank, call, threads.back().at(call.thread));
    add_carried(events, job, rank);
  }
  std::uint64_t arrow = 0;
  for (const Message& message : job.messages) {
    if (message.send == nowhere || message.receive == nowhere) continue;
    const Rank& near = job.ranks[message.from_rank];
    const Rank& far = job.ranks[message.to_rank];
    const Send& send = near.sends[message.send];
    const Receive& receive = far.receives[message.receive];
    if (receive.end == unknown_time || !events.shows(send.begin, receive.end)) continue;
    const std::string name = is_inner(job, send.context) ? "message of a collective" : "message";
    const std::string arguments = fmt::format(
        R"-("args":{{"from":{},"to":{},"way":"{}","bytes":{},"tag":{},"communicator":"{}"}})-", near.rank,
        far.rank, name_of_way(receive.way), send.bytes, send.tag, name_of_comm(job, send.context));
    ++arrow;
    // An arrow begins and ends at a slice, so each end has one of its own.
    const std::uint32_t from_thread = threads[message.from_rank].at(send.thread);
    const std::uint32_t to_thread = threads[message.to_rank].at(receive.end_thread);
    events.add(near.rank, from_thread, R"-("ph":"X","cat":"message","name":"to rank {}","ts":{},"dur":0,{})-",
               far.rank, events.at(send.begin), arguments);
    events.add(near.rank, from_thread, R"-("ph":"s","cat":"message","name":"{}","id":{},"ts":{})-", name,
               arrow, events.at(send.begin));
    events.add(far.rank, to_thread, R"-("ph":"X","cat":"message","name":"from rank {}","ts":{},"dur":0,{})-",
               near.rank, events.at(receive.end), arguments);
    events.add(far.rank, to_thread, R"-("ph":"f","bp":"e","cat":"message","name":"{}","id":{},"ts":{})-",
               name, arrow, events.at(receive.end));
  }
  return events.take();
}

}  // namespace isthmus::tool::trace
