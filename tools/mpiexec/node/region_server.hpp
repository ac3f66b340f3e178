#pragma once

#include <expected>
#include <list>
#include <string>

#include "base/unique_fd.hpp"
#include "launch/visit/visit.hpp"
#include "streams/attendant.hpp"
#include "wire/region.hpp"

namespace isthmus::mpiexec {

/// Gives the region's descriptor, and its box's, to ranks in containers that ask for it on a socket and prove
/// to have the job's key
/// (`launch/visit/region_socket.hpp`). The socket lies in a folder of its own, which goes with this object.
class RegionServer final : public Attendant {
 public:
  /// Makes the folder below `parent` and listens in it. A sentence on failure.
  static std::expected<RegionServer, std::string> listen(const std::string& parent);
  RegionServer(RegionServer&& other) noexcept;
  RegionServer& operator=(RegionServer&&) = delete;
  ~RegionServer() override;

  [[nodiscard]] const std::string& folder() const noexcept { return folder_; }
  [[nodiscard]] std::string socket_path() const { return folder_ + '/' + socket_name; }
  /// From now on it answers, with `region` and, if it is not -1, `box`: both stay the caller's.
  void serve(int region, int box, const wire::JobKey& key);

  void prepare(std::vector<pollfd>& waited_for) const override;
  void react() override;
  [[nodiscard]] std::optional<Clock::time_point> deadline() const override;

 private:
  struct Connection {
    UniqueFd socket;
    Clock::time_point end;  ///< of our patience
    launch::Reception reception;
  };
  static constexpr const char* socket_name = "region";
  RegionServer(std::string folder, UniqueFd handle)
      : folder_(std::move(folder)), handle_(std::move(handle)) {}
  [[nodiscard]] bool is_done(Connection& connection) const;

  std::string folder_;
  UniqueFd handle_;  ///< of the folder
  UniqueFd listener_;
  int region_ = -1;
  int box_ = -1;
  wire::JobKey key_{};
  std::list<Connection> connections_;
};

}  // namespace isthmus::mpiexec
