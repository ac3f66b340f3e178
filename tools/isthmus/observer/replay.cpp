#include "observer/replay.hpp"

#include <dlfcn.h>
#include <isthmus/stream_runtime.h>
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <memory>

#include "observer/gate.hpp"

namespace isthmus::observer {
namespace {

/// The prepared API of the MPI library that the program runs with, if it has one.
struct Prepared {
  decltype(&isthmus_stream_port_make) port_make = nullptr;
  decltype(&isthmus_stream_port_free) port_free = nullptr;
  decltype(&isthmus_stream_share_make) share_make = nullptr;
  decltype(&isthmus_stream_share_free) share_free = nullptr;
  decltype(&isthmus_stream_prepare) prepare = nullptr;
  decltype(&isthmus_stream_descriptor_free) descriptor_free = nullptr;
  decltype(&isthmus_stream_post) post = nullptr;
  decltype(&isthmus_stream_wait) wait = nullptr;
  decltype(&isthmus_stream_error) error = nullptr;

  [[nodiscard]] bool find() {
    return find(port_make, "isthmus_stream_port_make") && find(port_free, "isthmus_stream_port_free") &&
           find(share_make, "isthmus_stream_share_make") && find(share_free, "isthmus_stream_share_free") &&
           find(prepare, "isthmus_stream_prepare") &&
           find(descriptor_free, "isthmus_stream_descriptor_free") && find(post, "isthmus_stream_post") &&
           find(wait, "isthmus_stream_wait") && find(error, "isthmus_stream_error");
  }

 private:
  template <class Function>
  static bool find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(find_symbol(RTLD_DEFAULT, name));
    return function != nullptr;
  }
};

// A stream has room for some 510 pieces of work, and the gate must not be waited for.
constexpr std::size_t most_pieces = 240;
constexpr std::size_t most_messages = 60;  // to one peer in a batch: each has a word
constexpr std::size_t most_batches = 40;

bool all_agree(bool here) {
  int mine = here ? 1 : 0, all = 0;
  PMPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  return all == 1;
}

/// A put to one peer of one length; its word tells which message of the batch it is.
class Puts {
 public:
  Puts(const Prepared& prepared, const isthmus_stream_share* share, int rank)
      : prepared_(prepared), share_(share), rank_(rank) {}
  Puts(const Puts&) = delete;
  Puts& operator=(const Puts&) = delete;
  ~Puts() {
    for (const auto& [key, descriptor] : made_)
      prepared_.descriptor_free(descriptor);
  }
  /// Null where it cannot be prepared.
  isthmus_stream_descriptor* find(int peer, std::size_t message, std::uint64_t bytes) {
    const auto [at, is_new] = made_.try_emplace({peer, message, bytes}, nullptr);
    if (!is_new) return at->second;
    const isthmus_stream_transfer transfer{ISTHMUS_STREAM_PUT,
                                           peer,
                                           share_,
                                           share_,
                                           0,
                                           0,
                                           bytes,
                                           1,
                                           static_cast<std::uint32_t>(rank_ * most_messages + message),
                                           1};
    if (prepared_.prepare(&transfer, &at->second) != 0) {
      made_.erase(at);
      return nullptr;
    }
    return at->second;
  }

 private:
  const Prepared& prepared_;
  const isthmus_stream_share* share_;
  int rank_;
  std::map<std::tuple<int, std::size_t, std::uint64_t>, isthmus_stream_descriptor*> made_;
};

/// What is done between two meetings of all.
struct Batch {
  std::size_t begin = 0, end = 0;
};

std::size_t pieces_of(const ExchangeRecord& exchange) {
  std::size_t pieces = 0;
  for (const auto& [peer, traffic] : exchange)
    pieces += 2 * traffic.messages_out + 2 * traffic.messages_in;
  return pieces;
}

/// In batches that are small enough on every process: all take the least.
std::vector<Batch> batches_of(const std::vector<ExchangeRecord>& exchanges) {
  std::vector<Batch> batches;
  std::size_t at = 0;
  for (;;) {
    std::size_t pieces = 0, end = at;
    std::map<int, std::size_t> messages;
    for (; end < exchanges.size(); ++end) {
      bool fits = true;
      for (const auto& [peer, traffic] : exchanges[end])
        fits = fits && messages[peer] + std::max(traffic.messages_out, traffic.messages_in) <= most_messages;
      if (!fits || pieces + pieces_of(exchanges[end]) > most_pieces) break;
      pieces += pieces_of(exchanges[end]);
      for (const auto& [peer, traffic] : exchanges[end])
        messages[peer] += std::max(traffic.messages_out, traffic.messages_in);
    }
    unsigned long mine = end - at, least = 0;
    PMPI_Allreduce(&mine, &least, 1, MPI_UNSIGNED_LONG, MPI_MIN, MPI_COMM_WORLD);
    if (least == 0 || batches.size() == most_batches) return batches;
    batches.push_back({at, at + least});
    at += least;
  }
}

/// Whether each message that a process sends in a batch is one that its peer waits for there: else streams
/// would wait for ever.
bool pairs_up(const std::vector<ExchangeRecord>& exchanges, const Batch& batch, int size) {
  const auto count = static_cast<std::size_t>(size);
  std::vector<unsigned long> out(count), in(count), out_of_peers(count);
  for (std::size_t i = batch.begin; i < batch.end; ++i)
    for (const auto& [peer, traffic] : exchanges[i]) {
      out[static_cast<std::size_t>(peer)] += traffic.messages_out;
      in[static_cast<std::size_t>(peer)] += traffic.messages_in;
    }
  PMPI_Alltoall(out.data(), 1, MPI_UNSIGNED_LONG, out_of_peers.data(), 1, MPI_UNSIGNED_LONG, MPI_COMM_WORLD);
  return all_agree(out_of_peers == in);
}

class Replay {
 public:
  Replay(const Prepared& prepared, const Driver& driver, isthmus_stream_port* port,
         isthmus_stream_share* share, int rank)
      : prepared_(prepared), driver_(driver), port_(port), puts_(prepared, share, rank), gate_(driver) {
    driver_.stream_create(&stream_, 1);
  }
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;
  ~Replay() {
    if (stream_) driver_.stream_destroy(stream_);
  }
  [[nodiscard]] bool works() const { return stream_ && gate_.works(); }

  /// All puts are prepared before anything is posted: so that all processes know whether they can.
  bool prepare(const std::vector<ExchangeRecord>& exchanges, const Batch& batch) {
    return enqueue(exchanges, batch, false);
  }
  void run(const std::vector<ExchangeRecord>& exchanges, const Batch& batch, Replayed& replayed) {
    double enqueueing = 0;
    const double seconds = gate_.time(stream_, [&] {
      const auto begin = Clock::now();
      went_well_ = enqueue(exchanges, batch, true) && went_well_;
      enqueueing = seconds_since(begin);
    });
    went_well_ = went_well_ && seconds >= 0;
    const Captured captured(driver_, stream_,
                            [&] { went_well_ = enqueue(exchanges, batch, true) && went_well_; });
    // All processes have one, or none launches it.
    went_well_ = all_agree(captured.works()) && went_well_;
    double in_graph = 0;
    for (int launch = 0; went_well_ && launch < 2; ++launch) {  // the first one brings it to the GPU
      PMPI_Barrier(MPI_COMM_WORLD);
      in_graph = gate_.time(stream_, [&] { captured.launch(stream_); });
    }
    went_well_ = all_agree(went_well_ && in_graph >= 0);
    replayed.graph_seconds += in_graph;
    replayed.exchanges += batch.end - batch.begin;
    replayed.stream_seconds += seconds;
    replayed.enqueue_seconds += enqueueing;
  }
  /// What a piece of work takes less in a graph: the least that there is, `memory` is filled with 4 bytes.
  double saving(Address memory) {
    constexpr int pieces = 100;
    const auto fill = [&] {
      for (int i = 0; i < pieces; ++i)
        driver_.fill(memory, 0, 1, stream_);
    };
    const Captured captured(driver_, stream_, fill);
    if (!captured.works()) return 0;
    double in_stream = 0, in_graph = 0;
    for (int i = 0; i < 3; ++i) {
      in_stream = gate_.time(stream_, fill);
      in_graph = gate_.time(stream_, [&] { captured.launch(stream_); });
    }
    return std::max(0.0, (in_stream - in_graph) / pieces);
  }
  [[nodiscard]] bool went_well() const { return went_well_; }

 private:
  bool enqueue(const std::vector<ExchangeRecord>& exchanges, const Batch& batch, bool posts) {
    std::map<int, std::size_t> sent, received;
    bool is_right = true;
    for (std::size_t i = batch.begin; i < batch.end; ++i) {
      descriptors_.clear();
      for (const auto& [peer, traffic] : exchanges[i])
        for (std::uint32_t message = 0; message < traffic.messages_out; ++message) {
          auto* const put = puts_.find(peer, sent[peer]++, traffic.out / traffic.messages_out);
          is_right = is_right && put != nullptr;
          descriptors_.push_back(put);
        }
      if (!posts) continue;
      if (!descriptors_.empty())
        is_right = prepared_.post(descriptors_.data(), descriptors_.size(), stream_) == 0 && is_right;
      for (const auto& [peer, traffic] : exchanges[i])
        for (std::uint32_t message = 0; message < traffic.messages_in; ++message) {
          const auto word =
              static_cast<std::uint32_t>(static_cast<std::size_t>(peer) * most_messages + received[peer]++);
          is_right = prepared_.wait(port_, word, ISTHMUS_STREAM_EQUAL, 1, 1, stream_) == 0 && is_right;
        }
    }
    return is_right;
  }

  const Prepared& prepared_;
  const Driver& driver_;
  isthmus_stream_port* port_;
  Puts puts_;
  Gate gate_;
  Stream stream_ = nullptr;
  bool went_well_ = true;
  std::vector<isthmus_stream_descriptor*> descriptors_;
};

/// A primary context that is current while this lives.
class Primary {
 public:
  Primary(const Driver& driver, int device) : driver_(driver), device_(device) {
    driver_.context_get(&before_);
    is_held_ = driver_.retain(&context_, device) == 0 && driver_.context_set(context_) == 0;
  }
  Primary(const Primary&) = delete;
  Primary& operator=(const Primary&) = delete;
  ~Primary() {
    driver_.context_set(before_);
    if (is_held_) driver_.release(device_);
  }
  [[nodiscard]] bool is_held() const { return is_held_; }

 private:
  const Driver& driver_;
  int device_;
  Context before_ = nullptr, context_ = nullptr;
  bool is_held_ = false;
};

void measure(const Prepared& prepared, const Driver& driver, const std::vector<ExchangeRecord>& exchanges,
             int rank, int size, Replayed& replayed) {
  std::uint64_t longest = 8;
  for (const ExchangeRecord& exchange : exchanges)
    for (const auto& [peer, traffic] : exchange)
      longest = std::max({longest, traffic.out, traffic.in});
  std::uint64_t bytes = 0;
  PMPI_Allreduce(&longest, &bytes, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
  Address memory = 0;
  isthmus_stream_port* port = nullptr;
  isthmus_stream_share* share = nullptr;
  const bool has_memory = driver.allocate(&memory, bytes) == 0;
  const auto words = static_cast<std::uint32_t>(static_cast<std::size_t>(size) * most_messages);
  const int made = prepared.port_make(MPI_COMM_WORLD, words, &port);
  const int shared =
      made == 0 ? prepared.share_make(port, reinterpret_cast<void*>(memory), has_memory ? bytes : 0, &share)
                : made;
  if (shared != 0) replayed.why_not = prepared.error();
  if (!has_memory) replayed.why_not = "the GPU has no memory left";
  if (all_agree(shared == 0 && has_memory)) {
    std::vector<Batch> batches = batches_of(exchanges);
    std::erase_if(batches, [&](const Batch& batch) { return !pairs_up(exchanges, batch, size); });
    Replay again(prepared, driver, port, share, rank);
    bool can = again.works();
    for (const Batch& batch : batches)
      can = again.prepare(exchanges, batch) && can;
    if (!can) replayed.why_not = prepared.error();
    if (all_agree(can)) {
      Replayed warm;
      if (!batches.empty()) again.run(exchanges, batches.front(), warm);
      for (const Batch& batch : batches) {
        PMPI_Barrier(MPI_COMM_WORLD);
        again.run(exchanges, batch, replayed);
      }
      replayed.saving = again.saving(memory);
      if (batches.empty())
        replayed.why_not = "what processes send between two waits is not what others receive between two";
      if (!again.went_well()) replayed.why_not = "the CUDA driver has failed";
    } else if (can) {
      replayed.why_not = "another process cannot";
    }
  } else if (replayed.why_not.empty()) {
    replayed.why_not = "another process cannot";
  }
  if (share) prepared.share_free(share);
  if (port) prepared.port_free(port);
  if (memory) driver.free(memory);
}

}  // namespace

Replayed replay(const std::vector<ExchangeRecord>& exchanges, int device, int rank, int size) {
  Replayed replayed;
  Prepared prepared;
  const Driver* const driver = Driver::find(replayed.why_not);
  if (driver && device < 0) replayed.why_not = "the program launches nothing on a GPU";
  if (replayed.why_not.empty() && !prepared.find())
    replayed.why_not = "this MPI has no puts in the order of a stream (<isthmus/stream.hpp>)";
  if (replayed.why_not.empty() && exchanges.empty()) replayed.why_not = "the program sends no messages";
  if (!all_agree(replayed.why_not.empty())) {
    if (replayed.why_not.empty()) replayed.why_not = "another process cannot";
    return replayed;
  }
  const Primary primary(*driver, device);
  if (!all_agree(primary.is_held())) {
    replayed.why_not = "a process's GPU cannot be used any more";
    return replayed;
  }
  measure(prepared, *driver, exchanges, rank, size, replayed);
  return replayed;
}

}  // namespace isthmus::observer
