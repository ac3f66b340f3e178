#include "abi/stream/prepared/errands.hpp"

#include <algorithm>
#include <utility>

#include "gpu/driver/cuda_error.hpp"

namespace isthmus::abi {
namespace {

using carry::Kind;
using carry::Order;
using carry::Signal;
using stream::ErrandWords;

/// Of what belongs to no line.
constexpr std::uint64_t no_line = ~std::uint64_t{0};

// Never 0: the carrier has that for others.
std::uint64_t copy_of(std::size_t line) {
  return 2 * line + 1;
}
std::uint64_t notice_of(std::size_t line) {
  return 2 * line + 2;
}

Order notice(std::uint32_t word, std::uint32_t value) {
  return {.value = value, .signal = word, .kind = Kind::signal, .signals = Signal::set};
}

}  // namespace

Errands::Errands(stream::Port& port, std::shared_ptr<stream::ErrandLines> lines, std::uint32_t words)
    : CarriedPort({port.functions(), port.device(), port.context()}),
      port_(port),
      lines_(std::move(lines)),
      words_(words),
      entries_(stream::ErrandLines::count) {
  // The first is taken first.
  for (std::size_t i = entries_.size(); i > 0; --i)
    free_.push_back(i - 1);
}

// --- by the program's thread

std::size_t Errands::add(const Errand& what) {
  const std::scoped_lock lock(mutex_);
  if (free_.empty()) return none;
  const std::size_t line = free_.back();
  free_.pop_back();
  entries_[line] = {.what = what, .is_there = true};
  for (std::uint32_t ErrandWords::* const word :
       {&ErrandWords::go, &ErrandWords::tell, &ErrandWords::done, &ErrandWords::passed})
    lines_->word(line, word).store(0);
  there_.push_back(line);
  return line;
}

void Errands::remove(std::size_t line) {
  const std::scoped_lock lock(mutex_);
  std::erase(there_, line);
  entries_[line].is_there = false;
  // One that streams were let go of may be under way still.
  if (!entries_[line].is_busy) free_.push_back(line);
}

void Errands::set_now(int rank, std::uint32_t word, std::uint32_t value) {
  const std::scoped_lock lock(mutex_);
  now_.push_back({rank, word, value});
}

// --- by the carrier's

/// With the mutex held.
void Errands::see(std::uint32_t ErrandWords::* which, std::vector<Seen>& seen) {
  seen.clear();
  for (const std::size_t line : there_) {
    const auto word = lines_->word(line, which);
    const std::uint32_t number = word.load(std::memory_order_acquire);
    if (number == 0) continue;
    word.store(0, std::memory_order_relaxed);
    seen.push_back({number, line});
    if (!std::exchange(entries_[line].is_busy, true)) ++busy_;
  }
}

/// Notifications are looked at first, and sent last: whoever sees one sees all bytes of its post, which the
/// stream has asked for before, and all bytes come before any notification.
Result<bool> Errands::take_requests(Carrier& carrier) {
  {
    const std::scoped_lock lock(mutex_);
    see(&ErrandWords::tell, told_);
    see(&ErrandWords::go, gone_);
    taken_.clear();
    taken_.swap(now_);
  }
  for (std::vector<Seen>* const each : {&gone_, &told_})
    std::ranges::sort(*each, {}, [](const Seen& seen) { return seen.number & ~stream::go_and_tell; });
  for (const Seen& seen : gone_)
    ISTHMUS_TRY(go(carrier, seen));
  for (const Seen& seen : told_) {
    Entry& entry = entries_[seen.line];
    if (entry.is_copying && entry.what.kind == Kind::get)
      entry.tells_then = true;
    else
      ISTHMUS_TRY(tell(carrier, seen.line));
  }
  for (const Now& each : taken_)
    ISTHMUS_TRY(carrier.begin(each.rank, notice(each.word, each.value), 0, no_line));
  return !gone_.empty() || !told_.empty() || !taken_.empty();
}

Result<> Errands::go(Carrier& carrier, const Seen& seen) {
  Entry& entry = entries_[seen.line];
  const Errand& what = entry.what;
  Order order{.offset = what.offset, .bytes = what.bytes, .share = what.share, .kind = what.kind};
  entry.is_copying = true;
  if ((seen.number & stream::go_and_tell) != 0 && what.notifies) {
    entry.tells_then = what.kind == Kind::get;
    if (what.kind == Kind::put) {
      order.signals = Signal::set;
      order.signal = what.word;
      order.value = what.value;
      entry.has_told = true;
    }
  }
  return carrier.begin(what.rank, order, what.local, copy_of(seen.line));
}

Result<> Errands::tell(Carrier& carrier, std::size_t line) {
  const Errand& what = entries_[line].what;
  return carrier.begin(what.rank, notice(what.word, what.value), 0, notice_of(line));
}

Result<> Errands::end(Carrier& carrier, std::uint64_t number) {
  if (number == no_line) return {};
  const std::size_t line = (number - 1) / 2;
  Entry& entry = entries_[line];
  if (number == notice_of(line)) {
    entry.has_told = true;
  } else {
    entry.is_copying = false;
    if (std::exchange(entry.tells_then, false)) return tell(carrier, line);
  }
  end_if_over(line);
  return {};
}

void Errands::end_if_over(std::size_t line) {
  Entry& entry = entries_[line];
  if (entry.is_copying || (entry.what.notifies && !entry.has_told)) return;
  entry.has_told = false;
  const std::scoped_lock lock(mutex_);
  entry.is_busy = false;
  --busy_;
  if (!entry.is_there) free_.push_back(line);
  // The stream goes on, and sees all that has come.
  lines_->word(line, &ErrandWords::done).store(1, std::memory_order_release);
}

bool Errands::is_idle() const {
  const std::scoped_lock lock(mutex_);
  return busy_ == 0 && now_.empty();
}

Result<> Errands::set_signal(const Order& order, cuda::Stream stream) {
  const cuda::Status status = functions().stream_write_value_32(stream, port_.word(port_.rank, order.signal),
                                                                static_cast<std::uint32_t>(order.value), 0);
  if (status == cuda::Status::success) return {};
  return cuda::fail(functions(), status, "let a stream write a word (cuStreamWriteValue32)");
}

carry::Limits Errands::limits() const {
  return {.signals = words_,
          .shares = {},
          .asks = "a stream",
          .late = "it was posted after isthmus_stream_share_free there"};
}

}  // namespace isthmus::abi
