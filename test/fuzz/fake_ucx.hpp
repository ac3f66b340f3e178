#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

/// A stand-in for UCX below the library's port: what the port sends goes nowhere, and what comes is what a
/// test hands in where UCX would. Like UCX, it calls back from inside of `ucp_worker_progress` alone. It ends
/// the process where the port breaks UCX's rules: a descriptor or a request that is used twice, or is left
/// over.
namespace isthmus::fuzz::ucx {

/// Empties the world. To be called when no port is open.
void reset();
/// What `port` is: the name of the transport, and the GPU support that UCX says it has.
void describe_as(const char* lane, bool has_cuda);
/// How the next sends go: each takes one bit, the lowest first; 1 leaves it pending.
void leave_pending(std::uint32_t bits);

/// A message arrives with the next progress: `head` is the active message's header. `rendezvous`: its bytes
/// are offered, as many as there are, and `data` is what a fetch brings.
void arrive(std::span<const std::byte> head, std::span<const std::byte> data, bool rendezvous);
/// The oldest but `index` of what is pending ends with the next progress; a fetch may bring less than it
/// should.
void complete(unsigned index, ucs_status_t status, bool is_short);
/// The connection to a peer breaks with the next progress.
void break_off(std::uint32_t peer);
/// How many messages the port has been handed, and how many sends and fetches are pending.
[[nodiscard]] std::uint64_t arrived();
[[nodiscard]] std::size_t pending();
/// All that UCX has lent has come back.
[[nodiscard]] bool is_clean();

/// Where a fetch to GPU memory puts its bytes.
extern std::function<void(void* to, std::span<const std::byte> from)> to_gpu;

}  // namespace isthmus::fuzz::ucx
