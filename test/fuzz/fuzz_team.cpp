// Collectives in memory that members share, all but one of whom write there what the input says, at any time:
// nothing is written or read beyond a buffer, and when they are lost every collective ends.
#include "collectives.hpp"

namespace isthmus {
namespace {

/// Of the host: AddressSanitizer sees where each buffer ends.
class HostMemory final : public fuzz::Memory {
 public:
  std::byte* take(std::uint64_t bytes, bool /*is_sent*/) override {
    taken_ += bytes;
    if (taken_ > (32U << 20U)) return nullptr;
    return buffers_.emplace_back(std::make_unique<std::byte[]>(bytes)).get();
  }

 private:
  std::vector<std::unique_ptr<std::byte[]>> buffers_;
  std::uint64_t taken_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  fuzz::Victim::get().start();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const std::uint32_t counts[]{2, 2, 2, 3, 4, 6, 18};
  const std::uint32_t count = input.pick(counts);
  Settings settings;
  settings.warn = false;
  settings.cma = input.below(4) == 0 ? CmaSetting::off : CmaSetting::automatic;
  HostMemory memory;
  fuzz::Members members(input, count, input.below(256) % count, settings);
  {
    fuzz::Calls calls(input, members, memory);
    for (int i = 0; i < 40 && !members.are_lost() && !input.empty(); ++i)
      calls.call();
    calls.finish();
  }
  members.lose();
  members.close();
  return 0;
}

}  // namespace isthmus
