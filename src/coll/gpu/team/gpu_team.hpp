#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "coll/area/patience.hpp"
#include "coll/gpu/team/offer.hpp"
#include "coll/gpu/team/rooms.hpp"
#include "coll/gpu/team/table.hpp"
#include "coll/select/select.hpp"
#include "coll/team/team.hpp"
#include "gpu/copy/queue.hpp"
#include "gpu/memory/device_pool.hpp"
#include "p2p/protocol/gpu/messages.hpp"

namespace isthmus::coll {

/// A buffer of this member in a collective.
struct GpuPart {
  Payload payload;       ///< no bytes: there is none
  bool offered = false;  ///< others read or write it
  /// Of what is sent: it is overwritten while others still read it, so that they are offered a copy.
  bool staged = false;
};

/// A collective as one member calls it, with what all must agree on.
struct GpuCall {
  Collective collective;
  int root = 0;
  std::uint64_t bytes = 0;  ///< as in `Question`
  /// Bytes of the longest block that goes from one member to another, as far as this one knows.
  std::uint64_t longest = 0;
  GpuPart send, receive;
  bool in_place = false;
  bool needs_kernels = false;
  /// Of the send sides only the root's has to be within everybody's reach. The others' are of use where all
  /// of them are (`GpuView::all_send`).
  bool root_is_enough = false;
  /// Where members send what differs from one to the other: where each one's begins, at the sender.
  const GpuBegins* begins = nullptr;
  bool barred = false;  ///< this member knows that it cannot
  /// This member's part, where kernels may meet for it (`GpuRooms`); no bytes: they may not. All members have
  /// one, or none has.
  kernel::MeetOrder order{};
  /// It is worth while by couriers alone: else one member's GPU does it sooner, which reads the root's memory
  /// or writes to it (2 x H100, 8 B bcast: 4.6 us by couriers, 9.2 by kernels that meet, 8.1 where one
  /// reads).
  bool is_for_couriers = false;
};

/// What all members have offered for one collective.
struct GpuView {
  std::array<GpuOffer, flat_ranks> offers{};
  /// Where what is for this member begins in each one's send side.
  std::array<std::uint64_t, flat_ranks> begins{};
  cuda::Device device = cuda::no_device;  ///< of this member
  bool has_kernels = true;                ///< all members have
  bool in_place = false;                  ///< for some member
  bool all_send = true;                   ///< every member has offered a send side, which all reach
  /// What members send goes through windows, of which `offers` tell: as `GpuRounds` does, and not otherwise.
  bool by_window = false;
  std::uint64_t half_window = 0;  ///< bytes; of the smallest
  std::uint64_t longest = 0;      ///< as in `GpuCall`, of all members
};

/// Whether collectives reach a buffer of the caller; else a warning has said why not. `self`: the caller.
bool is_in_reach(GpuMessages& gpu, PeerId self, const Buffer& buffer);

/// Of `GpuTeam::meet_on_gpu`: nothing where it has to go otherwise.
using MetOnGpu = std::optional<Result<>>;

/// What the members of a team need to copy between each other's GPU memory. Each names its allocations once;
/// all others open them and say whether they could; from then on a call exchanges one cache line a member.
/// Where anybody's buffer cannot be handed on, or is refused to anybody, all of them copy through windows.
/// Where it is not in GPU memory, or windows are refused, too, all of them know it, and use their hosts'
/// memory.
class GpuTeam final : public GpuDependent {
 public:
  GpuTeam(Team& team, GpuMessages& gpu);
  GpuTeam(const GpuTeam&) = delete;
  GpuTeam& operator=(const GpuTeam&) = delete;
  ~GpuTeam() override;

  /// Has the GPUs do a short collective by orders, where all members have rooms (`GpuRooms`) and can now: the
  /// hosts meet once, before that. Collective.
  MetOnGpu meet_on_gpu(const GpuCall& call);
  /// A collective has gone otherwise for which kernels could have met: makes rooms once there have been
  /// several. Collective.
  void saw_short(const GpuCall& call);

  /// Asks all members whether this collective can go between their GPUs, and where; nothing: it cannot. After
  /// a view, `end` must be called, whatever happens. Collective.
  Result<std::optional<GpuView>> begin(const GpuCall& call);
  /// Where the first `bytes` bytes that a member offered are in this process. An error if it is not what the
  /// member has handed over.
  Result<std::byte*> send_of(const GpuView& view, int rank, std::uint64_t bytes) {
    return place_of(rank, view.offers[static_cast<std::size_t>(rank)].send, 0, bytes);
  }
  Result<std::byte*> receive_of(const GpuView& view, int rank, std::uint64_t bytes) {
    return place_of(rank, view.offers[static_cast<std::size_t>(rank)].receive, 0, bytes);
  }
  /// `bytes` bytes of the window that a member has offered, from byte `begin` on; as `send_of`.
  Result<std::byte*> window_of(const GpuView& view, int rank, std::uint64_t begin, std::uint64_t bytes) {
    return place_of(rank, view.offers[static_cast<std::size_t>(rank)].send, begin, bytes);
  }
  /// The same for what is for this member, where each gets its own.
  Result<std::byte*> own_of(const GpuView& view, int rank, std::uint64_t bytes) {
    const auto at = static_cast<std::size_t>(rank);
    return place_of(rank, view.offers[at].send, view.begins[at], bytes);
  }
  /// All members are as far as this one; the first error of any member. Collective.
  Result<> meet(const GpuCall& call, Result<> done);
  /// All members have done their parts, so that buffers may be reused; the first error of any member.
  /// Collective.
  Result<> end(const GpuCall& call, Result<> done);

  [[nodiscard]] Team& team() const noexcept { return team_; }
  /// Of this member alone, as of the last `begin`.
  [[nodiscard]] bool has_kernels() const noexcept { return has_kernels_; }
  [[nodiscard]] GpuMessages& gpu() const noexcept { return *gpu_; }
  /// Streams of the device that the last `begin` found, from 0; made when first asked for. The device's
  /// context must be current.
  Result<GpuQueue*> queue(std::size_t index);

  void release() noexcept override;
  void forget(std::uint64_t exporter, std::uint64_t allocation) noexcept override;

 private:
  /// What this member has to say, with the descriptors of fresh exports, which others fetch until they have
  /// given their verdict.
  struct Said {
    GpuOffer offer;
    GpuSaid more;
    std::array<UniqueFd, 2> descriptors;
  };
  /// All members' offers.
  struct Heard {
    std::array<GpuOffer, flat_ranks> offers;
    std::array<GpuFresh, flat_ranks> fresh;
    std::array<std::array<UniqueFd, 2>, flat_ranks> descriptors;  ///< of what is fresh, send and receive
    GpuBegins begins{};                                           ///< for this member
    bool all_take_part = true;
    bool any_fresh = false;
    bool any_forgets = false;
    bool any_by_window = false;
    bool any_not_by_window = false;
    bool all_may_use_windows = true;

    [[nodiscard]] bool is_by_window() const noexcept { return any_by_window && !any_not_by_window; }
    [[nodiscard]] bool is_mixed() const noexcept { return any_by_window && any_not_by_window; }
  };

  /// `by_window`: some member has to copy through windows.
  Said prepare(const GpuCall& call, bool by_window);
  /// Each false where a window is refused to somebody, who has told why.
  Result<bool> offer_buffers(const GpuCall& call, std::array<Buffer, 2>& buffers, Said& said);
  Result<bool> offer_window(const GpuCall& call, Said& said);
  [[nodiscard]] bool locate(const GpuCall& call, std::array<Buffer, 2>& buffers);
  /// Whether others read what this member sends.
  [[nodiscard]] bool is_read(const GpuCall& call) const;
  /// Whether a buffer can be handed to all others, as far as is known.
  [[nodiscard]] bool can_be_named(const Buffer& buffer);
  /// Memory for a copy of what this member sends, until `end`.
  Result<Buffer> reserve(std::uint64_t bytes, cuda::Device device);
  Result<> name(const Buffer& buffer, GpuSide& side, wire::GpuExport& fresh, UniqueFd& descriptor);
  Result<Heard> exchange(const GpuCall& call, const Said& said);
  /// Opens what is fresh; which members' cannot be reached from here.
  GpuVerdict open_fresh(Heard& heard);
  bool open(int rank, const GpuSide& side, const wire::GpuExport& from, UniqueFd descriptor);
  Result<> exchange(const GpuCall& call, const Heard& heard, GpuVerdict verdict);
  /// Of `meet_on_gpu`: whether this member can.
  [[nodiscard]] bool can_obey(const GpuCall& call);
  Result<> carry_out(const GpuCall& call, bool by_courier, GpuQueue& where);
  /// Runs `body(queue)` in the device's context.
  template <class Body>
  Result<> on_first_queue(Body body);
  /// Makes this member's room, and has all others' open; whether all members have all. Collective.
  bool make_rooms();
  Result<> make_own_room();
  Result<> open_rooms(const GpuView& view);
  /// What all agree on; nothing: some member cannot reach what it has to.
  std::optional<GpuView> view_of(const GpuCall& call, const Heard& heard);
  /// Says why this goes by way of the hosts, as far as this member has found it.
  std::nullopt_t by_hosts();
  void refuse(int rank, const GpuSide& side);
  [[nodiscard]] bool is_refused(int rank, const GpuSide& side);
  void drop_queues() noexcept;
  void give_up(const Said& said, const Heard& heard);
  Result<std::byte*> place_of(int rank, const GpuSide& side, std::uint64_t begin, std::uint64_t bytes);

  Team& team_;
  GpuMessages* gpu_;  ///< null once it has ended
  std::vector<GpuTable> tables_;
  cuda::Device device_ = cuda::no_device;  ///< that mappings are for
  cuda::ContextLife life_ = 0;
  bool has_kernels_ = false;
  std::vector<std::unique_ptr<GpuQueue>> queues_;
  std::unique_ptr<DevicePool> pool_;  ///< null before anything was staged
  DeviceBuffer staged_;
  /// Short collectives that have gone otherwise, before there were rooms.
  unsigned short_calls_ = 0;
  std::unique_ptr<GpuRooms> rooms_;
  bool rooms_have_failed_ = false;  ///< some member's GPU has, in a round
  std::uint64_t rooms_made_ = 0;    ///< how often they have been, or could not be
  Patience room_patience_;
  Patience courier_patience_;                      ///< of calls that are for couriers alone
  WindowTable::Lent window_;                       ///< from `begin` to `end`
  std::vector<std::pair<PeerId, Error>> reasons_;  ///< of the call under way
};

}  // namespace isthmus::coll
