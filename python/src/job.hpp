#pragma once

#include <isthmus/chare_runtime.h>
#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "array_arguments.hpp"
#include "codec.hpp"
#include "python.hpp"

namespace isthmus::python {

class Channels;

/// What the program has registered, as the library knows it.
struct Item {
  isthmus_chare_item base{};  ///< first: the library hands out its address
  std::string name;
  nb::object object;  ///< a class, or what is called
  nb::object post;    ///< of an entry: says where its arrays of GPUs go; None: they are new ones
};

/// What the Python part does for this one.
struct Hooks {
  nb::object
      start_task;      ///< (coroutine, chare or None, number, rank, index, name): runs it beside the others
  nb::object resolve;  ///< (number, arguments, is_error): a reply has come
  nb::object hold;     ///< (future or None, count, arguments): the number for `resolve`, which is called so
                       ///< often with nothing when arrays have been sent
  nb::object array_of;   ///< what an argument is, as `split` asks
  nb::object new_array;  ///< (family, element, extents): (array, Memory)
  nb::object coming;     ///< (family, element, extents): what a post entry gets; `_destination()` as above
};

/// An invocation whose arrays are on their way.
struct Arriving {
  Arguments arguments;
  Reply reply{};
  nb::object error;  ///< what its post entry has raised: the entry is not called
  std::vector<std::unique_ptr<std::byte[]>> unwanted;  ///< where the arrays go then
};

/// Where an invocation goes; what Python's proxies derive from.
struct Proxy {
  isthmus_chare_target target{};
  std::int32_t priority = 0;
};

/// A chare of this process, as its Python object knows it. `element` is null once it has ended or moved.
struct Element {
  isthmus_chare_element* element = nullptr;
};

/// What the library calls a chare's object.
struct Chare {
  nb::object instance;
  nb::object element;                ///< of class Element
  std::unique_ptr<Encoded> encoded;  ///< between `measure` and `write`
};

/// A part of a reduction.
struct Partial {
  const Item* reducer = nullptr;
  nb::object value;
  std::unique_ptr<Encoded> encoded;  ///< between `measure` and `write`
};

/// The chares of this process, from `open` to `close`; at most one at a time. Used by the thread that has
/// opened it, with the GIL held, which it lets go of while it waits.
class Job {
 public:
  ~Job();

  /// Collective. `items`: (kind, name, place of its class or -1, object, post entry or None) each.
  static void open(nb::list items, Hooks hooks);
  /// The open one. Throws Python's RuntimeError if there is none, or in another thread.
  static Job& get();
  static void close();
  /// Null if there is none; from any thread with the GIL.
  static Job* now() noexcept { return current_.get(); }

  [[nodiscard]] isthmus_chare_runtime* runtime() const noexcept { return runtime_; }
  [[nodiscard]] const Item& item(std::uint32_t place) const;
  [[nodiscard]] Channels& channels() noexcept { return *channels_; }
  [[nodiscard]] const Hooks& hooks() const noexcept { return hooks_; }
  /// Of a kept message: whether this is still the job that it is of.
  [[nodiscard]] std::uint64_t serial() const noexcept { return serial_; }

  /// `sent`: a future that gets None when the arrays of GPUs among the arguments may be changed, or None.
  void invoke(const Proxy& proxy, const Item& item, nb::handle arguments, nb::handle keywords,
              const Reply& reply, nb::handle sent);
  /// Invocations with arrays, by the address of their arguments.
  [[nodiscard]] std::unordered_map<const void*, Arriving>& arriving() noexcept { return arriving_; }
  /// To the future that waits.
  void reply(const Reply& to, nb::handle arguments, bool is_error, std::uint64_t index);
  /// The same with the exception that is set, which is cleared.
  void reply_error(const Reply& to, nb::handle exception, std::uint64_t index);
  [[nodiscard]] isthmus_chare_callback callback_to_future(std::uint64_t number, std::uint32_t rank) const;
  [[nodiscard]] isthmus_chare_callback callback_to(const Proxy& proxy, const Item& item) const;

  /// Works until something in `ready`, a collection, is there, `seconds` are over (less than 0: no end), `fd`
  /// can be read, or the job has ended. Whether `fd` can be read.
  bool drive(nb::handle ready, double seconds, int fd, bool naps);
  [[nodiscard]] bool has_ended() const noexcept { return ended_; }
  int finish();

 private:
  Job();

  void wait(double seconds, int fd, bool naps);

  inline static std::unique_ptr<Job> current_;
  inline static std::uint64_t serials_ = 0;

  isthmus_chare_runtime* runtime_ = nullptr;
  std::vector<std::unique_ptr<Item>> items_;
  std::unique_ptr<Channels> channels_;
  Hooks hooks_;
  ArrayTypes array_types_;
  std::unordered_map<const void*, Arriving> arriving_;
  unsigned long thread_ = 0;
  std::chrono::steady_clock::time_point looked_{};  ///< at descriptors
  std::uint64_t serial_ = 0;
  bool ended_ = false;
};

/// The functions of an item of that kind.
void fill_item(Item& item);

/// Ends the job with an exception's text, and with where it came from. Does not return.
[[noreturn]] void end_job(const std::string& text);

/// Memory of a message that the program keeps: what `memoryview` reads.
struct KeptMessage {
  void* kept = nullptr;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::uint64_t serial = 0;

  KeptMessage(void* message, std::byte* at, std::size_t size) noexcept;
  KeptMessage(const KeptMessage&) = delete;
  KeptMessage& operator=(const KeptMessage&) = delete;
  ~KeptMessage();
};

}  // namespace isthmus::python
