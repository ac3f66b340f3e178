#include "stream/prepared/room.hpp"

#include "gpu/driver/cuda_error.hpp"

namespace isthmus::stream {

using cuda::Status;

Result<std::unique_ptr<Room>> Room::make(cuda::PrimaryContexts& contexts, cuda::Device device,
                                         cuda::Context context, std::size_t lines) {
  std::unique_ptr<Room> made(new Room(contexts, device, context, lines * line));
  const cuda::Functions& functions = contexts.functions();
  const cuda::ContextScope scope(functions, context);
  // One of its own: others may wait for something.
  cuda::Stream own = nullptr;
  Status status = functions.stream_create(&own, cuda::stream_non_blocking);
  if (status == Status::success) status = functions.allocate(&made->address_, made->bytes_);
  if (status == Status::success) status = functions.fill_async(made->address_, 0, made->bytes_, own);
  if (status == Status::success) status = functions.stream_synchronize(own);
  if (own) functions.stream_destroy(own);
  if (status == Status::success) return made;
  return std::unexpected(cuda::fail(functions, status, "give memory for the words of a port").error());
}

Room::~Room() {
  if (address_ == 0 || !contexts_.is_alive(device_, life_)) return;
  const cuda::ContextScope scope(contexts_.functions(), context_);
  contexts_.functions().free(address_);
}

}  // namespace isthmus::stream
