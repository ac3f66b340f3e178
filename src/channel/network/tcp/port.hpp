#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "channel/network/movable_port.hpp"
#include "channel/network/tcp/frame.hpp"
#include "channel/network/tcp/out_line.hpp"

namespace isthmus::network {

/// A port over TCP, with a socket for each pair of ranks that talk and each direction. What is longer than
/// the eager limit is asked for by its receiver, and goes from the sender's memory to the kernel and from
/// there to its place.
class TcpPort final : public MovablePort {
 public:
  TcpPort(Identity self, Events& events, RankTurns& turns, std::uint64_t eager_limit)
      : self_(self), events_(events), turns_(turns), eager_limit_(eager_limit), peers_(self.ranks) {}
  TcpPort(const TcpPort&) = delete;
  TcpPort& operator=(const TcpPort&) = delete;
  ~TcpPort() override { close_lines(); }
  Result<> open();

  [[nodiscard]] std::span<const std::byte> address() const override { return {}; }
  Result<> connect(PeerId rank, std::span<const std::byte> address) override;
  void make_room() override {}
  [[nodiscard]] std::uint64_t eager_limit(PeerId /*peer*/) const override { return eager_limit_; }
  Result<Progress> send(PeerId rank, std::span<const std::byte> header, std::span<const std::byte> bytes,
                        Token token) override;
  [[nodiscard]] std::string_view why_not_gpu() const override {
    return "ranks of this job go to other hosts, and talk over TCP";
  }
  Result<Progress> send_from_gpu(PeerId rank, std::span<const std::byte> header,
                                 std::span<const std::byte> bytes, Token token) override;
  void fetch(OfferId id, std::span<std::byte> to, Token token) override;
  [[nodiscard]] bool try_fetch_to_gpu(OfferId /*id*/, std::span<std::byte> /*to*/, Token /*token*/) override {
    return false;
  }
  void decline(OfferId id) override;
  void give_up(PeerId rank) noexcept override;
  unsigned poll() override;
  /// It has its rank woken itself.
  [[nodiscard]] int wake_descriptor() const override { return -1; }
  bool arm() override;
  [[nodiscard]] std::string describe(PeerId rank) const override;
  [[nodiscard]] bool idle() override;

  [[nodiscard]] Counts counts() const noexcept override { return counts_; }
  void close_lines() noexcept override;

 private:
  /// What comes from a peer.
  struct InLine {
    int socket = -1;
    std::unique_ptr<std::byte[]> buffer;  ///< for frames, with room for the longest message
    std::size_t begin = 0, end = 0;       ///< of what has come and has not been looked at
    std::uint64_t id = 0, left = 0;       ///< what comes now: of which of the peer's offers, and how much
    std::byte* to = nullptr;              ///< and where it goes
  };
  struct Peer {
    OutLine out;
    InLine in;
    bool is_out_watched = false;  ///< for room, since something waits
    bool lost = false;
  };
  /// On offer to a peer.
  struct OwnOffer {
    PeerId peer;
    std::span<const std::byte> bytes;
    Token token;
  };
  /// On offer from a peer.
  struct TheirOffer {
    PeerId peer;
    std::uint64_t id;
    std::uint64_t bytes;
  };
  struct Fetch {
    std::span<std::byte> to;
    Token token;
  };
  using Key = std::pair<PeerId, std::uint64_t>;
  /// That something has ended, to be told from inside of `poll`.
  struct End {
    Token token;
    bool is_fetch;
    bool has_failed;
  };

  [[nodiscard]] Peer& peer(PeerId rank);
  [[nodiscard]] std::size_t buffer_bytes() const noexcept { return sizeof(FrameBytes) + eager_limit_; }
  Result<> open_events();
  void make_room_for_ends();
  void push(PeerId rank);
  void watch_out(PeerId rank) noexcept;
  void hang_up(int& socket) noexcept;
  void hang_up(Peer& from) noexcept;
  void take_calls();
  void read(PeerId rank);
  bool read_some(PeerId rank);
  /// The error that `recv` has told, or that there is nothing now.
  bool has_come(PeerId rank, std::int64_t received);
  void take_frames(PeerId rank);
  void take_content(PeerId rank, std::size_t bytes) noexcept;
  /// What is wrong with it; null: nothing, and it has been taken.
  const char* take_frame(PeerId rank, const Frame& frame, std::span<const std::byte> behind);
  const char* take_offer(PeerId rank, const Frame& frame, std::span<const std::byte> header);
  const char* answer_fetch(PeerId rank, const Frame& frame);
  const char* take_decline(PeerId rank, const Frame& frame);
  const char* begin_content(PeerId rank, const Frame& frame);
  void end_all_of(PeerId rank) noexcept;
  void lose(PeerId rank, const std::string& why);
  void tell_ends();

  const Identity self_;
  Events& events_;
  RankTurns& turns_;
  const std::uint64_t eager_limit_;
  std::vector<std::unique_ptr<Peer>> peers_;  ///< by rank
  std::unordered_map<std::uint64_t, OwnOffer> own_offers_;
  std::unordered_map<OfferId, TheirOffer> their_offers_;
  std::map<Key, Fetch> fetches_;
  std::vector<End> ends_;                               ///< to be told, with room for all that may end
  std::vector<std::pair<PeerId, std::string>> losses_;  ///< the same
  std::optional<PeerId> retried_;                       ///< there was no memory for what has come from it
  std::uint64_t last_offer_ = 0;
  std::size_t queued_ = 0;  ///< items of `OutLine`s that have a token
  int events_fd_ = -1;      ///< epoll
  std::uint32_t epoch_ = 0;
  Counts counts_;
  unsigned delivered_ = 0;
};

}  // namespace isthmus::network
