#include "binding/gpu_binding.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/whole_number.hpp"

namespace isthmus::mpiexec {
namespace {

/// The GPU that a word of CUDA_VISIBLE_DEVICES or of --gpu-bind names, by its place in `gpus` or the
/// beginning of its UUID; null for none.
const Gpu* named(const std::vector<const Gpu*>& gpus, std::string_view word) {
  if (const auto index = whole_number<std::size_t>(word))
    return *index < gpus.size() ? gpus[*index] : nullptr;
  if (!word.starts_with("GPU-")) return nullptr;
  const auto found = std::ranges::find_if(gpus, [&](const Gpu* gpu) { return gpu->uuid.starts_with(word); });
  return found == gpus.end() ? nullptr : *found;
}

/// As CUDA reads the variable: up to the first word that names no GPU.
std::vector<const Gpu*> visible_of(const std::vector<const Gpu*>& all, std::string_view variable) {
  std::vector<const Gpu*> visible;
  while (!variable.empty()) {
    const std::size_t comma = variable.find(',');
    const Gpu* gpu = named(all, variable.substr(0, comma));
    if (!gpu) break;
    visible.push_back(gpu);
    variable.remove_prefix(comma == std::string_view::npos ? variable.size() : comma + 1);
  }
  return visible;
}

bool is_near(const Gpu& gpu, const CpuSet& cpus) {
  auto near = cpus_near(gpu);
  if (!near || cpus.empty()) return true;
  return !(*near &= cpus).empty();
}

}  // namespace

GpuBinding::GpuBinding(const GpuBind& wanted)
    : GpuBinding(wanted, wanted.how == GpuBind::How::none ? std::vector<Gpu>{} : find_gpus().all) {}

GpuBinding::GpuBinding(const GpuBind& wanted, std::vector<Gpu> gpus)
    : wanted_(wanted), gpus_(std::move(gpus)) {
  std::ranges::sort(gpus_, {}, [](const Gpu& gpu) { return pci_address(gpu.bus); });
}

const Gpu* GpuBinding::closest(const std::vector<const Gpu*>& usable, const Binding& place) const {
  const auto uses = [&](const Gpu* gpu) {
    const auto found = used_.find(gpu->uuid);
    return found == used_.end() ? 0U : found->second;
  };
  // Near before far, then whichever fewer ranks have.
  return *std::ranges::min_element(
      usable, {}, [&](const Gpu* gpu) { return std::pair(!is_near(*gpu, place.cpus), uses(gpu)); });
}

std::expected<std::optional<GpuBinding::Choice>, std::string> GpuBinding::choose(
    std::size_t slot, const Binding& place, std::optional<std::string_view> visible) {
  if (wanted_.how == GpuBind::How::none) return std::nullopt;
  std::vector<const Gpu*> usable;
  usable.reserve(gpus_.size());
  for (const Gpu& gpu : gpus_)
    usable.push_back(&gpu);
  if (visible) usable = visible_of(usable, *visible);
  const Gpu* chosen = nullptr;
  if (wanted_.how == GpuBind::How::listed) {
    const std::string& word = wanted_.list[slot % wanted_.list.size()];
    chosen = named(usable, word);
    if (!chosen)
      return std::unexpected(fmt::format("--gpu-bind: there is no GPU {} for local rank {}: {} can be used",
                                         word, slot, usable.size()));
  } else if (!usable.empty()) {
    chosen = closest(usable, place);
  }
  if (!chosen) return std::nullopt;
  ++used_[chosen->uuid];
  Choice choice{.visible = chosen->uuid,
                .text = fmt::format("{} ({}, {})", pci_address(chosen->bus), chosen->name, chosen->uuid)};
  if (wanted_.others_behind)
    for (const Gpu* gpu : usable)
      if (gpu != chosen) choice.visible += ',' + gpu->uuid;
  return choice;
}

}  // namespace isthmus::mpiexec
