#pragma once

#include <mpi.h>

#include <atomic>
#include <memory>
#include <thread>

#include "abi/handle.hpp"
#include "base/settings.hpp"
#include "comm/communicator.hpp"
#include "comm/errhandler.hpp"
#include "comm/group.hpp"
#include "comm/info.hpp"
#include "datatype/datatype.hpp"
#include "datatype/op.hpp"
#include "launch/job.hpp"
#include "p2p/engine.hpp"

namespace isthmus::abi {

using CommTable = HandleTable<MPI_Comm, Communicator, HandleKind::comm>;
using GroupTable = HandleTable<MPI_Group, Group, HandleKind::group>;
using DatatypeTable = HandleTable<MPI_Datatype, Datatype, HandleKind::datatype>;
using OpTable = HandleTable<MPI_Op, Op, HandleKind::op>;
using InfoTable = HandleTable<MPI_Info, Info, HandleKind::info>;
using ErrhandlerTable = HandleTable<MPI_Errhandler, Errhandler, HandleKind::errhandler>;

/// The life of MPI in this process.
enum class Phase : int { before_init, running, finalized };

/// What MPI is in this process: the engine and every object that programs name by a handle. The one mutable
/// global of the library.
class Runtime {
 public:
  /// Exists from library load on, so that handles of info objects, error handlers and sessions work before
  /// MPI_Init (MPI 5.0, section 11.4.1).
  static Runtime& get() noexcept;

  [[nodiscard]] Phase phase() const noexcept { return phase_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool running() const noexcept { return phase() == Phase::running; }

  Result<> start(int thread_level);
  Result<> finish();

  /// The lock of the engine; before MPI_Init a lock that is always on.
  [[nodiscard]] EngineLock& lock() noexcept;

  CommTable communicators;
  GroupTable groups;
  DatatypeTable datatypes;
  OpTable ops;
  InfoTable infos;
  ErrhandlerTable errhandlers;

  Settings settings;
  launch::Job job;
  std::unique_ptr<Engine> engine;
  Communicator* world = nullptr;  ///< MPI_COMM_WORLD, owned by its handle
  Communicator* self = nullptr;
  int thread_level = MPI_THREAD_SINGLE;
  std::thread::id main_thread;

 private:
  Runtime();
  std::atomic<Phase> phase_{Phase::before_init};
  EngineLock early_lock_;
};

}  // namespace isthmus::abi
