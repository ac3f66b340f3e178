// Collectives between emulated GPUs, all but one of whose members write what the input says into what they
// share: their lines, their tables of GPU memory, and the box of descriptors.
#include "arenas.hpp"
#include "coll/gpu/team/offer.hpp"
#include "collectives.hpp"

namespace isthmus {
namespace {

using fuzz::Gpus;

unsigned handles_at_start = 0;

/// Of GPUs, and sometimes of the host.
class GpuMemory final : public fuzz::Memory {
 public:
  explicit GpuMemory(fuzz::Input& input) : input_(input) {}

  std::byte* take(std::uint64_t bytes, bool is_sent) override {
    const Gpus::Kind kinds[]{Gpus::plain,       Gpus::plain,     Gpus::vmm,       Gpus::vmm,
                             Gpus::closed_pool, Gpus::open_pool, Gpus::other_gpu, Gpus::managed};
    // A member's data lies on one GPU, mostly.
    if (!kind_ || input_.below(4) == 0) kind_ = input_.pick(kinds);
    if (input_.below(16) != 0) return arenas_.take(*kind_, bytes, is_sent);
    if (bytes > (8U << 20U)) return nullptr;
    return host_.emplace_back(std::make_unique<std::byte[]>(bytes)).get();
  }
  void check() { arenas_.check(handles_at_start); }

 private:
  fuzz::Input& input_;
  std::optional<Gpus::Kind> kind_;
  fuzz::Arenas arenas_;
  std::vector<std::unique_ptr<std::byte[]>> host_;
};

/// Members that have GPUs, too.
class GpuMembers final : public fuzz::Members {
 public:
  GpuMembers(fuzz::Input& input, std::uint32_t count, std::uint32_t self, const Settings& settings)
      : Members(input, count, self, settings) {
    // The engine's own descriptors are not in the box for itself: it waits for a second.
    repeats_one_in_ = 250;
  }

 private:
  void appear(coll::Presence& presence) override {
    if (input().below(32) != 0) presence.gpu_since.store(1);
  }
  void speak(int member, std::span<std::byte> line, std::span<std::byte> slot) override {
    const unsigned how = input().below(16);
    if (how == 0) {
      Members::speak(member, line, slot);
      // Of what has been taken already: it would be waited for, for a second.
      if (input().below(250) != 0) std::memset(slot.data(), 0, sizeof(coll::GpuFresh));
      return;
    }
    if (how == 1) return offer(member, line, slot);
    coll::GpuOffer offer;
    coll::GpuSaid said{};
    offer.takes_part = offer.has_kernels = 1;
    // Its first bytes are zeros: so it also says that all could be opened, and that the GPU has done its
    // part.
    const bool is_known = std::exchange(named_[static_cast<std::size_t>(member)], true) || how == 2;
    offer.send = {.offset = 0, .entry = 0, .fresh = is_known ? std::uint8_t{0} : std::uint8_t{1}};
    offer.receive = {.offset = how * 64, .entry = 1, .fresh = offer.send.fresh};
    offer.windows = how < 9 ? coll::GpuWindowUse::possible : coll::GpuWindowUse::used;
    if (how >= 9) {
      offer.window = static_cast<std::uint16_t>(how < 12 ? 32 : 2);
      offer.receive = {};
    }
    offer.has_begins = how % 2;
    if (offer.send.fresh != 0) said.fresh = {lend(member, input().below(4)), lend(member, input().below(4))};
    std::memcpy(line.data(), &offer, sizeof offer);
    std::memcpy(slot.data(), &said, std::min(sizeof said, slot.size()));
  }
  /// A member that says anything that has the form of an offer.
  void offer(int member, std::span<std::byte> line, std::span<std::byte> slot) {
    coll::GpuOffer offer;
    coll::GpuSaid said{};
    offer.takes_part = input().below(16) != 0;
    offer.forgets = input().below(16) == 0;
    offer.has_kernels = input().below(4) != 0;
    offer.in_place = input().below(4) == 0;
    offer.has_begins = input().below(3) != 0;
    offer.windows = static_cast<coll::GpuWindowUse>(input().below(5));
    offer.window =
        static_cast<std::uint16_t>(input().below(4) == 0 ? input().take<std::uint16_t>() : input().below(64));
    offer.longest = input().below(8) != 0 ? input().below(256) * 1000 : input().take<std::uint64_t>();
    offer.send = side(said.fresh.send, member);
    offer.receive = side(said.fresh.receive, member);
    for (std::uint64_t& begin : said.begins)
      begin = input().below(8) != 0 ? input().below(4) * 64 : input().take<std::uint64_t>();
    std::memcpy(line.data(), &offer, sizeof offer);
    std::memcpy(slot.data(), &said, std::min(sizeof said, slot.size()));
  }
  coll::GpuSide side(wire::GpuExport& fresh, int member) {
    const std::uint64_t offsets[]{0, 0, 64, 4096, Gpus::lent_bytes, Gpus::arena_bytes - 16};
    coll::GpuSide side;
    side.offset = input().below(16) != 0 ? input().pick(offsets) : input().take<std::uint64_t>();
    side.entry = static_cast<std::uint8_t>(input().below(16) != 0 ? input().below(4) : input().below(256));
    side.fresh = input().below(2);
    if (side.fresh == 0) return side;
    fresh = lend(member + (input().below(8) == 0 ? 1 : 0), input().below(4));
    if (input().below(8) == 0) fresh.memory.room = input().take<std::uint64_t>();
    return side;
  }
  /// What a member has of GPU memory, with a descriptor in the box or at a process that can be asked.
  wire::GpuExport lend(int member, unsigned which) {
    const auto& lent = Gpus::get().lent();
    which %= static_cast<unsigned>(lent.size());
    wire::GpuExport fresh{.memory = lent[which].memory, .descriptor = -1, .ticket = 0};
    fresh.memory.exporter = 0x7001U + 2 * static_cast<unsigned>(member);
    fresh.memory.allocation = 1 + which;
    fresh.memory.base = std::uint64_t{1} << 40U | std::uint64_t{which} << 30U;
    fresh.ticket = ++last_ticket_;
    // Where the box is full, it is not told.
    if (box().leave(engine().rank(), fresh.left(), lent[which].descriptor.get())) return fresh;
    fresh.ticket = 0;
    fresh.descriptor = lent[which].descriptor.get();
    return fresh;
  }

  std::array<bool, coll::flat_ranks> named_{};
  std::uint32_t last_ticket_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  static_cast<void>(Gpus::get());
  static_cast<void>(Gpus::open_handles(handles_at_start));
  fuzz::Victim::get().start();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const std::uint32_t counts[]{2, 2, 2, 3, 5};
  const std::uint32_t count = input.pick(counts);
  const std::uint64_t bounces[]{64U << 20U, 64U << 20U, 4U << 20U, 0};
  Settings settings;
  settings.warn = false;
  settings.gpu_bounce = input.pick(bounces);
  GpuMemory memory(input);
  {
    GpuMembers members(input, count, input.below(256) % count, settings);
    {
      fuzz::Calls calls(input, members, memory);
      for (int i = 0; i < 30 && !members.are_lost() && !input.empty(); ++i)
        calls.call();
      calls.finish();
    }
    members.lose();
    members.close();
  }
  memory.check();
  return 0;
}

}  // namespace isthmus
