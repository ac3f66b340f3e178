#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/error.hpp"
#include "gpu/memory/buffer.hpp"
#include "p2p/gpu_copy/copies.hpp"
#include "p2p/message/gpu_windows.hpp"
#include "wire/gpu.hpp"

namespace isthmus {

class ExportTable;
class Links;
class Peer;

/// The library's own GPU memory (`GpuWindows`): what messages go through, and what ranks of one host tell
/// each other of it. Guarded by the engine's lock.
class WindowTable {
 public:
  /// All of them outlive it.
  WindowTable(Links& links, GpuCopies& copies, ExportTable& exports, const GpuList& gpus);
  WindowTable(const WindowTable&) = delete;
  WindowTable& operator=(const WindowTable&) = delete;

  /// Whether messages between GPU memories that no other process can open may go through it.
  [[nodiscard]] bool may_serve() const noexcept;

  /// What chunks of a message from a device of this rank go through: a window, or (number 0) memory of the
  /// host.
  struct Passage {
    std::uint32_t number = 0;
    std::span<std::byte> memory{};
  };
  /// For what a peer asks for. Nothing where it has been told of the window first; it will ask again.
  std::optional<Passage> passage_to(Peer& peer, cuda::Device device, const wire::StageRequest& wanted);
  /// Opens a window of a peer for a device, and what to say of it.
  wire::StageWindow open(Peer& peer, std::uint32_t number, const wire::GpuExport& what, cuda::Device local);
  /// Null where none has been opened.
  [[nodiscard]] std::shared_ptr<const Mapping> opened(const Peer& peer, std::uint32_t number,
                                                      cuda::Device local) const;

  /// A window, or a slot for a short message, until its end; what it is to the driver.
  struct Lent {
    GpuWindows::Slot slot;
    Buffer buffer;
  };
  /// For a collective.
  Result<Lent> lend_window(cuda::Device device);
  /// For a message of up to `GpuWindows::slot_bytes`. Nothing where none is free.
  std::optional<Lent> lend_slot(cuda::Device device);

 private:
  bool announce(Peer& peer, GpuWindows::Window& window, std::uint32_t number, wire::Cookie receiver);

  Links& links_;
  GpuCopies& copies_;
  ExportTable& exports_;
  GpuWindows windows_;
};

}  // namespace isthmus
