// The functions of <isthmus/stream_runtime.h>.

#include <isthmus/stream_runtime.h>
#include <mpi.h>

#include <fmt/format.h>

#include <array>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "abi/core/call.hpp"
#include "abi/core/gpu_share.hpp"
#include "base/system/memory_file.hpp"
#include "gpu/memory/mapping_cache.hpp"
#include "p2p/protocol/gpu/messages.hpp"
#include "stream/prepared/port.hpp"

#define ISTHMUS_STREAM_EXPORT(type) extern "C" __attribute__((visibility("default"))) type

using isthmus::Result;
namespace stream = isthmus::stream;
namespace cuda = isthmus::cuda;

struct isthmus_stream_port {
  MPI_Comm comm = MPI_COMM_NULL;
  std::shared_ptr<stream::Port> port;
  std::uint32_t words = 0;
  std::size_t shares = 0;
  /// What captured descriptors name lives as long as the port.
  std::vector<std::shared_ptr<const isthmus::Mapping>> kept;
  std::vector<std::size_t> free_lines;  ///< of descriptors
  std::size_t next_line = 0;
  bool holds_mappings = false;
};

struct isthmus_stream_share {
  isthmus_stream_port* of = nullptr;
  std::vector<isthmus::abi::Part> parts;
  isthmus::Buffer own;  ///< as it was when it was shared
  mutable std::size_t descriptors = 0;
};

struct isthmus_stream_descriptor {
  isthmus_stream_transfer what{};
  isthmus_stream_port* of = nullptr;
  std::size_t line = 0;  ///< gets `posts` when the stream has passed the last
  std::uint32_t posts = 0;
  cuda::Stream last = nullptr;
  bool recorded = false;
};

namespace isthmus::abi {
namespace {

/// Lines behind the words: one is tried at the beginning, the others are of descriptors.
constexpr std::size_t descriptor_lines = 1024;
constexpr std::uint32_t most_words = 65536;

thread_local std::string last_error;

int tell(const Error& error) {
  last_error = error.text().empty() ? "no reason is known" : error.text();
  return static_cast<int>(error.error_class());
}

/// No exception passes through C.
template <class Body>
int guarded(Body&& body) noexcept {
  try {
    if (!Runtime::get().running())
      return tell(Error(ErrorClass::other, "MPI is not initialised, or finalized"));
    Result<> result = body();
    return result ? MPI_SUCCESS : tell(result.error());
  } catch (const std::bad_alloc&) {
    return tell(Error(ErrorClass::no_mem, "there is no memory"));
  } catch (const std::exception& exception) {
    return tell(Error(ErrorClass::intern, exception.what()));
  }
}

std::vector<PeerId> ids_of(const stream::Port& port) {
  std::vector<PeerId> ids;
  ids.reserve(port.peers.size());
  for (const stream::Port::Peer& peer : port.peers)
    ids.push_back(peer.id);
  return ids;
}

// --- ports

Result<> prepare_gpu(isthmus_stream_port& made, MPI_Comm comm) {
  Runtime& runtime = Runtime::get();
  const CallGuard guard(runtime);
  GpuMessages* const gpu = runtime.engine->gpu();
  const cuda::Functions* const functions = runtime.cuda.find();
  if (!gpu || !functions)
    return fail(ErrorClass::unsupported_operation,
                "there is no CUDA driver that the program has initialised, so there are no streams");
  cuda::Context context = nullptr;
  cuda::Device device = cuda::no_device;
  if (functions->context_current(&context) != cuda::Status::success || !context ||
      functions->context_device(&device) != cuda::Status::success)
    return fail(ErrorClass::arg, "no CUDA context is current: a port is on one GPU (cudaSetDevice)");
  auto primary = gpu->contexts().of(device);
  if (!primary) return std::unexpected(std::move(primary).error());
  if (*primary != context)
    return fail(ErrorClass::arg, "the current CUDA context is not the primary one of its GPU");
  ISTHMUS_TRY(gpu->prepare(device));
  gpu->mappings().hold();
  made.holds_mappings = true;
  made.port = std::make_shared<stream::Port>(*runtime.engine, *functions, device, context);
  Result<Communicator*> found = find_comm(comm);
  if (!found) return std::unexpected(std::move(found).error());
  made.port->rank = (*found)->rank();
  for (int i = 0; i < (*found)->size(); ++i)
    made.port->peers.push_back({.id = (*found)->peer(i), .lines = {}, .why = {}});
  return {};
}

Result<> offer_lines(const stream::Port& port, std::size_t count, UniqueFd& file, Told& told) {
  const CallGuard guard(Runtime::get());
  GpuMessages& gpu = *Runtime::get().engine->gpu();
  told.memory = {.memory = {.exporter = gpu.exporter().self().nonce}, .descriptor = -1, .ticket = 0};
  const std::vector<PeerId> ids = ids_of(port);
  const std::vector<PeerId> others = Members{ids, port.rank, port.device()}.local_others();
  file = make_memory_file();
  if (!file || !set_size(file, (count * stream::Lines::line + 4095) / 4096 * 4096))
    return fail(ErrorClass::no_mem, "there is no memory for the words of a port");
  auto own = stream::Lines::map(gpu.contexts(), port.device(), file.get(), count);
  if (!own) return std::unexpected(std::move(own).error());
  const_cast<stream::Port&>(port).peers[static_cast<std::size_t>(port.rank)].lines.emplace(std::move(*own));
  told.is_there = 1;
  if (!others.empty()) gpu.hand_over(others, told.memory, file);
  return {};
}

void open_lines(stream::Port& port, const std::vector<Told>& all, std::size_t count) {
  const CallGuard guard(Runtime::get());
  GpuMessages& gpu = *Runtime::get().engine->gpu();
  for (std::size_t i = 0; i < all.size(); ++i) {
    stream::Port::Peer& peer = port.peers[i];
    if (static_cast<int>(i) == port.rank) continue;
    peer.why = why_apart(peer.id);
    if (!peer.why.empty()) continue;
    const UniqueFd file = gpu.take(peer.id, all[i].memory);
    if (!file) {
      peer.why = "the file with its words cannot be handed over";
      continue;
    }
    auto lines = stream::Lines::map(gpu.contexts(), port.device(), file.get(), count);
    if (lines)
      peer.lines.emplace(std::move(*lines));
    else
      peer.why = lines.error().text();
  }
}

Result<> open_port(isthmus_stream_port& made) {
  PMPI_Comm_set_errhandler(made.comm, MPI_ERRORS_RETURN);
  ISTHMUS_TRY(agree(made.comm, prepare_gpu(made, made.comm)));
  const std::size_t count = made.words + 1 + descriptor_lines;
  made.next_line = made.words + 1;
  UniqueFd file;
  Told told;
  ISTHMUS_TRY(agree(made.comm, offer_lines(*made.port, count, file, told)));
  auto all = exchange(made.comm, told);
  if (!all) return std::unexpected(std::move(all).error());
  open_lines(*made.port, *all, count);
  return agree(made.comm, made.port->start(made.words));
}

void close_port(isthmus_stream_port& port) {
  if (port.port) port.port->stop();
  {
    Runtime& runtime = Runtime::get();
    const CallGuard guard(runtime);
    std::erase(runtime.ports, port.port);
    port.kept.clear();
    port.port.reset();
    if (std::exchange(port.holds_mappings, false)) runtime.engine->gpu()->mappings().release();
  }
  if (port.comm != MPI_COMM_NULL) PMPI_Comm_free(&port.comm);
}

// --- shares

/// Where a process's words are out of reach, so is its memory.
void open_part(const stream::Port& port, const Members& members, std::size_t at, const Told& told,
               Part& part) {
  open_shared(members, at, told, part);
  if (const stream::Port::Peer& peer = port.peers[at]; !peer.lines)
    part = {nullptr, part.bytes, {}, peer.why};
}

Result<> make_share(isthmus_stream_share& share, void* address, std::size_t bytes) {
  const stream::Port& port = *share.of->port;
  const std::vector<PeerId> ids = ids_of(port);
  const Members members{ids, port.rank, port.device()};
  Told told;
  UniqueFd descriptor;
  Result<> mine;
  {
    const CallGuard guard(Runtime::get());
    auto looked = look_at_shared(address, bytes);
    if (looked) {
      share.own = *looked;
      offer_shared(members, share.own, descriptor, told);
    } else {
      mine = std::unexpected(std::move(looked).error());
    }
  }
  auto all = exchange(share.of->comm, told);
  if (!all) return std::unexpected(std::move(all).error());
  share.parts.resize(all->size());
  {
    const CallGuard guard(Runtime::get());
    for (std::size_t i = 0; i < all->size(); ++i)
      if (static_cast<int>(i) == port.rank)
        share.parts[i] = {.data = static_cast<std::byte*>(address), .bytes = bytes, .mapping = {}, .why = {}};
      else
        open_part(port, members, i, (*all)[i], share.parts[i]);
  }
  return agree(share.of->comm, std::move(mine));
}

// --- descriptors

Result<> check_range(const char* whose, std::size_t offset, std::size_t bytes, std::size_t room) {
  if (offset <= room && bytes <= room - offset) return {};
  return fail(ErrorClass::arg, fmt::format("{} bytes from {} on do not lie within the {} that {} shares",
                                           bytes, offset, room, whose));
}

Result<> check_word(const isthmus_stream_port& port, int rank, std::uint32_t word) {
  const auto& peers = port.port->peers;
  if (rank < 0 || static_cast<std::size_t>(rank) >= peers.size())
    return fail(ErrorClass::rank,
                fmt::format("rank is {}, not one of the {} of the port", rank, peers.size()));
  if (word >= port.words)
    return fail(ErrorClass::arg, fmt::format("word is {}, of {} that each process has", word, port.words));
  const auto& peer = peers[static_cast<std::size_t>(rank)];
  if (!peer.lines)
    return fail(ErrorClass::unsupported_operation,
                fmt::format("no stream reaches the words of rank {}: {}", rank, peer.why));
  return {};
}

Result<> check_reach(const isthmus_stream_share& share, int rank) {
  if (rank < 0 || static_cast<std::size_t>(rank) >= share.parts.size())
    return fail(ErrorClass::rank,
                fmt::format("rank is {}, not one of the {} of the port", rank, share.parts.size()));
  const Part& part = share.parts[static_cast<std::size_t>(rank)];
  if (part.why.empty()) return {};
  return fail(ErrorClass::unsupported_operation,
              fmt::format("no stream reaches what rank {} shares: {}", rank, part.why));
}

Result<> check_transfer(const isthmus_stream_transfer& what) {
  if (!what.local || !what.remote) return fail(ErrorClass::arg, "local or remote is null");
  if (what.kind != ISTHMUS_STREAM_PUT && what.kind != ISTHMUS_STREAM_GET)
    return fail(ErrorClass::arg, fmt::format("kind is {}, neither a put nor a get", what.kind));
  if (what.local->of != what.remote->of) return fail(ErrorClass::arg, "local and remote are of two ports");
  const isthmus_stream_port& port = *what.local->of;
  ISTHMUS_TRY(check_word(port, what.rank, what.notifies != 0 ? what.word : 0));
  if (what.bytes == 0) return {};
  ISTHMUS_TRY(check_reach(*what.remote, what.rank));
  ISTHMUS_TRY(check_range("this process", what.local_offset, what.bytes, what.local->own.bytes));
  return check_range(fmt::format("rank {}", what.rank).c_str(), what.remote_offset, what.bytes,
                     what.remote->parts[static_cast<std::size_t>(what.rank)].bytes);
}

Result<std::size_t> take_line(isthmus_stream_port& port) {
  if (!port.free_lines.empty()) {
    const std::size_t line = port.free_lines.back();
    port.free_lines.pop_back();
    return line;
  }
  if (port.next_line == port.words + 1 + descriptor_lines)
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

Result<> post(std::span<isthmus_stream_descriptor* const> all, cuda::Stream stream) {
  isthmus_stream_port& of = *all.front()->of;
  stream::Port& port = *of.port;
  std::vector<stream::Step> steps, after;
  for (const isthmus_stream_descriptor* each : all) {
    const isthmus_stream_transfer& what = each->what;
    if (each->of != &of) return fail(ErrorClass::arg, "the descriptors of a batch are of several ports");
    if (std::ranges::count(all, each) > 1) return fail(ErrorClass::arg, "a batch has a descriptor twice");
    if (each->posts != 0 && each->last != stream && (each->recorded || !is_over(*each)))
      return fail(ErrorClass::pending, "descriptor is posted on another stream, which has not passed it");
    if (what.bytes > 0) {
      ISTHMUS_TRY(check_still_there(*what.local));
      const Part& part = what.remote->parts[static_cast<std::size_t>(what.rank)];
      const auto near = reinterpret_cast<cuda::Address>(what.local->own.data + what.local_offset);
      const auto far = reinterpret_cast<cuda::Address>(part.data + what.remote_offset);
      const bool puts = what.kind == ISTHMUS_STREAM_PUT;
      steps.push_back({.kind = stream::Step::Kind::copy,
                       .to = puts ? far : near,
                       .from = puts ? near : far,
                       .bytes = what.bytes});
    }
    if (what.notifies != 0)
      after.push_back({.to = port.peers[static_cast<std::size_t>(what.rank)].lines->address(what.word),
                       .value = what.value});
  }
  for (const isthmus_stream_descriptor* each : all)
    after.push_back({.to = port.own().address(each->line), .value = each->posts + 1});
  steps.insert(steps.end(), after.begin(), after.end());
  bool recorded = false;
  ISTHMUS_TRY(port.put(stream, steps, recorded));
  for (isthmus_stream_descriptor* each : all) {
    ++each->posts;
    each->last = stream;
    each->recorded = each->recorded || recorded;
    if (recorded && each->what.bytes > 0)
      of.kept.push_back(each->what.remote->parts[static_cast<std::size_t>(each->what.rank)].mapping);
  }
  return {};
}

// --- words

bool holds(std::uint32_t now, std::uint32_t condition, std::uint32_t value) {
  if (condition == ISTHMUS_STREAM_EQUAL) return now == value;
  if (condition == ISTHMUS_STREAM_ANY_BIT) return (now & value) != 0;
  return static_cast<std::int32_t>(now - value) >= 0;
}

/// The processor waits, and makes progress for others meanwhile.
template <class Ready>
Result<> wait_here(const stream::Port& port, Ready&& ready) {
  while (!ready()) {
    ISTHMUS_TRY(port.check());
    const CallGuard guard(Runtime::get());
    Runtime::get().engine->progress_for_test();
  }
  return {};
}

Result<> wait_for_word(isthmus_stream_port& of, std::uint32_t word, std::uint32_t condition,
                       std::uint32_t value, bool resets, cuda::Stream stream) {
  stream::Port& port = *of.port;
  ISTHMUS_TRY(check_word(of, port.rank, word));
  if (condition < ISTHMUS_STREAM_EQUAL || condition > ISTHMUS_STREAM_ANY_BIT)
    return fail(ErrorClass::arg, fmt::format("condition is {}, which is none", condition));
  if (condition == ISTHMUS_STREAM_ANY_BIT && value == 0)
    return fail(ErrorClass::arg, "value is 0: none of its bits will ever be set");
  if (!stream) {
    auto own = port.own().word(word);
    ISTHMUS_TRY(
        wait_here(port, [&] { return holds(own.load(std::memory_order_acquire), condition, value); }));
    if (resets) own.store(0, std::memory_order_release);
    return {};
  }
  const cuda::Address at = port.own().address(word);
  constexpr std::array<std::uint32_t, 4> flags{0, cuda::wait_equal, cuda::wait_at_least, cuda::wait_and};
  const std::array steps{
      stream::Step{.kind = stream::Step::Kind::wait, .to = at, .value = value, .condition = flags[condition]},
      stream::Step{.to = at, .value = 0}};
  port.await(word, value);
  bool recorded = false;
  return port.put(stream, std::span(steps).first(resets ? 2 : 1), recorded);
}

}  // namespace

ISTHMUS_STREAM_EXPORT(const char*) isthmus_stream_error(void) {
  return last_error.c_str();
}

ISTHMUS_STREAM_EXPORT(int)
isthmus_stream_port_make(MPI_ABI_Comm* comm, std::uint32_t words, isthmus_stream_port** port) {
  return guarded([&]() -> Result<> {
    if (!port) return fail(ErrorClass::arg, "port is null");
    if (words < 1 || words > most_words)
      return fail(ErrorClass::arg, fmt::format("words is {}, not between 1 and {}", words, most_words));
    auto made = std::make_unique<isthmus_stream_port>();
    made->words = words;
    // From here on a second thread is in the engine.
    Runtime::get().engine->lock().enable();
    ISTHMUS_TRY(check_mpi(PMPI_Comm_dup(comm, &made->comm), "the communicator of a port"));
    Result<> opened = open_port(*made);
    if (!opened) {
      close_port(*made);
      return opened;
    }
    Runtime::get().ports.push_back(made->port);
    *port = made.release();
    return {};
  });
}
ISTHMUS_STREAM_EXPORT(int) isthmus_stream_port_free(isthmus_stream_port* port) {
  return guarded([&]() -> Result<> {
    if (!port) return fail(ErrorClass::arg, "port is null");
    if (port->shares > 0)
      return fail(ErrorClass::pending, fmt::format("port is in use: {} shares are not freed", port->shares));
    const std::unique_ptr<isthmus_stream_port> last(port);
    close_port(*port);
    return {};
  });
}
ISTHMUS_STREAM_EXPORT(int) isthmus_stream_port_check(isthmus_stream_port* port) {
  return guarded([&] { return port->port->check(); });
}
ISTHMUS_STREAM_EXPORT(int) isthmus_stream_port_cancel(isthmus_stream_port* port) {
  return guarded([&]() -> Result<> {
    port->port->cancel();
    return {};
  });
}

ISTHMUS_STREAM_EXPORT(int)
isthmus_stream_share_make(isthmus_stream_port* port, void* address, std::size_t bytes,
                          isthmus_stream_share** share) {
  return guarded([&]() -> Result<> {
    auto made = std::make_unique<isthmus_stream_share>();
    made->of = port;
    Result<> outcome = make_share(*made, address, bytes);
    if (!outcome) {
      const CallGuard guard(Runtime::get());
      made.reset();
      return outcome;
    }
    ++port->shares;
    *share = made.release();
    return {};
  });
}
ISTHMUS_STREAM_EXPORT(int) isthmus_stream_share_free(isthmus_stream_share* share) {
  return guarded([&]() -> Result<> {
    if (share->descriptors > 0)
      return fail(ErrorClass::pending,
                  fmt::format("share is in use: {} descriptors of it are not freed", share->descriptors));
    --share->of->shares;
    const CallGuard guard(Runtime::get());
    delete share;
    return {};
  });
}
ISTHMUS_STREAM_EXPORT(int) isthmus_stream_share_reach(const isthmus_stream_share* share, int rank) {
  return guarded([&] { return check_reach(*share, rank); });
}

ISTHMUS_STREAM_EXPORT(int)
isthmus_stream_prepare(const isthmus_stream_transfer* transfer, isthmus_stream_descriptor** descriptor) {
  return guarded([&]() -> Result<> {
    ISTHMUS_TRY(check_transfer(*transfer));
    isthmus_stream_port& port = *transfer->local->of;
    auto made = std::make_unique<isthmus_stream_descriptor>();
    auto line = take_line(port);
    if (!line) return std::unexpected(std::move(line).error());
    made->what = *transfer;
    made->of = &port;
    made->line = *line;
    port.port->own().word(*line).store(0);
    ++transfer->local->descriptors;
    if (transfer->remote != transfer->local) ++transfer->remote->descriptors;
    *descriptor = made.release();
    return {};
  });
}
ISTHMUS_STREAM_EXPORT(int)
isthmus_stream_post(isthmus_stream_descriptor* const* descriptors, std::size_t count, CUstream_st* stream) {
  return guarded([&]() -> Result<> {
    if (count == 0) return {};
    return post({descriptors, count}, reinterpret_cast<cuda::Stream>(stream));
  });
}
ISTHMUS_STREAM_EXPORT(int) isthmus_stream_finish(isthmus_stream_descriptor* descriptor) {
  return guarded([&]() -> Result<> {
    if (descriptor->recorded)
      return fail(ErrorClass::request, "descriptor belongs to a graph: wait for the stream of its launch");
    return wait_here(*descriptor->of->port, [&] { return is_over(*descriptor); });
  });
}
ISTHMUS_STREAM_EXPORT(int) isthmus_stream_descriptor_free(isthmus_stream_descriptor* descriptor) {
  return guarded([&]() -> Result<> {
    isthmus_stream_port& port = *descriptor->of;
    // The line of a captured one is written at each launch: nobody else gets it.
    if (!descriptor->recorded) {
      if (!is_over(*descriptor) && port.port->check())
        return fail(ErrorClass::pending, "descriptor is in use: its stream has not passed the last post");
      if (is_over(*descriptor)) port.free_lines.push_back(descriptor->line);
    }
    --descriptor->what.local->descriptors;
    if (descriptor->what.remote != descriptor->what.local) --descriptor->what.remote->descriptors;
    delete descriptor;
    return {};
  });
}

ISTHMUS_STREAM_EXPORT(int)
isthmus_stream_set(isthmus_stream_port* port, int rank, std::uint32_t word, std::uint32_t value,
                   CUstream_st* stream) {
  return guarded([&]() -> Result<> {
    ISTHMUS_TRY(check_word(*port, rank, word));
    ISTHMUS_TRY(port->port->check());
    const stream::Lines& lines = *port->port->peers[static_cast<std::size_t>(rank)].lines;
    if (!stream) {
      lines.word(word).store(value, std::memory_order_release);
      return {};
    }
    const std::array step{stream::Step{.to = lines.address(word), .value = value}};
    bool recorded = false;
    return port->port->put(reinterpret_cast<cuda::Stream>(stream), step, recorded);
  });
}
ISTHMUS_STREAM_EXPORT(int)
isthmus_stream_wait(isthmus_stream_port* port, std::uint32_t word, std::uint32_t condition,
                    std::uint32_t value, std::uint32_t resets, CUstream_st* stream) {
  return guarded([&] {
    return wait_for_word(*port, word, condition, value, resets != 0, reinterpret_cast<cuda::Stream>(stream));
  });
}

}  // namespace isthmus::abi
