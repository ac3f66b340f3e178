#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "codec.hpp"
#include "python.hpp"

namespace isthmus::python {

class Endpoint;

/// Messages of a channel that are under way.
struct Transfer {
  int missing = 0;  ///< requests
  nb::object future;
  std::string failure;
  std::vector<std::byte> bytes;  ///< the frame
  Encoded encoded;               ///< of a send: keeps the memory
  // Of a receive:
  Frame frame;
  std::vector<std::byte> body;    ///< where it is a message of its own
  std::vector<nb::object> parts;  ///< memory for the buffers
  nb::object result;              ///< the array that the data goes to; null: what the frame says
};

/// The channels of this process: MPI messages on a communicator of their own, so that each goes the way that
/// the library's plan has for its size and memory. Ends with the job.
class Channels {
 public:
  /// Collective.
  Channels();
  ~Channels();
  Channels(const Channels&) = delete;
  Channels& operator=(const Channels&) = delete;

  [[nodiscard]] MPI_Comm comm() const noexcept { return comm_; }
  [[nodiscard]] const std::vector<MPI_Request>& requests() const noexcept { return requests_; }
  /// Watches a request: one of a transfer, or the receive of an endpoint's next frame.
  void watch(MPI_Request request, std::shared_ptr<Transfer> transfer);
  void watch(MPI_Request request, Endpoint& endpoint);
  void forget(const Endpoint& endpoint);
  /// Ends what has been completed.
  void poll();
  /// What is under way is dropped.
  void close_all();
  [[nodiscard]] int new_tag();
  void give_back(int tag) { free_tags_.push_back(tag); }

 private:
  struct Watched {
    std::shared_ptr<Transfer> transfer;
    Endpoint* endpoint = nullptr;
  };

  MPI_Comm comm_ = MPI_COMM_NULL;
  std::vector<MPI_Request> requests_;
  std::vector<Watched> watched_;  ///< beside `requests_`
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
  std::vector<Endpoint*> endpoints_;
  std::vector<int> free_tags_;
  int next_tag_ = 1;
  friend class Endpoint;
};

/// What an array of a GPU, or another array that is received into, is for the library.
struct Memory {
  std::uintptr_t address = 0;
  std::size_t bytes = 0;
  std::string element;  ///< as `ArrayHead::element`
  bool is_gpu = false;
};

/// One end of a channel, as Python's class Channel uses it. Sends and receives in order.
class Endpoint {
 public:
  Endpoint();
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  /// What the peer names this end by: its messages have this tag.
  [[nodiscard]] int tag() const noexcept { return tag_; }
  [[nodiscard]] bool is_connected() const noexcept { return peer_ >= 0; }
  void connect(int rank, int tag);
  /// None where it is done; else `future`, which `new_future` makes, and which gets None.
  nb::object send(nb::handle arguments, nb::handle new_future);
  nb::object send_array(const Memory& memory, const std::vector<std::uint64_t>& extents, int family,
                        nb::object owner, nb::handle new_future);
  /// Whether the next message is there. Where nothing else is to be done, it waits for some microseconds.
  bool look(nb::handle ready);
  /// `future` gets None when the next message is there.
  void wait(nb::object future);
  void stop_waiting() { waiting_ = nb::object(); }
  /// Takes the next message, which is there: (True, value) or (False, future). `into`: (array, Memory) or
  /// None. `new_array`: makes an array of another family than NumPy's: (array, Memory).
  nb::object take(nb::handle into, nb::handle new_array, nb::handle new_future);
  void close();
  /// The receive of the next frame is complete.
  void arrived(const MPI_Status& status);

 private:
  nb::object start(Encoded encoded, bool always_apart, nb::handle new_future);
  void start_now(const std::shared_ptr<Transfer>& transfer);
  void post();

  int tag_ = 0;
  int peer_ = -1;
  int peer_tag_ = 0;
  bool is_closed_ = false;
  MPI_Request next_ = MPI_REQUEST_NULL;
  bool is_watched_ = false;
  bool has_frame_ = false;
  std::size_t frame_bytes_ = 0;
  std::string failure_;
  std::vector<std::byte> frame_;
  nb::object waiting_;
  std::vector<std::shared_ptr<Transfer>> backlog_;  ///< sent before the peer was known
};

}  // namespace isthmus::python
