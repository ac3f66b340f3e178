#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/rank_turns.hpp"
#include "base/settings.hpp"
#include "base/unique_fd.hpp"
#include "launch/launcher/key_values.hpp"
#include "launch/meeting/meeting.hpp"
#include "launch/region/life_line.hpp"
#include "launch/region/shared_region.hpp"
#include "launch/visit/descriptor_box.hpp"
#include "place/place.hpp"
#include "wire/region.hpp"

namespace isthmus::launch {

/// What a rank knows once it has joined its job.
struct Job {
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
  bool singleton = true;    ///< started without a launcher: a job of one rank
  bool in_process = false;  ///< all ranks are threads of this process: `local_jobs`
  std::uint32_t slot = 0;   ///< this process's in `region`
  /// Ranks of the processes that share `region`, by slot, ascending: this one and its peers on this host.
  std::vector<std::uint32_t> members;
  std::string name;                     ///< the job's, for messages
  std::string host;                     ///< this host, as the launcher saw it
  std::shared_ptr<KeyValues> launcher;  ///< null where our own mpiexec needs none: all share the region
  std::vector<Refusal> refusals;        ///< why processes of the same kernel share no memory with this one
  wire::RegionView region;
  std::shared_ptr<const SharedMapping> mapping;  ///< keeps `region` valid
  std::string device;                            ///< the ivshmem device that `region` lies in, empty for none
  /// The region that the launcher made for this process and others, where they have met more of them in
  /// `region`.
  std::optional<wire::RegionView> inherited = std::nullopt;
  std::shared_ptr<const SharedMapping> inherited_mapping = nullptr;  ///< keeps `inherited` valid
  UniqueFd region_fd;                            ///< empty but for the first of `local_jobs`
  std::shared_ptr<DescriptorBox> box = nullptr;  ///< of all who share `region`; null for none
  /// By which others see that this process lives; null where the region is no file, or cannot be opened anew.
  std::shared_ptr<const LifeLine> life = nullptr;
  /// Processors for this rank's own helping threads, where our own mpiexec has bound the ranks and some are
  /// left.
  CpuSet spare_cpus = {};
  RankTurns* turns = nullptr;  ///< of this rank, where its process has several; null: it is the only one

  /// This rank is about to go on in another process of its host: lets go of what the kernel keeps for it in
  /// this one. Nobody may look who lives meanwhile.
  void leave_process() noexcept;
  /// And has the same in the process where it is.
  Result<> enter_process();
  /// Where ranks may go on on other hosts: how this process reaches these; null for all other jobs. Each rank
  /// has the slot of its number then, in the region of the host where it is.
  [[nodiscard]] HostLines* lines() const noexcept { return turns ? turns->lines() : nullptr; }
  /// And it has come to another host.
  void enter_host();
  [[nodiscard]] bool on_one_host() const noexcept { return members.size() == size && !lines(); }
  /// A number that the ranks of this host have in common, and no others.
  [[nodiscard]] std::uint32_t host_number() const noexcept {
    return lines() ? lines()->own_host() : members.front();
  }
  /// How many ranks share `region` now.
  [[nodiscard]] std::size_t ranks_here() const noexcept {
    return lines() ? lines()->ranks_here() : members.size();
  }
  /// Where our own mpiexec says which kind of job it is, and whom it has seen end.
  [[nodiscard]] const wire::RegionView& notices() const noexcept { return inherited ? *inherited : region; }
  /// Slot of process `other`; nothing where it does not share the region.
  [[nodiscard]] std::optional<std::uint32_t> slot_of(std::uint32_t other) const noexcept;
  /// Whether process `other` could share the region, on the same kernel, and does not.
  [[nodiscard]] bool refused_to_share(std::uint32_t other) const noexcept;
  /// Why process `rank` does not share the region, in words for people.
  [[nodiscard]] std::string why_apart(std::uint32_t other) const;
};

/// A value in this process that peers read to find out whether process_vm_readv reaches it.
struct Probe {
  std::uint64_t address = 0;
  std::uint64_t nonce = 0;
};

/// `turns`: of the ranks of this process, where it has several; null for a process that is one rank.
/// Joins the job that the launcher's variables name, or makes a job of one rank where there are none. With a
/// launcher of several hosts the processes find out who shares memory with whom (launch/meeting/meeting.hpp);
/// that is collective, all else is not. Publishes this process's `PlaceRecord` with `probe` in it, and then
/// sets its roster byte to `joined`. The variables and the descriptor are kept from programs that this
/// process will start: they are singletons again. To be called once a process, before it has other threads
/// that read the environment.
///
/// Fails with a sentence for the user: on variables that are incomplete or make no sense, on a region of
/// another release, and when the rank has been joined already (two MPI programs in one shell command).
Result<Job> join(const Settings& settings = {}, const Probe& probe = {}, RankTurns* turns = nullptr);

/// A job of `ranks` ranks that are all in this process, for tests that run ranks as threads. One mapping
/// serves all, so that a race detector sees their accesses meet. All are `joined`.
Result<std::vector<Job>> local_jobs(std::uint32_t ranks, wire::RingGeometry geometry,
                                    wire::IdlePolicy idle = wire::IdlePolicy::sleep);

}  // namespace isthmus::launch
