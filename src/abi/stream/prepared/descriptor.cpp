// Puts and gets that are prepared, and posted.

#include "abi/stream/prepared/prepared.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

namespace isthmus::abi {
namespace {

using stream::ErrandWords;

Result<> check_range(const char* whose, std::size_t offset, std::size_t bytes, std::size_t room) {
  if (offset <= room && bytes <= room - offset) return {};
  return fail(ErrorClass::arg, fmt::format("{} bytes from {} on do not lie within the {} that {} shares",
                                           bytes, offset, room, whose));
}

Result<> check_transfer(const isthmus_stream_transfer& what) {
  if (!what.local || !what.remote) return fail(ErrorClass::arg, "local or remote is null");
  if (what.kind != ISTHMUS_STREAM_PUT && what.kind != ISTHMUS_STREAM_GET)
    return fail(ErrorClass::arg, fmt::format("kind is {}, neither a put nor a get", what.kind));
  if (what.local->of != what.remote->of) return fail(ErrorClass::arg, "local and remote are of two ports");
  const isthmus_stream_port& port = *what.local->of;
  ISTHMUS_TRY(check_word(port, what.rank, what.notifies != 0 ? what.word : 0));
  if (what.bytes == 0) return {};
  auto part = find_part(*what.remote, what.rank);
  if (!part) return outcome_of(part);
  ISTHMUS_TRY(check_range("this process", what.local_offset, what.bytes, what.local->own.bytes));
  return check_range(fmt::format("rank {}", what.rank).c_str(), what.remote_offset, what.bytes,
                     (*part)->bytes);
}

/// What of a descriptor the carrier does, and what the stream.
struct Share {
  bool carries = false;   ///< its bytes
  bool notifies = false;  ///< which comes behind them
};
Share share_of_carrier(const isthmus_stream_port& port, const isthmus_stream_transfer& what) {
  const bool carries = what.bytes > 0 && !what.remote->parts[static_cast<std::size_t>(what.rank)].data;
  return {.carries = carries,
          .notifies = what.notifies != 0 && (carries || are_words_carried(port, what.rank))};
}

/// Where the carrier has a share, and streams have no line to tell it by.
Result<> find_errand(isthmus_stream_descriptor& of) {
  const isthmus_stream_transfer& what = of.what;
  const Share share = share_of_carrier(*of.of, what);
  if ((!share.carries && !share.notifies) || of.errand != Errands::none) return {};
  Errands::Errand errand{
      .rank = what.rank, .notifies = share.notifies, .word = what.word, .value = what.value};
  if (share.carries) {
    errand.kind = what.kind == ISTHMUS_STREAM_PUT ? carry::Kind::put : carry::Kind::get;
    errand.share = what.remote->number;
    errand.offset = what.remote_offset;
    errand.bytes = what.bytes;
    errand.local = reinterpret_cast<cuda::Address>(what.local->own.data + what.local_offset);
  }
  of.errand = of.of->errands->add(errand);
  if (of.errand != Errands::none) return {};
  return fail(ErrorClass::no_mem,
              fmt::format("a port has {} descriptors and captured words that go by a proxy "
                          "at most",
                          stream::ErrandLines::count));
}

Result<std::size_t> take_line(isthmus_stream_port& port) {
  if (!port.free_lines.empty()) {
    const std::size_t line = port.free_lines.back();
    port.free_lines.pop_back();
    return line;
  }
  if (port.next_line == first_descriptor_line(port.words) + descriptor_lines)
    return fail(ErrorClass::no_mem, fmt::format("a port has {} descriptors at most", descriptor_lines));
  return port.next_line++;
}

bool is_over(const isthmus_stream_descriptor& each) {
  return each.of->port->own().word(each.line).load(std::memory_order_acquire) == each.posts;
}

Result<> check_still_there(const isthmus_stream_share& share) {
  const CallGuard guard(Runtime::get());
  return abi::check_still_there(share.own);
}

/// What a post becomes, in this order.
struct Steps {
  std::vector<stream::Step> asks;    ///< the carrier for bytes
  std::vector<stream::Step> copies;  ///< by the stream
  std::vector<stream::Step> words;   ///< by the stream, then by the carrier
  std::vector<stream::Step> waits;   ///< for the carrier
  std::vector<stream::Step> ends;

  [[nodiscard]] std::vector<stream::Step> all() const {
    std::vector<stream::Step> joined;
    for (const auto* each : {&asks, &copies, &words, &waits, &ends})
      joined.insert(joined.end(), each->begin(), each->end());
    return joined;
  }
};

stream::Step copy_of(const isthmus_stream_transfer& what) {
  const Part& part = what.remote->parts[static_cast<std::size_t>(what.rank)];
  const auto near = reinterpret_cast<cuda::Address>(what.local->own.data + what.local_offset);
  const auto far = reinterpret_cast<cuda::Address>(part.data + what.remote_offset);
  const bool puts = what.kind == ISTHMUS_STREAM_PUT;
  return {.kind = stream::Step::Kind::copy,
          .to = puts ? far : near,
          .from = puts ? near : far,
          .bytes = what.bytes,
          .is_reached = what.local->is_reached,
          .is_linked = part.is_linked && !what.local->own.is_host_readable()};
}

/// `number`: in its post, which is of so `many`.
void add_errand(const isthmus_stream_descriptor& each, const Share& share, std::uint32_t number,
                std::size_t many, Steps& steps) {
  const stream::ErrandLines& lines = each.of->errands->lines();
  const cuda::Address done = lines.address(each.errand, &ErrandWords::done);
  const bool at_once = share.carries && share.notifies && many == 1;
  steps.asks.push_back({.to = done, .value = 0});
  if (share.carries)
    steps.asks.push_back({.to = lines.address(each.errand, &ErrandWords::go),
                          .value = at_once ? number | stream::go_and_tell : number});
  if (share.notifies && !at_once)
    steps.words.push_back({.to = lines.address(each.errand, &ErrandWords::tell), .value = number});
  steps.waits.push_back({.kind = stream::Step::Kind::wait, .to = done, .value = 1});
}

Result<> post(std::span<isthmus_stream_descriptor* const> all, cuda::Stream stream) {
  isthmus_stream_port& of = *all.front()->of;
  stream::Port& port = *of.port;
  Steps steps;
  std::uint32_t number = 0;
  for (isthmus_stream_descriptor* const each : all) {
    const isthmus_stream_transfer& what = each->what;
    if (each->of != &of) return fail(ErrorClass::arg, "the descriptors of a batch are of several ports");
    if (std::ranges::count(all, each) > 1) return fail(ErrorClass::arg, "a batch has a descriptor twice");
    if (each->posts != 0 && each->last != stream && (each->recorded || !is_over(*each)))
      return fail(ErrorClass::pending, "descriptor is posted on another stream, which has not passed it");
    if (what.bytes > 0) ISTHMUS_TRY(check_still_there(*what.local));
    ISTHMUS_TRY(find_errand(*each));
    const Share share = share_of_carrier(of, what);
    if (what.bytes > 0 && !share.carries) steps.copies.push_back(copy_of(what));
    if (what.notifies != 0 && !share.notifies)
      steps.words.push_back({.to = port.word(what.rank, what.word), .value = what.value});
    if (share.carries || share.notifies) add_errand(*each, share, ++number, all.size(), steps);
  }
  for (const isthmus_stream_descriptor* each : all)
    steps.ends.push_back({.to = port.own().address(each->line), .value = each->posts + 1});
  bool recorded = false;
  ISTHMUS_TRY(port.post(stream, steps.all(), all.front()->line, recorded));
  for (isthmus_stream_descriptor* each : all) {
    ++each->posts;
    each->last = stream;
    each->recorded = each->recorded || recorded;
    if (recorded && each->what.bytes > 0)
      of.kept.push_back(each->what.remote->parts[static_cast<std::size_t>(each->what.rank)].mapping);
  }
  return {};
}

}  // namespace

ISTHMUS_STREAM_EXPORT(int)
isthmus_stream_prepare(const isthmus_stream_transfer* transfer, isthmus_stream_descriptor** descriptor) {
  return guarded_stream_call([&]() -> Result<> {
    ISTHMUS_TRY(check_owned(transfer->local, "local"));
    ISTHMUS_TRY(check_owned(transfer->remote, "remote"));
    ISTHMUS_TRY(check_transfer(*transfer));
    isthmus_stream_port& port = *transfer->local->of;
    auto made = std::make_unique<isthmus_stream_descriptor>();
    auto line = take_line(port);
    if (!line) return std::unexpected(std::move(line).error());
    made->what = *transfer;
    made->of = &port;
    made->line = *line;
    port.port->own().word(*line).store(0);
    if (Result<> found = find_errand(*made); !found) {
      port.free_lines.push_back(*line);
      return found;
    }
    ++transfer->local->descriptors;
    if (transfer->remote != transfer->local) ++transfer->remote->descriptors;
    *descriptor = made.release();
    return {};
  });
}
ISTHMUS_STREAM_EXPORT(int)
isthmus_stream_post(isthmus_stream_descriptor* const* descriptors, std::size_t count, CUstream_st* stream) {
  return guarded_stream_call([&]() -> Result<> {
    if (count == 0) return {};
    for (isthmus_stream_descriptor* const each : std::span(descriptors, count))
      ISTHMUS_TRY(check_owned(each, "descriptor"));
    return post({descriptors, count}, reinterpret_cast<cuda::Stream>(stream));
  });
}
ISTHMUS_STREAM_EXPORT(int) isthmus_stream_finish(isthmus_stream_descriptor* descriptor) {
  return guarded_stream_call(descriptor, "descriptor", [&]() -> Result<> {
    if (descriptor->recorded)
      return fail(ErrorClass::request, "descriptor belongs to a graph: wait for the stream of its launch");
    return wait_here(*descriptor->of->port, [&] { return is_over(*descriptor); });
  });
}
ISTHMUS_STREAM_EXPORT(int) isthmus_stream_descriptor_free(isthmus_stream_descriptor* descriptor) {
  return guarded_stream_call(descriptor, "descriptor", [&]() -> Result<> {
    isthmus_stream_port& port = *descriptor->of;
    // The line of a captured one is written at each launch: nobody else gets it.
    if (!descriptor->recorded) {
      if (!is_over(*descriptor) && port.port->check())
        return fail(ErrorClass::pending, "descriptor is in use: its stream has not passed the last post");
      if (is_over(*descriptor)) port.free_lines.push_back(descriptor->line);
      if (descriptor->errand != Errands::none) port.errands->remove(descriptor->errand);
    }
    --descriptor->what.local->descriptors;
    if (descriptor->what.remote != descriptor->what.local) --descriptor->what.remote->descriptors;
    delete descriptor;
    return {};
  });
}

}  // namespace isthmus::abi
