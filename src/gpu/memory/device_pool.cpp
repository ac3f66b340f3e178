#include "gpu/memory/device_pool.hpp"

#include <algorithm>
#include <bit>
#include <string>

#include "gpu/driver/cuda_error.hpp"

namespace isthmus {

DeviceBuffer::~DeviceBuffer() {
  if (const auto shelf = shelf_.lock()) shelf->free.push_back(piece_);
}

DevicePool::~DevicePool() {
  for (const auto& piece : shelf_->all) {
    const auto context = contexts_.of(piece.device);
    if (!context || !contexts_.is_alive(piece.device, piece.life)) continue;
    const cuda::ContextScope scope(contexts_.functions(), *context);
    contexts_.functions().free(piece.address);
  }
}

void DevicePool::forget_lost(cuda::Device device) {
  const auto is_lost = [&](const DeviceBuffer::Piece& piece) {
    return piece.device == device && piece.life != contexts_.life(device);
  };
  for (const auto& piece : shelf_->all)
    if (is_lost(piece)) shelf_->bytes -= piece.bytes;
  std::erase_if(shelf_->all, is_lost);
  std::erase_if(shelf_->free, is_lost);
}

Result<DeviceBuffer> DevicePool::take(cuda::Device device, std::size_t bytes) {
  forget_lost(device);
  auto& free = shelf_->free;
  auto best = free.end();  // the smallest that is large enough
  for (auto it = free.begin(); it != free.end(); ++it)
    if (it->device == device && it->bytes >= bytes && (best == free.end() || it->bytes < best->bytes))
      best = it;
  if (best != free.end()) {
    const DeviceBuffer::Piece piece = *best;
    free.erase(best);
    return DeviceBuffer(shelf_, piece);
  }
  const std::string what =
      "take " + std::to_string(bytes) + " bytes of GPU " + std::to_string(device) + " to pack a message";
  if (bytes > limits_.most || std::bit_ceil(std::max(bytes, limits_.least)) > limits_.most - shelf_->bytes)
    return fail(ErrorClass::no_mem, "Isthmus does not " + what + ": the limit of " +
                                        std::to_string(limits_.most >> 20U) + " MiB is in use");
  DeviceBuffer::Piece piece{
      .device = device, .address = 0, .bytes = std::bit_ceil(std::max(bytes, limits_.least)), .life = 0};
  auto context = contexts_.of(device);
  if (!context) return std::unexpected(std::move(context).error());
  // So that what the device gives is not lost, and can be put back.
  shelf_->all.reserve(shelf_->all.size() + 1);
  free.reserve(shelf_->all.size() + 1);
  const cuda::Functions& functions = contexts_.functions();
  const cuda::ContextScope scope(functions, *context);
  if (const cuda::Status status = functions.allocate(&piece.address, piece.bytes);
      status != cuda::Status::success)
    return cuda::fail(functions, status, what);
  piece.life = contexts_.life(device);
  shelf_->all.push_back(piece);
  shelf_->bytes += piece.bytes;
  return DeviceBuffer(shelf_, piece);
}

}  // namespace isthmus
