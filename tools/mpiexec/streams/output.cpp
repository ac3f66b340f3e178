#include "streams/output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>

namespace isthmus::mpiexec {
namespace {

constexpr std::size_t full_at = std::size_t{1} << 20;       // of a sink: ranks have to wait
constexpr std::size_t longest_line = std::size_t{1} << 16;  // kept in one piece
constexpr std::size_t read_at_once = std::size_t{1} << 16;
/// Streams of one lane between two looks at its sink. A tag makes lines longer, so a full sink may get this
/// many times a multiple of `read_at_once` more.
constexpr int streams_at_once = 8;
constexpr auto partial_line_waits = std::chrono::milliseconds(200);

mode_t kind_of(int fd) {
  struct stat status{};
  return ::fstat(fd, &status) == 0 ? status.st_mode & S_IFMT : 0;
}

bool same_file(int a, int b) {
  struct stat first{}, second{};
  return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

/// Whether ranks do better not to write there themselves: several of them into a file or a pipe, where their
/// lines would mix (on a terminal each write is a line), and any of them on a terminal with `stty tostop`,
/// which stops writers that are in its background, as ranks are.
bool better_through_mpiexec(int fd, std::uint32_t ranks) {
  termios terminal{};
  if (::tcgetattr(fd, &terminal) == 0) return (terminal.c_lflag & TOSTOP) != 0;
  return ranks > 1 && kind_of(fd) != S_IFCHR;  // a device: /dev/null
}

bool writable_now(int fd) {
  pollfd waited_for{.fd = fd, .events = POLLOUT, .revents = 0};
  return ::poll(&waited_for, 1, 0) == 1;
}

/// Bytes in a pipe, seen from either end; 0 where that is not known.
int bytes_in(int fd) {
  int bytes = 0;
  return kind_of(fd) == S_IFIFO && ::ioctl(fd, FIONREAD, &bytes) == 0 ? bytes : 0;
}

}  // namespace

Sink::Sink(int fd) : fd_(fd), is_terminal_(::isatty(fd) != 0) {
  const mode_t kind = kind_of(fd);
  chunk_ = kind == S_IFREG   ? std::numeric_limits<std::size_t>::max()
           : kind == S_IFCHR ? 512    // a terminal promises little
                             : 4096;  // PIPE_BUF: what a pipe that can be written at all takes at once
}

void Sink::append(std::string_view text) {
  if (broken_ || text.empty()) return;
  if (pending_.empty()) moved_ = Clock::now();
  pending_ += text;
}

bool Sink::full() const noexcept {
  return pending_.size() > full_at;
}

void Sink::write() {
  std::size_t done = 0;
  while (done < pending_.size() && !broken_ && writable_now(fd_)) {
    const ssize_t written = ::write(fd_, pending_.data() + done, std::min(chunk_, pending_.size() - done));
    if (written > 0)
      done += static_cast<std::size_t>(written);
    else if (written < 0 && errno == EAGAIN)
      break;
    else if (written < 0 && errno != EINTR)
      broken_ = true;
  }
  pending_.erase(0, broken_ ? pending_.size() : done);
  // A pipe takes a page at a time: a slow reader is seen by what is left in it.
  const int unread = pending_.empty() ? 0 : bytes_in(fd_);
  if (done > 0 || unread != unread_) moved_ = Clock::now();
  unread_ = unread;
}

void Sink::give_up() {
  broken_ = true;
  pending_.clear();
}

std::optional<Clock::time_point> Sink::last_taken() const {
  if (is_terminal_ || pending_.empty()) return std::nullopt;
  return moved_;
}

/// One rank's stdout or stderr.
struct Output::Stream {
  UniqueFd fd;
  std::string tag;
  std::string line;           ///< begun and not yet passed on
  Clock::time_point begun{};  ///< when `line` stopped being empty
  int owed = 0;               ///< bytes that were in the pipe when they were last counted, and are still
};

struct Output::Lane {
  explicit Lane(int fd) : sink(fd), streams_ready(::epoll_create1(EPOLL_CLOEXEC)) {}

  void take(Stream& stream, std::string_view text);
  void read(Stream& stream);
  void pass(Stream& stream, std::string_view text);
  void close(Stream& stream);
  void read_ready();
  void count_owed();
  void read_owed();
  void finish();
  [[nodiscard]] bool owes() const;
  void hand_out();

  Sink sink;
  UniqueFd streams_ready;  ///< an epoll of all streams
  std::vector<std::unique_ptr<Stream>> streams;
  const Stream* unfinished = nullptr;  ///< whose line the sink is in the middle of; only with tags
  std::vector<char> buffer = std::vector<char>(read_at_once);
};

/// Passes whole lines, or the start of one, on to the sink.
void Output::Lane::pass(Stream& stream, std::string_view text) {
  if (stream.tag.empty()) {
    sink.append(text);
    return;
  }
  while (!text.empty()) {
    const std::size_t length = std::min(text.find('\n'), text.size() - 1) + 1;
    if (unfinished != &stream) {
      if (unfinished) sink.append("\n");
      sink.append(stream.tag);
    }
    sink.append(text.substr(0, length));
    unfinished = text[length - 1] == '\n' ? nullptr : &stream;
    text.remove_prefix(length);
  }
}

/// Passes the lines on that `text` completes, and keeps its rest.
void Output::Lane::take(Stream& stream, std::string_view text) {
  const std::size_t end = text.rfind('\n') + 1;  // 0 where there is none
  if (end > 0) {
    pass(stream, stream.line);
    pass(stream, text.substr(0, end));
    stream.line.clear();
  }
  if (stream.line.empty()) stream.begun = Clock::now();
  stream.line += text.substr(end);
  if (stream.line.size() > longest_line) {
    pass(stream, stream.line);
    stream.line.clear();
  }
}

/// At the stream's end, closes it.
void Output::Lane::read(Stream& stream) {
  const ssize_t count = ::read(stream.fd.get(), buffer.data(), buffer.size());
  if (count > 0) {
    stream.owed = std::max(0, stream.owed - static_cast<int>(count));
    take(stream, {buffer.data(), static_cast<std::size_t>(count)});
  } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
    close(stream);
  } else if (errno == EAGAIN) {
    stream.owed = 0;
  }
}

void Output::Lane::close(Stream& stream) {
  pass(stream, stream.line);
  stream.line.clear();
  if (unfinished == &stream) {
    sink.append("\n");
    unfinished = nullptr;
  }
  stream.owed = 0;
  stream.fd.reset();  // and so out of the epoll: nobody else holds this end
}

/// The kernel hands out ready streams in turn, so none starves where the sink is full after a few.
void Output::Lane::read_ready() {
  std::array<epoll_event, streams_at_once> events;
  int count = streams_at_once;
  for (std::size_t seen = 0; count == streams_at_once && seen <= streams.size() && !sink.full();
       seen += streams_at_once) {
    count = ::epoll_wait(streams_ready.get(), events.data(), streams_at_once, 0);
    for (int i = 0; i < count; ++i)
      read(*static_cast<Stream*>(events[static_cast<std::size_t>(i)].data.ptr));
  }
}

void Output::Lane::count_owed() {
  for (const auto& stream : streams)
    stream->owed = stream->fd ? bytes_in(stream->fd.get()) : 0;
}

void Output::Lane::read_owed() {
  for (const auto& stream : streams)
    while (stream->owed > 0 && !sink.full())
      read(*stream);
}

/// Closes the streams that owe nothing more.
void Output::Lane::finish() {
  read_owed();
  for (const auto& stream : streams)
    if (stream->fd && stream->owed == 0) close(*stream);
}

bool Output::Lane::owes() const {
  return std::ranges::any_of(streams, [](const auto& stream) { return stream->owed > 0; });
}

/// Until the reader takes no more now, or there is nothing left.
void Output::Lane::hand_out() {
  do {
    finish();
    sink.write();
  } while (!sink.has_pending() && owes());
}

Output::Output(OutputMode mode, std::uint32_t ranks) : tagged_(mode == OutputMode::tagged) {
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    if (fd == STDOUT_FILENO || !same_file(STDOUT_FILENO, STDERR_FILENO))
      lanes_.push_back(std::make_unique<Lane>(fd));
    const bool through =
        mode == OutputMode::automatic ? better_through_mpiexec(fd, ranks) : mode != OutputMode::direct;
    piped_[static_cast<std::size_t>(fd - STDOUT_FILENO)] = through;
  }
}

Output::~Output() = default;

std::expected<UniqueFd, int> Output::open_stream(Lane& lane, const std::string& ranks, bool is_stderr) const {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::unexpected(errno);
  UniqueFd writer(ends[1]);
  auto stream = std::make_unique<Stream>();
  stream->fd = UniqueFd(ends[0]);
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  if (tagged_) stream->tag = fmt::format("[{}{}] ", ranks, is_stderr ? " stderr" : "");
  epoll_event event{.events = EPOLLIN, .data = {.ptr = stream.get()}};
  if (::epoll_ctl(lane.streams_ready.get(), EPOLL_CTL_ADD, ends[0], &event) != 0)
    return std::unexpected(errno);
  lane.streams.push_back(std::move(stream));
  return writer;
}

std::expected<Output::RankEnds, int> Output::open(std::uint32_t rank, std::uint32_t count) {
  const std::string ranks = count == 1 ? std::to_string(rank) : fmt::format("{}-{}", rank, rank + count - 1);
  RankEnds ends;
  for (const bool is_stderr : {false, true}) {
    if (!piped_[is_stderr ? 1 : 0]) continue;
    auto end = open_stream(is_stderr ? lane_of_stderr() : *lanes_.front(), ranks, is_stderr);
    if (!end) return std::unexpected(end.error());
    (is_stderr ? ends.err : ends.out) = std::move(*end);
  }
  return ends;
}

void Output::message(std::string_view text) {
  print_error(fmt::format("mpiexec: {}\n", text));
}

void Output::print_error(std::string_view text) {
  Lane& lane = lane_of_stderr();
  if (lane.unfinished) {
    lane.sink.append("\n");
    lane.unfinished = nullptr;
  }
  lane.sink.append(text);
  lane.sink.write();
}

void Output::prepare(std::vector<pollfd>& waited_for) const {
  for (const auto& lane : lanes_) {
    if (!intake_closed_ && !lane->streams.empty() && !lane->sink.full())
      waited_for.push_back({.fd = lane->streams_ready.get(), .events = POLLIN, .revents = 0});
    if (lane->sink.has_pending() || lane->owes())
      waited_for.push_back({.fd = lane->sink.fd(), .events = POLLOUT, .revents = 0});
  }
}

/// When the reader of a job that has failed has taken nothing for too long.
std::optional<Clock::time_point> Output::end_of_patience(const Lane& lane) const {
  const auto taken = lane.sink.last_taken();
  if (!hurried_ || !taken) return std::nullopt;
  return std::max(*hurried_, *taken) + patience;
}

/// A rank or launcher that writes on learns it from SIGPIPE.
void Output::lose(Lane& lane) {
  lane.sink.give_up();
  lane.streams.clear();
  lane.unfinished = nullptr;
  if (says_so_ && &lane != &lane_of_stderr())
    message("nobody reads the job's output: what is left of it is lost");
}

void Output::react() {
  const auto now = Clock::now();
  for (const auto& lane : lanes_) {
    if (intake_closed_)
      lane->hand_out();
    else
      lane->read_ready();
    for (const auto& stream : lane->streams)
      if (!stream->line.empty() && now - stream->begun >= partial_line_waits) {
        lane->pass(*stream, stream->line);
        stream->line.clear();
      }
    lane->sink.write();
    if (lane->sink.broken()) lane->streams.clear();  // a rank that writes on learns it from SIGPIPE
    if (const auto end = end_of_patience(*lane); end && *end <= now) lose(*lane);
  }
}

std::optional<Clock::time_point> Output::deadline() const {
  std::optional<Clock::time_point> first;
  for (const auto& lane : lanes_) {
    if (const auto end = end_of_patience(*lane); end && (!first || *end < *first)) first = end;
    for (const auto& stream : lane->streams)
      if (!stream->line.empty() && (!first || stream->begun + partial_line_waits < *first))
        first = stream->begun + partial_line_waits;
  }
  return first;
}

void Output::drain() {
  for (const auto& lane : lanes_) {
    lane->count_owed();
    lane->read_owed();
  }
}

void Output::hurry(bool says_so) {
  if (!hurried_) hurried_ = Clock::now();
  says_so_ = says_so;
}

void Output::close_intake() {
  intake_closed_ = true;
  for (const auto& lane : lanes_) {
    lane->count_owed();
    lane->finish();
  }
}

bool Output::has_pending() const {
  return std::ranges::any_of(lanes_,
                             [](const auto& lane) { return lane->sink.has_pending() || lane->owes(); });
}

}  // namespace isthmus::mpiexec
