#pragma once

#include <ucp/api/ucp.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/system/open_files.hpp"
#include "base/unique_fd.hpp"
#include "channel/network/pace.hpp"
#include "channel/network/port.hpp"
#include "channel/network/sequence.hpp"
#include "channel/network/ucx/operation.hpp"
#include "channel/network/ucx/worker.hpp"
#include "channel/network/watch.hpp"

namespace isthmus::network {

/// A port over UCX active messages. Short messages travel in the active message's header, up to the eager
/// limit behind it, longer ones by UCX's rendezvous, begun by `fetch`.
class UcxPort final : public Port {
 public:
  static Result<std::unique_ptr<Port>> open(const Settings& settings, Identity self, Events& events);
  ~UcxPort() override;
  UcxPort(const UcxPort&) = delete;
  UcxPort& operator=(const UcxPort&) = delete;

  [[nodiscard]] std::span<const std::byte> address() const override { return address_; }
  Result<> connect(PeerId rank, std::span<const std::byte> published) override;
  [[nodiscard]] std::uint64_t eager_limit(PeerId peer) const override {
    return peer < peers_.size() && peers_[peer] ? peers_[peer]->eager_limit : 0;
  }
  void make_room() override { operations_.make_room(); }
  Result<Progress> send(PeerId rank, std::span<const std::byte> header, std::span<const std::byte> bytes,
                        Token token) override;
  [[nodiscard]] std::string_view why_not_gpu() const override { return worker_.why_not_gpu(); }
  Result<Progress> send_from_gpu(PeerId rank, std::span<const std::byte> header,
                                 std::span<const std::byte> bytes, Token token) override;
  void fetch(OfferId id, std::span<std::byte> to, Token token) override;
  [[nodiscard]] bool try_fetch_to_gpu(OfferId id, std::span<std::byte> to, Token token) override;
  void decline(OfferId id) override;
  void give_up(PeerId rank) noexcept override;
  unsigned poll() override;
  [[nodiscard]] int wake_descriptor() const override { return wake_.get(); }
  bool arm() override;
  [[nodiscard]] std::string describe(PeerId rank) const override;
  [[nodiscard]] bool idle() override;

 private:
  using Clock = std::chrono::steady_clock;

  /// A message that came before its turn. With `descriptor`, an offer of `offered` bytes.
  struct Early {
    std::vector<std::byte> header;
    std::vector<std::byte> bytes;
    void* descriptor = nullptr;
    std::uint64_t offered = 0;
    std::uint64_t pieces = 0;  ///< the sender's id, where that is an offer in pieces
  };

  struct Peer {
    PeerId rank = 0;
    UcxPort* port = nullptr;
    ucp_ep_h endpoint = nullptr;
    std::uint64_t token = 0;  ///< its own
    std::uint64_t sent = 0;   ///< messages
    std::uint64_t eager_limit = 0;
    bool connected = false;
    bool in_pieces = false;    ///< longer messages to it are offered in pieces
    Pace pace;                 ///< of what is fetched from it in pieces
    Sequence<Early> sequence;  ///< of what comes from it
    bool complained = false;   ///< of something malformed
    bool lost = false;
    bool dirty = false;  ///< sent to since it was flushed
    /// When it is taken for lost, once something has gone wrong; and what.
    std::optional<Clock::time_point> ends;
    std::string why;
  };

  struct Offer {
    PeerId peer;
    void* descriptor;  ///< of the network library's; null with `pieces`
    std::uint64_t bytes;
    std::uint64_t pieces;  ///< the sender's id
  };

  /// A message that is asked for in pieces.
  struct PieceFetch {
    PeerId peer;
    Token token;
    std::uint64_t offer;
    std::span<std::byte> to;
    std::uint64_t asked = 0;    ///< bytes
    std::uint64_t arrived = 0;  ///< bytes
    bool learning = false;      ///< one piece at a time, whose time tells of the way
    Clock::time_point asked_at{};
  };

  /// The end of a fetch that UCX completed at once, or never began.
  struct Ready {
    Token token;
    std::optional<Error> error;
  };

  /// What ends with a peer.
  struct Ends {
    Error error;
    std::vector<Token> fetches;
    std::vector<Operation*> operations;
  };

  UcxPort(UcxWorker worker, const Settings& settings, Identity self, Events& events);
  Result<> start();
  Result<> make_wake_descriptor();

  // UCX calls the functions `on_...` from C: no exception leaves them. A message that there is no memory for
  // cannot be asked for again, so its peer is given up.

  // Receiving: receive.cpp
  static ucs_status_t on_message(void* port, const void* header, std::size_t header_bytes, void* data,
                                 std::size_t bytes, const ucp_am_recv_param_t* param);
  ucs_status_t receive(std::span<const std::byte> head, void* data, std::size_t bytes,
                       std::uint64_t attributes);
  void take_early(Peer& peer, std::uint64_t number, Early early);
  void offer(Peer& peer, std::span<const std::byte> header, const Early& offered);
  void catch_up(Peer& peer);
  void make_room_to_decline();
  void make_room_for_fetch();
  void malformed(Peer* peer, const char* what);
  void fetch_whole(const Offer& offer, std::span<std::byte> to, Token token, ucs_memory_type_t memory);
  static void on_fetched(void* request, ucs_status_t status, std::size_t bytes, void* user);

  /// Lets peers connect that knock, where there is room.
  void look_at_doors();
  void release_declined();
  void tell_ready();

  // Messages in pieces: pieces.cpp
  Result<Progress> offer_in_pieces(Peer& peer, std::span<const std::byte> header,
                                   std::span<const std::byte> bytes, Token token);
  bool receive_pieces(Peer& peer, const wire::PortMessage& message, std::span<const std::byte> data);
  void send_piece(Peer& peer, const wire::PieceWant& want);
  bool take_piece(Peer& peer, const wire::PieceHead& head, std::span<const std::byte> data);
  void fetch_in_pieces(const Offer& offer, std::span<std::byte> to, Token token);
  void ask_for_more(std::uint64_t id, PieceFetch& fetch);
  void ask_for(std::uint64_t id, PieceFetch& fetch, std::uint64_t bytes);
  static void learn(Peer& peer, PieceFetch& fetch, std::uint64_t bytes);
  void say_done(Peer& peer, std::uint64_t offer);
  void control(Peer& peer, wire::PortKind kind, std::span<const std::byte> what);
  /// Completes an offer of which nothing more is to come.
  void end_offer(Operation& offer);
  void drop_pieces_of(const Peer& peer, Ends& ends);

  // Sending: send.cpp
  /// The peer of a message, if one can be sent.
  Result<Peer*> addressee(PeerId rank, std::span<const std::byte> header);
  Result<> took(Peer& peer, Operation& operation, ucs_status_ptr_t request);
  /// Hands a message to UCX; the head of `operation` is where it lies until it has left.
  ucs_status_ptr_t post(Peer& peer, Operation& operation, const wire::PortEnvelope& envelope,
                        std::span<const std::byte> header, std::span<const std::byte> inlined,
                        std::span<const std::byte> data, unsigned flags,
                        ucs_memory_type_t memory = UCS_MEMORY_TYPE_HOST);
  static void on_sent(void* request, ucs_status_t status, void* user);
  static void on_flushed(void* request, ucs_status_t status, void* port);
  void finish(Operation& operation, ucs_status_t status);
  void finish_safely(Operation& operation, ucs_status_t status) noexcept;
  void report(Operation& operation, const Error* error);
  /// Nothing more is to come of an operation that was pending.
  void retire(Operation& operation) noexcept;

  // Ends: loss.cpp
  static void on_failure(void* user, ucp_ep_h endpoint, ucs_status_t status);
  void doom(Peer& peer, Clock::duration grace_time, std::string_view why) noexcept;
  void doom_for_memory(PeerId rank) noexcept;
  void look_at_watch();
  void bury_the_dead();
  [[nodiscard]] Ends room_for_ends(const Peer& peer) const;
  void lose(Peer& peer, Ends& ends);
  void close_endpoint(Peer& peer);
  void drop_everything_of(Peer& peer);
  [[nodiscard]] bool has_pending(PeerId rank) const;
  [[nodiscard]] Error gone(const Peer& peer) const;
  void close_all();

  Peer& peer(PeerId rank);

  Identity self_;
  Events* events_;
  bool warn_;
  std::uint64_t eager_limit_;  ///< of the settings; 0 leaves it to each peer's transport
  std::uint64_t token_ = 0;
  std::vector<std::byte> address_;
  std::optional<Watch> watch_;
  UniqueFd wake_;  ///< epoll over the worker's and the watch's descriptors, and the worker's doors

  std::vector<std::unique_ptr<Peer>> peers_;  ///< by rank, null where nothing is known of it
  std::vector<Peer*> doomed_;
  Operations operations_;
  std::size_t buffered_ = 0;  ///< pending operations of kind `buffered`
  std::unordered_map<OfferId, Offer> offers_;
  OfferId next_offer_ = 1;
  std::unordered_map<std::uint64_t, Operation*> outgoing_;  ///< offers in pieces
  std::uint64_t next_outgoing_ = 1;
  std::unordered_map<std::uint64_t, PieceFetch> piece_fetches_;
  std::uint64_t next_piece_fetch_ = 1;
  std::vector<void*> declined_;  ///< UCX releases no descriptor inside of its callback
  std::vector<Ready> ready_;

  unsigned delivered_ = 0;  ///< events, in this `poll`
  unsigned polls_ = 0;
  bool polling_ = false;
  bool armed_ = false;
  bool flushing_ = false;
  bool closing_ = false;
  bool complained_of_strangers_ = false;
  bool complained_of_files_ = false;
  FileReserve files_;

  UcxWorker worker_;  ///< last, so first to go: UCX uses what is above until then
};

}  // namespace isthmus::network
