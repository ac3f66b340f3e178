// Streams of the program and communicators with one, by the convention of MPICH (MPIX_Stream_create).

#include "stream/stream.hpp"

#include <mpi-ext.h>

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "abi/comm/communicator.hpp"
#include "abi/core/call.hpp"
#include "abi/core/entry.hpp"
#include "abi/core/gpu_share.hpp"
#include "abi/stream/enqueue.hpp"
#include "abi/stream/meet.hpp"
#include "coll/agree/agree.hpp"

namespace isthmus::abi {
namespace {

Result<stream::Stream*> find_stream(MPIX_Stream stream) {
  Runtime& runtime = Runtime::get();
  if (stream::Stream* const found = runtime.streams.find(stream)) {
    keep(runtime, *found);
    return found;
  }
  return std::unexpected(bad_handle(ErrorClass::arg, "stream", stream, HandleKind::stream));
}

/// The bytes that MPIX_Info_set_hex has set.
template <class Value>
Result<Value> read_hex(const std::string& text) {
  Value value{};
  if (text.size() != 2 * sizeof value)
    return fail(
        ErrorClass::info_value,
        fmt::format("`value` of info has {} characters, not the {} of a cudaStream_t (MPIX_Info_set_hex)",
                    text.size(), 2 * sizeof value));
  auto bytes = std::as_writable_bytes(std::span(&value, 1));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    unsigned char byte = 0;
    const char* const first = text.data() + 2 * i;
    const auto [end, error] = std::from_chars(first, first + 2, byte, 16);
    if (error != std::errc{} || end != first + 2)
      return fail(ErrorClass::info_value,
                  fmt::format("`value` of info is {}, which is not hexadecimal", text));
    bytes[i] = std::byte{byte};
  }
  return value;
}

/// The default streams, by the values that CUDA gives them.
constexpr std::uintptr_t last_default_stream = 2;

Result<cuda::Stream> find_cuda_stream(MPI_Info info) {
  Result<Info*> found = find_info(info);
  if (!found) return std::unexpected(std::move(found).error());
  const std::string* const type = *found ? (*found)->find("type") : nullptr;
  if (!type) return fail(ErrorClass::info_nokey, "info has no key `type`: a stream is of type cudaStream_t");
  if (*type != "cudaStream_t")
    return fail(ErrorClass::info_value,
                fmt::format("`type` of info is {}: a stream is of type cudaStream_t", *type));
  const std::string* const value = (*found)->find("value");
  if (!value) return fail(ErrorClass::info_nokey, "info has no key `value` (MPIX_Info_set_hex)");
  Result<std::uintptr_t> number = read_hex<std::uintptr_t>(*value);
  if (!number) return std::unexpected(std::move(number).error());
  if (*number <= last_default_stream)
    return fail(
        ErrorClass::info_value,
        "`value` of info is a default stream, for which other streams wait: operations could not wait "
        "for each other there. Make one by cudaStreamCreateWithFlags with cudaStreamNonBlocking");
  return reinterpret_cast<cuda::Stream>(*number);
}

Result<const cuda::Functions*> find_driver(Runtime& runtime) {
  if (const cuda::Functions* const functions = runtime.cuda.find()) return functions;
  const std::string complaint = runtime.cuda.complaint();
  return fail(ErrorClass::unsupported_operation,
              complaint.empty()
                  ? "there is no CUDA driver that the program has initialised, so there are no streams"
                  : complaint);
}

}  // namespace

ISTHMUS_EXTENSION(int, Info_set_hex)(MPI_Info info, const char* key, const void* value, int value_size) {
  constexpr const char* function = "MPIX_Info_set_hex";
  constexpr int most = (MPI_MAX_INFO_VAL - 1) / 2;
  std::string text;
  const int code = call_any_time(function, [&](Runtime&) -> Result<> {
    ISTHMUS_TRY(check_pointer(value, "value"));
    if (value_size < 1 || value_size > most)
      return fail(ErrorClass::arg, fmt::format("value_size is {}, not between 1 and {}", value_size, most));
    for (const unsigned char byte :
         std::span(static_cast<const unsigned char*>(value), static_cast<std::size_t>(value_size)))
      text += fmt::format("{:02x}", byte);
    return {};
  });
  return code == MPI_SUCCESS ? PMPI_Info_set(info, key, text.c_str()) : code;
}

ISTHMUS_EXTENSION(int, Stream_create)(MPI_Info info, MPIX_Stream* stream) {
  constexpr const char* function = "MPIX_Stream_create";
  cuda::Stream of_cuda = nullptr;
  const int code = call(function, [&](Runtime& runtime) -> Result<> {
    ISTHMUS_TRY(check_pointer(stream, "stream"));
    ISTHMUS_TRY(check_one_rank(runtime, enqueued_operations));
    Result<cuda::Stream> found = find_cuda_stream(info);
    if (!found) return std::unexpected(std::move(found).error());
    of_cuda = *found;
    Result<const cuda::Functions*> driver = find_driver(runtime);
    if (!driver) return std::unexpected(std::move(driver).error());
    return {};
  });
  if (code != MPI_SUCCESS) return code;
  // Between two calls: from here on a second thread is in the engine. Where the program has not asked for
  // MPI_THREAD_MULTIPLE, no other of its threads is in MPI now.
  Runtime::get().engine->lock().enable();
  return call(function, [&](Runtime& runtime) -> Result<> {
    Result<Ref<stream::Stream>> made = stream::Stream::make(*runtime.engine, **find_driver(runtime), of_cuda);
    if (!made) return std::unexpected(std::move(made).error());
    *stream = runtime.streams.add(std::move(*made));
    return {};
  });
}

ISTHMUS_EXTENSION(int, Stream_free)(MPIX_Stream* stream) {
  return call("MPIX_Stream_free", [&](Runtime& runtime) -> Result<> {
    ISTHMUS_TRY(check_pointer(stream, "stream"));
    Result<stream::Stream*> found = find_stream(*stream);
    if (!found) return std::unexpected(std::move(found).error());
    int users = 0;
    runtime.communicators.for_each(
        [&](const Communicator& comm) { users += comm.stream.get() == *found ? 1 : 0; });
    if (users > 0)
      return fail(ErrorClass::arg,
                  fmt::format("stream is in use: {} communicators have it (MPI_Comm_free)", users));
    if (const std::size_t pending = (*found)->outstanding(); pending > 0)
      return fail(
          ErrorClass::pending,
          fmt::format("stream is in use: {} operations on it are not over (cudaStreamSynchronize)", pending));
    std::optional<Error> failure = (*found)->take_failure(nullptr);
    const Ref<stream::Stream> last = runtime.streams.remove(*stream);
    *stream = MPIX_STREAM_NULL;
    last->close();
    close_what_is_gone(runtime);
    if (failure) return std::unexpected(std::move(*failure));
    return {};
  });
}

ISTHMUS_EXTENSION(int, Stream_progress)(MPIX_Stream stream) {
  return call("MPIX_Stream_progress", [&](Runtime&) -> Result<> {
    Result<stream::Stream*> found = find_stream(stream);
    if (!found) return std::unexpected(std::move(found).error());
    if (std::optional<Error> failure = (*found)->take_failure(nullptr))
      return std::unexpected(std::move(*failure));
    return {};
  });
}

ISTHMUS_EXTENSION(int, Stream_comm_create)(MPI_Comm comm, MPIX_Stream stream, MPI_Comm* newcomm) {
  constexpr const char* function = "MPIX_Stream_comm_create";
  const int code = call(function, comm, [&](Communicator& c) -> Result<> {
    ISTHMUS_TRY(clear_output(newcomm, "newcomm"));
    ISTHMUS_TRY(check_intra(c));
    Ref<stream::Stream> used;
    if (stream != MPIX_STREAM_NULL) {
      Result<stream::Stream*> found = find_stream(stream);
      if (!found) return std::unexpected(std::move(found).error());
      used = Ref<stream::Stream>::share(*found);
    }
    Result<Ref<Communicator>> copy = coll::duplicate(c);
    if (copy && *copy) (*copy)->stream = std::move(used);
    return give(std::move(copy), c, c.info.get(), newcomm);
  });
  if (code != MPI_SUCCESS) return code;
  // Between two calls: members tell each other by functions of MPI.
  Result<> opened = open_board(*newcomm);
  return call(function, comm, [&](Communicator&) { return std::move(opened); });
}

ISTHMUS_EXTENSION(int, Comm_get_stream)(MPI_Comm comm, int index, MPIX_Stream* stream) {
  return call("MPIX_Comm_get_stream", comm, [&](Communicator& c) -> Result<> {
    ISTHMUS_TRY(check_pointer(stream, "stream"));
    if (index != 0)
      return fail(ErrorClass::arg,
                  fmt::format("index is {}: a communicator has one stream at most, number 0", index));
    *stream = c.stream ? reinterpret_cast<MPIX_Stream>(c.stream->handle) : MPIX_STREAM_NULL;
    return {};
  });
}

}  // namespace isthmus::abi
