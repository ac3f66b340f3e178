#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "abi/core/any_memory.hpp"
#include "abi/core/call.hpp"
#include "abi/core/entry.hpp"
#include "datatype/cursor.hpp"
#include "datatype/external32.hpp"

namespace isthmus::abi {
namespace {

/// The part of a pack buffer behind `position` (MPI 5.0, section 5.2).
template <class Byte, class Integer>
Result<std::span<Byte>> rest_of(Byte* data, std::int64_t size, const Integer* position,
                                const char* size_name) {
  if (size < 0) return fail(ErrorClass::arg, fmt::format("{} {} is negative", size_name, size));
  ISTHMUS_TRY(check_pointer(position, "position"));
  if (*position < 0 || *position > size)
    return fail(ErrorClass::arg,
                fmt::format("position {} is not between 0 and {} {}", *position, size_name, size));
  return std::span<Byte>(data + *position, static_cast<std::size_t>(size - *position));
}

/// Fails unless the packed message fits into the rest of the pack buffer.
Result<> check_fit(std::int64_t bytes, std::size_t room, const void* data, const char* name) {
  if (std::cmp_greater(bytes, room))
    return fail(ErrorClass::truncate,
                fmt::format("{} bytes are needed, but {} has only {} left", bytes, name, room));
  if (bytes > 0 && data == nullptr)
    return fail(ErrorClass::buffer, fmt::format("{} is a null pointer", name));
  return {};
}

Result<Datatype*> message_type(const void* buffer, std::int64_t count, MPI_Datatype datatype,
                               const char* buffer_name, const char* count_name) {
  Result<Datatype*> type = find_committed(datatype);
  if (!type) return type;
  ISTHMUS_TRY(check_count(count, count_name));
  ISTHMUS_TRY(check_buffer(buffer, count, **type, buffer_name));
  return type;
}

/// "external32" is all there is (MPI 5.0, section 5.3).
Result<> check_datarep(const char* datarep) {
  ISTHMUS_TRY(check_pointer(datarep, "datarep"));
  if (std::string_view(datarep) == "external32") return {};
  return fail(ErrorClass::arg, fmt::format("datarep \"{}\" is not \"external32\"", datarep));
}

/// Both representations: how large a message is, and how it is written and read.
struct Native {
  static Result<std::int64_t> size(const Datatype& type, std::int64_t count) { return type.bytes(count); }
  static Result<std::size_t> write(const Datatype& type, const void* base, std::int64_t count,
                                   std::span<std::byte> out) {
    if (auto done = copy(Payload::of(base, count, type), Payload::of(out.data(), out.size())))
      return std::move(*done);
    return isthmus::pack(type, base, count, out);
  }
  static Result<std::size_t> read(const Datatype& type, void* base, std::int64_t count,
                                  std::span<const std::byte> in) {
    const Payload to = Payload::of(base, count, type);
    if (auto done = copy(Payload::of(in.data(), to.bytes), to)) return std::move(*done);
    return isthmus::unpack(type, base, count, in);
  }

 private:
  /// Where one of both lies in GPU memory; nothing where neither does.
  static std::optional<Result<std::size_t>> copy(const Payload& from, const Payload& to) {
    GpuMessages* const gpu = gpu_in_use();
    if (!gpu || to.bytes == 0) [[likely]]
      return std::nullopt;
    Result<bool> copied = gpu->copies().try_copy(from, to);
    if (!copied) return std::unexpected(std::move(copied).error());
    if (!*copied) return std::nullopt;
    return to.bytes;
  }
};

struct External {
  static Result<std::int64_t> size(const Datatype& type, std::int64_t count) {
    return external32_size(type, count);
  }
  static Result<std::size_t> write(const Datatype& type, const void* base, std::int64_t count,
                                   std::span<std::byte> out) {
    GpuMessages* const gpu = gpu_in_use();
    if (!gpu) [[likely]]
      return pack_external32(type, base, count, out);
    std::size_t written = 0;
    ISTHMUS_TRY(with_stand_ins(*gpu, {base, count, &type}, bytes_of(out), coll::Use::write,
                               [&](const void* from, void* to) -> Result<> {
                                 auto done = pack_external32(
                                     type, from, count, std::span(static_cast<std::byte*>(to), out.size()));
                                 if (!done) return std::unexpected(std::move(done).error());
                                 written = *done;
                                 return {};
                               }));
    return written;
  }
  static Result<std::size_t> read(const Datatype& type, void* base, std::int64_t count,
                                  std::span<const std::byte> in) {
    GpuMessages* const gpu = gpu_in_use();
    if (!gpu) [[likely]]
      return unpack_external32(type, base, count, in);
    Result<std::int64_t> needed = size(type, count);
    if (!needed) return std::unexpected(std::move(needed).error());
    const auto bytes = std::min(static_cast<std::size_t>(*needed), in.size());
    const coll::Out packed = bytes_of({const_cast<std::byte*>(in.data()), bytes});
    std::size_t consumed = 0;
    ISTHMUS_TRY(with_stand_ins(*gpu, {packed.buffer, packed.count, packed.type}, {base, count, &type},
                               coll::Use::write, [&](const void* from, void* to) -> Result<> {
                                 auto done = unpack_external32(
                                     type, to, count, std::span(static_cast<const std::byte*>(from), bytes));
                                 if (!done) return std::unexpected(std::move(done).error());
                                 consumed = *done;
                                 return {};
                               }));
    return consumed;
  }

 private:
  static coll::Out bytes_of(std::span<std::byte> run) {
    return {run.data(), static_cast<std::int64_t>(run.size()), &Datatype::basic(Basic::byte)};
  }
};

/// The message's side of a call.
template <class Pointer>
struct Message {
  Pointer buffer;
  std::int64_t count;
  MPI_Datatype datatype;
};

template <class Representation, class Integer>
Result<> write(const Message<const void*>& message, void* outbuf, std::int64_t outsize, Integer* position) {
  Result<Datatype*> type = message_type(message.buffer, message.count, message.datatype, "inbuf", "incount");
  if (!type) return std::unexpected(std::move(type).error());
  auto room = rest_of(static_cast<std::byte*>(outbuf), outsize, position, "outsize");
  if (!room) return std::unexpected(std::move(room).error());
  Result<std::int64_t> bytes = Representation::size(**type, message.count);
  if (!bytes) return std::unexpected(std::move(bytes).error());
  ISTHMUS_TRY(check_fit(*bytes, room->size(), outbuf, "outbuf"));
  Result<std::size_t> written = Representation::write(**type, message.buffer, message.count,
                                                      room->first(static_cast<std::size_t>(*bytes)));
  if (!written) return std::unexpected(std::move(written).error());
  *position += static_cast<Integer>(*written);
  return {};
}

template <class Representation, class Integer>
Result<> read(const void* inbuf, std::int64_t insize, Integer* position, const Message<void*>& message) {
  Result<Datatype*> type =
      message_type(message.buffer, message.count, message.datatype, "outbuf", "outcount");
  if (!type) return std::unexpected(std::move(type).error());
  auto rest = rest_of(static_cast<const std::byte*>(inbuf), insize, position, "insize");
  if (!rest) return std::unexpected(std::move(rest).error());
  Result<std::int64_t> bytes = Representation::size(**type, message.count);
  if (!bytes) return std::unexpected(std::move(bytes).error());
  ISTHMUS_TRY(check_fit(*bytes, rest->size(), inbuf, "inbuf"));
  Result<std::size_t> consumed = Representation::read(**type, message.buffer, message.count,
                                                      rest->first(static_cast<std::size_t>(*bytes)));
  if (!consumed) return std::unexpected(std::move(consumed).error());
  *position += static_cast<Integer>(*consumed);
  return {};
}

/// Sizes that the result cannot hold are MPI_UNDEFINED (MPI 5.0, section 5.2).
template <class Representation, class Integer>
Result<> store_size(std::int64_t count, MPI_Datatype datatype, Integer* size) {
  ISTHMUS_TRY(check_pointer(size, "size"));
  Result<Datatype*> type = find_committed(datatype);
  if (!type) return std::unexpected(std::move(type).error());
  ISTHMUS_TRY(check_count(count, "incount"));
  Result<std::int64_t> bytes = Representation::size(**type, count);
  if (!bytes) return std::unexpected(std::move(bytes).error());
  *size = std::in_range<Integer>(*bytes) ? static_cast<Integer>(*bytes) : Integer{MPI_UNDEFINED};
  return {};
}

}  // namespace

ISTHMUS_ENTRY(int, Pack)
(const void* inbuf, int incount, MPI_Datatype datatype, void* outbuf, int outsize, int* position,
 MPI_Comm comm) {
  return call("MPI_Pack", comm, [&](Communicator&) {
    return write<Native>({inbuf, incount, datatype}, outbuf, outsize, position);
  });
}
ISTHMUS_ENTRY(int, Pack_c)
(const void* inbuf, MPI_Count incount, MPI_Datatype datatype, void* outbuf, MPI_Count outsize,
 MPI_Count* position, MPI_Comm comm) {
  return call("MPI_Pack_c", comm, [&](Communicator&) {
    return write<Native>({inbuf, incount, datatype}, outbuf, outsize, position);
  });
}

ISTHMUS_ENTRY(int, Unpack)
(const void* inbuf, int insize, int* position, void* outbuf, int outcount, MPI_Datatype datatype,
 MPI_Comm comm) {
  return call("MPI_Unpack", comm, [&](Communicator&) {
    return read<Native>(inbuf, insize, position, {outbuf, outcount, datatype});
  });
}
ISTHMUS_ENTRY(int, Unpack_c)
(const void* inbuf, MPI_Count insize, MPI_Count* position, void* outbuf, MPI_Count outcount,
 MPI_Datatype datatype, MPI_Comm comm) {
  return call("MPI_Unpack_c", comm, [&](Communicator&) {
    return read<Native>(inbuf, insize, position, {outbuf, outcount, datatype});
  });
}

ISTHMUS_ENTRY(int, Pack_size)(int incount, MPI_Datatype datatype, MPI_Comm comm, int* size) {
  return call("MPI_Pack_size", comm,
              [&](Communicator&) { return store_size<Native>(incount, datatype, size); });
}
ISTHMUS_ENTRY(int, Pack_size_c)(MPI_Count incount, MPI_Datatype datatype, MPI_Comm comm, MPI_Count* size) {
  return call("MPI_Pack_size_c", comm,
              [&](Communicator&) { return store_size<Native>(incount, datatype, size); });
}

ISTHMUS_ENTRY(int, Pack_external)
(const char* datarep, const void* inbuf, int incount, MPI_Datatype datatype, void* outbuf, MPI_Aint outsize,
 MPI_Aint* position) {
  return call("MPI_Pack_external", [&](Runtime&) -> Result<> {
    ISTHMUS_TRY(check_datarep(datarep));
    return write<External>({inbuf, incount, datatype}, outbuf, outsize, position);
  });
}
ISTHMUS_ENTRY(int, Pack_external_c)
(const char* datarep, const void* inbuf, MPI_Count incount, MPI_Datatype datatype, void* outbuf,
 MPI_Count outsize, MPI_Count* position) {
  return call("MPI_Pack_external_c", [&](Runtime&) -> Result<> {
    ISTHMUS_TRY(check_datarep(datarep));
    return write<External>({inbuf, incount, datatype}, outbuf, outsize, position);
  });
}

ISTHMUS_ENTRY(int, Unpack_external)
(const char* datarep, const void* inbuf, MPI_Aint insize, MPI_Aint* position, void* outbuf, int outcount,
 MPI_Datatype datatype) {
  return call("MPI_Unpack_external", [&](Runtime&) -> Result<> {
    ISTHMUS_TRY(check_datarep(datarep));
    return read<External>(inbuf, insize, position, {outbuf, outcount, datatype});
  });
}
ISTHMUS_ENTRY(int, Unpack_external_c)
(const char* datarep, const void* inbuf, MPI_Count insize, MPI_Count* position, void* outbuf,
 MPI_Count outcount, MPI_Datatype datatype) {
  return call("MPI_Unpack_external_c", [&](Runtime&) -> Result<> {
    ISTHMUS_TRY(check_datarep(datarep));
    return read<External>(inbuf, insize, position, {outbuf, outcount, datatype});
  });
}

ISTHMUS_ENTRY(int, Pack_external_size)
(const char* datarep, int incount, MPI_Datatype datatype, MPI_Aint* size) {
  return call("MPI_Pack_external_size", [&](Runtime&) -> Result<> {
    ISTHMUS_TRY(check_datarep(datarep));
    return store_size<External>(incount, datatype, size);
  });
}
ISTHMUS_ENTRY(int, Pack_external_size_c)
(const char* datarep, MPI_Count incount, MPI_Datatype datatype, MPI_Count* size) {
  return call("MPI_Pack_external_size_c", [&](Runtime&) -> Result<> {
    ISTHMUS_TRY(check_datarep(datarep));
    return store_size<External>(incount, datatype, size);
  });
}

}  // namespace isthmus::abi
