#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "base/ref.hpp"
#include "device/port.hpp"
#include "gpu/memory/mapping.hpp"
#include "kernels/body/mail.hpp"
#include "kernels/body/meet/arguments.hpp"
#include "stream/operation.hpp"

namespace isthmus::stream {

/// What the members of a communicator with a stream meet by, where their GPUs all reach each other: a room in
/// the memory of each (`kernel::meet_room_bytes`), and the port that lets go of kernels that wait when a
/// member dies. A communicator has one, kernels in a captured graph keep it. Who holds the last reference
/// frees memory of the GPU: that is to be no stream's thread, and no call while a stream waits for a message.
class Board final : public RefCounted {
 public:
  /// The most members that it serves.
  static constexpr int most_members = static_cast<int>(kernel::meet_members);

  /// `has_mail`: rooms for short messages lie behind those for collectives. `has_gpu_each`: no two members
  /// are on one GPU.
  Board(std::shared_ptr<device::Port> port, std::vector<std::shared_ptr<const Mapping>> mappings,
        bool has_mail, bool has_gpu_each)
      : port_(std::move(port)),
        mappings_(std::move(mappings)),
        has_mail_(has_mail),
        has_gpu_each_(has_gpu_each) {}

  [[nodiscard]] device::Port& port() const noexcept { return *port_; }
  /// Who meets where; nothing is sent yet.
  [[nodiscard]] kernel::MeetArguments arguments() const noexcept;

  /// Whether short messages go by kernels that match them, all of the communicator's.
  [[nodiscard]] bool has_mail() const noexcept { return has_mail_; }
  /// Whether kernels of all members run at the same time: they do not where they share a GPU.
  [[nodiscard]] bool has_gpu_each() const noexcept { return has_gpu_each_; }
  /// To or from that rank; without data.
  [[nodiscard]] kernel::MailArguments mail(int peer, int tag) const noexcept;
  /// What a kernel has noted since it was asked last, or why no kernel waits any more.
  Result<> check() const;
  /// Receives of short messages that no wait has been put on the stream for, in their order.
  std::vector<Ref<Enqueued>> posted;

 private:
  const std::shared_ptr<device::Port> port_;
  const std::vector<std::shared_ptr<const Mapping>> mappings_;  ///< of the others' rooms
  const bool has_mail_;
  const bool has_gpu_each_;
};

}  // namespace isthmus::stream
