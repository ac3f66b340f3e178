#include "abi/stream/enqueue.hpp"

#include <algorithm>

#include "abi/core/gpu_share.hpp"

namespace isthmus::abi {
void close_what_is_gone(Runtime& runtime) {
  GpuMessages* const gpu = runtime.engine->gpu();
  const bool has_unused = std::ranges::any_of(
      runtime.boards, [](const Ref<stream::Board>& each) { return each->references() == 1; });
  if (!has_unused && (!gpu || !gpu->exports().mappings().has_kept())) return;
  bool all_idle = true;
  runtime.streams.for_each([&](stream::Stream& each) { all_idle = all_idle && each.is_idle(); });
  if (!all_idle) return;
  if (has_unused) runtime.close_unused_boards();
  if (gpu) gpu->exports().mappings().close_kept();
}

Result<stream::Stream*> find_stream_of(const Communicator& comm) {
  if (comm.stream) return static_cast<stream::Stream*>(comm.stream.get());
  ISTHMUS_TRY(check_one_rank(Runtime::get(), enqueued_operations));
  return fail(ErrorClass::comm, "comm has no stream (MPIX_Stream_comm_create)");
}

Result<stream::Stream*> open_stream_of(Communicator& comm) {
  Result<stream::Stream*> stream = find_stream_of(comm);
  if (!stream) return stream;
  if (std::optional<Error> failure = (*stream)->take_failure(&comm))
    return std::unexpected(std::move(*failure));
  close_what_is_gone(Runtime::get());
  return stream;
}

Result<> enqueue(const char* function, Communicator& comm, std::unique_ptr<stream::Operation> operation,
                 stream::Then then, MPI_Request* request) {
  Result<stream::Stream*> stream = open_stream_of(comm);
  if (!stream) return std::unexpected(std::move(stream).error());
  const auto what = make_ref<stream::Enqueued>(function, comm, std::move(operation));
  if (!request) return (*stream)->begin(what, then);
  // Its handle first: from its beginning on it must not be lost.
  EnqueuedTable& table = Runtime::get().enqueued;
  MPI_Request handle = table.add(what);
  Result<> begun = (*stream)->begin(what, then);
  if (begun)
    *request = handle;
  else
    static_cast<void>(table.remove(handle));
  return begun;
}

}  // namespace isthmus::abi
