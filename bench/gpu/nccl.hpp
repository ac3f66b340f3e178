// NCCL, as it lies on the machine, loaded at run time and declared in our own words (nccl.h of version 2).
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>

#include "gpu/cuda.hpp"

namespace isthmus::bench {

enum class NcclType : int { bytes = 0, float32 = 7 };
enum class NcclOp : int { sum = 0 };

// One communicator of all ranks; everything is enqueued on the stream of `Cuda` and waited for there.
class Nccl {
 public:
  // Collective. Null where the library cannot be loaded by some rank, with the reason in `why`.
  static std::unique_ptr<Nccl> open(const Cuda& cuda, const std::string& path, std::string& why);
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;
  ~Nccl();

  int version() const;
  void send(const Memory& from, std::size_t bytes, int peer) const;
  void receive(const Memory& to, std::size_t bytes, int peer) const;
  void all_reduce(const Memory& from, const Memory& to, std::size_t floats) const;
  void broadcast(const Memory& data, std::size_t bytes, int root) const;
  void all_gather(const Memory& from, const Memory& to, std::size_t bytes) const;
  // Blocks of `bytes` bytes.
  void all_to_all(const Memory& from, const Memory& to, std::size_t bytes) const;
  void begin_group() const;
  void end_group() const;
  void wait() const;

 private:
  using Communicator = struct NcclCommunicator*;
  struct Id {
    std::array<char, 128> bytes;
  };
  struct Functions;
  Nccl(const Cuda& cuda, std::unique_ptr<Functions> functions);
  void demand(int status, const char* what) const;

  const Cuda& cuda_;
  std::unique_ptr<Functions> functions_;
  Communicator communicator_ = nullptr;
};

}  // namespace isthmus::bench
