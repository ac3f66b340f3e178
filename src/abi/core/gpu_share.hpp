#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/unique_fd.hpp"
#include "gpu/driver/cuda_api.hpp"
#include "gpu/driver/cuda_types.hpp"
#include "gpu/memory/buffer.hpp"
#include "gpu/memory/mapping.hpp"
#include "p2p/engine.hpp"
#include "wire/gpu.hpp"

/// Memory of GPUs that the processes of a communicator show each other: what ports of streams and of kernels
/// have in common.
namespace isthmus::abi {

class Runtime;

/// What a function of MPI has returned, as an error that begins with `what`.
Result<> check_mpi(int code, const char* what);

/// The same outcome on all processes: who has none of its own names the first that has. Collective.
Result<> agree(MPI_Comm comm, Result<> mine);

/// Whether all processes say so. Collective.
Result<bool> all_can(MPI_Comm comm, bool mine);

/// Whether no two processes are on one GPU. Collective.
Result<bool> have_gpu_each(MPI_Comm comm, const cuda::Functions& functions, cuda::Device device);

/// What a program has kernels or streams wait for is for processes of one rank: who waits in CUDA keeps the
/// other ranks of its worker from their turns, and CUDA's own calls wait for all kernels and streams of their
/// process. `what`: in the plural, for people.
Result<> check_one_rank(const Runtime& runtime, std::string_view what);

/// What processes tell each other: a file, or memory of a GPU.
struct Told {
  wire::GpuExport memory{};
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;
  std::uint32_t is_there = 0;
  std::array<char, 160> why{};

  void refuse(const std::string& text) { text.copy(why.data(), why.size() - 1); }
};
/// By rank. Collective.
Result<std::vector<Told>> exchange(MPI_Comm comm, const Told& mine);

/// The processes of a port, by rank, and its GPU.
struct Members {
  std::span<const PeerId> ids;
  int rank = 0;
  cuda::Device device = cuda::no_device;

  /// Those that share memory with this process, but for itself.
  [[nodiscard]] std::vector<PeerId> local_others() const;
};
/// Why a process does not share memory with this one; empty where it does.
std::string why_apart(PeerId peer);

/// One process's part of what all share, as another sees it.
struct Part {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::shared_ptr<const Mapping> mapping;
  std::string why;  ///< out of reach
  /// It is this GPU's, or behind a link by which kernels may also add to words there, as NVLink and not the
  /// PCIe.
  bool is_linked = false;
  std::uint64_t exporter = 0, allocation = 0;  ///< of `mapping`
};

/// The GPU that a port is on: that of the calling thread's CUDA context. What messages between GPUs need is
/// there.
struct PortGpu {
  const cuda::Functions* functions = nullptr;
  cuda::Device device = cuda::no_device;
  cuda::Context context = nullptr;
};
/// `for_what`: what there is not where there is no driver, or where the process has several ranks. Without
/// the engine's lock, which a port of one enables: its thread is a second one in the engine.
Result<PortGpu> find_port_gpu(const char* for_what);

/// Once what a port is made of is open: from now on what peers have freed stays open (`MappingCache::hold`).
/// Not before: memory may lie where other memory has lain that is open still, and is closed then.
void hold_mappings(bool& holds);
/// With the engine's lock held.
void release_mappings(bool& holds);

/// Of memory of the library's own that goes with a port: nothing of it stays open, so that its owner may free
/// it, and have other memory there. With the engine's lock held, after `release_mappings`.
void close_parts(std::vector<Part>& parts);

/// Memory of this process, told to all, and theirs, opened. `own`: nothing where there is none to share, and
/// then no process has any. Collective; without the engine's lock. What all have told, by rank.
Result<std::vector<Told>> share_with_all(MPI_Comm comm, const Members& members, Result<Buffer> own,
                                         std::vector<Part>& parts);

/// The outcome alone.
template <class T>
Result<> outcome_of(const Result<T>& result) {
  if (result) return {};
  return fail(result.error().error_class(), result.error().text());
}

// With the engine's lock held:

/// What lies at an address that is to be shared, or why it cannot be: only memory that stays where it is, and
/// that GPUs reach.
Result<Buffer> look_at_shared(void* address, std::size_t bytes);
/// Lets the others open it. `descriptor`: stays open until they have, where there is no box for it.
void offer_shared(const Members& members, const Buffer& own, UniqueFd& descriptor, Told& told);
/// Opens what the process of that rank has told. Must be called for everyone that has told something.
void open_shared(const Members& members, std::size_t rank, const Told& told, Part& part);
/// What is shared may have been freed since: the driver would fault, or copy what others have there now.
Result<> check_still_there(const Buffer& own);

}  // namespace isthmus::abi
