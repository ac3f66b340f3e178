#include "exporter_role.hpp"

#include <memory>

#include "cuda_functions.hpp"
#include "gpu/memory/classify.hpp"
#include "vmm_memory.hpp"

namespace isthmus::testing_cuda {
namespace {

/// A process with one allocation.
class Owner {
 public:
  Owner() : functions_(cuda_functions()) {
    functions_.primary_retain(&context_, 0);
    functions_.context_push(context_);
    const auto self = ProcessIdentity::here();
    exporter_ = std::make_unique<Exporter>(functions_, *self);
  }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;
  ~Owner() {
    free();
    if (pool_) functions_.pool_destroy(pool_);
    if (event_) functions_.event_destroy(event_);
    if (gate_) functions_.host_free(gate_);
    exporter_.reset();
    functions_.primary_release(0);
  }

  Letter answer(const Letter& letter, UniqueFd& descriptor) {
    switch (static_cast<Wish>(letter.code)) {
      case Wish::allocate:
        kind_ = static_cast<MemoryKind>(letter.number);
        return allocate(descriptor);
      case Wish::allocate_again:
        return allocate(descriptor);
      case Wish::fill:
        fill(static_cast<unsigned char>(letter.number));
        return {};
      case Wish::free:
        free();
        return {};
      case Wish::event:
        return share_event();
      case Wish::release:
        __atomic_store_n(gate_, 1U, __ATOMIC_RELEASE);
    }
    return {};
  }

 private:
  Letter allocate(UniqueFd& descriptor) {
    Letter letter;
    if (kind_ == MemoryKind::vmm) {
      vmm_ = std::make_unique<VmmMemory>(functions_, 0);
      address_ = vmm_->address;
    } else if (kind_ == MemoryKind::pool) {
      const cuda::PoolProperties properties{.handle_types = cuda::HandleType::posix_descriptor,
                                            .location = {cuda::LocationType::device, 0}};
      if (!pool_) functions_.pool_create(&pool_, &properties);
      functions_.pool_allocate(&address_, exported_bytes, pool_, nullptr);
    } else {
      functions_.allocate(&address_, exported_bytes);
    }
    fill(1);
    const auto buffer = classifier_.classify(reinterpret_cast<void*>(address_ + exported_offset), 8192);
    if (!buffer || buffer->kind != kind_) {
      letter.say("not classified");
      return letter;
    }
    const auto offer = exporter_->offer(*buffer);
    if (!offer) {
      letter.say(offer.error().text());
      return letter;
    }
    letter.offer = *offer;
    if (offer->has_descriptor()) descriptor = std::move(*exporter_->descriptor(offer->allocation));
    return letter;
  }

  /// The real driver's cuMemsetD8 returns before it has set device memory.
  void fill(unsigned char value) const {
    functions_.fill(address_, value, exported_bytes);
    functions_.context_synchronize();
  }

  void free() {
    if (address_ != 0 && !vmm_) functions_.free(address_);
    vmm_.reset();
    address_ = 0;
  }

  Letter share_event() {
    Letter letter;
    void* memory = nullptr;
    functions_.host_allocate(&memory, 4096, 0);
    gate_ = static_cast<unsigned*>(memory);
    functions_.event_create(&event_, cuda::event_interprocess | cuda::event_disable_timing);
    functions_.stream_wait_value_32(nullptr, reinterpret_cast<cuda::Address>(gate_), 1, cuda::wait_equal);
    functions_.event_record(event_, nullptr);
    letter.number = static_cast<std::uint64_t>(functions_.ipc_get_event(&letter.event, event_));
    return letter;
  }

  const cuda::Functions& functions_;
  CudaDriver driver_;
  Classifier classifier_{driver_};
  std::unique_ptr<Exporter> exporter_;
  cuda::Context context_ = nullptr;
  MemoryKind kind_ = MemoryKind::device;
  cuda::Address address_ = 0;
  std::unique_ptr<VmmMemory> vmm_;
  cuda::Pool pool_ = nullptr;
  cuda::Event event_ = nullptr;
  unsigned* gate_ = nullptr;
};

int play(const Line& line) {
  Owner owner;
  while (const auto letter = line.receive()) {
    UniqueFd descriptor;
    const Letter answer = owner.answer(*letter, descriptor);
    if (!line.send(answer, descriptor.get())) return 1;
  }
  return 0;
}
const Role exporter_role("exporter", play);

}  // namespace

Letter wish(Player& exporter, Wish what, std::uint64_t number, UniqueFd* descriptor) {
  return exporter.ask({.code = static_cast<int>(what), .number = number}, descriptor);
}

}  // namespace isthmus::testing_cuda
