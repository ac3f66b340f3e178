#include "coll/gpu/team/rooms.hpp"

#include <atomic>
#include <cstddef>
#include <new>
#include <string>
#include <utility>

#include "gpu/driver/cuda_error.hpp"
#include "kernels/courier.hpp"

namespace isthmus::coll {

using cuda::Status;

namespace {

/// Of all tables of this process: no two have the same one, so that a courier may keep the last that it has
/// read.
std::uint64_t next_id() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

/// Looks at what is not done, for one at the driver, which knows whether the GPU is well.
constexpr std::uint32_t looks_per_question = 4096;

}  // namespace

Result<std::unique_ptr<GpuRooms>> GpuRooms::make(GpuMessages& gpu, DevicePool& pool, GpuQueue& queue,
                                                 cuda::Device device, int rank, int members) {
  const std::uint64_t bytes = kernel::order_room_bytes(static_cast<std::uint32_t>(members));
  auto room = pool.take(device, bytes + sizeof(kernel::MeetTable));
  if (!room) return std::unexpected(std::move(room).error());
  cuda::PrimaryContexts& contexts = gpu.copies().contexts();
  auto pinned = gpu.copies().pinned_pool(device).take(sizeof(Words));
  if (!pinned) return std::unexpected(std::move(pinned).error());
  std::unique_ptr<GpuRooms> made(new GpuRooms(gpu, std::move(*room), std::move(*pinned), device));
  made->room_bytes_ = bytes;
  new (made->pinned_.data()) Words{};
  // What lies there from before might look like packets.
  const cuda::Functions& functions = contexts.functions();
  Status status =
      functions.fill_async(reinterpret_cast<cuda::Address>(made->room_.data()), 0, bytes, queue.stream());
  if (status == Status::success) status = functions.stream_synchronize(queue.stream());
  if (status != Status::success)
    return cuda::fail(functions, status, "make a room for collectives on GPU " + std::to_string(device));
  made->known_.rank = static_cast<std::uint32_t>(rank);
  made->known_.members = static_cast<std::uint32_t>(members);
  made->known_.id = next_id();
  made->open(rank, made->room_.data(), nullptr);
  return made;
}

GpuRooms::Words& GpuRooms::words() const noexcept {
  return *reinterpret_cast<Words*>(pinned_.data());
}

void GpuRooms::open(int member, std::byte* here, std::shared_ptr<const Mapping> mapping) {
  known_.rooms[member] = reinterpret_cast<kernel::Byte*>(here);
  if (mapping) mappings_.push_back(std::move(mapping));
}

Result<> GpuRooms::complete(GpuQueue& queue) {
  const cuda::Functions& functions = contexts().functions();
  // Where it has no address of its own there, the host's is the GPU's.
  cuda::Address pinned = 0;
  if (functions.host_device_pointer(&pinned, &words(), 0) != Status::success)
    pinned = reinterpret_cast<cuda::Address>(&words());
  known_.ended = reinterpret_cast<const std::uint64_t*>(pinned + offsetof(Words, ended));
  done_ = reinterpret_cast<std::uint64_t*>(pinned + offsetof(Words, done));
  Status status = functions.copy_to_device_async(reinterpret_cast<cuda::Address>(table()), &known_,
                                                 sizeof known_, queue.stream());
  if (status == Status::success) status = functions.stream_synchronize(queue.stream());
  if (status == Status::success) return {};
  return cuda::fail(functions, status, "write where the others' rooms are");
}

Result<> GpuRooms::launch(GpuQueue& queue) {
  errand_ = {};
  return gpu_.copies().kernels().order({.device = device_, .stream = queue.stream()},
                                       {.table = known_, .order = order_, .done = done_});
}

Result<> GpuRooms::begin(kernel::MeetOrder order, bool by_courier, GpuQueue& queue) {
  order.round = order_.round + 1;
  order_ = order;
  looks_ = 0;
  errand_ = by_courier ? gpu_.take_order(device_, order_, table(), known_.id) : GpuErrand();
  return errand_.courier ? Result<>() : launch(queue);
}

Result<bool> GpuRooms::is_done(GpuQueue& queue) {
  if (!is_alive()) return cuda::fail_after_reset(device_, "during a collective");
  if (errand_.courier) {
    auto fate = errand_.courier->look(errand_.number);
    if (!fate) return std::unexpected(std::move(fate).error());
    if (*fate == Courier::Fate::delivered) return true;
    // The GPU has no room for a courier. A kernel waits for its turn.
    if (*fate == Courier::Fate::returned) ISTHMUS_TRY(launch(queue));
    return false;
  }
  if (std::atomic_ref(words().done).load(std::memory_order_acquire) == order_.round) return true;
  if (++looks_ % looks_per_question != 0) return false;
  const cuda::Functions& functions = contexts().functions();
  const Status status = functions.stream_query(queue.stream());
  if (status == Status::success || status == Status::not_ready) return false;
  return cuda::fail(functions, status, "do this member's part of a collective");
}

void GpuRooms::end() noexcept {
  std::atomic_ref(words().ended).store(1, std::memory_order_release);
}

}  // namespace isthmus::coll
