// Words of a port: set and waited for.

#include "abi/stream/prepared/prepared.hpp"

#include <fmt/format.h>

#include <array>
#include <span>

namespace isthmus::abi {
namespace {

using stream::ErrandWords;

Result<> check_of_processors(const isthmus_stream_port& of) {
  if (!of.is_for_streams) return {};
  return fail(ErrorClass::arg,
              "stream is null (now): words of a port for streams are set and waited for by streams alone");
}

Result<> wait_for_words(isthmus_stream_port& of, const stream::WordsWait& what, cuda::Stream stream) {
  stream::Port& port = *of.port;
  for (const std::uint32_t word : what.words)
    ISTHMUS_TRY(check_word(of, port.rank, word));
  if (what.condition == kernel::WordCondition::any_bit && what.value == 0)
    return fail(ErrorClass::arg, "value is 0: none of its bits will ever be set");
  if (stream) return port.wait(stream, what);
  ISTHMUS_TRY(check_of_processors(of));
  for (const std::uint32_t word : what.words) {
    auto own = port.own().word(word);
    ISTHMUS_TRY(wait_here(port, [&] {
      return kernel::holds(own.load(std::memory_order_acquire), what.value, what.condition);
    }));
    if (what.resets) own.store(0, std::memory_order_release);
  }
  return {};
}

Result<kernel::WordCondition> condition_of(std::uint32_t condition) {
  switch (condition) {
    case ISTHMUS_STREAM_EQUAL:
      return kernel::WordCondition::equal;
    case ISTHMUS_STREAM_AT_LEAST:
      return kernel::WordCondition::at_least;
    case ISTHMUS_STREAM_ANY_BIT:
      return kernel::WordCondition::any_bit;
    default:
      return std::unexpected(
          fail(ErrorClass::arg, fmt::format("condition is {}, which is none", condition)).error());
  }
}

/// Lines that no stream has to look at any more.
void take_back_lines(isthmus_stream_port& of) {
  std::erase_if(of.lent, [&](std::size_t line) {
    const bool is_free =
        of.errands->lines().word(line, &ErrandWords::passed).load(std::memory_order_acquire) != 0;
    if (is_free) of.errands->remove(line);
    return is_free;
  });
}

/// Where all lines are in use, waits until a stream has passed one, as the driver does where a stream is
/// full.
Result<std::size_t> lend_line(isthmus_stream_port& of, const Errands::Errand& what) {
  std::size_t line = Errands::none;
  ISTHMUS_TRY(wait_here(*of.port, [&] {
    take_back_lines(of);
    line = of.errands->add(what);
    return line != Errands::none || of.lent.empty();
  }));
  if (line != Errands::none) return line;
  return fail(ErrorClass::no_mem, "graphs and descriptors have all that a port can have carried at a time");
}

Result<> set_by_carrier(isthmus_stream_port& of, int rank, std::uint32_t word, std::uint32_t value,
                        cuda::Stream stream) {
  if (!stream) {
    of.errands->set_now(rank, word, value);
    return {};
  }
  auto lent = lend_line(of, {.rank = rank, .notifies = true, .word = word, .value = value});
  if (!lent) return outcome_of(lent);
  const stream::ErrandLines& lines = of.errands->lines();
  const std::size_t line = *lent;
  const std::array steps{
      stream::Step{.to = lines.address(line, &ErrandWords::done), .value = 0},
      stream::Step{.to = lines.address(line, &ErrandWords::tell), .value = 1},
      stream::Step{
          .kind = stream::Step::Kind::wait, .to = lines.address(line, &ErrandWords::done), .value = 1},
      stream::Step{.to = lines.address(line, &ErrandWords::passed), .value = 1}};
  bool recorded = false;
  Result<> put = of.port->put(stream, steps, recorded);
  if (!put) {
    of.errands->remove(line);
    return put;
  }
  // A graph has it for good.
  if (!recorded) of.lent.push_back(line);
  return {};
}

}  // namespace

Result<> check_owned(const void* object, const char* name) {
  if (object) return {};
  return fail(ErrorClass::arg, fmt::format("{} is null: it has been freed, or moved from", name));
}

Result<> check_word(const isthmus_stream_port& port, int rank, std::uint32_t word) {
  const auto& peers = port.port->peers;
  if (rank < 0 || static_cast<std::size_t>(rank) >= peers.size())
    return fail(ErrorClass::rank,
                fmt::format("rank is {}, not one of the {} of the port", rank, peers.size()));
  if (word >= port.words)
    return fail(ErrorClass::arg, fmt::format("word is {}, of {} that each process has", word, port.words));
  return {};
}

bool are_words_carried(const isthmus_stream_port& port, int rank) {
  const auto at = static_cast<std::size_t>(rank);
  return !port.port->peers[at].lines || port.detours[at];
}

ISTHMUS_STREAM_EXPORT(int)
isthmus_stream_set(isthmus_stream_port* port, int rank, std::uint32_t word, std::uint32_t value,
                   CUstream_st* stream) {
  return guarded_stream_call(port, "port", [&]() -> Result<> {
    ISTHMUS_TRY(check_word(*port, rank, word));
    ISTHMUS_TRY(port->port->check());
    if (!stream) ISTHMUS_TRY(check_of_processors(*port));
    if (are_words_carried(*port, rank))
      return set_by_carrier(*port, rank, word, value, reinterpret_cast<cuda::Stream>(stream));
    if (!stream) {
      port->port->peers[static_cast<std::size_t>(rank)].lines->word(word).store(value,
                                                                                std::memory_order_release);
      return {};
    }
    const std::array step{stream::Step{.to = port->port->word(rank, word), .value = value}};
    bool recorded = false;
    return port->port->put(reinterpret_cast<cuda::Stream>(stream), step, recorded);
  });
}
ISTHMUS_STREAM_EXPORT(int)
isthmus_stream_wait(isthmus_stream_port* port, std::uint32_t word, std::uint32_t condition,
                    std::uint32_t value, std::uint32_t resets, CUstream_st* stream) {
  return isthmus_stream_wait_all(port, &word, 1, condition, value, resets, stream);
}
ISTHMUS_STREAM_EXPORT(int)
isthmus_stream_wait_all(isthmus_stream_port* port, const std::uint32_t* words, std::size_t count,
                        std::uint32_t condition, std::uint32_t value, std::uint32_t resets,
                        CUstream_st* stream) {
  return guarded_stream_call(port, "port", [&]() -> Result<> {
    if (!words && count > 0) return fail(ErrorClass::arg, "words is null, count is not 0");
    const auto what = condition_of(condition);
    if (!what) return outcome_of(what);
    return wait_for_words(
        *port, {.words = {words, count}, .condition = *what, .value = value, .resets = resets != 0},
        reinterpret_cast<cuda::Stream>(stream));
  });
}

}  // namespace isthmus::abi
