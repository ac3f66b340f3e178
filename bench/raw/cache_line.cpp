#include <atomic>
#include <cstdint>
#include <cstring>

#include "common/pages.hpp"
#include "common/report.hpp"
#include "common/sizes.hpp"
#include "raw/limits.hpp"
#include "raw/pair.hpp"

namespace isthmus::bench {
namespace {

struct Line {
  alignas(cache_line) std::atomic<std::uint64_t> turn{0};
};

void await(const std::atomic<std::uint64_t>& word, std::uint64_t value) {
  while (word.load(std::memory_order_acquire) != value) {
  }
}

// Both processes write the same line in turn.
void bounced_line(double budget) {
  Shared<Line> line;
  std::uint64_t lead_turn = 0;
  std::uint64_t follow_turn = 0;
  Samples samples = measure_pair(
      budget,
      [&] {
        line->turn.store(lead_turn + 1, std::memory_order_release);
        await(line->turn, lead_turn += 2);
      },
      [&] {
        await(line->turn, follow_turn + 1);
        line->turn.store(follow_turn += 2, std::memory_order_release);
      });
  for (double& seconds : samples.seconds)
    seconds /= 2;
  report_samples("cache-line", Unit::nanoseconds, samples);
}

// A word for each direction; every word has one writer.
template <class Words>
void two_words(double budget, const char* point) {
  Shared<Words> words;
  std::uint64_t lead_turn = 0;
  std::uint64_t follow_turn = 0;
  Samples samples = measure_pair(
      budget,
      [&] {
        words->there.store(++lead_turn, std::memory_order_release);
        await(words->back, lead_turn);
      },
      [&] {
        await(words->there, ++follow_turn);
        words->back.store(follow_turn, std::memory_order_release);
      });
  for (double& seconds : samples.seconds)
    seconds /= 2;
  report_samples(point, Unit::nanoseconds, samples);
}

// As the two rings between a pair of ranks are laid out.
struct WordsApart {
  alignas(cache_line) std::atomic<std::uint64_t> there{0};
  alignas(cache_line) std::atomic<std::uint64_t> back{0};
};

struct WordsTogether {
  alignas(cache_line) std::atomic<std::uint64_t> there{0};
  std::atomic<std::uint64_t> back{0};
};

// A ring of lines, each with a sequence number and 8 bytes: what a message rate of one line a message can be.
void line_stream(double budget) {
  constexpr std::size_t slots = 256;
  constexpr int messages = 64;
  struct Slot {
    alignas(cache_line) std::atomic<std::uint64_t> sequence{0};
    std::uint64_t payload = 0;
  };
  struct Ring {
    Slot slot[slots];
    Line consumed;
  };
  Shared<Ring> ring;
  std::uint64_t written = 0;
  std::uint64_t read = 0;
  std::uint64_t sum = 0;
  const Samples samples = measure_pair(
      budget,
      [&] {
        while (written + messages > ring->consumed.turn.load(std::memory_order_acquire) + slots) {
        }
        for (int i = 0; i < messages; ++i) {
          Slot& slot = ring->slot[written % slots];
          slot.payload = written;
          slot.sequence.store(++written, std::memory_order_release);
        }
      },
      [&] {
        for (int i = 0; i < messages; ++i) {
          const Slot& slot = ring->slot[read % slots];
          await(slot.sequence, ++read);
          sum += slot.payload;
        }
        ring->consumed.turn.store(read + (sum & 0), std::memory_order_release);
      });
  report_samples("line-stream", Unit::millions_per_second, samples, messages);
}

void double_copy(double budget, std::size_t bytes) {
  struct Mailbox {
    Line full;
    std::uint8_t data[32768];
  };
  struct Boxes {
    Mailbox there;
    Mailbox back;
  };
  Shared<Boxes> boxes;
  Pages mine(bytes);
  std::uint64_t lead_turn = 0;
  std::uint64_t follow_turn = 0;
  const auto put = [&](Mailbox& box, std::uint64_t turn) {
    std::memcpy(box.data, mine.data(), bytes);
    box.full.turn.store(turn, std::memory_order_release);
  };
  const auto take = [&](const Mailbox& box, std::uint64_t turn) {
    await(box.full.turn, turn);
    std::memcpy(mine.data(), box.data, bytes);
  };
  Samples samples = measure_pair(
      budget,
      [&] {
        put(boxes->there, ++lead_turn);
        take(boxes->back, lead_turn);
      },
      [&] {
        take(boxes->there, ++follow_turn);
        put(boxes->back, follow_turn);
      });
  for (double& seconds : samples.seconds)
    seconds /= 2;
  report_samples("double-copy." + size_name(bytes), Unit::microseconds, samples);
}

}  // namespace

void cache_line_limits(double budget) {
  bounced_line(budget);
  two_words<WordsTogether>(budget, "cache-line-halves");
  two_words<WordsApart>(budget, "cache-line-pair");
  line_stream(budget);
}

void distance_probe(double budget) {
  two_words<WordsApart>(budget, "cache-line-pair");
}

void double_copy_limits(double budget) {
  double_copy(budget, 4096);
  double_copy(budget, 32768);
}

}  // namespace isthmus::bench
