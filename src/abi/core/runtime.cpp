#include "abi/core/runtime.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <new>
#include <numeric>
#include <utility>

#include "abi/core/info.hpp"
#include "abi/core/thread_level.hpp"
#include "base/log.hpp"
#include "comm/memory_kinds.hpp"
#include "launch/beside_turns.hpp"
#include "route/tuning.hpp"
#include "wire/region.hpp"

namespace isthmus::abi {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

/// Exit statuses have 8 bits; a failure must not look like success.
int exit_status(int code) {
  const int status = code & 0xff;
  return status == 0 && code != 0 ? 1 : status;
}

/// In one piece, so that lines of several ranks do not mix, and without memory, which may be what there is
/// none of.
void write_line(std::string_view text) noexcept {
  char newline = '\n';
  iovec parts[]{{const_cast<char*>(text.data()), text.size()}, {&newline, 1}};
  iovec* first = parts;
  while (first != std::end(parts)) {
    ssize_t written = ::writev(STDERR_FILENO, first, static_cast<int>(std::end(parts) - first));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    for (; first != std::end(parts) && static_cast<std::size_t>(written) >= first->iov_len; ++first)
      written -= static_cast<ssize_t>(first->iov_len);
    if (first == std::end(parts)) return;
    first->iov_base = static_cast<char*>(first->iov_base) + written;
    first->iov_len -= static_cast<std::size_t>(written);
  }
}

}  // namespace

RuntimeStorage runtime_storage __attribute__((init_priority(101)));
constinit bool has_virtual_runtimes = false;
constinit thread_local Runtime* current_runtime = &runtime_storage.runtime;

Runtime& Runtime::make_virtual(RankTurns& turns) {
  has_virtual_runtimes = true;
  return *new Runtime(&turns);
}

Runtime::Runtime(RankTurns* turns) : turns_(turns) {
  early_lock_.enable();
  define_errhandlers();
}

Result<> Runtime::open_world(int required) {
  ISTHMUS_TRY(open(required));
  main_thread = std::this_thread::get_id();
  world_phase_.store(Phase::running, std::memory_order_release);
  if (turns_) turns_->await_all();
  return {};
}

Result<> Runtime::open_session(int required) {
  ISTHMUS_TRY(open(required));
  ++open_sessions_;
  return {};
}

/// With several ranks in a process, the threads of a rank would have to wait for a turn.
ThreadLevel Runtime::level_for(int required) const noexcept {
  return enough_for(turns_ ? std::min(required, MPI_THREAD_FUNNELED) : required);
}

Result<> Runtime::open(int required) {
  if (world_phase() == Phase::forked) return fail(ErrorClass::other, std::string(in_child));
  if (!engine) {
    ISTHMUS_TRY(join());
    joined_by_ = ::getpid();
    define_datatypes_and_ops();
    define_communicators();
    set_world_attributes(*this);
    main_thread = std::this_thread::get_id();
  }
  if (has_left_ && engine->has_network())
    return fail(ErrorClass::other,
                "MPI has been finalized, and in a job that uses a network that is closed with it: open the "
                "session before MPI_Finalize");
  // Without this, a child that MPI_Finalize is called in would be counted as its parent, and take its
  // messages.
  if (!watches_forks_) watches_forks_ = ::pthread_atfork(nullptr, nullptr, [] { get().become_child(); }) == 0;
  thread_level = std::max(thread_level, level_for(required).level);
  const bool helps = settings.progress == ProgressSetting::thread;
  if (helps && turns_)
    return fail(ErrorClass::other,
                "ISTHMUS_PROGRESS=thread does not go with several ranks in a process (mpiexec "
                "--ranks-per-process): leave one of them away");
  if (thread_level == MPI_THREAD_MULTIPLE || helps) engine->lock().enable();
  if (helps && !progress_thread) {
    auto started = ProgressThread::start(*engine);
    if (!started) return std::unexpected(std::move(started).error());
    progress_thread = std::move(*started);
  }
  job->region.roster(job->rank).store(wire::RosterState::joined, std::memory_order_release);
  lock_.store(&engine->lock(), std::memory_order_relaxed);
  running_.store(true, std::memory_order_release);
  return {};
}

void Runtime::has_changed_process() noexcept {
  joined_by_ = ::getpid();
}

// Locks may be held by threads that the child does not have, so nothing here takes one.
void Runtime::become_child() noexcept {
  if (!running()) return;
  engine->become_child();
  running_.store(false, std::memory_order_relaxed);
  world_phase_.store(Phase::forked, std::memory_order_relaxed);
}

Result<> Runtime::join() {
  Result<Settings> read = Settings::read(environ);
  if (!read) return std::unexpected(std::move(read).error());
  settings = *read;
  Info& environment = environment_info(*this);  // before the launcher's variables go
  const std::string tuning_refused = tuning::apply(settings);
  const std::vector<std::string> unknown = Settings::unknown_variables(environ);
  Result<launch::Job> joined = launch::join(settings, {}, turns_);
  if (!joined) return std::unexpected(std::move(joined).error());
  job.emplace(std::move(*joined));
  // Our mpiexec has warned of it; another launcher has not, and one rank is enough.
  const bool speaks = job->singleton || (job->launcher && job->rank == 0);
  if (settings.warn && speaks && !tuning_refused.empty()) warn(tuning_refused);
  if (settings.warn && job->singleton)  // mpiexec has warned its ranks' user already
    for (const std::string& sentence : unknown)
      warn(sentence);
  auto made = Engine::make(*job, settings);
  if (!made) return std::unexpected(std::move(made).error());
  engine = std::move(*made);
  engine->set_wait_witness(&wait_witness);
  // Only our own launcher says how many processes were asked for.
  if (!environment.find("maxprocs")) environment.set("maxprocs", std::to_string(engine->size()));
  return {};
}

std::string Runtime::memory_kinds(std::string_view asked) {
  // The driver is not loaded for who has not asked for it.
  const bool has_cuda = asked.contains("cuda") && cuda.is_there();
  return memory_kinds::supported(asked, has_cuda);
}

void Runtime::define_errhandlers() {
  errhandlers.define(MPI_ERRORS_ARE_FATAL, make_ref<Errhandler>(Errhandler::Action::fatal));
  errhandlers.define(MPI_ERRORS_ABORT, make_ref<Errhandler>(Errhandler::Action::abort));
  errhandlers.define(MPI_ERRORS_RETURN, make_ref<Errhandler>(Errhandler::Action::report));
  file_errhandler = Ref<Errhandler>::share(errhandlers.find(MPI_ERRORS_RETURN));
}

void Runtime::define_datatypes_and_ops() {
  for_each_basic([&](const BasicInfo& info) {
    datatypes.define(reinterpret_cast<MPI_Datatype>(std::uintptr_t{static_cast<std::uint16_t>(info.basic)}),
                     Ref<Datatype>::share(&Datatype::basic(info.basic)));
  });
  for (std::uintptr_t value = 0; value < HandleValue::first_index; ++value)
    if (const auto code = op_from_abi(value))
      ops.define(reinterpret_cast<MPI_Op>(value), Ref<Op>::share(&Op::predefined(*code)));
}

void Runtime::define_communicators() {
  std::vector<PeerId> all(engine->size());
  std::iota(all.begin(), all.end(), PeerId{0});
  groups.define(MPI_GROUP_EMPTY, make_ref<Group>(std::vector<PeerId>{}));
  communicators.define(MPI_COMM_WORLD,
                       Communicator::make(*engine, make_ref<Group>(std::move(all)), Engine::world_context));
  communicators.define(
      MPI_COMM_SELF,
      Communicator::make(*engine, make_ref<Group>(std::vector{engine->rank()}), Engine::self_context));
  world = communicators.find(MPI_COMM_WORLD);
  self = communicators.find(MPI_COMM_SELF);
  world->name = "MPI_COMM_WORLD";
  self->name = "MPI_COMM_SELF";
  world->errhandler = self->errhandler = Ref<Errhandler>::share(errhandlers.find(MPI_ERRORS_ARE_FATAL));
}

Result<> Runtime::close_world() {
  Result<> result = delete_attributes_at_finalize(*this);
  if (send_buffer) send_buffer->flush();
  communicators.for_each([](Communicator& comm) {
    if (comm.send_buffer) comm.send_buffer->flush();
  });
  send_buffer = {};
  world_phase_.store(Phase::finalized, std::memory_order_release);
  if (open_sessions_ > 0) return result;
  Result<> closed = close();
  return result ? std::move(closed) : std::move(result);
}

Result<> Runtime::close_session() {
  --open_sessions_;
  if (open_sessions_ == 0 && world_phase() != Phase::running) return close();
  return {};
}

Result<> Runtime::close() {
  cancel_ports();
  Result<> result = close_streams();
  // No stream has anything to wait for any more, whoever has still a communicator.
  communicators.for_each([](Communicator& comm) { comm.board = {}; });
  for (const Ref<stream::Board>& each : boards)
    each->posted.clear();
  close_unused_boards();
  progress_thread.reset();
  if (world_phase() == Phase::finalized && !has_left_) {
    engine->finalize();
    Result<> left = launch::beside_turns(turns_, [&] { return leave_launcher(); });
    if (result) result = std::move(left);
  } else {
    // Other processes may never open a session, so there is no meeting them; and this one may open another.
    engine->leave();
    job->region.roster(job->rank).store(wire::RosterState::finalized, std::memory_order_release);
    const auto leave = [](int /*status*/, void* of) { static_cast<Runtime*>(of)->leave_at_exit(); };
    if (job->launcher && !has_left_ && !watches_exit_) watches_exit_ = ::on_exit(leave, this) == 0;
  }
  release_orphans();
  // Its driver may be gone when the process ends; memory of the host a program may still look at.
  if (world_phase() == Phase::finalized)
    std::erase_if(allocations, [](const auto& each) { return each.second->is_of_cuda(); });
  running_.store(false, std::memory_order_release);
  lock_.store(&early_lock_, std::memory_order_relaxed);
  return result;
}

/// Once: a launcher lets go of a process that has told it.
Result<> Runtime::leave_launcher() {
  if (std::exchange(has_left_, true) || !job->launcher) return {};
  return job->launcher->finalize();
}

void Runtime::leave_at_exit() noexcept {
  // A child of a fork has its parent's exit handlers.
  if (running() || world_phase() != Phase::before_init || ::getpid() != joined_by_) return;
  if (const Result<> left = leave_launcher(); !left && settings.warn) warn(left.error().text());
}

/// Their streams and kernels wait for what nobody will send any more. The words are never unpinned: the
/// program's streams may still have to look at them.
void Runtime::cancel_ports() noexcept {
  const EngineLock::Released released(engine->lock());
  leave_carriers();
  for (const std::shared_ptr<stream::Port>& port : ports)
    port->abandon();
  for (const std::shared_ptr<device::Port>& port : device_ports)
    port->abandon();
  free_left_ports();
  // Others may still write to words of ports that are freed here, until they free theirs, which they do about
  // now. What is left then goes with the process.
  constexpr timespec nap{0, 1'000'000};
  for (int looks = 0; looks < 200 && !left_ports.empty(); ++looks) {
    ::nanosleep(&nap, nullptr);
    free_left_ports();
  }
}

/// Of one port after the other they would wait for each other: processes have them in different orders.
void Runtime::leave_carriers() noexcept {
  for (const std::shared_ptr<stream::Port>& port : ports) {
    port->cancel();
    if (port->carrier) port->carrier->leave();
  }
  constexpr timespec nap{0, 100'000};
  for (const auto* each : {&ports, &left_ports})
    for (const std::shared_ptr<stream::Port>& port : *each)
      while (port->carrier && !port->carrier->is_over())
        ::nanosleep(&nap, nullptr);
}

void Runtime::free_left_ports() {
  std::vector<std::shared_ptr<stream::Port>> over;
  {
    const std::scoped_lock lock(engine->lock());
    std::erase_if(left_ports, [&](const std::shared_ptr<stream::Port>& port) {
      if (!port->is_over()) return false;
      over.push_back(port);
      return true;
    });
  }
  for (const std::shared_ptr<stream::Port>& port : over) {
    port->carrier.reset();
    port->stop();
  }
  const std::scoped_lock lock(engine->lock());
  over.clear();
}

TypeLabels& Runtime::labels_of(Datatype& type) {
  return type.is_named() ? labels_of_named_[&type] : type.labels();
}

Result<> Runtime::close_streams() const {
  Result<> result;
  streams.for_each([&](stream::Stream& each) {
    engine->wait_for([&] { return each.outstanding() == 0; });
    if (std::optional<Error> failure = each.take_failure(nullptr); failure && result)
      result = std::unexpected(std::move(*failure));
    each.close();
  });
  return result;
}

void Runtime::close_unused_boards() {
  std::vector<Ref<stream::Board>> unused;
  std::erase_if(boards, [&](Ref<stream::Board>& each) {
    if (each->references() > 1) return false;
    unused.push_back(std::move(each));
    return true;
  });
  if (unused.empty()) return;
  const EngineLock::Released released(engine->lock());
  for (const Ref<stream::Board>& each : unused)
    each->port().stop();
  unused.clear();
}

void Runtime::release_orphans() {
  std::erase_if(orphans, [&](const Orphan& orphan) { return !engine->requests().find(orphan.request); });
}

std::string Runtime::who() const {
  if (!job) return fmt::format("[{}:{}]", host_name(), ::getpid());
  return fmt::format("[{}:{}] rank {}", job->host.empty() ? host_name() : job->host, ::getpid(), job->rank);
}

void Runtime::abort_job(int code, std::string_view line) noexcept {
  if (world_phase() == Phase::forked) {
    // The job is the parent's, and so is what stands in the buffers of its streams.
    write_line(line);
    ::_exit(exit_status(code));
  }
  // What the program has printed so far helps to understand the line; other streams may be locked by threads
  // that wait in them.
  std::fflush(stdout);
  write_line(line);
  if (job) {
    wire::RegionHeader& header = job->region.header();
    std::uint32_t nobody = 0;
    // The code goes first: whoever sees the state reads it.
    if (header.abort_state.load(std::memory_order_acquire) == 0) {
      header.abort_code.store(code, std::memory_order_relaxed);
      header.abort_state.compare_exchange_strong(nobody, 1 + job->rank, std::memory_order_release);
    }
    if (job->launcher) job->launcher->abort(exit_status(code), line);
  }
  ::_exit(exit_status(code));
}

}  // namespace isthmus::abi
