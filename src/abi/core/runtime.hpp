#pragma once

#include <sys/types.h>

#include <mpi-ext.h>
#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "abi/core/attribute.hpp"
#include "abi/core/error_codes.hpp"
#include "abi/core/handle.hpp"
#include "abi/core/matched_message.hpp"
#include "abi/core/session.hpp"
#include "abi/core/thread_level.hpp"
#include "abi/core/wait_witness.hpp"
#include "base/frame_pool.hpp"
#include "base/rank_turns.hpp"
#include "base/settings.hpp"
#include "coll/flow/driver.hpp"
#include "comm/communicator.hpp"
#include "comm/errhandler.hpp"
#include "comm/group.hpp"
#include "comm/info.hpp"
#include "datatype/datatype.hpp"
#include "datatype/make/unnamed.hpp"
#include "datatype/op.hpp"
#include "device/port.hpp"
#include "gpu/memory/allocation.hpp"
#include "launch/job.hpp"
#include "p2p/buffered.hpp"
#include "p2p/engine.hpp"
#include "p2p/progress_thread.hpp"
#include "stream/board.hpp"
#include "stream/prepared/port.hpp"
#include "stream/stream.hpp"

namespace isthmus::abi {

using CommTable = HandleTable<MPI_Comm, Communicator, HandleKind::comm>;
using GroupTable = HandleTable<MPI_Group, Group, HandleKind::group>;
using DatatypeTable = HandleTable<MPI_Datatype, Datatype, HandleKind::datatype>;
using OpTable = HandleTable<MPI_Op, Op, HandleKind::op>;
using InfoTable = HandleTable<MPI_Info, Info, HandleKind::info>;
using ErrhandlerTable = HandleTable<MPI_Errhandler, Errhandler, HandleKind::errhandler>;
using SessionTable = HandleTable<MPI_Session, Session, HandleKind::session>;
using StreamTable = HandleTable<MPIX_Stream, stream::Stream, HandleKind::stream>;
using EnqueuedTable = HandleTable<MPI_Request, stream::Enqueued, HandleKind::enqueued>;
using MessageTable = HandleTable<MPI_Message, MatchedMessage, HandleKind::message>;

/// The life of MPI, or of its World Model, in this process.
enum class Phase : int {
  before_init,
  running,
  finalized,
  forked,  ///< this process is the child of one in which MPI runs: MPI is that one's alone
};

/// Why nothing of MPI works in `Phase::forked`, and what does.
inline constexpr std::string_view in_child =
    "this process is the child of a fork, and MPI is its parent's alone: it may run another program (exec) "
    "or end, but "
    "not call MPI";

/// What MPI is in this process: the engine and every object that programs name by a handle. The one mutable
/// global of the library.
class Runtime {
 public:
  /// Exists from library load on and is never destroyed, so that handles of info objects and error handlers
  /// work before MPI_Init, and queries after MPI_Finalize (MPI 5.0, section 11.4.1), in exit handlers too.
  static Runtime& get() noexcept;

  /// For a rank that shares its process with others. Never destroyed.
  static Runtime& make_virtual(RankTurns& turns);
  /// What `get` gives with this thread's thread-local storage, which is the rank's in all of its turns.
  static void make_current(Runtime& runtime) noexcept;
  /// The ranks of this process, where it has several; null: it is one.
  [[nodiscard]] RankTurns* turns() const noexcept { return turns_; }

  /// Whether most functions may be called: MPI_Init or MPI_Session_init has opened MPI, and it is not closed.
  [[nodiscard]] bool running() const noexcept { return running_.load(std::memory_order_relaxed); }
  /// Where the World Model is, between MPI_Init and MPI_Finalize (MPI 5.0, section 11.2).
  [[nodiscard]] Phase world_phase() const noexcept { return world_phase_.load(std::memory_order_acquire); }

  // `required` is a thread level as MPI_Init_thread takes it. What opens first joins the job and defines all
  // predefined objects. Behind MPI_Finalize what closes last leaves the job; sessions alone leave it when the
  // process exits, for another one may be opened. A session that is opened when the job has been left works
  // among processes that share memory; in a job with a network it is refused.

  /// MPI_Init. Only in `Phase::before_init`.
  Result<> open_world(int required);
  /// MPI_Finalize. Only in `Phase::running`. Collective.
  Result<> close_world();
  Result<> open_session(int required);
  Result<> close_session();

  /// This rank has come to another process, and is the job's there.
  void has_changed_process() noexcept;
  /// What MPI becomes in the child of a fork: nothing, so that the child cannot speak for its parent.
  void become_child() noexcept;

  /// Prints `line`, marks the job aborted with `code` if there is one, and ends this process.
  [[noreturn]] void abort_job(int code, std::string_view line) noexcept;
  /// `[host:pid] rank r`, or without rank where there is none: how lines for people begin.
  [[nodiscard]] std::string who() const;

  /// The lock of the engine; while MPI is not running `early_lock()`.
  [[nodiscard]] EngineLock& lock() noexcept { return *lock_.load(std::memory_order_relaxed); }
  /// On at every thread level: for functions that all threads may call at any time. Taken after `lock()`.
  [[nodiscard]] EngineLock& early_lock() noexcept { return early_lock_; }

  CommTable communicators;
  GroupTable groups;
  DatatypeTable datatypes;
  OpTable ops;
  InfoTable infos;
  ErrhandlerTable errhandlers;
  MessageTable messages;
  SessionTable sessions;
  StreamTable streams;
  EnqueuedTable enqueued;  ///< that nobody has put a wait on a stream for

  Settings settings;
  std::optional<launch::Job> job;   ///< once joined; the engine refers to it
  WaitWitness wait_witness{*this};  ///< the engine refers to it
  std::unique_ptr<Engine> engine;
  std::unique_ptr<ProgressThread> progress_thread;  ///< null: there is none
  Communicator* world = nullptr;                    ///< MPI_COMM_WORLD, owned by its handle
  Communicator* self = nullptr;
  bool self_has_errhandler = false;      ///< from the program
  int thread_level = MPI_THREAD_SINGLE;  ///< the highest that was asked for
  std::thread::id main_thread;

  FramePool operations;  ///< memory of `Operation`s; guarded by the engine's lock
  /// Of the next collective that does not block; null where there is none, or that begins just now.
  std::unique_ptr<coll::Driver> next_driver;

  F90Types f90_types;
  KeyvalTable keyvals;
  /// The name and the attributes that this rank has given `type`. They stay where they are as long as the
  /// type lives.
  [[nodiscard]] TypeLabels& labels_of(Datatype& type);
  WorldAttributes world_attributes;
  ErrorCodes error_codes;
  Ref<Errhandler> file_errhandler;  ///< of MPI_FILE_NULL: what new files get
  Ref<SendBuffer> send_buffer;      ///< of MPI_Buffer_attach; null while there is none
  /// Of MPI_Alloc_mem, by address. What the program has not freed goes at the end of MPI.
  std::unordered_map<void*, std::unique_ptr<Allocation>> allocations;
  /// Of <isthmus/stream.hpp>, that the program has not freed.
  std::vector<std::shared_ptr<stream::Port>> ports;
  /// Those that it has freed, and whose carriers or words other processes need until they have freed theirs.
  std::vector<std::shared_ptr<stream::Port>> left_ports;
  /// Those of them that nobody needs any more. Without the engine's lock.
  void free_left_ports();
  /// The same of <isthmus/device.hpp>.
  std::vector<std::shared_ptr<device::Port>> device_ports;
  /// Of communicators with streams. One that nobody else has any more goes when no stream waits for anything,
  /// because to free memory of a GPU may wait for all streams.
  std::vector<Ref<stream::Board>> boards;
  /// Lets go of those. With the engine's lock held, which is let go of meanwhile.
  void close_unused_boards();
  CudaDriver cuda;  ///< for memory that is asked of it; the engine has its own
  /// Of the kinds of memory that are asked for, those that there are, and what there is always (MPI 5.0,
  /// section 11.4.3).
  std::string memory_kinds(std::string_view asked);

  /// How many of the members that are no more the program has acknowledged, by communicator, in the order in
  /// which this process has learned of them (MPIX_Comm_ack_failed).
  std::unordered_map<ContextId, std::size_t> acknowledged_failures;

  /// Freed before they were complete (MPI_Request_free). What they need lives on until then, and is let go
  /// of here rather than inside of the engine, which may be working on it at that moment.
  struct Orphan {
    wire::Cookie request;
    Ref<RefCounted> owner;
  };
  std::vector<Orphan> orphans;
  bool has_told_of_tie = false;  ///< what keeps the rank in its process
  /// Lets go of the owners of orphans that have completed.
  void release_orphans();

 private:
  friend struct RuntimeStorage;
  explicit Runtime(RankTurns* turns = nullptr);
  ~Runtime() = default;

  Result<> open(int required);
  [[nodiscard]] ThreadLevel level_for(int required) const noexcept;
  Result<> close();
  Result<> join();
  Result<> leave_launcher();
  /// Where sessions have been closed, and there may be no other: the launcher would take the process for one
  /// that has failed.
  void leave_at_exit() noexcept;
  /// Completes what is on the streams that the program has not freed. The first error that it has not been
  /// told.
  Result<> close_streams() const;
  void cancel_ports() noexcept;
  void leave_carriers() noexcept;
  void define_errhandlers();
  void define_datatypes_and_ops();
  void define_communicators();

  /// Of named types, which the ranks of a process share.
  std::unordered_map<const Datatype*, TypeLabels> labels_of_named_;
  std::atomic<bool> running_{false};
  std::atomic<Phase> world_phase_{Phase::before_init};
  RankTurns* const turns_;
  int open_sessions_ = 0;
  bool watches_forks_ = false;
  bool watches_exit_ = false;
  bool has_left_ = false;  ///< the job: its launcher answers no more
  pid_t joined_by_ = 0;    ///< the process that is of the job, and not a child of it
  std::atomic<EngineLock*> lock_{&early_lock_};
  EngineLock early_lock_;
};

/// Memory of the one `Runtime`, which has no destructor to run at exit.
struct RuntimeStorage {
  union {
    Runtime runtime;
  };
  RuntimeStorage() { new (&runtime) Runtime; }
  ~RuntimeStorage() {}
};
extern RuntimeStorage runtime_storage __attribute__((visibility("hidden")));
/// Whether there are others than that of `runtime_storage`: set before a second thread runs ranks.
extern constinit bool has_virtual_runtimes __attribute__((visibility("hidden")));
/// Where there are: that of the rank whose thread-local storage this thread has.
extern constinit thread_local Runtime* current_runtime
    __attribute__((visibility("hidden"), tls_model("initial-exec")));

/// Without a read of memory that the rest waits for: a message of 8 B took 5 % longer where each call began
/// with one of thread-local storage (Intel and AMD).
inline Runtime& Runtime::get() noexcept {
  if (!has_virtual_runtimes) [[likely]]
    return runtime_storage.runtime;
  return *current_runtime;
}
inline void Runtime::make_current(Runtime& runtime) noexcept {
  current_runtime = &runtime;
}

}  // namespace isthmus::abi
