#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "abi/carry/carrier.hpp"
#include "carry/order.hpp"
#include "stream/prepared/errand_lines.hpp"
#include "stream/prepared/port.hpp"

namespace isthmus::abi {

/// What streams ask the carrier of a port for: errands, which do not change, each with a line by which a
/// stream tells, as often as it likes, that it is to be done. The port must outlive it.
class Errands final : public CarriedPort {
 public:
  struct Errand {
    int rank = 0;
    carry::Kind kind = carry::Kind::none;  ///< put or get; else there are no bytes
    std::uint32_t share = 0;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    cuda::Address local = 0;
    bool notifies = false;
    std::uint32_t word = 0;
    std::uint32_t value = 0;
  };

  Errands(stream::Port& port, std::shared_ptr<stream::ErrandLines> lines, std::uint32_t words);

  // By the program's thread.

  /// Its line; none where all are in use.
  [[nodiscard]] std::size_t add(const Errand& what);
  static constexpr std::size_t none = ~std::size_t{0};
  /// When no stream asks for it any more.
  void remove(std::size_t line);
  /// A word of another process, in the order of these calls.
  void set_now(int rank, std::uint32_t word, std::uint32_t value);
  [[nodiscard]] const stream::ErrandLines& lines() const noexcept { return *lines_; }

  // By the carrier's.

  [[nodiscard]] Result<> check() const override { return port_.check_peers(); }
  void look_for_losses() noexcept override { port_.look_for_losses(); }
  void fail_for_good(Error why) noexcept override { port_.fail_for_good(std::move(why)); }
  Result<bool> take_requests(Carrier& carrier) override;
  Result<> end(Carrier& carrier, std::uint64_t number) override;
  [[nodiscard]] bool is_idle() const override;
  Result<> set_signal(const carry::Order& order, cuda::Stream stream) override;
  [[nodiscard]] carry::Limits limits() const override;
  void close() noexcept override { lines_->end(); }

 private:
  struct Entry {
    Errand what;
    // Guarded by the mutex:
    bool is_there = false;
    bool is_busy = false;
    // Of the carrier's thread alone:
    bool is_copying = false;
    bool has_told = false;
    bool tells_then = false;  ///< when the bytes are there
  };
  struct Seen {
    std::uint32_t number;
    std::size_t line;
  };
  struct Now {
    int rank;
    std::uint32_t word;
    std::uint32_t value;
  };
  void see(std::uint32_t stream::ErrandWords::* which, std::vector<Seen>& seen);
  Result<> go(Carrier& carrier, const Seen& seen);
  Result<> tell(Carrier& carrier, std::size_t line);
  void end_if_over(std::size_t line);

  stream::Port& port_;
  const std::shared_ptr<stream::ErrandLines> lines_;
  const std::uint32_t words_;
  std::vector<Seen> told_, gone_;  ///< of one look
  std::vector<Now> taken_;
  mutable std::mutex mutex_;  ///< guards what follows, and what says so
  std::vector<Entry> entries_;
  std::vector<std::size_t> there_, free_;  ///< lines
  std::vector<Now> now_;
  std::size_t busy_ = 0;
};

}  // namespace isthmus::abi
