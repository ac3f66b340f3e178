#include "datatype/external32.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <string>

#include "datatype/block_copy.hpp"
#include "datatype/float_types.hpp"
#include "datatype/placement.hpp"

namespace isthmus {

namespace {

static_assert(std::endian::native == std::endian::little, "a big-endian machine swaps nothing");

/// `count` elements of one basic type, `stride` bytes apart.
struct Run {
  const BasicInfo* info;
  Address address;
  std::int64_t count;
  std::int64_t stride;
};

/// Calls `visit(const Run&)` for all basic elements of `run.count` elements of `type`, in typemap order,
/// until one call returns false.
template <class Visit>
bool for_each_run(const Datatype& type, Address address, std::int64_t count, std::int64_t stride,
                  Visit& visit) {
  if (type.size() == 0) return true;
  if (const auto basic = type.as_basic()) return visit(Run{&info(*basic), address, count, stride});
  for (std::int64_t i = 0; i < count; ++i, address += static_cast<Address>(stride)) {
    const bool finished = for_each_placement(type, [&](const Placement& part) {
      Address start = address + static_cast<Address>(part.displacement.value());
      if (part.blocklength == 1) {
        return for_each_run(*part.type, start, part.count, part.stride.value(), visit);
      }
      for (std::int64_t j = 0; j < part.count; ++j, start += static_cast<Address>(part.stride.value())) {
        if (!for_each_run(*part.type, start, part.blocklength, part.type->extent(), visit)) return false;
      }
      return true;
    });
    if (!finished) return false;
  }
  return true;
}

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class T>
void store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

template <std::size_t width>
void reverse(std::byte* to, const std::byte* from) {
  std::byte bytes[width];
  std::memcpy(bytes, from, width);
  std::reverse(bytes, bytes + width);
  std::memcpy(to, bytes, width);
}

/// The same bits on both sides, in the other order.
template <std::size_t width>
struct Swapped {
  static constexpr std::size_t inside = width;
  static constexpr std::size_t outside = width;
  static bool encode(std::byte* out, const std::byte* in) {
    reverse<width>(out, in);
    return true;
  }
  static void decode(std::byte* out, const std::byte* in) { reverse<width>(out, in); }
};

/// An integer that is shorter outside.
template <class Inside, class Outside>
struct Narrowed {
  static constexpr std::size_t inside = sizeof(Inside);
  static constexpr std::size_t outside = sizeof(Outside);
  static bool encode(std::byte* out, const std::byte* in) {
    const auto value = load<Inside>(in);
    const auto narrow = static_cast<Outside>(value);
    if (static_cast<Inside>(narrow) != value) return false;
    reverse<outside>(out, reinterpret_cast<const std::byte*>(&narrow));
    return true;
  }
  static void decode(std::byte* out, const std::byte* in) {
    Outside narrow;
    reverse<outside>(reinterpret_cast<std::byte*>(&narrow), in);
    store<Inside>(out, narrow);
  }
};

#if __LDBL_MANT_DIG__ != 113
/// A long double that is not IEEE binary128 here.
struct Extended {
  static constexpr std::size_t inside = sizeof(long double);
  static constexpr std::size_t outside = 16;
  static constexpr std::size_t significant = 10;  // bytes of an x87 number; the rest is padding
  static bool encode(std::byte* out, const std::byte* in) {
    const auto quad = static_cast<Float128>(load<long double>(in));
    reverse<16>(out, reinterpret_cast<const std::byte*>(&quad));
    return true;
  }
  static void decode(std::byte* out, const std::byte* in) {
    Float128 quad;
    reverse<16>(reinterpret_cast<std::byte*>(&quad), in);
    const auto value = static_cast<long double>(quad);
    std::memset(out, 0, sizeof value);
    std::memcpy(out, &value, significant);
  }
};
#else
using Extended = Swapped<16>;
#endif

/// Calls `work` with the conversion for one part of `info`: the element, or the real or imaginary part.
template <class Work>
bool with_conversion(const BasicInfo& info, Work&& work) {
  switch (info.basic) {
    case Basic::long_:
      return work.template operator()<Narrowed<std::int64_t, std::int32_t>>();
    case Basic::unsigned_long:
      return work.template operator()<Narrowed<std::uint64_t, std::uint32_t>>();
    case Basic::wchar:
      return work.template operator()<Narrowed<std::int32_t, std::uint16_t>>();
    case Basic::long_double:
    case Basic::c_long_double_complex:
    case Basic::cxx_long_double_complex:
      return work.template operator()<Extended>();
    default:
      break;
  }
  switch (info.type_class == TypeClass::complex ? info.size / 2 : info.size) {
    case 2:
      return work.template operator()<Swapped<2>>();
    case 4:
      return work.template operator()<Swapped<4>>();
    case 8:
      return work.template operator()<Swapped<8>>();
    case 16:
      return work.template operator()<Swapped<16>>();
    default:
      return work.template operator()<Swapped<1>>();
  }
}

/// Calls `part(address)` for each part of each element.
template <class Conversion, class Part>
bool for_each_part(const Run& run, Part&& part) {
  const std::size_t parts = run.info->size / Conversion::inside;
  Address element = run.address;
  for (std::int64_t i = 0; i < run.count; ++i, element += static_cast<Address>(run.stride)) {
    for (std::size_t p = 0; p < parts; ++p) {
      if (!part(pointer(element + p * Conversion::inside))) return false;
    }
  }
  return true;
}

Result<std::size_t> checked_size(const Datatype& type, std::int64_t count, std::size_t room) {
  const Result<std::int64_t> bytes = external32_size(type, count);
  if (!bytes) return fail(bytes.error().error_class(), bytes.error().text());
  const auto needed = static_cast<std::size_t>(*bytes);
  if (needed > room) {
    return fail(ErrorClass::truncate,
                std::to_string(needed) + " bytes do not fit into " + std::to_string(room));
  }
  return needed;
}

}  // namespace

Result<std::int64_t> external32_size(const Datatype& type, std::int64_t count) {
  if (Result<std::int64_t> inside = type.bytes(count); !inside) return inside;
  return count * type.bounds().external32_size;  // never more than the bytes inside
}

Result<std::size_t> pack_external32(const Datatype& type, const void* base, std::int64_t count,
                                    std::span<std::byte> out) {
  Result<std::size_t> size = checked_size(type, count, out.size());
  if (!size) return size;
  std::byte* next = out.data();
  const BasicInfo* misfit = nullptr;
  auto encode = [&](const Run& run) {
    return with_conversion(*run.info, [&]<class Conversion>() {
      const bool all = for_each_part<Conversion>(run, [&](const std::byte* part) {
        if (!Conversion::encode(next, part)) return false;
        next += Conversion::outside;
        return true;
      });
      if (!all) misfit = run.info;
      return all;
    });
  };
  if (!for_each_run(type, reinterpret_cast<Address>(base), count, type.extent(), encode)) {
    return fail(ErrorClass::conversion, "a value of " + std::string(misfit->name) + " does not fit the " +
                                            std::to_string(misfit->external32_size) +
                                            " bytes that it has in external32");
  }
  return size;
}

Result<std::size_t> unpack_external32(const Datatype& type, void* base, std::int64_t count,
                                      std::span<const std::byte> in) {
  Result<std::size_t> size = checked_size(type, count, in.size());
  if (!size) return size;
  const std::byte* next = in.data();
  auto decode = [&](const Run& run) {
    return with_conversion(*run.info, [&]<class Conversion>() {
      return for_each_part<Conversion>(run, [&](std::byte* part) {
        Conversion::decode(part, next);
        next += Conversion::outside;
        return true;
      });
    });
  };
  for_each_run(type, reinterpret_cast<Address>(base), count, type.extent(), decode);
  return size;
}

}  // namespace isthmus
