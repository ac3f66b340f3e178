// Messages through the library's own GPU memory: what ranks tell each other of their windows.
#include <cstring>
#include <string>
#include <utility>

#include "p2p/link/links.hpp"
#include "p2p/protocol/gpu/messages.hpp"

namespace isthmus {

bool GpuMessages::may_bounce() const noexcept {
  return links_.settings().gpu_bounce != 0 && links_.settings().gpu_path == GpuPathSetting::automatic &&
         !links_.job().in_process;
}

std::optional<GpuMessages::Bounce> GpuMessages::bounce_of(Peer& peer, cuda::Device device,
                                                          const wire::StageRequest& wanted) {
  const bool can_name = device >= 0 && static_cast<std::uint32_t>(device) < wire::most_windows &&
                        wanted.device < wire::most_windows;
  if (wanted.window == wire::StageWindow::none || !may_bounce() || !can_name) return Bounce{};
  const auto window = windows_.of(peer.id, device);
  if (!window) {
    links_.note_gpu_reason(peer, window.error(), true);
    return Bounce{};
  }
  auto& answers = (*window)->is_open;
  if (wanted.window == wire::StageWindow::open || wanted.window == wire::StageWindow::refused) {
    answers[wanted.device] = wanted.window == wire::StageWindow::open;
    (*window)->descriptor.reset();
  }
  if (const auto answer = answers.find(wanted.device); answer != answers.end()) {
    if (answer->second)
      return Bounce{.number = static_cast<std::uint32_t>(device) + 1, .memory = (*window)->span()};
    links_.note_gpu_reason(
        peer, Error(ErrorClass::other, "the peer cannot open the library's own GPU memory, and tells why"),
        false);
    return Bounce{};
  }
  if (announce_window(peer, **window, static_cast<std::uint32_t>(device) + 1, wanted.receiver))
    return std::nullopt;
  return Bounce{};
}

void GpuMessages::note_way(Peer& peer, const Buffer& from, bool bounces) {
  if (bounces) return exports(peer).bounced(from.allocation);
  if (const std::string_view why = exporter_.why_refused(from.allocation); !why.empty())
    links_.note_gpu_reason(peer, Error(ErrorClass::other, std::string(why)), true);
}

bool GpuMessages::announce_window(Peer& peer, GpuWindows::Window& window, std::uint32_t number,
                                  wire::Cookie receiver) {
  if (!peer.out.open() && !links_.connect(peer)) return false;
  if (!peer.control.empty() || !peer.out.has_cell()) return false;
  auto buffer = copies_.find(Payload::of(window.memory->data(), window.memory->size()));
  if (!buffer || !*buffer) return false;
  auto offer = exporter_.offer(**buffer);
  if (!offer) return false;
  auto descriptor = exporter_.descriptor(offer->allocation);
  if (!descriptor) return false;
  std::byte* const to = peer.out.reserve(sizeof(wire::GpuExport));
  if (!to) return false;
  exports(peer).handed(offer->allocation);  // after the cell is written nothing may fail
  wire::GpuExport what{.memory = *offer, .descriptor = -1, .ticket = 0};
  window.descriptor = std::move(*descriptor);
  hand_over({&peer.id, 1}, what, window.descriptor);
  std::memcpy(to, &what, sizeof what);
  const wire::GpuWindow told{.receiver = receiver};
  peer.out.publish_reserved({.context = 0,
                             .source = 0,
                             .tag = static_cast<std::int32_t>(number),
                             .size = sizeof what,
                             .kind = wire::CellKind::gpu_window,
                             .flag = wire::CellFlag::none,
                             .reserved = 0},
                            &told, sizeof told);
  links_.after_publish(peer);
  return true;
}

std::shared_ptr<const Mapping> GpuMessages::opened_window(const Peer& peer, std::uint32_t number,
                                                          cuda::Device local) const {
  return windows_.opened(peer.id, number, local);
}

wire::StageWindow GpuMessages::open_window(Peer& peer, std::uint32_t number, const wire::GpuExport& what,
                                           cuda::Device local) {
  GpuExports& known = exports(peer);
  launch::DescriptorBox* const box = links_.job().box.get();
  const auto take = [box](const wire::DescriptorTicket& ticket) {
    return box ? box->take_now(ticket) : UniqueFd();
  };
  if (!is_exporter(peer, what.memory.exporter) || what.memory.kind != ExportKind::vmm ||
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
  auto mapping = map(peer, what, local);
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

}  // namespace isthmus
