// The host's half of a fused kernel (common/gpu/fused.hpp): where this MPI has <isthmus/device.hpp>.
#pragma once

#include <mpi.h>
#include <isthmus/device.hpp>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <vector>

#include "common/gpu/engine.hpp"
#include "common/gpu/fused.hpp"
#include "common/member.hpp"

namespace apps::gpu {

// A neighbour, -1 for none, and the number that this route has among those of the neighbour.
struct MailRoute {
  int rank;
  int theirs;
};

// So many tasks, of about `each` points, up to `most`.
inline unsigned tasks_for(long points, long each, unsigned most) {
  return std::clamp(static_cast<unsigned>((points + each - 1) / each), 1U, most);
}

// One kernel of the application, and the port that it sends by. Its work has a `port` and a `fusion`.
class FusedKernel {
 public:
  // Collective; the engine is borrowed. `mails`, `routes`: how many there are at most, of each. Throws
  // std::runtime_error where there are no kernels, isthmus::device::Error where there is no such port.
  FusedKernel(const Engine& engine, MPI_Comm comm, const char* name, unsigned roles, int most_steps,
              unsigned mails, int routes)
      : engine_(engine),
        comm_(comm),
        roles_(roles),
        signals_(mails * KernelMail::turn_count * static_cast<unsigned>(routes) * KernelMail::most_parts),
        kernel_(engine.device().kernel(name)),
        port_(comm, signals_),
        state_(engine, isthmus::device::fusion_bytes(static_cast<unsigned>(most_steps), roles)) {}
  FusedKernel(const FusedKernel&) = delete;
  FusedKernel& operator=(const FusedKernel&) = delete;
  // Collective.
  ~FusedKernel() { engine_.wait(); }

  // For messages of up to so many bytes, cut into parts of about `part_bytes`. Collective: the longest
  // message of any process counts.
  [[nodiscard]] KernelMail mail(const std::vector<MailRoute>& routes, std::size_t bytes,
                                std::size_t part_bytes) {
    unsigned long long longest = bytes;
    MPI_Allreduce(MPI_IN_PLACE, &longest, 1, MPI_UNSIGNED_LONG_LONG, MPI_MAX, comm_);
    KernelMail mail{};
    mail.routes = static_cast<int>(routes.size());
    for (std::size_t i = 0; i < routes.size(); ++i) {
      mail.peers[i] = routes[i].rank;
      mail.theirs[i] = routes[i].theirs;
    }
    constexpr unsigned long long alignment = 256;
    mail.place_bytes = (std::max(longest, 1ULL) + alignment - 1) / alignment * alignment;
    mail.parts = tasks_for(static_cast<long>(longest), static_cast<long>(part_bytes), KernelMail::most_parts);
    mail.first_signal = next_signal_;
    next_signal_ += KernelMail::turn_count * static_cast<unsigned>(mail.routes) * mail.parts;
    if (next_signal_ > signals_ || routes.size() > KernelMail::most_routes)
      throw std::runtime_error("the form 'kernel' has too few signals for so many neighbours");
    memories_.push_back(
        std::make_unique<Buffer<char>>(engine_, mail.place(KernelMail::turn_count, false, 0)));
    mail.memory = memories_.back()->data();
    mail.share = port_.share(mail.memory, memories_.back()->bytes());
    return mail;
  }
  // Whether kernels of all processes store into all of these. The same on all.
  [[nodiscard]] bool reaches_all(const KernelMail& mail) const {
    int ranks = 0;
    MPI_Comm_size(comm_, &ranks);
    bool all = true;
    for (int rank = 0; rank < ranks; ++rank)
      all = all && port_.reaches(mail.share, rank);
    return on_all(all, comm_);
  }
  // In the order of the stream: `work.fusion.steps` steps of `work.fusion.tasks`. Any number of blocks will
  // do.
  template <class Work>
  void launch(Work work, unsigned most_blocks) const {
    work.port = isthmus::device::DevicePort(port_.view());
    work.fusion.state = reinterpret_cast<isthmus::device::FusionState*>(state_.data());
    work.fusion.roles = roles_;
    const auto most = static_cast<unsigned>(work.fusion.tasks_of_step());
    engine_.device().launch(kernel_, {std::min(most, most_blocks), 1, 1}, {Engine::block_threads, 1, 1},
                            work);
  }
  // Throws where a kernel was refused something, or a process has died.
  void check() const { port_.check(); }

 private:
  const Engine& engine_;
  MPI_Comm comm_;
  const unsigned roles_;
  const unsigned signals_;
  unsigned next_signal_ = 0;
  Kernel kernel_;
  isthmus::device::Port port_;
  Buffer<char> state_;
  std::vector<std::unique_ptr<Buffer<char>>> memories_;
};

}  // namespace apps::gpu
