#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "python.hpp"

/// Python values as bytes: what goes between processes. A *frame* is
///
///     FrameHead | Reply, if has_reply | a size for each buffer, 8 bytes | body | buffers, each at a multiple
///     of 16
///
/// or nothing at all, which is no arguments. The body is a pickle of protocol 5, and the buffers are those
/// that it has left out of band; arrays of NumPy with plain elements and `bytes`, alone, go without a pickle.
/// Whatever a frame says of itself is checked before anything is done with it (`read_frame`), and before any
/// pickle is read. What a pickle does is not, and cannot be, checked: frames come from processes of the job
/// alone (docs/python.md, "Trust").
namespace isthmus::python {

enum class Format : std::uint8_t {
  nothing = 0,  ///< no arguments
  bytes = 1,    ///< one `bytes`: the body
  pickled = 2,  ///< (arguments, keywords or None)
  array = 3,    ///< one array: the body is an `ArrayHead` and its extents, the one buffer its elements
};
inline constexpr Format last_format = Format::array;

inline constexpr std::uint8_t has_reply = 1;   ///< somebody waits for the result
inline constexpr std::uint8_t is_error = 2;    ///< of a reply: an exception and its text
inline constexpr std::uint8_t body_apart = 4;  ///< the body is a message of its own (channels)
inline constexpr std::uint8_t known_flags = 7;

struct FrameHead {
  std::uint8_t format;
  std::uint8_t flags;
  std::uint16_t buffers;
  std::uint32_t body;  ///< bytes
};
static_assert(sizeof(FrameHead) == 8);

/// Who waits for a result: a future of process `rank`.
struct Reply {
  std::uint64_t number = 0;  ///< 0: nobody
  std::uint32_t rank = 0;
  std::uint32_t wants_index = 0;  ///< 1: beside the result, which chare it is of
};

/// Of an array: its elements, as one character of the buffer protocol, and whose it is.
struct ArrayHead {
  char element[4];  ///< "d", "Zf": the format, filled up with zeros
  std::uint8_t family;
  std::uint8_t dimensions;
  std::uint8_t unused[2];
};
static_assert(sizeof(ArrayHead) == 8);
inline constexpr std::uint8_t largest_dimensions = 32;
/// Families: who makes an array on the other side.
inline constexpr std::uint8_t family_numpy = 0;
inline constexpr std::uint8_t family_cupy = 1;
inline constexpr std::uint8_t family_torch = 2;
inline constexpr std::uint8_t family_torch_gpu = 3;

/// A size of a buffer with this bit: it is a message of its own (channels).
inline constexpr std::uint64_t apart_bit = std::uint64_t{1} << 63;
inline constexpr std::size_t most_buffers = 256;

[[nodiscard]] constexpr std::size_t aligned(std::size_t bytes) noexcept {
  return (bytes + 15) & ~std::size_t{15};
}

/// Memory of a Python object, kept as long as this lives.
class BufferView {
 public:
  BufferView() = default;
  /// Contiguous. Throws where it is not.
  BufferView(nb::handle object, int flags);
  /// Memory that `owner` keeps, of a GPU too.
  BufferView(nb::object owner, void* data, std::size_t bytes) noexcept
      : owner_(std::move(owner)), data_(data), bytes_(bytes) {}
  BufferView(BufferView&& other) noexcept;
  BufferView& operator=(BufferView&& other) noexcept;
  ~BufferView();

  [[nodiscard]] void* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] const Py_buffer& view() const noexcept { return *view_; }

 private:
  std::unique_ptr<Py_buffer> view_;
  nb::object owner_;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Arguments that are to be written. Needs the GIL.
class Encoded {
 public:
  /// `keywords` may be null or None.
  static Encoded of(nb::handle arguments, nb::handle keywords);
  /// An array in memory of the host or a GPU, whose owner `view` keeps.
  static Encoded of_array(const ArrayHead& head, const std::vector<std::uint64_t>& extents, BufferView view);

  void set_reply(const Reply& reply) noexcept { reply_ = reply; }
  void set_error() noexcept { flags_ |= is_error; }
  /// Buffers of more than `limit` bytes become messages of their own, and so does such a body; `always`: the
  /// buffers in any case (memory of a GPU).
  void put_apart(std::size_t limit, bool always);

  /// Of the frame, without what is apart.
  [[nodiscard]] std::size_t size() const noexcept;
  void write(void* to) const noexcept;
  /// What goes apart, in order. The memory is this object's.
  struct Piece {
    const void* data;
    std::size_t bytes;
  };
  [[nodiscard]] std::vector<Piece> apart() const;

 private:
  [[nodiscard]] std::size_t front() const noexcept;

  Format format_ = Format::nothing;
  std::uint8_t flags_ = 0;
  Reply reply_{};
  nb::object owner_;  ///< of the body
  std::vector<std::byte> own_body_;
  const void* body_ = nullptr;
  std::size_t body_bytes_ = 0;
  std::vector<BufferView> buffers_;
  std::vector<bool> is_apart_;
};

/// A frame that has been checked: offsets into its bytes.
struct Frame {
  Format format = Format::nothing;
  std::uint8_t flags = 0;
  Reply reply{};
  struct Part {
    std::size_t offset = 0;  ///< in the frame; of an apart one 0
    std::size_t bytes = 0;
    bool is_apart = false;
  };
  Part body;
  std::vector<Part> buffers;
};

/// Checks a frame of `bytes` bytes. An empty text if it is one; else why it is not, and `frame` is not to be
/// used.
std::string read_frame(const std::byte* data, std::size_t bytes, Frame& frame);

/// An array's description, checked against the size of its buffer.
struct ArrayShape {
  ArrayHead head{};
  std::vector<std::uint64_t> extents;
  std::size_t item_bytes = 0;
};
std::string read_array(const std::byte* body, std::size_t bytes, std::size_t buffer_bytes, ArrayShape& shape);
/// Bytes of an element; 0: no format that goes without a pickle.
[[nodiscard]] std::size_t item_size(const char* format) noexcept;

/// What a frame holds.
struct Arguments {
  nb::object positional;  ///< a tuple
  nb::object keywords;    ///< a dict, or null
};
/// Makes the values. `parts`: a Python object with writable memory for each buffer; `body`: of the frame or
/// apart. Throws the Python exceptions of unpickling.
Arguments make_arguments(const Frame& frame, const std::byte* body, std::vector<nb::object> parts);
/// Reads, checks and makes the arguments that lie in `data`. Buffers are copied, unless `keeper` owns the
/// memory, whose bytes they are then. Throws nb::value_error if it is no frame.
Arguments decode(const std::byte* data, std::size_t bytes, Frame& frame, nb::handle keeper);
/// An array of NumPy over the memory of `owner`, which it keeps.
nb::object make_array(const ArrayShape& shape, nb::handle owner);

}  // namespace isthmus::python
