// What the emulated driver assumes of the real one. Each prints the answer; none fails: a person compares
// with the table in test/emulated/cuda/README.md.
#include "device_fixture.hpp"
#include "gpu/driver/cuda_error.hpp"
#include "vmm_memory.hpp"

namespace isthmus::testing_cuda {
namespace {

using cuda::PointerAttribute;

class DeviceQuestions : public DeviceTest {
 protected:
  template <class T>
  std::string ask(PointerAttribute attribute, cuda::Address address) const {
    T value{};
    const Status status = functions.pointer_attribute(&value, attribute, address);
    return status == Status::success ? std::to_string(value) : cuda::text_of(functions, status);
  }
  void print_attributes(const char* what, cuda::Address address) const {
    std::printf("  %s: type %s, buffer id %s, block id %s, legacy %s, range %s, mapping %s, pool %s\n", what,
                ask<int>(PointerAttribute::memory_type, address).c_str(),
                ask<std::uint64_t>(PointerAttribute::buffer_id, address).c_str(),
                ask<std::uint64_t>(PointerAttribute::block_id, address).c_str(),
                ask<int>(PointerAttribute::is_legacy_ipc_capable, address).c_str(),
                ask<std::uint64_t>(PointerAttribute::range_size, address).c_str(),
                ask<std::uint64_t>(PointerAttribute::mapping_size, address).c_str(),
                ask<std::uint64_t>(PointerAttribute::pool, address).c_str());
    cuda::Physical physical = 0;
    const Status status = functions.physical_retain(&physical, reinterpret_cast<void*>(address));
    std::printf("      cuMemRetainAllocationHandle: %s\n", cuda::text_of(functions, status).c_str());
    if (status == Status::success) functions.physical_release(physical);
  }
};

TEST_F(DeviceQuestions, WhatAttributesHasEachKind) {
  cuda::Address memory = 0;
  cuda::Address second = 0;
  functions.allocate(&memory, 1000);
  functions.allocate(&second, 1000);
  print_attributes("cuMemAlloc of 1000 bytes", memory);
  print_attributes("and the next", second);
  functions.free(memory);
  functions.free(second);
  {
    VmmMemory vmm(functions, 0);
    print_attributes("VMM", vmm.address);
    vmm.map_other();
    print_attributes("other physical memory there", vmm.address);
  }
  cuda::Pool pool = nullptr;
  functions.device_default_pool(&pool, 0);
  functions.pool_allocate(&memory, 1000, pool, nullptr);
  print_attributes("pool", memory);
  functions.pool_free(memory, nullptr);
  functions.context_synchronize();
  functions.managed_allocate(&memory, 1000, cuda::attach_global);
  print_attributes("managed", memory);
  functions.free(memory);
  for (const MemoryKind kind : {MemoryKind::device, MemoryKind::vmm, MemoryKind::pool}) {
    Player exporter("exporter");
    UniqueFd descriptor;
    const Letter offer = wish(exporter, Wish::allocate, static_cast<std::uint64_t>(kind), &descriptor);
    if (const auto mapping = cache.open(offer.offer, 0, descriptor.get()))
      print_attributes((std::string(name_of(kind)) + " of a peer").c_str(), address_of((*mapping)->base()));
    cache.forget(offer.offer.exporter);
  }
}

TEST_F(DeviceQuestions, HowHandlesAreRefused) {
  Player exporter("exporter");
  const Letter offer = wish(exporter, Wish::allocate, static_cast<std::uint64_t>(MemoryKind::device));
  cuda::IpcMemory handle;
  std::copy(offer.offer.handle.begin(), offer.offer.handle.end(), handle.bytes.begin());
  cuda::Address first = 0;
  cuda::Address second = 0;
  const auto open = [&](cuda::Address& address) {
    return cuda::text_of(functions, functions.ipc_open_memory(&address, handle, cuda::ipc_lazy_peer_access));
  };
  std::printf("  opened: %s", open(first).c_str());
  const std::string again = open(second);
  std::printf("; opened again: %s, %s address\n", again.c_str(), first == second ? "the same" : "another");
  if (second != 0) functions.ipc_close_memory(second);
  std::printf("  readable after one of two is closed: %s\n",
              cuda::text_of(functions, functions.fill(first, 3, 100)).c_str());
  functions.ipc_close_memory(first);
  wish(exporter, Wish::free);
  std::printf("  opened after it was freed: %s\n", open(first).c_str());

  cuda::Address own = 0;
  functions.allocate(&own, 4096);
  functions.ipc_get_memory(&handle, own);
  std::printf("  opened by its own process: %s\n", open(first).c_str());
  functions.free(own);
  const VmmMemory vmm(functions, 0);
  std::printf("  a handle of VMM memory: %s\n",
              cuda::text_of(functions, functions.ipc_get_memory(&handle, vmm.address)).c_str());
}

TEST_F(DeviceQuestions, WhetherClassifyingNeedsAContext) {
  cuda::Address memory = 0;
  functions.allocate(&memory, 1000);
  cuda::Context popped = nullptr;
  functions.context_pop(&popped);
  std::printf("  without a context: %s\n", std::string(name_of(classify(memory).kind)).c_str());
  functions.context_push(popped);
  functions.free(memory);
}

TEST_F(DeviceQuestions, WherePagesAreAfterTheDeviceTouchedThem) {
  constexpr std::size_t bytes = 4U << 20U;
  cuda::Address memory = 0;
  functions.managed_allocate(&memory, bytes, cuda::attach_global);
  const auto print = [&](const char* after) {
    constexpr std::array<const char*, 3> names{"unknown", "host", "device"};
    std::printf("  %s: %s\n", after, names[static_cast<std::size_t>(classify(memory, bytes).pages)]);
  };
  print("fresh");
  std::fill_n(reinterpret_cast<char*>(memory), bytes, 1);
  print("the processor has written");
  functions.fill(memory, 2, bytes);
  print("cuMemsetD8 has written");
  const char first = *reinterpret_cast<volatile char*>(memory);
  const char last = *reinterpret_cast<volatile char*>(memory + bytes - 1);
  print(first == last ? "the processor has read both ends" : "wrong bytes");
  functions.free(memory);
}

}  // namespace
}  // namespace isthmus::testing_cuda
