#pragma once

#include <cstddef>
#include <cstdint>

/// The functions of libgdrapi.so.2 that this library uses: X(name in `gdr::Functions`, exported symbol,
/// result, parameters). Source: GDRCopy's documentation, API 2.5. They return 0 or an errno.
#define ISTHMUS_GDR_FUNCTIONS(X)                                                                     \
  X(open, gdr_open, ::isthmus::gdr::Session, ())                                                     \
  X(close, gdr_close, int, (::isthmus::gdr::Session session))                                        \
  X(pin, gdr_pin_buffer, int,                                                                        \
    (::isthmus::gdr::Session session, unsigned long address, std::size_t bytes, std::uint64_t token, \
     std::uint32_t space, ::isthmus::gdr::Pin* pin))                                                 \
  X(unpin, gdr_unpin_buffer, int, (::isthmus::gdr::Session session, ::isthmus::gdr::Pin pin))        \
  X(is_freed, gdr_get_callback_flag, int,                                                            \
    (::isthmus::gdr::Session session, ::isthmus::gdr::Pin pin, int* flag))                           \
  X(info, gdr_get_info_v2, int,                                                                      \
    (::isthmus::gdr::Session session, ::isthmus::gdr::Pin pin, ::isthmus::gdr::Info * info))         \
  X(map, gdr_map, int,                                                                               \
    (::isthmus::gdr::Session session, ::isthmus::gdr::Pin pin, void** address, std::size_t bytes))   \
  X(unmap, gdr_unmap, int,                                                                           \
    (::isthmus::gdr::Session session, ::isthmus::gdr::Pin pin, void* address, std::size_t bytes))    \
  X(store, gdr_copy_to_mapping, int,                                                                 \
    (::isthmus::gdr::Pin pin, void* to, const void* from, std::size_t bytes))                        \
  X(load, gdr_copy_from_mapping, int,                                                                \
    (::isthmus::gdr::Pin pin, void* to, const void* from, std::size_t bytes))                        \
  X(version, gdr_runtime_get_version, void, (int* major, int* minor))                                \
  X(driver_version, gdr_driver_get_version, int, (::isthmus::gdr::Session session, int* major, int* minor))

namespace isthmus::gdr {

using Session = struct SessionObject*;

/// Device memory that the processor's buses reach.
struct Pin {
  unsigned long handle = 0;
};

/// GPUs' memory is pinned in pages of 64 KiB.
inline constexpr std::size_t page = std::size_t{1} << 16U;

/// What was pinned: whole pages around what was asked for.
struct Info {
  std::uint64_t address = 0;  ///< the device's
  std::uint64_t bytes = 0;
  std::uint32_t page_bytes = 0;
  std::uint64_t ticks = 0;
  std::uint32_t ticks_per_ms = 0;
  unsigned is_mapped : 1 = 0;
  unsigned is_write_combined : 1 = 0;
  int mapping_type = 0;
};

/// Pointers to the library's functions, all of them set.
struct Functions {
#define ISTHMUS_GDR_MEMBER_(name, symbol, result, parameters) result(*name) parameters = nullptr;
  ISTHMUS_GDR_FUNCTIONS(ISTHMUS_GDR_MEMBER_)
#undef ISTHMUS_GDR_MEMBER_
};

}  // namespace isthmus::gdr
