#ifndef ISTHMUS_CHARE_DEVICE_BUFFER_HPP
#define ISTHMUS_CHARE_DEVICE_BUFFER_HPP

#include <isthmus/chare/callback.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

/// Data that goes apart from the message of an invocation, from the sender's memory straight to the
/// receiver's: memory of a GPU, or of the host.
namespace isthmus::chare {

/// An argument of an entry whose items go apart from it. What a sender names must not change, and not be
/// freed, before `sent` has been called; work that writes it in a GPU's streams must be over. A chare whose
/// data is under way moves and ends when it has come.
///
/// Where sender and receiver are in one process, the data is copied too, by the GPU if it is a GPU's; memory
/// that the sender gives away is not: the receiver gets that memory itself, and no post entry is called if
/// that holds for all buffers.
template <class T>
class DeviceBuffer {
  static_assert(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T> && !std::is_const_v<T>,
                "items go as bytes");

 public:
  DeviceBuffer() = default;
  DeviceBuffer(T* data, std::size_t size) : data_(data), size_(size) {}
  /// `sent` is called when the memory is the sender's again.
  DeviceBuffer(T* data, std::size_t size, const Callback<>& sent)
      : data_(data), size_(size), sent_(sent.what), has_sent_(true) {}
  /// Gives the memory away: it ends when it has been sent, if nobody else holds it. Its deleter may be that
  /// of a GPU's memory.
  DeviceBuffer(std::shared_ptr<T[]> memory, std::size_t size)
      : data_(memory.get()), size_(size), memory_(std::move(memory)) {}

  /// In an entry: where the data is. In a post entry: null.
  [[nodiscard]] T* data() const noexcept { return data_; }
  /// Items that have come, or, in a post entry, will come.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// In an entry: the memory, where it was given to it; else null, and the memory is whose the post entry
  /// says.
  [[nodiscard]] const std::shared_ptr<T[]>& memory() const noexcept { return memory_; }

  /// In a post entry: where the data is to go, with room for `room` items.
  void into(T* to, std::size_t room) {
    data_ = to;
    room_ = room;
    memory_ = nullptr;
  }
  /// The same; the entry gets that memory.
  void into(std::shared_ptr<T[]> to, std::size_t room) {
    data_ = to.get();
    room_ = room;
    memory_ = std::move(to);
  }

  // What the library does with it.

  /// As a source. The memory is the result's, which refers to this object.
  isthmus_chare_buffer give() {
    isthmus_chare_buffer buffer = bare(data_, size_);
    if (has_sent_) buffer.sent = &sent_;
    return buffer;
  }
  /// As what a post entry has said.
  isthmus_chare_buffer destination() { return bare(data_, room_); }
  /// Of what will come, and what has come. Takes the owner.
  static DeviceBuffer coming(const isthmus_chare_buffer& buffer) {
    DeviceBuffer made;
    made.size_ = static_cast<std::size_t>(buffer.bytes / sizeof(T));
    if (buffer.bytes % sizeof(T) != 0)
      detail::fail("data of " + std::to_string(buffer.bytes) + " bytes comes for items of " +
                   std::to_string(sizeof(T)));
    return made;
  }
  static DeviceBuffer come(const isthmus_chare_buffer& buffer) {
    DeviceBuffer made = coming(buffer);
    made.data_ = static_cast<T*>(buffer.address);
    if (buffer.owner) {
      // Only memory of this process comes with an owner: `bare` has made it.
      const std::unique_ptr<std::shared_ptr<void>> owner(static_cast<std::shared_ptr<void>*>(buffer.owner));
      made.memory_ = std::shared_ptr<T[]>(std::move(*owner), made.data_);
    }
    return made;
  }

 private:
  static void release(void* owner) { delete static_cast<std::shared_ptr<void>*>(owner); }
  isthmus_chare_buffer bare(T* data, std::size_t items) {
    isthmus_chare_buffer buffer{};
    buffer.address = data;
    buffer.bytes = items * sizeof(T);
    if (memory_) {
      buffer.owner = new std::shared_ptr<void>(std::exchange(memory_, nullptr), buffer.address);
      buffer.release = release;
    }
    return buffer;
  }

  T* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t room_ = 0;
  std::shared_ptr<T[]> memory_;
  isthmus_chare_callback sent_{};
  bool has_sent_ = false;
};
template <class T>
using device_buffer = DeviceBuffer<T>;

/// Names a mailbox for those who send to it. Plain bytes: may be an argument.
template <class T>
struct MailboxAddress {
  std::uint64_t id = 0;

  /// Sends the items of `data` to the memory that is posted next there; what holds for arguments holds for
  /// it. It waits for nothing: not for a message that names the memory, nor for the receiver's entries.
  void send(DeviceBuffer<T> data) const {
    const isthmus_chare_buffer buffer = data.give();
    isthmus_chare_mailbox_send(detail::runtime, id, &buffer);
  }
};

/// Memory that is posted ahead, before anybody sends: data that comes goes there at once. It lives in the
/// process that has opened it, for as long as this object; data that comes to a mailbox without memory waits.
template <class T>
class Mailbox {
 public:
  Mailbox() = default;
  [[nodiscard]] static Mailbox open() {
    Mailbox made;
    made.id_ = isthmus_chare_mailbox_open(detail::runtime);
    return made;
  }
  Mailbox(Mailbox&& other) noexcept : id_(std::exchange(other.id_, 0)) {}
  Mailbox& operator=(Mailbox&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;
  /// Memory that is posted is not touched any more.
  ~Mailbox() {
    if (id_ != 0) isthmus_chare_mailbox_close(detail::runtime, id_);
  }

  /// Room for `room` items of the next that come; `came` gets how many have. Several may be posted, and are
  /// used in their order.
  void post(T* data, std::size_t room, const Callback<std::uint64_t>& came) {
    isthmus_chare_mailbox_post(detail::runtime, id_, data, room * sizeof(T), sizeof(T), &came.what);
  }
  [[nodiscard]] MailboxAddress<T> address() const noexcept { return {id_}; }

 private:
  std::uint64_t id_ = 0;
};

/// In `serialize`: items in memory of a GPU, or of the host, which the chare has made before they are read.
///
///     template <class Archive> void serialize(Archive& archive) {
///       archive(size_);
///       if constexpr (Archive::reads) field_ = allocate(size_);
///       isthmus::chare::device_state(archive, field_, size_);
///     }
template <class Archive, class T>
void device_state(Archive& archive, T* data, std::size_t size) {
  static_assert(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>, "items go as bytes");
  archive.memory(data, size);
}

}  // namespace isthmus::chare

#endif
