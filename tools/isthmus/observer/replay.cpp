#include "observer/replay.hpp"

#include <isthmus/stream_runtime.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>

#include "observer/agree.hpp"
#include "observer/gate.hpp"
#include "observer/meeting.hpp"

namespace isthmus::observer {
namespace {

/// The prepared API of the MPI library that the program runs with, if it has one.
struct Prepared {
  decltype(&isthmus_stream_port_make_for_streams) port_make = nullptr;
  decltype(&isthmus_stream_port_free) port_free = nullptr;
  decltype(&isthmus_stream_share_make) share_make = nullptr;
  decltype(&isthmus_stream_share_free) share_free = nullptr;
  decltype(&isthmus_stream_share_reach) share_reach = nullptr;
  decltype(&isthmus_stream_prepare) prepare = nullptr;
  decltype(&isthmus_stream_descriptor_free) descriptor_free = nullptr;
  decltype(&isthmus_stream_post) post = nullptr;
  decltype(&isthmus_stream_wait) wait = nullptr;
  decltype(&isthmus_stream_error) error = nullptr;

  [[nodiscard]] bool find() {
    return find_in_program(port_make, "isthmus_stream_port_make_for_streams") &&
           find_in_program(port_free, "isthmus_stream_port_free") &&
           find_in_program(share_make, "isthmus_stream_share_make") &&
           find_in_program(share_free, "isthmus_stream_share_free") &&
           find_in_program(share_reach, "isthmus_stream_share_reach") &&
           find_in_program(prepare, "isthmus_stream_prepare") &&
           find_in_program(descriptor_free, "isthmus_stream_descriptor_free") &&
           find_in_program(post, "isthmus_stream_post") && find_in_program(wait, "isthmus_stream_wait") &&
           find_in_program(error, "isthmus_stream_error");
  }
};

// A stream has room for some 510 pieces of work, and the gate must not be waited for.
constexpr std::size_t most_pieces = 240;
constexpr std::size_t most_messages = 60;  // to one peer in a batch: each has a word
constexpr std::size_t most_batches = 40;

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
  /// Null where it cannot be prepared, or a proxy would carry it: that takes more pieces of the stream than
  /// are counted, and one must not wait for room.
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
    if (prepared_.share_reach(share_, peer) != 0 || prepared_.prepare(&transfer, &at->second) != 0) {
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

/// A word of pinned memory that is 1.
class OpenWord {
 public:
  explicit OpenWord(const Driver& driver) : driver_(driver) {
    void* memory = nullptr;
    if (driver_.host_allocate(&memory, sizeof(std::uint32_t), 0) != 0) return;
    word_ = static_cast<std::uint32_t*>(memory);
    *word_ = 1;
  }
  OpenWord(const OpenWord&) = delete;
  OpenWord& operator=(const OpenWord&) = delete;
  ~OpenWord() {
    if (word_) driver_.host_free(word_);
  }
  /// Null where there is no memory.
  [[nodiscard]] const std::uint32_t* get() const { return word_; }

 private:
  const Driver& driver_;
  std::uint32_t* word_ = nullptr;
};

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

  /// Of what length messages are: as the program's, or that which takes least.
  enum class Length { whole, bare };

  /// All puts are prepared before anything is posted: so that all processes know whether they can.
  bool prepare(const std::vector<ExchangeRecord>& exchanges, const Batch& batch) {
    return enqueue(exchanges, batch, Length::whole, false) && enqueue(exchanges, batch, Length::bare, false);
  }
  void run(const std::vector<ExchangeRecord>& exchanges, const Batch& batch, Replayed& replayed) {
    double enqueueing = 0;
    const double seconds = gate_.time(stream_, [&] {
      const auto begin = Clock::now();
      went_well_ = enqueue(exchanges, batch, Length::whole, true) && went_well_;
      enqueueing = seconds_since(begin);
    });
    went_well_ = went_well_ && seconds >= 0;
    replayed.graph_seconds += time_graph(exchanges, batch, Length::whole);
    replayed.bare_seconds += time_graph(exchanges, batch, Length::bare);
    replayed.exchanges += batch.end - batch.begin;
    replayed.stream_seconds += seconds;
    replayed.enqueue_seconds += enqueueing;
  }
  /// The least piece of work that there is: `memory` is filled with 4 bytes. `open`: a word of pinned memory
  /// that is 1. Medians: what is timed by itself is as short as an event.
  Pieces time_pieces(Address memory, const std::uint32_t* open) {
    constexpr int row = 100;
    constexpr std::size_t samples = 5;
    const auto fill = [&] { driver_.fill(memory, 0, 1, stream_); };
    const auto wait = [&] { driver_.wait_value(stream_, reinterpret_cast<Address>(open), 1, equal); };
    const auto in_a_row = [](auto... pieces) {
      return [=] {
        for (int i = 0; i < row; ++i)
          (pieces(), ...);
      };
    };
    const auto fills = in_a_row(fill);
    const auto waits = in_a_row(wait);
    const auto both = in_a_row(wait, fill);
    const Captured graphs[] = {
        {driver_, stream_, fills}, {driver_, stream_, waits}, {driver_, stream_, both}};
    for (const Captured& graph : graphs) {
      went_well_ = went_well_ && graph.works();
      if (!went_well_) return {};
      graph.launch(stream_);  // brings it to the GPU
    }
    enum {
      alone,
      stream_fills,
      stream_waits,
      stream_both,
      graph_fills,
      graph_waits,
      graph_both,
      enqueue,
      count
    };
    std::array<std::array<double, samples>, count> found{};
    for (std::size_t i = 0; i < samples; ++i) {
      const auto time = [&](int which, double pieces, auto call) {
        const double seconds = gate_.time(stream_, call);
        went_well_ = went_well_ && seconds >= 0;
        found.at(static_cast<std::size_t>(which)).at(i) = seconds / pieces;
      };
      time(alone, 1, fill);
      time(stream_fills, row, fills);
      time(stream_waits, row, waits);
      time(stream_both, row, both);
      time(graph_waits, row, [&] { graphs[1].launch(stream_); });
      time(graph_both, row, [&] { graphs[2].launch(stream_); });
      time(graph_fills, row, [&] {
        const auto begin = Clock::now();
        graphs[0].launch(stream_);
        found[enqueue].at(i) = seconds_since(begin) / row;
      });
    }
    const auto median = [&](int which) {
      auto& times = found.at(static_cast<std::size_t>(which));
      std::ranges::sort(times);
      return times[samples / 2];
    };
    return {.alone = median(alone),
            .stream = {median(stream_fills), std::max(0.0, median(stream_both) - median(stream_waits))},
            .graph = {median(graph_fills), std::max(0.0, median(graph_both) - median(graph_waits))},
            .graph_enqueue = median(enqueue)};
  }
  /// Seconds in which kernels of all processes meet, 0 and why not. Collective.
  double time_meeting(Address memory, double piece, std::string& why_not) {
    return observer::time_meeting(driver_, gate_, memory, piece, why_not);
  }
  [[nodiscard]] bool went_well() const { return went_well_; }

 private:
  /// What a stream is kept by the messages in a graph.
  double time_graph(const std::vector<ExchangeRecord>& exchanges, const Batch& batch, Length length) {
    const Captured captured(driver_, stream_,
                            [&] { went_well_ = enqueue(exchanges, batch, length, true) && went_well_; });
    // All processes have one, or none launches it.
    went_well_ = all_agree(captured.works() && went_well_);
    double seconds = 0;
    for (int launch = 0; went_well_ && launch < 2; ++launch) {  // the first one brings it to the GPU
      PMPI_Barrier(MPI_COMM_WORLD);
      seconds = gate_.time(stream_, [&] { captured.launch(stream_); });
    }
    went_well_ = all_agree(went_well_ && seconds >= 0);
    return seconds;
  }
  bool enqueue(const std::vector<ExchangeRecord>& exchanges, const Batch& batch, Length length, bool posts) {
    constexpr std::uint64_t bare_bytes = 8;
    std::map<int, std::size_t> sent, received;
    bool is_right = true;
    for (std::size_t i = batch.begin; i < batch.end; ++i) {
      descriptors_.clear();
      for (const auto& [peer, traffic] : exchanges[i])
        for (std::uint32_t message = 0; message < traffic.messages_out; ++message) {
          const std::uint64_t bytes = traffic.out / traffic.messages_out;
          auto* const put =
              puts_.find(peer, sent[peer]++, length == Length::whole ? bytes : std::min(bytes, bare_bytes));
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
  const OpenWord word(driver);
  const bool has_memory = driver.allocate(&memory, bytes) == 0 && word.get() != nullptr;
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
      replayed.pieces = again.time_pieces(memory, word.get());
      replayed.meeting = again.time_meeting(memory, replayed.pieces.graph.in_a_row, replayed.why_no_meeting);
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
