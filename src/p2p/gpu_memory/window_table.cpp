#include "p2p/gpu_memory/window_table.hpp"

#include <cstring>
#include <string>
#include <utility>

#include "launch/visit/descriptor_box.hpp"
#include "p2p/gpu_memory/export_table.hpp"
#include "p2p/link/links.hpp"

namespace isthmus {

WindowTable::WindowTable(Links& links, GpuCopies& copies, ExportTable& exports, const GpuList& gpus)
    : links_(links),
      copies_(copies),
      exports_(exports),
      windows_(copies.contexts(), gpus, links.settings().gpu_bounce, links.job().members.size()) {}

bool WindowTable::may_serve() const noexcept {
  return links_.settings().gpu_bounce != 0 && links_.settings().gpu_path == GpuPathSetting::automatic &&
         !links_.job().in_process;
}

std::optional<WindowTable::Passage> WindowTable::passage_to(Peer& peer, cuda::Device device,
                                                            const wire::StageRequest& wanted) {
  const bool can_name = device >= 0 && static_cast<std::uint32_t>(device) < wire::most_windows &&
                        wanted.device < wire::most_windows;
  if (wanted.window == wire::StageWindow::none || !may_serve() || !can_name) return Passage{};
  const auto window = windows_.of(peer.id, device);
  if (!window) {
    links_.note_gpu_reason(peer, window.error(), true);
    return Passage{};
  }
  auto& answers = (*window)->is_open;
  if (wanted.window == wire::StageWindow::open || wanted.window == wire::StageWindow::refused) {
    answers[wanted.device] = wanted.window == wire::StageWindow::open;
    (*window)->descriptor.reset();
  }
  if (const auto answer = answers.find(wanted.device); answer != answers.end()) {
    if (answer->second)
      return Passage{.number = static_cast<std::uint32_t>(device) + 1, .memory = (*window)->span()};
    links_.note_gpu_reason(
        peer, Error(ErrorClass::other, "the peer cannot open the library's own GPU memory, and tells why"),
        false);
    return Passage{};
  }
  if (announce(peer, **window, static_cast<std::uint32_t>(device) + 1, wanted.receiver)) return std::nullopt;
  return Passage{};
}

bool WindowTable::announce(Peer& peer, GpuWindows::Window& window, std::uint32_t number,
                           wire::Cookie receiver) {
  if (!peer.out.open() && !links_.connect(peer)) return false;
  if (!peer.control.empty() || !peer.out.has_cell()) return false;
  auto buffer = copies_.find(Payload::of(window.memory->data(), window.memory->size()));
  if (!buffer || !*buffer) return false;
  auto offer = exports_.exporter().offer(**buffer);
  if (!offer) return false;
  auto descriptor = exports_.exporter().descriptor(offer->allocation);
  if (!descriptor) return false;
  std::byte* const to = peer.out.reserve(sizeof(wire::GpuExport));
  if (!to) return false;
  exports_.of(peer).handed(offer->allocation);  // after the cell is written nothing may fail
  wire::GpuExport what{.memory = *offer, .descriptor = -1, .ticket = 0};
  window.descriptor = std::move(*descriptor);
  exports_.hand_over({&peer.id, 1}, what, window.descriptor);
  std::memcpy(to, &what, sizeof what);
  const wire::GpuWindow told{.receiver = receiver};
  peer.out.publish_reserved({.context = 0,
                             .source = 0,
                             .tag = static_cast<std::int32_t>(number),
                             .size = sizeof what,
                             .kind = wire::CellKind::gpu_window,
                             .flag = wire::CellFlag::none,
                             .mark = 0},
                            &told, sizeof told);
  links_.after_publish(peer);
  return true;
}

std::shared_ptr<const Mapping> WindowTable::opened(const Peer& peer, std::uint32_t number,
                                                   cuda::Device local) const {
  return windows_.opened(peer.id, number, local);
}

wire::StageWindow WindowTable::open(Peer& peer, std::uint32_t number, const wire::GpuExport& what,
                                    cuda::Device local) {
  GpuExports& known = exports_.of(peer);
  launch::DescriptorBox* const box = links_.job().box.get();
  const auto take = [box](const wire::DescriptorTicket& ticket) {
    return box ? box->take_now(ticket) : UniqueFd();
  };
  if (!exports_.is_exporter(peer, what.memory.exporter) || what.memory.kind != ExportKind::vmm ||
      what.memory.offset != 0 || what.memory.bytes < wire::least_window) {
    if (what.ticket != 0) static_cast<void>(take(what.left()));  // and close it
    links_.malformed(peer, "a window that is none");
    return wire::StageWindow::refused;
  }
  // Another process has it in its hands: another message may find it.
  const std::uint64_t allocation = what.memory.allocation;
  if (what.ticket != 0 && !known.keeps(allocation, what.left()) &&
      !known.look_for(allocation, what.left(), take))
    return wire::StageWindow::none;
  known.heard_from(what.memory);
  auto mapping = exports_.map(peer, what, local);
  if (!mapping) {
    links_.note_gpu_reason(peer, mapping.error(), true);
    if (mapping.error().error_class() == ErrorClass::no_mem) return wire::StageWindow::none;
    known.refuse_windows(what.memory.device, local, mapping.error().text());
    return wire::StageWindow::refused;
  }
  // A peer's word for its bytes is not believed: at() holds them against what is mapped.
  if (!(*mapping)->at(what.memory)) return wire::StageWindow::refused;
  windows_.keep(peer.id, number, local, std::move(*mapping));
  return wire::StageWindow::open;
}

Result<WindowTable::Lent> WindowTable::lend_window(cuda::Device device) {
  auto slot = windows_.lend(device);
  if (!slot) return std::unexpected(std::move(slot).error());
  auto buffer = copies_.look(Payload::of(slot->data(), windows_.window_bytes()));
  if (!buffer) return std::unexpected(std::move(buffer).error());
  return Lent{.slot = std::move(*slot), .buffer = *buffer};
}

std::optional<WindowTable::Lent> WindowTable::lend_slot(cuda::Device device) {
  auto slot = windows_.take_slot(device);
  if (!slot) return std::nullopt;
  auto& known = windows_.buffer_of_slots(device);
  if (!known) {
    auto seen = copies_.look(Payload::of(slot->data(), GpuWindows::slot_bytes));
    if (!seen) return std::nullopt;
    known = *seen;
  }
  Buffer buffer = *known;
  buffer.data = slot->data();
  buffer.bytes = GpuWindows::slot_bytes;
  return Lent{.slot = std::move(*slot), .buffer = buffer};
}

}  // namespace isthmus
