#pragma once

#include <utility>

#include "base/ref.hpp"
#include "comm/errhandler.hpp"

namespace isthmus::abi {

/// What MPI_Session_init returns (MPI 5.0, section 11.3). While any is open, MPI is.
class Session final : public RefCounted {
 public:
  Session(Ref<Errhandler> handler, int level) : errhandler(std::move(handler)), thread_level(level) {}

  Ref<Errhandler> errhandler;
  const int thread_level;
};

}  // namespace isthmus::abi
