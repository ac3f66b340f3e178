#pragma once

#include <isthmus/stream_runtime.h>
#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <vector>

#include "abi/carry/carrier.hpp"
#include "abi/core/call.hpp"
#include "abi/core/gpu_share.hpp"
#include "abi/stream/prepared/errands.hpp"
#include "base/error.hpp"
#include "stream/prepared/port.hpp"

/// What the functions of <isthmus/stream_runtime.h> are made of.

#define ISTHMUS_STREAM_EXPORT(type) extern "C" __attribute__((visibility("default"))) type

namespace stream = isthmus::stream;
namespace cuda = isthmus::cuda;

struct isthmus_stream_port {
  MPI_Comm comm = MPI_COMM_NULL;
  std::shared_ptr<stream::Port> port;
  std::uint32_t words = 0;
  bool is_for_streams = false;  ///< processors neither set its words nor wait for them
  std::size_t shares = 0;
  /// What captured descriptors name lives as long as the port.
  std::vector<std::shared_ptr<const isthmus::Mapping>> kept;
  std::vector<std::size_t> free_lines;  ///< of descriptors
  std::size_t next_line = 0;
  std::vector<isthmus::abi::Part> rooms;  ///< by rank: where words lie on GPUs
  bool holds_mappings = false;
  /// Of the port's carrier; null: streams reach all that there is.
  isthmus::abi::Carrier* carrier = nullptr;
  isthmus::abi::Errands* errands = nullptr;
  std::vector<isthmus::Buffer> shared;  ///< by number; what has been freed has no data
  std::vector<bool> detours;            ///< by rank: not all that it shares is mapped
  std::vector<std::size_t> lent;        ///< lines of errands that set words
};

struct isthmus_stream_share {
  isthmus_stream_port* of = nullptr;
  std::vector<isthmus::abi::Part> parts;
  isthmus::Buffer own;       ///< as it was when it was shared
  std::uint32_t number = 0;  ///< the same in all processes
  bool is_reached = false;   ///< by kernels on the port's GPU
  mutable std::size_t descriptors = 0;
};

struct isthmus_stream_descriptor {
  isthmus_stream_transfer what{};
  isthmus_stream_port* of = nullptr;
  std::size_t line = 0;  ///< gets `posts` when the stream has passed the last
  std::uint32_t posts = 0;
  cuda::Stream last = nullptr;
  bool recorded = false;
  std::size_t errand = isthmus::abi::Errands::none;  ///< its line
};

namespace isthmus::abi {

/// Lines behind the words and the port's own.
inline constexpr std::size_t descriptor_lines = 1024;
[[nodiscard]] constexpr std::size_t first_descriptor_line(std::uint32_t words) noexcept {
  return words + static_cast<std::size_t>(stream::Port::Line::count);
}

/// Keeps the sentence for isthmus_stream_error; the error's class.
int tell_stream_error(const Error& error);

/// Of a pointer to a port, a share or a descriptor.
Result<> check_owned(const void* object, const char* name);

/// No exception passes through C.
template <class Body>
int guarded_stream_call(Body&& body) noexcept {
  try {
    if (!Runtime::get().running())
      return tell_stream_error(Error(ErrorClass::other, "MPI is not initialised, or finalized"));
    Result<> result = body();
    return result ? MPI_SUCCESS : tell_stream_error(result.error());
  } catch (const std::bad_alloc&) {
    return tell_stream_error(Error(ErrorClass::no_mem, "there is no memory"));
  } catch (const std::exception& exception) {
    return tell_stream_error(Error(ErrorClass::intern, exception.what()));
  }
}

/// The same for a call on `object`, which a program's object has no more when it is freed or moved from.
template <class Body>
int guarded_stream_call(const void* object, const char* name, Body&& body) noexcept {
  return guarded_stream_call([&]() -> Result<> {
    ISTHMUS_TRY(check_owned(object, name));
    return body();
  });
}

/// The processes of a port, by rank.
std::vector<PeerId> ids_of(const stream::Port& port);
/// Whether the port has that word of that rank.
Result<> check_word(const isthmus_stream_port& port, int rank, std::uint32_t word);
/// Whether the carrier sets words of that rank: streams do not reach them, or the carrier brings bytes there,
/// which words come behind.
[[nodiscard]] bool are_words_carried(const isthmus_stream_port& port, int rank);
/// The part of that rank in what is shared.
Result<const Part*> find_part(const isthmus_stream_share& share, int rank);
/// Collective: where a stream of any process does not reach something, all have a carrier from now on.
Result<> start_carrier(isthmus_stream_port& of, bool is_needed_here);

/// The processor waits, and makes progress for others meanwhile.
template <class Ready>
Result<> wait_here(const stream::Port& port, Ready&& ready) {
  while (!ready()) {
    ISTHMUS_TRY(port.check());
    const CallGuard guard(Runtime::get());
    Runtime::get().engine->progress_for_test();
  }
  return {};
}

}  // namespace isthmus::abi
