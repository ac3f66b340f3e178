#include "job.hpp"

#include <poll.h>
#include <pythread.h>

#include <chrono>
#include <cmath>

#include "channel.hpp"

namespace isthmus::python {
namespace {

using Clock = std::chrono::steady_clock;

/// Entries between two looks at what else there is.
constexpr std::uint32_t turns = 64;
/// Between two looks at descriptors while there is something else to do: one is a system call.
constexpr auto between_looks = std::chrono::microseconds(50);
/// A nap where ranks share cores, and descriptors or times are waited for too.
constexpr int nap_milliseconds = 1;

bool is_readable(int fd, int milliseconds) {
  pollfd what{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&what, 1, milliseconds) > 0;
}

}  // namespace

Job::Job() = default;
Job::~Job() = default;

void Job::open(nb::list items, Hooks hooks) {
  if (current_) throw std::runtime_error("isthmus.run is at work already");
  std::unique_ptr<Job> job(new Job());
  std::vector<isthmus_chare_item*> all;
  for (const nb::handle each : items) {
    auto item = std::make_unique<Item>();
    item->base.kind = nb::cast<std::uint32_t>(each[0]);
    item->name = nb::cast<std::string>(each[1]);
    item->base.name = item->name.c_str();
    if (const auto type = nb::cast<long>(each[2]); type >= 0)
      item->base.type = &job->items_.at(static_cast<std::size_t>(type))->base;
    item->object = nb::borrow(each[3]);
    item->post = nb::borrow(each[4]);
    fill_item(*item);
    all.push_back(&item->base);
    job->items_.push_back(std::move(item));
  }
  job->hooks_ = std::move(hooks);
  job->thread_ = PyThread_get_thread_ident();
  job->serial_ = ++serials_;
  {
    const nb::gil_scoped_release released;
    job->runtime_ = isthmus_chare_open(all.data(), all.size());
  }
  job->channels_ = std::make_unique<Channels>();
  current_ = std::move(job);
}

Job& Job::get() {
  if (!current_) throw std::runtime_error("chares are at work only while isthmus.run is");
  if (PyThread_get_thread_ident() != current_->thread_)
    throw std::runtime_error("another thread than the one of isthmus.run: use loop.call_soon_threadsafe");
  return *current_;
}

void Job::close() {
  Job& job = get();
  job.channels_.reset();
  isthmus_chare_close(job.runtime_);  // destroys chares, which ask for the job
  current_.reset();
}

const Item& Job::item(std::uint32_t place) const {
  if (place >= items_.size()) throw nb::index_error("there is no such item");
  return *items_[place];
}

isthmus_chare_callback Job::callback_to_future(std::uint64_t number, std::uint32_t rank) const {
  isthmus_chare_callback callback{};
  callback.target.kind = ISTHMUS_CHARE_TO_FUNCTION;
  callback.target.rank = rank;
  callback.prefix = number;
  callback.has_prefix = 1;
  callback.item = items_[0]->base.number;
  return callback;
}

isthmus_chare_callback Job::callback_to(const Proxy& proxy, const Item& item) const {
  isthmus_chare_callback callback{};
  callback.target = proxy.target;
  callback.item = item.base.number;
  return callback;
}

void Job::wait(double seconds, int fd, bool naps) {
  const nb::gil_scoped_release released;
  const auto& requests = channels_->requests();
  const bool sleeps = isthmus_chare_sleeps(runtime_) != 0;
  if (sleeps && naps && requests.empty() && seconds >= 0 && seconds < 0.02) {
    is_readable(fd, seconds * 1000 < nap_milliseconds ? static_cast<int>(seconds * 1000) : nap_milliseconds);
    return;
  }
  const double longest = sleeps && !naps ? 0.02 : 50e-6;
  const double chosen = seconds >= 0 && seconds < longest ? seconds : longest;
  isthmus_chare_wait(runtime_, static_cast<std::uint64_t>(chosen * 1e6), requests.data(),
                     static_cast<int>(requests.size()));
}

bool Job::drive(nb::handle ready, double seconds, int fd, bool naps) {
  const Clock::time_point begin = Clock::now();
  for (;;) {
    const bool has_ready = PyObject_Size(ready.ptr()) != 0;
    const int state = isthmus_chare_work(runtime_, turns, has_ready ? 0 : 1);
    channels_->poll();
    if (PyErr_CheckSignals() != 0) raise_set();
    if (state == ISTHMUS_CHARE_ENDED) {
      ended_ = true;
      return false;
    }
    const Clock::time_point now = Clock::now();
    const double left = seconds < 0 ? -1 : seconds - std::chrono::duration<double>(now - begin).count();
    const bool is_over = PyObject_Size(ready.ptr()) != 0 || (seconds >= 0 && left <= 0);
    if (now - looked_ >= between_looks) {
      looked_ = now;
      if (is_readable(fd, 0)) return true;
    }
    if (is_over) return false;
    if (state == ISTHMUS_CHARE_IDLE) wait(left, fd, naps);
  }
}

int Job::finish() {
  channels_->close_all();
  const nb::gil_scoped_release released;
  return isthmus_chare_finish(runtime_);
}

}  // namespace isthmus::python
