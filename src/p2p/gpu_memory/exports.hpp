#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/unique_fd.hpp"
#include "wire/gpu.hpp"

namespace isthmus {

/// What this rank and one peer know of each other's GPU memory. An export is told in full once and by its
/// number from then on: 160 bytes less in the way of a message of 8.
class GpuExports {
 public:
  /// So many offers of memory that is not open yet may wait for their receives: each keeps a descriptor.
  static constexpr std::size_t most_descriptors = 160;
  /// Allocations that are remembered to have gone through windows.
  static constexpr std::size_t most_bounced = 4096;

  /// The number under which the peer knows an allocation of this rank.
  [[nodiscard]] std::optional<std::uint32_t> number_of(std::uint64_t allocation) const noexcept {
    const auto* const found = std::ranges::find(told_, allocation);
    if (allocation == 0 || found == told_.end()) return std::nullopt;
    return static_cast<std::uint32_t>(found - told_.begin());
  }
  /// The number that the next export will have. It takes the place of the oldest.
  [[nodiscard]] std::uint32_t next_number() const noexcept { return next_; }
  /// It has been told under that number. `handed` comes first, while there may be no memory for that.
  void told(std::uint64_t allocation) noexcept {
    told_[next_] = allocation;
    next_ = (next_ + 1) % wire::told_exports;
  }
  /// The peer is about to be handed it, and may have it open from then on.
  void handed(std::uint64_t allocation) { open_.insert(allocation); }
  /// Whether the peer has been told of it at any time, and may have it open.
  [[nodiscard]] bool may_be_open(std::uint64_t allocation) const { return open_.contains(allocation); }
  /// The peer has not, or is to close it; whether it may have had it open.
  bool forget(std::uint64_t allocation) {
    std::ranges::replace(told_, allocation, std::uint64_t{0});
    refused_.erase(allocation);
    return open_.erase(allocation) != 0;
  }

  /// The peer cannot write to an allocation of this rank.
  void refuse(std::uint64_t allocation) { refused_.insert(allocation); }
  [[nodiscard]] bool is_refused(std::uint64_t allocation) const { return refused_.contains(allocation); }

  /// The peer has had a message from an allocation of this rank come through a window.
  void bounced(std::uint64_t allocation) {
    if (bounced_.size() >= most_bounced) bounced_.clear();
    bounced_.insert(allocation);
  }
  [[nodiscard]] bool has_bounced(std::uint64_t allocation) const { return bounced_.contains(allocation); }

  /// The peer has been asked to copy to this rank, and has answered.
  void asked() noexcept { ++copies_asked_for_; }
  void answered() noexcept { copies_asked_for_ -= copies_asked_for_ != 0 ? 1 : 0; }
  /// What it has not answered yet.
  [[nodiscard]] std::uint32_t copies_asked_for() const noexcept { return copies_asked_for_; }
  /// Of what is not open here: it would have been of use. True when that has been said `often` times.
  [[nodiscard]] bool missed(std::uint32_t often) noexcept {
    if (++times_missed_ < often) return false;
    times_missed_ = 0;
    return true;
  }

  /// A send of GPU memory to the peer begins; whether no other is under way. And ends.
  [[nodiscard]] bool begin_send() noexcept { return sends_under_way_++ == 0; }
  void end_send() noexcept { --sends_under_way_; }

  /// The peer has told an export. Its descriptor holds for the message that it came with and no other.
  void heard(std::uint32_t number, const wire::GpuExport& what) {
    exporter_ = what.memory.exporter;
    device_ = what.memory.device;
    heard_[number] = what;
    heard_[number].descriptor = -1;
    heard_[number].ticket = 0;
  }
  /// The descriptor that came with an export, until the memory is opened or freed. It keeps the memory as an
  /// open mapping does.
  void keep(std::uint64_t allocation, UniqueFd descriptor) {
    if (descriptor) descriptors_[allocation] = {.descriptor = std::move(descriptor), .ticket = {}};
    trim_descriptors();
  }
  /// Whether the descriptor that was left under a ticket is kept.
  [[nodiscard]] bool keeps(std::uint64_t allocation, const wire::DescriptorTicket& ticket) const {
    const auto found = descriptors_.find(allocation);
    return found != descriptors_.end() && found->second.descriptor && found->second.ticket == ticket;
  }
  [[nodiscard]] UniqueFd take_descriptor(std::uint64_t allocation) {
    const auto found = descriptors_.find(allocation);
    if (found == descriptors_.end()) return {};
    UniqueFd descriptor = std::move(found->second.descriptor);
    descriptors_.erase(found);
    return descriptor;
  }

  /// The descriptor of an export has been told and is not in the region's box yet: another process may have
  /// it in its hands. It is waited for, and what needs it, for `launch::DescriptorBox::patience`; when one
  /// has not come in that time, nothing is waited for any more from this peer. False then.
  bool await(std::uint64_t allocation, const wire::DescriptorTicket& ticket,
             std::chrono::steady_clock::time_point now) {
    if (gave_up_) return false;
    awaited_[allocation] = {ticket, now};
    if (awaited_.size() > most_descriptors) awaited_.erase(awaited_.begin());
    return true;
  }
  [[nodiscard]] bool awaits(std::uint64_t allocation) const { return awaited_.contains(allocation); }
  /// Also of memory that has been freed since.
  [[nodiscard]] bool awaits_any() const noexcept { return !awaited_.empty() || !unwanted_.empty(); }
  /// Whether what the peer has told is waited for, or that has been in vain.
  [[nodiscard]] bool may_wait() const noexcept { return !gave_up_; }
  /// From now on nothing is waited for any more from this peer.
  void give_up() noexcept {
    awaited_.clear();
    unwanted_.clear();
    gave_up_ = true;
  }
  /// Keeps the descriptor of an export if `take` finds it, which is not awaited any more then.
  template <class Take>
  bool look_for(std::uint64_t allocation, const wire::DescriptorTicket& ticket, Take take) {
    if (!fetch(allocation, ticket, take)) return false;
    awaited_.erase(allocation);
    return true;
  }
  /// Keeps those that `take` finds, and gives up when their time is over.
  template <class Take>
  void look_for_awaited(std::chrono::steady_clock::time_point now, std::chrono::milliseconds patience,
                        Take take) {
    std::erase_if(awaited_, [&](const auto& each) { return fetch(each.first, each.second.ticket, take); });
    const auto is_late = [&](const Awaited& each) { return now - each.since >= patience; };
    std::erase_if(unwanted_,
                  [&](const Awaited& each) { return static_cast<bool>(take(each.ticket)) || is_late(each); });
    if (std::ranges::any_of(awaited_, [&](const auto& each) { return is_late(each.second); })) give_up();
  }
  /// The peer has handed over an export otherwise than by a message.
  void heard_from(const Export& what) {
    exporter_ = what.exporter;
    device_ = what.device;
  }
  /// What the peer has told under a number; exporter 0: nothing.
  [[nodiscard]] const wire::GpuExport& heard(std::uint32_t number) const noexcept { return heard_[number]; }
  /// The peer, as its exports name it; 0 before the first.
  [[nodiscard]] std::uint64_t exporter() const noexcept { return exporter_; }
  /// It has freed one of its allocations.
  void heard_freed(std::uint64_t allocation) {
    unreachable_.erase(allocation);
    descriptors_.erase(allocation);
    // Who has it in its hands puts it back: nobody else would take it out of the box, where it keeps the
    // memory.
    if (const auto found = awaited_.find(allocation); found != awaited_.end()) {
      if (unwanted_.size() >= most_descriptors) unwanted_.erase(unwanted_.begin());
      unwanted_.push_back(found->second);
      awaited_.erase(found);
    }
    for (wire::GpuExport& each : heard_)
      if (each.memory.allocation == allocation) each = {};
  }

  /// Why memory of a kind was refused the last time: the peer's here, or this rank's there. Empty where none
  /// was.
  enum class Whose : std::uint8_t { peers, own };
  void note(Whose whose, ExportKind kind, std::string why) { reason(whose, kind) = std::move(why); }
  [[nodiscard]] const std::string& why_refused(Whose whose, ExportKind kind) const {
    return const_cast<GpuExports*>(this)->reason(whose, kind);
  }
  /// The GPU of the last export that the peer has told; all zero before the first.
  [[nodiscard]] const cuda::Uuid& device() const noexcept { return device_; }

  /// This rank's device cannot open windows of that GPU of the peer.
  void refuse_windows(const cuda::Uuid& of, cuda::Device local, std::string why) {
    if (!are_windows_refused(of, local)) refused_windows_.emplace_back(of, local);
    why_no_window_ = std::move(why);
  }
  [[nodiscard]] bool are_windows_refused(const cuda::Uuid& of, cuda::Device local) const {
    return std::ranges::find(refused_windows_, std::pair(of, local)) != refused_windows_.end();
  }
  /// The last time.
  [[nodiscard]] const std::string& why_no_window() const noexcept { return why_no_window_; }

  /// The driver has refused to open an allocation of the peer.
  void cannot_reach(std::uint64_t allocation) { unreachable_.insert(allocation); }
  [[nodiscard]] bool is_unreachable(std::uint64_t allocation) const {
    return unreachable_.contains(allocation);
  }
  /// What the driver has refused before it may open now.
  void try_again() noexcept { unreachable_.clear(); }

 private:
  struct Kept {
    UniqueFd descriptor;
    wire::DescriptorTicket ticket{};
  };

  struct Awaited {
    wire::DescriptorTicket ticket{};
    std::chrono::steady_clock::time_point since{};
  };

  /// There is a place for it before it is taken, so that none is lost for want of memory.
  template <class Take>
  bool fetch(std::uint64_t allocation, const wire::DescriptorTicket& ticket, Take& take) {
    Kept& kept = descriptors_[allocation];
    UniqueFd descriptor = take(ticket);
    const bool is_here = static_cast<bool>(descriptor);
    if (is_here) kept = {.descriptor = std::move(descriptor), .ticket = ticket};
    if (!kept.descriptor) descriptors_.erase(allocation);
    trim_descriptors();
    return is_here;
  }
  void trim_descriptors() noexcept {
    if (descriptors_.size() > most_descriptors) descriptors_.erase(descriptors_.begin());
  }
  std::string& reason(Whose whose, ExportKind kind) {
    return reasons_[static_cast<std::size_t>(whose)][static_cast<std::size_t>(kind) % reasons_[0].size()];
  }

  std::array<std::uint64_t, wire::told_exports> told_{};
  std::uint32_t next_ = 0;
  std::unordered_set<std::uint64_t> open_;
  std::unordered_set<std::uint64_t> refused_;
  std::unordered_set<std::uint64_t> bounced_;
  std::unordered_set<std::uint64_t> unreachable_;
  std::uint64_t exporter_ = 0;
  std::uint32_t sends_under_way_ = 0;
  std::uint32_t copies_asked_for_ = 0;
  std::uint32_t times_missed_ = 0;
  std::array<wire::GpuExport, wire::told_exports> heard_{};
  std::map<std::uint64_t, Kept> descriptors_;  ///< by allocation, the oldest first
  std::map<std::uint64_t, Awaited> awaited_;   ///< by allocation
  std::vector<Awaited> unwanted_;              ///< of memory that was freed meanwhile: to be closed
  bool gave_up_ = false;
  std::array<std::array<std::string, 4>, 2> reasons_;  ///< by whose it is and kind
  cuda::Uuid device_{};
  std::vector<std::pair<cuda::Uuid, cuda::Device>> refused_windows_;
  std::string why_no_window_;
};

}  // namespace isthmus
