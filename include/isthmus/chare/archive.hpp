#ifndef ISTHMUS_CHARE_ARCHIVE_HPP
#define ISTHMUS_CHARE_ARCHIVE_HPP

#include <isthmus/chare_runtime.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <ranges>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

/// How values become bytes and values again: arguments of entries, results of reductions, chares that move.
///
/// A class of the program says what it is made of in one function, for all directions:
///
///     struct Particle {
///       std::string name;
///       std::vector<double> position;
///       template <class Archive> void serialize(Archive& archive) { archive(name, position); }
///     };
///
/// Without one: types that may be copied as bytes and are neither pointers nor views; std::string, array,
/// pair, tuple, optional, unique_ptr, and all containers with `insert` or `push_back`. Bytes are those of
/// this machine: all processes of a job run one program on processors of one kind.
namespace isthmus::chare {

/// The bytes are not those of such a value. Thrown by `Reader` alone.
class ArchiveError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

namespace detail {

/// Of `run`, while it runs.
inline isthmus_chare_runtime* runtime = nullptr;

template <class T, class Archive>
concept HasSerialize = requires(T& value, Archive& archive) { value.serialize(archive); };

struct AnyArchive {
  static constexpr bool reads = false;
  template <class... T>
  void operator()(T&...) {}
  template <class T>
  void memory(T*, std::size_t) {}
};

template <class T>
inline constexpr bool is_array = false;
template <class T, std::size_t n>
inline constexpr bool is_array<std::array<T, n>> = true;

template <class T>
concept TupleLike = requires { std::tuple_size<T>::value; };
/// Tuples are never copied as bytes: whether they could be depends on the library, and an empty one takes
/// none.
/// Views (std::string_view, std::span) are addresses of this process, although they may be copied as bytes.
template <class T>
concept PlainBytes = std::is_trivially_copyable_v<T> && !std::is_pointer_v<T> &&
                     !std::is_member_pointer_v<T> && !std::is_reference_v<T> && !std::ranges::view<T> &&
                     !HasSerialize<T, AnyArchive> && (!TupleLike<T> || is_array<T>);

template <class T>
concept OptionalLike = requires(T& value) {
  value.has_value();
  value.reset();
  *value;
};
template <class T>
inline constexpr bool is_unique_ptr = false;
template <class T>
inline constexpr bool is_unique_ptr<std::unique_ptr<T>> = true;
template <class T>
concept ContainerLike = std::ranges::range<T> && requires(T& value) {
  value.clear();
  value.size();
  typename T::value_type;
};
template <class T>
concept BlockOfBytes =
    ContainerLike<T> && std::ranges::contiguous_range<T> && PlainBytes<typename T::value_type> &&
    requires(T& value) { value.resize(std::size_t{}); };
template <class T>
using NotConst = std::remove_const_t<std::remove_reference_t<T>>;
template <class T>
inline constexpr bool no_way_to_serialize = false;

/// The value types of maps have a constant key.
template <class T>
struct Movable {
  using type = T;
};
template <class K, class V>
struct Movable<std::pair<const K, V>> {
  using type = std::pair<K, V>;
};

/// What all archives do with types; `Archive` has `bytes(T*, count)`, and `length`, which gives or takes the
/// number of items of a container.
template <class Archive, class T>
void serialize_value(Archive& archive, T& value) {
  if constexpr (HasSerialize<T, Archive>) {
    value.serialize(archive);
  } else if constexpr (PlainBytes<T>) {
    archive.bytes(&value, 1);
  } else if constexpr (is_array<T>) {
    for (auto& each : value)
      serialize_value(archive, each);
  } else if constexpr (TupleLike<T>) {
    // The keys of maps are constant; `Reader` gets none of these.
    std::apply(
        [&](auto&... each) { (serialize_value(archive, const_cast<NotConst<decltype(each)>&>(each)), ...); },
        value);
  } else if constexpr (std::ranges::view<T> && !OptionalLike<T>) {
    static_assert(no_way_to_serialize<T>,
                  "a view is the address of what others own: send a std::string or std::vector");
  } else if constexpr (OptionalLike<T> || is_unique_ptr<T>) {
    archive.maybe(value);
  } else if constexpr (BlockOfBytes<T>) {
    archive.block(value);
  } else if constexpr (ContainerLike<T>) {
    archive.container(value);
  } else {
    static_assert(no_way_to_serialize<T>,
                  "give this class `template <class Archive> void serialize(Archive& archive)`");
  }
}

/// What writing and measuring have in common. Values are not changed, although `serialize` is not const.
template <class Self>
class Giver {
 public:
  template <class... T>
  void operator()(const T&... values) {
    (serialize_value(self(), const_cast<T&>(values)), ...);
  }
  template <class T>
  void maybe(T& value) {
    const bool has = static_cast<bool>(value);
    self().bytes(&has, 1);
    if (has) serialize_value(self(), *value);
  }
  template <class T>
  void block(T& value) {
    const std::uint64_t count = value.size();
    self().bytes(&count, 1);
    self().bytes(value.data(), value.size());
  }
  template <class T>
  void container(T& value) {
    const std::uint64_t count = value.size();
    self().bytes(&count, 1);
    for (const auto& each : value) {
      using Item = typename T::value_type;
      serialize_value(self(), const_cast<Item&>(static_cast<const Item&>(each)));
    }
  }

 private:
  Self& self() { return static_cast<Self&>(*this); }
};

}  // namespace detail

/// Counts the bytes that `Writer` will write.
class Sizer : public detail::Giver<Sizer> {
 public:
  static constexpr bool reads = false;
  template <class T>
  void bytes(const T*, std::size_t count) {
    size_ += sizeof(T) * count;
  }
  /// Of `device_state`: their number, and the items.
  template <class T>
  void memory(const T*, std::size_t count) {
    size_ += sizeof(std::uint64_t) + sizeof(T) * count;
  }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  std::size_t size_ = 0;
};

/// Writes to memory that is large enough (`Sizer`).
class Writer : public detail::Giver<Writer> {
 public:
  static constexpr bool reads = false;
  explicit Writer(void* to) : at_(static_cast<unsigned char*>(to)) {}
  template <class T>
  void bytes(const T* from, std::size_t count) {
    if (count != 0) std::memcpy(at_, from, sizeof(T) * count);
    at_ += sizeof(T) * count;
  }
  template <class T>
  void memory(const T* from, std::size_t count) {
    const std::uint64_t number = count;
    bytes(&number, 1);
    isthmus_chare_copy(detail::runtime, at_, from, sizeof(T) * count);
    at_ += sizeof(T) * count;
  }

 private:
  unsigned char* at_;
};

/// Makes values of bytes that may be anything: throws `ArchiveError` where they do not fit, and never takes
/// more memory than they account for. Of a container that is no block of plain values each item must take a
/// byte or more.
class Reader {
 public:
  static constexpr bool reads = true;
  Reader(const void* from, std::size_t bytes) : at_(static_cast<const unsigned char*>(from)), left_(bytes) {}

  template <class... T>
  void operator()(T&... values) {
    (detail::serialize_value(*this, values), ...);
  }
  template <class T>
  void bytes(T* to, std::size_t count) {
    if constexpr (std::is_same_v<T, bool>) {
      for (std::size_t i = 0; i < count; ++i) {
        unsigned char byte = 0;
        bytes(&byte, 1);
        if (byte > 1) throw ArchiveError("a truth value is " + std::to_string(byte));
        to[i] = byte == 1;
      }
    } else {
      const std::size_t wanted = sizeof(T) * count;
      if (wanted > left_)
        throw ArchiveError("the arguments are cut off: " + std::to_string(wanted) +
                           " bytes are wanted, and " + std::to_string(left_) + " are left");
      if (wanted != 0) std::memcpy(static_cast<void*>(to), at_, wanted);
      at_ += wanted;
      left_ -= wanted;
    }
  }
  template <class T>
  void memory(T* to, std::size_t count) {
    const std::size_t written = length(sizeof(T));
    if (written != count)
      throw ArchiveError("memory for " + std::to_string(count) + " items is to be read, and there are " +
                         std::to_string(written));
    isthmus_chare_copy(detail::runtime, to, at_, sizeof(T) * count);
    at_ += sizeof(T) * count;
    left_ -= sizeof(T) * count;
  }
  template <class T>
  void maybe(T& value) {
    bool has = false;
    bytes(&has, 1);
    value.reset();
    if (!has) return;
    if constexpr (detail::is_unique_ptr<T>)
      value = std::make_unique<typename T::element_type>();
    else
      value.emplace();
    detail::serialize_value(*this, *value);
  }
  template <class T>
  void block(T& value) {
    using Item = typename T::value_type;
    const std::size_t count = length(sizeof(Item));
    if constexpr (!std::is_same_v<Item, bool> &&
                  requires(const Item* from) { value.assign(from, from + count); }) {
      // Without zeroing it first: 97 us for 1 MiB from process to process instead of 107.
      if (reinterpret_cast<std::uintptr_t>(at_) % alignof(Item) == 0) {
        const auto* const from = reinterpret_cast<const Item*>(at_);
        value.assign(from, from + count);
        at_ += count * sizeof(Item);
        left_ -= count * sizeof(Item);
        return;
      }
    }
    value.resize(count);
    bytes(value.data(), value.size());
  }
  template <class T>
  void container(T& value) {
    const std::size_t count = length(1);
    value.clear();
    for (std::size_t i = 0; i < count; ++i) {
      typename detail::Movable<typename T::value_type>::type item{};
      detail::serialize_value(*this, item);
      if constexpr (requires { value.push_back(std::move(item)); })
        value.push_back(std::move(item));
      else
        value.insert(std::move(item));
    }
  }
  /// All has been read.
  void finish() const {
    if (left_ != 0) throw ArchiveError(std::to_string(left_) + " bytes are left over behind the arguments");
  }

 private:
  /// Of items that take so many bytes or more.
  std::size_t length(std::size_t item) {
    std::uint64_t count = 0;
    bytes(&count, 1);
    if (count > left_ / item)
      throw ArchiveError("a length of " + std::to_string(count) + " does not fit into " +
                         std::to_string(left_) + " bytes");
    return static_cast<std::size_t>(count);
  }

  const unsigned char* at_;
  std::size_t left_;
};

}  // namespace isthmus::chare

#endif
