#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/settings.hpp"
#include "gpu/driver/gpu.hpp"
#include "gpu/memory/buffer.hpp"
#include "route/plan.hpp"

namespace isthmus {

/// What a copy from one rank's memory to another's can use, at least one of them a GPU's.
enum class GpuLocality : std::uint8_t {
  same_gpu,
  nvlink,
  pcie,
  no_peer_access,  ///< the GPUs do not reach each other's memory
  not_visible,     ///< this process does not see the other's GPU
  unknown,         ///< the peer has named no memory yet
  other_host,
};
[[nodiscard]] std::string_view name_of(GpuLocality locality) noexcept;
/// Of two GPUs that this process sees.
[[nodiscard]] GpuLocality locality_of(cuda::Device one, cuda::Device other, PeerLink link) noexcept;

/// The memory at one end.
struct GpuPlanEnd {
  MemoryKind kind = MemoryKind::device;
  bool has_pages = false;   ///< managed memory: a GPU has them
  bool has_gaps = false;    ///< the message is no one run of bytes there
  bool is_foreign = false;  ///< another process's, which this one has opened

  [[nodiscard]] bool is_on_gpu() const noexcept {
    return kind == MemoryKind::managed ? has_pages : kind != MemoryKind::pageable && !is_pinned();
  }
  [[nodiscard]] bool is_pinned() const noexcept { return kind == MemoryKind::pinned; }
  /// Whether its process can hand it to another.
  [[nodiscard]] bool is_exportable() const noexcept {
    return is_on_gpu() && kind != MemoryKind::managed && !is_foreign;
  }
  friend bool operator==(const GpuPlanEnd&, const GpuPlanEnd&) = default;
};

/// What a plan between two memories follows from, as the receiver knows it.
struct GpuPlanInputs {
  GpuPlanEnd from, to;
  GpuLocality locality = GpuLocality::unknown;
  Reach push{};    ///< the sender opens the receiver's memory
  Reach pull{};    ///< the receiver opens the sender's
  Reach bounce{};  ///< the receiver opens GPU memory of the sender's library
  Reach network = std::unexpected(Reason{"nobody has asked for it"});  ///< the network is handed GPU memory
  GpuPathSetting path = GpuPathSetting::automatic;
  std::uint64_t host_eager_limit =
      0;  ///< of what is sent from memory of the host; of another host the network's
  std::uint64_t gpu_eager_limit = 0;  ///< of what is sent from a GPU
  std::uint64_t chunks_from = 0;      ///< from a host to another's GPU in two chunks and more; 0: never
  std::uint64_t push_from = 0;        ///< 0: `default_gpu_push_from`
  std::uint64_t direct_limit = 0;     ///< 0: `default_gpu_direct_limit`
  std::uint64_t courier_limit = 0;    ///< of what a courier of the receiver's GPU takes; 0: none is wanted
  bool one_process = false;           ///< both ranks are one process: each reads the other's memory as it is
  /// Several messages are under way at a time: then short ones to pageable memory go through memory that both
  /// ranks share, where one kernel copies many of them. A GPU's copy straight there holds the processor up.
  bool many_under_way = false;
};

/// Between two GPUs the sender's writes from this size on: 8 B take 6.6 us until a processor knows that they
/// have arrived, 6.9 where the receiver's reads; 1 MiB 9.6 and 10.3 (2 x H200 over NVLink, memory opened by
/// IPC).
inline constexpr std::uint64_t default_gpu_push_from = 1;
/// A GPU copies straight to pageable memory up to this size: the driver goes through memory of its own, 64
/// KiB take 20 us, 14 through memory that both ranks share (2 x H200).
inline constexpr std::uint64_t default_gpu_direct_limit = 16 * 1024;

/// Why a message cannot or shall not go in a way, as the end of a sentence; empty where it may.
[[nodiscard]] std::string_view why_not(const GpuPlanInputs& inputs, Protocol way) noexcept;

/// Which way a message takes between two memories, at least one of them a GPU's: made of what the probes of
/// all ways say, a pure function of its inputs. `eager` stands for all that goes as if it came from memory of
/// the host, and so does no way at all for a long message.
[[nodiscard]] Plan gpu_plan(const GpuPlanInputs& inputs) noexcept;

}  // namespace isthmus
