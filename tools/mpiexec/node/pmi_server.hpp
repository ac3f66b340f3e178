#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.hpp"
#include "node/order.hpp"
#include "streams/attendant.hpp"

namespace isthmus::mpiexec {

/// Version 1.1 of MPICH's process management interface, for the ranks of this host: lines of `name=value` on
/// a socket that each rank inherits (PMI_FD). What ranks put is seen by others after a barrier.
class PmiServer final : public Attendant {
 public:
  struct Job {
    std::string name;
    std::uint32_t first_rank, world, universe;
    std::string mapping;
    bool outlive = false;  ///< barriers do without ranks that have died
    /// All ranks here are in a barrier and have put these; `release` is to follow. Null if there are no
    /// others.
    std::function<void(const Pairs&)> barrier;
    std::function<void(std::uint32_t slot, int code)> abort;
  };
  explicit PmiServer(Job job) : job_(std::move(job)) {}

  /// The end for the next rank, close-on-exec; an errno on failure.
  std::expected<UniqueFd, int> add(std::int32_t appnum);
  /// Whether the rank has come and not said goodbye.
  [[nodiscard]] bool left_open(std::uint32_t slot);
  /// Whether it has said goodbye.
  [[nodiscard]] bool has_left(std::uint32_t slot);
  /// All ranks of the job are in the barrier.
  void release(const Pairs& pairs);

  void prepare(std::vector<pollfd>& waited_for) const override;
  void react() override;

 private:
  struct Client {
    UniqueFd socket;
    std::int32_t appnum;
    std::string received{};
    std::string unsent{};
    bool in_barrier = false;
    bool open = false;
    bool has_left = false;
  };
  void read(std::uint32_t slot);
  void answer(std::uint32_t slot, std::string_view line);
  void reply(Client& client, const std::string& line);
  void enter_barrier(Client& client);
  void leave_barrier_if_all_here();
  static void write(Client& client);

  Job job_;
  std::vector<Client> clients_;
  bool is_reported_ = false;  ///< that all are in the barrier
  Pairs put_;                 ///< since the last barrier, by ranks here
  Pairs common_;              ///< what everybody sees
};

}  // namespace isthmus::mpiexec
