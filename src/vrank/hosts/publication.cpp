#include "vrank/hosts/publication.hpp"

#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "base/system/blocked_signals.hpp"
#include "launch/launcher/pmi1.hpp"

namespace isthmus::vrank {
namespace {

constexpr std::string_view address_key = "process";

using Launchers = std::vector<std::unique_ptr<launch::KeyValues>>;

Result<Launchers> connect(const LauncherDescriptors& launcher) {
  Launchers all;
  std::uint32_t rank = launcher.first_rank;
  for (const int descriptor : launcher.descriptors) {
    auto made = launch::Pmi1::connect(
        {.fd = UniqueFd(descriptor), .rank = rank++, .size = launcher.world, .job = {}});
    if (!made) return std::unexpected(std::move(made).error());
    all.push_back(std::move(*made));
  }
  return all;
}

/// Of all ranks: each of them is waited for.
Result<> fence(const Launchers& launchers) try {
  std::vector<Result<>> results(launchers.size());
  {
    const BlockedSignals blocked;
    std::vector<std::jthread> threads;
    threads.reserve(launchers.size());
    for (std::size_t i = 0; i < launchers.size(); ++i)
      threads.emplace_back([&, i] { results[i] = launchers[i]->fence(); });
  }
  for (Result<>& each : results)
    if (!each) return std::move(each);
  return {};
} catch (const std::system_error& error) {
  return fail(ErrorClass::other, std::string("a thread cannot be made: ") + error.what());
}

}  // namespace

Result<std::vector<ProcessAddress>> exchange(const LauncherDescriptors& launcher, const JobLayout& layout,
                                             const ProcessAddress& own) {
  auto launchers = connect(launcher);
  if (!launchers) return std::unexpected(std::move(launchers).error());
  if (launchers->empty()) return fail(ErrorClass::arg, "there is no launcher (PMI_FD)");
  launch::KeyValues& first = *launchers->front();
  ISTHMUS_TRY(first.put(address_key, own.pack()));
  ISTHMUS_TRY(fence(*launchers));
  std::vector<ProcessAddress> all;
  for (const JobLayout::Process& process : layout.processes) {
    auto text = first.get(process.first, address_key);
    if (!text) return std::unexpected(std::move(text).error());
    auto address = ProcessAddress::unpack(*text);
    if (!address)
      return fail(ErrorClass::intern, "what the process of rank " + std::to_string(process.first) +
                                          " has published is no address");
    all.push_back(std::move(*address));
  }
  for (const auto& each : *launchers)
    ISTHMUS_TRY(each->finalize());
  return all;
}

}  // namespace isthmus::vrank
