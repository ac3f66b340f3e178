#ifndef ISTHMUS_STREAM_HPP
#define ISTHMUS_STREAM_HPP

#include <isthmus/stream_runtime.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

/// Communication that is prepared once and posted on CUDA streams, in C++20 and later: docs/prepared.md. What
/// streams do not reach, on other hosts above all, a thread of the library carries: the same calls serve. The
/// model is LibMP's (Agostini, Rossetti, Potluri: GPUDirect Async, 2018).
///
///     isthmus::prepared::Port port(MPI_COMM_WORLD, 2);
///     isthmus::prepared::Share out(port, x, bytes), in(port, y, bytes);
///     auto put = isthmus::prepared::put(out, 0, in, peer, 0, bytes, {.word = 0});
///     put.post(stream);
///     port.wait_equal(0, 1, stream);    // a kernel behind this sees what the peer has put
///
/// Ownership: each object owns what it has made, and can be moved. A share goes after its descriptors, a port
/// after its shares. Threading: one thread at a time for a port and what belongs to it. Errors: `Error`.
namespace isthmus::prepared {

using Stream = CUstream_st*;  ///< cudaStream_t, CUstream
inline constexpr Stream now = nullptr;

/// What a call could not do. `code`: a class of MPI.
class Error : public std::runtime_error {
 public:
  Error(int code, const char* text) : std::runtime_error(text), code_(code) {}
  [[nodiscard]] int code() const noexcept { return code_; }

 private:
  int code_;
};

namespace detail {
inline void check(int code) {
  if (code != 0) throw Error(code, isthmus_stream_error());
}

template <class T, int (*Free)(T*)>
class Owned {
 public:
  Owned() = default;
  Owned(Owned&& other) noexcept : what_(std::exchange(other.what_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(what_, other.what_);
    return *this;
  }
  ~Owned() {
    if (what_) static_cast<void>(Free(what_));
  }
  /// Ends it now; throws where it is in use, and then it stays.
  void free() {
    check(Free(what_));
    what_ = nullptr;
  }
  [[nodiscard]] T* get() const noexcept { return what_; }

 protected:
  T* what_ = nullptr;
};
}  // namespace detail

/// Who sets the words of a port and waits for them. Those that streams alone do lie in memory of the GPUs,
/// where these reach each other, and processors (`now`) are refused.
enum class WordsOf : std::uint8_t { all, streams };

/// Processes and their GPUs, and words of 32 bits in each.
class Port : public detail::Owned<isthmus_stream_port, isthmus_stream_port_free> {
 public:
  /// Collective. `words`: of each process, all 0. `whose`: the same in all processes.
  Port(MPI_ABI_Comm* comm, std::uint32_t words, WordsOf whose = WordsOf::all) {
    detail::check(whose == WordsOf::streams ? isthmus_stream_port_make_for_streams(comm, words, &what_)
                                            : isthmus_stream_port_make(comm, words, &what_));
  }
  /// Throws where a process of the port has died, or it was cancelled.
  void check() const { detail::check(isthmus_stream_port_check(what_)); }
  /// Lets all streams of this process go on that wait for its words.
  void cancel() const { detail::check(isthmus_stream_port_cancel(what_)); }
  /// Sets a word of any process, in the order of the stream.
  void set(int rank, std::uint32_t word, std::uint32_t value, Stream stream = now) const {
    detail::check(isthmus_stream_set(what_, rank, word, value, stream));
  }
  // The stream, or with `now` the processor, waits for a word of this process.
  void wait_equal(std::uint32_t word, std::uint32_t value, Stream stream = now) const {
    wait(word, ISTHMUS_STREAM_EQUAL, value, 0, stream);
  }
  void wait_at_least(std::uint32_t word, std::uint32_t value, Stream stream = now) const {
    wait(word, ISTHMUS_STREAM_AT_LEAST, value, 0, stream);
  }
  /// For one of the bits of `mask`.
  void wait_any_bit(std::uint32_t word, std::uint32_t mask, Stream stream = now) const {
    wait(word, ISTHMUS_STREAM_ANY_BIT, mask, 0, stream);
  }
  /// Waits until it is `value`, and sets it to 0: no number counts, so a graph of it can be launched again.
  void take(std::uint32_t word, std::uint32_t value, Stream stream = now) const {
    wait(word, ISTHMUS_STREAM_EQUAL, value, 1, stream);
  }
  /// The same of several: one wait for all is shorter than one behind the other.
  void take_all(std::span<const std::uint32_t> words, std::uint32_t value, Stream stream = now) const {
    detail::check(
        isthmus_stream_wait_all(what_, words.data(), words.size(), ISTHMUS_STREAM_EQUAL, value, 1, stream));
  }

 private:
  void wait(std::uint32_t word, std::uint32_t condition, std::uint32_t value, std::uint32_t resets,
            Stream stream) const {
    detail::check(isthmus_stream_wait(what_, word, condition, value, resets, stream));
  }
};

/// Memory of each process that others put into and get from.
class Share : public detail::Owned<isthmus_stream_share, isthmus_stream_share_free> {
 public:
  /// Collective. The memory stays the program's. Managed and pageable memory is refused.
  Share(const Port& port, void* address, std::size_t bytes) {
    detail::check(isthmus_stream_share_make(port.get(), address, bytes, &what_));
  }
  /// Whether streams of this process reach that rank's memory with no processor on the way; else a proxy
  /// carries the bytes.
  [[nodiscard]] bool reaches(int rank) const noexcept { return isthmus_stream_share_reach(what_, rank) == 0; }
};

/// Of a put or get: `word` of the other process gets `value` when the bytes are there, or have been read.
struct Notify {
  std::uint32_t word = 0;
  std::uint32_t value = 1;
};

/// A put or get, to be posted as often as the program likes.
class Descriptor : public detail::Owned<isthmus_stream_descriptor, isthmus_stream_descriptor_free> {
 public:
  explicit Descriptor(const isthmus_stream_transfer& transfer) {
    detail::check(isthmus_stream_prepare(&transfer, &what_));
  }
  /// In the order of the stream; behind it, the memory on this side is free. When the bytes of a put are
  /// there, its notification tells, and nothing else.
  void post(Stream stream = now) const { detail::check(isthmus_stream_post(&what_, 1, stream)); }
  /// The processor waits for the last post.
  void finish() const { detail::check(isthmus_stream_finish(what_)); }
};

/// Several at once: all copies, then all notifications; where a proxy carries, for each process by itself.
inline void post(std::initializer_list<const Descriptor*> batch, Stream stream = now) {
  std::vector<isthmus_stream_descriptor*> all;
  for (const Descriptor* each : batch)
    all.push_back(each->get());
  detail::check(isthmus_stream_post(all.data(), all.size(), stream));
}

namespace detail {
inline isthmus_stream_transfer transfer(std::uint32_t kind, const Share& local, std::size_t local_offset,
                                        const Share& remote, int rank, std::size_t remote_offset,
                                        std::size_t bytes, const Notify* notify) {
  return {kind,
          rank,
          local.get(),
          remote.get(),
          local_offset,
          remote_offset,
          bytes,
          notify ? 1U : 0U,
          notify ? notify->word : 0,
          notify ? notify->value : 0};
}
}  // namespace detail

/// From the own memory of `local` to that of `rank` in `remote`. Offsets and lengths in bytes.
[[nodiscard]] inline Descriptor put(const Share& local, std::size_t local_offset, const Share& remote,
                                    int rank, std::size_t remote_offset, std::size_t bytes) {
  return Descriptor(
      detail::transfer(ISTHMUS_STREAM_PUT, local, local_offset, remote, rank, remote_offset, bytes, nullptr));
}
[[nodiscard]] inline Descriptor put(const Share& local, std::size_t local_offset, const Share& remote,
                                    int rank, std::size_t remote_offset, std::size_t bytes, Notify notify) {
  return Descriptor(
      detail::transfer(ISTHMUS_STREAM_PUT, local, local_offset, remote, rank, remote_offset, bytes, &notify));
}
/// From the memory of `rank` in `remote` to the own of `local`.
[[nodiscard]] inline Descriptor get(const Share& local, std::size_t local_offset, const Share& remote,
                                    int rank, std::size_t remote_offset, std::size_t bytes) {
  return Descriptor(
      detail::transfer(ISTHMUS_STREAM_GET, local, local_offset, remote, rank, remote_offset, bytes, nullptr));
}
[[nodiscard]] inline Descriptor get(const Share& local, std::size_t local_offset, const Share& remote,
                                    int rank, std::size_t remote_offset, std::size_t bytes, Notify notify) {
  return Descriptor(
      detail::transfer(ISTHMUS_STREAM_GET, local, local_offset, remote, rank, remote_offset, bytes, &notify));
}

}  // namespace isthmus::prepared

#endif
