#include "vrank/hosts/lines.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <string>
#include <system_error>

#include "base/futex.hpp"
#include "base/system/blocked_signals.hpp"
#include "base/system/open_files.hpp"
#include "launch/region/shared_region.hpp"

namespace isthmus::vrank {
namespace {

constexpr std::int64_t visitor_patience = 10'000'000'000;
constexpr std::size_t most_visitors = 1024;
constexpr rlim_t files_besides = 256;

// What an event of the thread's epoll is of: the high half, and a number below.
constexpr std::uint64_t of_listener = std::uint64_t{1} << 32, of_end = std::uint64_t{2} << 32,
                        of_visitor = std::uint64_t{3} << 32, of_line = std::uint64_t{4} << 32,
                        of_own_line = std::uint64_t{5} << 32, of_rank = std::uint64_t{6} << 32;

std::int64_t now() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::unexpected<Error> no_epoll() {
  return fail(ErrorClass::other, "epoll: " + std::generic_category().message(errno));
}

}  // namespace

Lines::Lines(JobLayout layout, std::uint32_t own, const wire::RegionView& region)
    : layout_(std::move(layout)),
      own_(own),
      own_host_(layout_.process_of(own).host),
      region_(region),
      process_of_(region.world()),
      calls_(region.world()),
      calls_there_(region.world()),
      book_(region.world()),
      has_ended_(region.world()) {
  for (std::uint32_t rank = 0; rank < world(); ++rank)
    process_of_[rank].store(layout_.process_of(rank).first, std::memory_order_relaxed);
}

Lines::~Lines() {
  thread_.request_stop();
  const std::uint64_t one = 1;
  if (end_) static_cast<void>(::write(end_.get(), &one, sizeof one) == sizeof one);
}

// --- the beginning

Result<ProcessAddress> Lines::open() {
  allow_open_files(files_besides + 2 * rlim_t{world()} * layout_.process_of(own_).count);
  auto key = launch::make_job_key();
  if (!key) return std::unexpected(std::move(key).error());
  ProcessAddress address;
  address.key = key_ = *key;
  auto listener = listen_at(address);
  if (!listener) return std::unexpected(std::move(listener).error());
  listener_ = std::move(*listener);
  events_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  end_ = UniqueFd(::eventfd(0, EFD_CLOEXEC));
  if (!events_ || !end_) return no_epoll();
  watch(listener_.get(), of_listener);
  watch(end_.get(), of_end);
  try {
    const BlockedSignals blocked;
    thread_ = std::jthread([this](const std::stop_token& ends) { run(ends); });
  } catch (const std::system_error& error) {
    return fail(ErrorClass::other, std::string("a thread cannot be made: ") + error.what());
  }
  return address;
}

Result<> Lines::connect(std::vector<ProcessAddress> addresses) {
  addresses_ = std::move(addresses);
  const ProcessAddress& own = address_of(own_);
  for (std::size_t i = 0; i < addresses_.size(); ++i)
    if (addresses_[i].likeness != own.likeness)
      return fail(ErrorClass::other,
                  "ranks cannot go from the process of rank " + std::to_string(own_) + " to that of rank " +
                      std::to_string(layout_.processes[i].first) +
                      " (mpiexec --migratable): " + difference(own.likeness, addresses_[i].likeness));
  auto line =
      call_process(addresses_.front(),
                   {.kind = CallKind::line, .from = own_, .to = layout_.processes.front().first, .epoch = 0},
                   own_descriptors_);
  if (!line)
    return fail(ErrorClass::other, "the process of rank " + std::to_string(own_) +
                                       " cannot reach that of rank 0: " + line.error().text());
  line_ = std::move(*line);
  watch(line_.get(), of_own_line);
  return {};
}

const ProcessAddress& Lines::address_of(std::uint32_t process) const noexcept {
  const auto* const found = &layout_.process_of(process);
  return addresses_[static_cast<std::size_t>(found - layout_.processes.data())];
}

// --- what ranks ask for

void Lines::close(int descriptor) noexcept {
  own_descriptors_.close(descriptor);
}

std::uint32_t Lines::ranks_here() const noexcept {
  std::uint32_t count = 0;
  for (std::uint32_t rank = 0; rank < world(); ++rank)
    count += is_on_this_host(rank) ? 1 : 0;
  return count;
}

Result<int> Lines::call(std::uint32_t from, std::uint32_t to, std::uint32_t epoch) {
  auto line =
      call_process(address_of(process_of(to)),
                   {.kind = CallKind::rank, .from = from, .to = to, .epoch = epoch}, own_descriptors_);
  if (!line)
    return fail(ErrorClass::proc_aborted,
                "rank " + std::to_string(to) + " cannot be reached over TCP: " + line.error().text());
  ::fcntl(line->get(), F_SETFL, O_NONBLOCK);
  return line->leak();
}

std::optional<HostLines::Caller> Lines::take_call(std::uint32_t rank, std::uint32_t epoch) noexcept {
  if (calls_there_[rank].load(std::memory_order_acquire) == 0) [[likely]]
    return std::nullopt;
  const std::lock_guard lock(calls_mutex_);
  std::vector<Call>& calls = calls_[rank];
  for (auto each = calls.begin(); each != calls.end();) {
    const Call call = *each;
    const auto ahead = static_cast<std::int32_t>(call.epoch - epoch);
    if (ahead > 0) {
      ++each;  // who calls knows already that ranks have moved
      continue;
    }
    each = calls.erase(each);
    calls_there_[rank].fetch_sub(1, std::memory_order_release);
    if (ahead == 0) return Caller{call.socket, call.from};
    close(call.socket);
  }
  return std::nullopt;
}

Result<int> Lines::open_events(std::uint32_t rank) {
  OwnFd made(own_descriptors_, own_descriptors_.open([] { return ::epoll_create1(EPOLL_CLOEXEC); }));
  if (!made) return no_epoll();
  watch(made.get(), of_rank | rank, EPOLLONESHOT);
  return made.leak();
}

bool Lines::wake_when(std::uint32_t rank, int events) noexcept {
  if (calls_there_[rank].load(std::memory_order_seq_cst) != 0) return false;
  epoll_event event{.events = EPOLLIN | EPOLLONESHOT, .data = {.u64 = of_rank | rank}};
  ::epoll_ctl(events_.get(), EPOLL_CTL_MOD, events, &event);
  return calls_there_[rank].load(std::memory_order_seq_cst) == 0;
}

Result<OwnFd> Lines::call_to_carry(std::uint32_t rank, std::uint32_t process) {
  return call_process(address_of(process), {.kind = CallKind::carry, .from = own_, .to = rank, .epoch = 0},
                      own_descriptors_);
}

std::optional<Lines::Arrival> Lines::take_arrival() {
  const std::lock_guard lock(calls_mutex_);
  if (arrivals_.empty()) return std::nullopt;
  Arrival first = std::move(arrivals_.front());
  arrivals_.erase(arrivals_.begin());
  return first;
}

// --- meetings

void Lines::came_to_meeting(std::uint32_t rank, std::uint32_t number) noexcept {
  region_.block(rank).came_to.store(number, std::memory_order_seq_cst);
  for (std::uint32_t each = 0; each < world(); ++each)
    if (is_on_this_host(each) && region_.block(each).came_to.load(std::memory_order_seq_cst) != number)
      return;
  report(number);
}

void Lines::waits_at_meeting(std::uint32_t number) noexcept {
  report(number);
}

/// What ranks of this host have said, and nobody has told the others of.
void Lines::report(std::uint32_t number) noexcept {
  constexpr std::size_t most = 64;
  std::array<Statement, most> statements;
  std::size_t count = 0;
  const auto tell = [&] {
    if (count == 0) return;
    send({.kind = LineFrame::Kind::said,
          .number = number,
          .count = static_cast<std::uint32_t>(count),
          .reserved = 0},
         std::as_bytes(std::span(statements).first(count)));
    count = 0;
  };
  for (std::uint32_t rank = 0; rank < world(); ++rank) {
    wire::RankBlock& block = region_.block(rank);
    if (block.came_to.load(std::memory_order_seq_cst) != number ||
        block.told_of.exchange(number, std::memory_order_seq_cst) == number)
      continue;
    Statement& statement = statements[count++];
    statement = {.rank = rank, .reserved = 0, .words = {}};
    for (std::size_t i = 0; i < statement.words.size(); ++i)
      statement.words[i] = block.said[i].load(std::memory_order_relaxed);
    if (count == most) tell();
  }
  tell();
}

/// Where that fails, the first process has ended, and with it the job.
bool Lines::send(const LineFrame& frame, std::span<const std::byte> behind) noexcept {
  const std::lock_guard lock(line_mutex_);
  return write_whole(line_.get(), &frame, sizeof frame) &&
         write_whole(line_.get(), behind.data(), behind.size());
}

void Lines::tell_of_end(std::uint32_t rank, std::uint32_t ending) noexcept {
  send({.kind = LineFrame::Kind::ended, .number = rank, .count = ending, .reserved = 0}, {});
}

// --- the thread

void Lines::watch(int descriptor, std::uint64_t what, std::uint32_t events) const noexcept {
  epoll_event event{.events = events == EPOLLONESHOT ? std::uint32_t{EPOLLONESHOT} : std::uint32_t{EPOLLIN},
                    .data = {.u64 = what}};
  ::epoll_ctl(events_.get(), EPOLL_CTL_ADD, descriptor, &event);
}

void Lines::run(const std::stop_token& ends) {
  constexpr int look_again_milliseconds = 1000;
  std::array<epoll_event, 64> events;
  while (!ends.stop_requested()) {
    const int count = ::epoll_wait(events_.get(), events.data(), static_cast<int>(events.size()),
                                   visitors_.empty() ? -1 : look_again_milliseconds);
    for (int i = 0; i < count; ++i) {
      const std::uint64_t what = events[static_cast<std::size_t>(i)].data.u64;
      const auto number = static_cast<std::uint32_t>(what);
      switch (what >> 32 << 32) {
        case of_listener:
          take_visitors();
          break;
        case of_visitor:
          hear(number);
          break;
        case of_line:
          serve_line(static_cast<int>(number));
          break;
        case of_own_line:
          obey_first(line_.get());
          break;
        case of_rank:
          std::atomic_thread_fence(std::memory_order_seq_cst);
          region_.wake(number);
          break;
        default:
          break;
      }
    }
    drop_silent();
  }
}

void Lines::take_visitors() {
  while (true) {
    OwnFd visitor(own_descriptors_, own_descriptors_.open([this] {
      return ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    }));
    if (!visitor) return;
    if (visitors_.size() >= most_visitors) continue;
    const int descriptor = visitor.get();
    auto reception = Reception::greet(std::move(visitor));
    if (!reception) continue;
    const auto number = static_cast<std::uint32_t>(++last_visitor_);
    visitors_.emplace(number, Waiting{std::move(*reception), now() + visitor_patience});
    watch(descriptor, of_visitor | number);
  }
}

void Lines::hear(std::uint64_t visitor) {
  const auto found = visitors_.find(visitor);
  if (found == visitors_.end()) return;
  Reception& reception = found->second.reception;
  const Reception::Heard heard = reception.hear(key_);
  if (heard == Reception::Heard::nothing_yet) return;
  if (heard == Reception::Heard::proved) {
    ::epoll_ctl(events_.get(), EPOLL_CTL_DEL, reception.socket(), nullptr);
    const CallSubject subject = reception.subject();
    const bool makes_sense = subject.to < world() && subject.from < world();
    // Taken before it is answered: who has called goes on then.
    if (OwnFd line = makes_sense ? reception.accept(key_) : OwnFd()) accepted(subject, std::move(line));
  }
  visitors_.erase(found);
}

void Lines::drop_silent() {
  if (visitors_.empty()) return;
  const std::int64_t time = now();
  std::erase_if(visitors_, [&](const auto& each) { return each.second.until < time; });
}

void Lines::accepted(const CallSubject& subject, OwnFd line) {
  switch (subject.kind) {
    case CallKind::line: {
      const int descriptor = line.get();
      ::fcntl(descriptor, F_SETFL, 0);
      // What it has to tell itself it does at once.
      if (subject.from == own_) own_end_ = descriptor;
      lines_.insert_or_assign(descriptor, std::move(line));
      watch(descriptor, of_line | static_cast<std::uint32_t>(descriptor));
      for (const auto& [rank, ending] : endings_) {
        const LineFrame frame{.kind = LineFrame::Kind::ended, .number = rank, .count = ending, .reserved = 0};
        static_cast<void>(write_whole(descriptor, &frame, sizeof frame));
      }
      return;
    }
    case CallKind::rank:
      return take_rank_call(subject, std::move(line));
    case CallKind::carry: {
      ::fcntl(line.get(), F_SETFL, 0);
      {
        const std::lock_guard lock(calls_mutex_);
        arrivals_.push_back({subject.to, std::move(line)});
      }
      std::atomic<std::uint32_t>& calls = region_.block(own_).calls;
      calls.fetch_add(1, std::memory_order_seq_cst);
      futex_wake(calls);
      return;
    }
  }
}

void Lines::take_rank_call(const CallSubject& subject, OwnFd line) {
  {
    const std::lock_guard lock(calls_mutex_);
    calls_[subject.to].push_back({subject.from, subject.epoch, line.leak()});
    calls_there_[subject.to].fetch_add(1, std::memory_order_seq_cst);
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
  region_.wake(subject.to);
}

/// Of the first process: what one of the others says.
void Lines::serve_line(int line) {
  LineFrame frame;
  std::vector<Statement> statements;
  bool is_read = lines_.contains(line) && read_whole(line, &frame, sizeof frame);
  if (is_read && frame.kind == LineFrame::Kind::said && frame.count <= world()) {
    statements.resize(frame.count);
    is_read = read_whole(line, statements.data(), statements.size() * sizeof(Statement));
    if (is_read && book_.add(frame.number, statements)) all_have_said();
  } else if (is_read && frame.kind == LineFrame::Kind::ended && frame.number < world()) {
    endings_.emplace_back(frame.number, frame.count);
    // Before this process knows it, and may end.
    tell_others(frame, {});
    note_end(frame.number, frame.count);
  } else {
    is_read = false;
  }
  if (!is_read) lines_.erase(line);
}

void Lines::all_have_said() {
  const std::uint32_t number = book_.number();
  const std::vector<MeetingWords>& words = book_.close();
  tell_others({.kind = LineFrame::Kind::heard, .number = number, .count = world(), .reserved = 0},
              std::as_bytes(std::span(words)));
  apply(number, words);
}

/// A line that has broken is heard of by what comes over it.
void Lines::tell_others(const LineFrame& frame, std::span<const std::byte> behind) {
  for (const auto& [line, owner] : lines_)
    if (line != own_end_ && write_whole(line, &frame, sizeof frame))
      static_cast<void>(write_whole(line, behind.data(), behind.size()));
}

/// What the first process says.
void Lines::obey_first(int line) {
  LineFrame frame;
  if (read_whole(line, &frame, sizeof frame)) {
    if (frame.kind == LineFrame::Kind::heard && frame.count == world()) {
      std::vector<MeetingWords> words(world());
      if (read_whole(line, words.data(), words.size() * sizeof(MeetingWords)))
        return apply(frame.number, words);
    } else if (frame.kind == LineFrame::Kind::ended && frame.number < world()) {
      return note_end(frame.number, frame.count);
    }
  }
  // The first process has ended, and with it the job.
  ::epoll_ctl(events_.get(), EPOLL_CTL_DEL, line, nullptr);
}

/// Once a host: each of its processes has been told.
void Lines::apply(std::uint32_t number, std::span<const MeetingWords> words) const noexcept {
  wire::RegionHeader& header = region_.header();
  for (std::uint32_t open = 0; !header.meeting_lock.compare_exchange_weak(open, 1, std::memory_order_acquire);
       open = 0)
    std::this_thread::yield();
  if (static_cast<std::int32_t>(header.meetings.load(std::memory_order_relaxed) - number) < 0) {
    for (std::uint32_t rank = 0; rank < world(); ++rank)
      for (std::size_t i = 0; i < words[rank].size(); ++i)
        region_.block(rank).heard[number % 2][i].store(words[rank][i], std::memory_order_relaxed);
    header.meetings.store(number, std::memory_order_release);
  }
  header.meeting_lock.store(0, std::memory_order_release);
}

void Lines::note_end(std::uint32_t rank, std::uint32_t ending) noexcept {
  if (!has_ended_[rank]) ended_.fetch_add(1, std::memory_order_release);
  has_ended_[rank] = true;
  std::uint32_t none = 0;
  region_.block(rank).ending.compare_exchange_strong(none, ending, std::memory_order_release);
  std::atomic<std::uint32_t>& calls = region_.block(own_).calls;
  calls.fetch_add(1, std::memory_order_seq_cst);
  futex_wake(calls);
}

}  // namespace isthmus::vrank
