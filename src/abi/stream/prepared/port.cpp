// Ports of prepared puts: processes, and words in each.

#include "abi/stream/prepared/prepared.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/system/memory_file.hpp"
#include "gpu/memory/mapping_cache.hpp"
#include "p2p/protocol/gpu/messages.hpp"

namespace isthmus::abi {
namespace {

constexpr std::uint32_t most_words = 65536;

thread_local std::string last_error;

/// Copies and waits by kernels, and lines that these need; nothing where there are no kernels, and copy
/// engines and memory operations do it.
Result<stream::Port::Kernels> find_kernels(const PortGpu& gpu, std::size_t lines) {
  GpuCopies& copies = Runtime::get().engine->gpu()->copies();
  stream::Port::Kernels found;
  if (!copies.kernels().trouble(gpu.device).empty()) return found;
  auto put = copies.kernels().putting(gpu.device);
  if (!put) return std::unexpected(std::move(put).error());
  auto wait = copies.kernels().waiting(gpu.device);
  if (!wait) return std::unexpected(std::move(wait).error());
  auto room = stream::Room::make(copies.contexts(), gpu.device, gpu.context, lines);
  if (!room) return std::unexpected(std::move(room).error());
  return stream::Port::Kernels{.put = *put, .wait = *wait, .room = std::move(*room)};
}

Result<> prepare_gpu(isthmus_stream_port& made, MPI_Comm comm, std::size_t lines) {
  auto gpu = find_port_gpu("streams");
  if (!gpu) return outcome_of(gpu);
  Runtime& runtime = Runtime::get();
  const CallGuard guard(runtime);
  made.port =
      std::make_shared<stream::Port>(*runtime.engine, *gpu->functions, gpu->device, gpu->context, made.words);
  auto kernels = find_kernels(*gpu, lines);
  if (!kernels) return outcome_of(kernels);
  made.port->set_kernels(std::move(*kernels));
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
  told.memory = {
      .memory = {.exporter = gpu.exports().exporter().self().nonce}, .descriptor = -1, .ticket = 0};
  const std::vector<PeerId> ids = ids_of(port);
  const std::vector<PeerId> others = Members{ids, port.rank, port.device()}.local_others();
  file = make_memory_file();
  if (!file || !set_size(file, (count * stream::Lines::line + 4095) / 4096 * 4096))
    return fail(ErrorClass::no_mem, "there is no memory for the words of a port");
  auto own = stream::Lines::map(gpu.copies().contexts(), port.device(), file.get(), count);
  if (!own) return std::unexpected(std::move(own).error());
  const_cast<stream::Port&>(port).peers[static_cast<std::size_t>(port.rank)].lines.emplace(std::move(*own));
  told.is_there = 1;
  if (!others.empty()) gpu.exports().hand_over(others, told.memory, file);
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
    const UniqueFd file = gpu.exports().take(peer.id, all[i].memory);
    if (!file) {
      peer.why = "the file with its words cannot be handed over";
      continue;
    }
    auto lines = stream::Lines::map(gpu.copies().contexts(), port.device(), file.get(), count);
    if (lines)
      peer.lines.emplace(std::move(*lines));
    else
      peer.why = lines.error().text();
  }
}

/// The words move to the GPUs, where all of these reach each other's and run at the same time. Collective.
Result<> move_words_to_gpus(isthmus_stream_port& of) {
  stream::Port& port = *of.port;
  const auto has_kernels = all_can(of.comm, port.room() != nullptr);
  if (!has_kernels || !*has_kernels) return outcome_of(has_kernels);
  const auto has_gpu_each = have_gpu_each(of.comm, port.functions(), port.device());
  if (!has_gpu_each || !*has_gpu_each) return outcome_of(has_gpu_each);
  Result<Buffer> own = [&] {
    const CallGuard guard(Runtime::get());
    // NOLINTNEXTLINE(performance-no-int-to-ptr): an address of the GPU
    return look_at_shared(reinterpret_cast<void*>(port.room()->address()), port.room()->bytes());
  }();
  const std::vector<PeerId> ids = ids_of(port);
  const auto told = share_with_all(of.comm, {ids, port.rank, port.device()}, std::move(own), of.rooms);
  if (!told) return outcome_of(told);
  const auto are_open =
      all_can(of.comm, std::ranges::all_of(of.rooms, [](const Part& part) { return part.data; }));
  if (are_open && *are_open) {
    for (std::size_t i = 0; i < of.rooms.size(); ++i)
      port.peers[i].room = reinterpret_cast<cuda::Address>(of.rooms[i].data);
  } else {
    const CallGuard guard(Runtime::get());
    close_parts(of.rooms);
  }
  return outcome_of(are_open);
}

Result<> open_port(isthmus_stream_port& made) {
  PMPI_Comm_set_errhandler(made.comm, MPI_ERRORS_RETURN);
  made.next_line = first_descriptor_line(made.words);
  const std::size_t count = made.next_line + descriptor_lines;
  ISTHMUS_TRY(agree(made.comm, prepare_gpu(made, made.comm, count)));
  UniqueFd file;
  Told told;
  ISTHMUS_TRY(agree(made.comm, offer_lines(*made.port, count, file, told)));
  auto all = exchange(made.comm, told);
  if (!all) return std::unexpected(std::move(all).error());
  open_lines(*made.port, *all, count);
  made.detours.resize(all->size());
  if (made.is_for_streams) ISTHMUS_TRY(move_words_to_gpus(made));
  hold_mappings(made.holds_mappings);
  ISTHMUS_TRY(agree(made.comm, made.port->start()));
  return start_carrier(made, std::ranges::any_of(made.port->peers,
                                                 [](const stream::Port::Peer& peer) { return !peer.lines; }));
}

/// What others may still need goes on for them: the runtime has it then.
void close_port(isthmus_stream_port& port) {
  if (port.port && port.port->carrier)
    port.port->carrier->leave();
  else if (port.port)
    port.port->stop();
  {
    Runtime& runtime = Runtime::get();
    const CallGuard guard(runtime);
    std::erase(runtime.ports, port.port);
    port.kept.clear();
    release_mappings(port.holds_mappings);
    close_parts(port.rooms);
    if (port.port) port.port->part();
    if (port.port && !port.port->is_over()) runtime.left_ports.push_back(port.port);
    port.port.reset();
  }
  if (port.comm != MPI_COMM_NULL) PMPI_Comm_free(&port.comm);
  Runtime::get().free_left_ports();
}

Result<> make_port(MPI_ABI_Comm* comm, std::uint32_t words, bool is_for_streams, isthmus_stream_port** port) {
  if (!port) return fail(ErrorClass::arg, "port is null");
  if (words < 1 || words > most_words)
    return fail(ErrorClass::arg, fmt::format("words is {}, not between 1 and {}", words, most_words));
  Runtime::get().free_left_ports();
  auto made = std::make_unique<isthmus_stream_port>();
  made->words = words;
  made->is_for_streams = is_for_streams;
  ISTHMUS_TRY(check_mpi(PMPI_Comm_dup(comm, &made->comm), "the communicator of a port"));
  Result<> opened = open_port(*made);
  if (!opened) {
    // All have failed together: nobody waits for this one.
    if (made->port) made->port->carrier.reset();
    close_port(*made);
    return opened;
  }
  Runtime::get().ports.push_back(made->port);
  *port = made.release();
  return {};
}

}  // namespace

Result<> start_carrier(isthmus_stream_port& of, bool is_needed_here) {
  if (of.carrier) return {};
  int mine = is_needed_here ? 1 : 0, any = 0;
  ISTHMUS_TRY(check_mpi(PMPI_Allreduce(&mine, &any, 1, MPI_INT, MPI_MAX, of.comm), "processes do not meet"));
  if (any == 0) return {};
  stream::Port& port = *of.port;
  cuda::PrimaryContexts& contexts = Runtime::get().engine->gpu()->copies().contexts();
  auto lines = stream::ErrandLines::make(contexts, port.device(), port.context());
  ISTHMUS_TRY(agree(of.comm, outcome_of(lines)));
  auto errands = std::make_unique<Errands>(port, *lines, of.words);
  Errands* const asked = errands.get();
  auto started = Carrier::start(std::move(errands), contexts, of.comm);
  ISTHMUS_TRY(agree(of.comm, outcome_of(started)));
  port.set_errands(std::move(*lines));
  of.errands = asked;
  of.carrier = started->get();
  port.carrier = std::move(*started);
  for (std::uint32_t i = 0; i < of.shared.size(); ++i)
    of.carrier->set_share(i, of.shared[i].data, of.shared[i].bytes);
  return {};
}

int tell_stream_error(const Error& error) {
  last_error = error.text().empty() ? "no reason is known" : error.text();
  return static_cast<int>(error.error_class());
}

std::vector<PeerId> ids_of(const stream::Port& port) {
  std::vector<PeerId> ids;
  ids.reserve(port.peers.size());
  for (const stream::Port::Peer& peer : port.peers)
    ids.push_back(peer.id);
  return ids;
}

ISTHMUS_STREAM_EXPORT(const char*) isthmus_stream_error(void) {
  return last_error.c_str();
}

ISTHMUS_STREAM_EXPORT(int)
isthmus_stream_port_make(MPI_ABI_Comm* comm, std::uint32_t words, isthmus_stream_port** port) {
  return guarded_stream_call([&] { return make_port(comm, words, false, port); });
}
ISTHMUS_STREAM_EXPORT(int)
isthmus_stream_port_make_for_streams(MPI_ABI_Comm* comm, std::uint32_t words, isthmus_stream_port** port) {
  return guarded_stream_call([&] { return make_port(comm, words, true, port); });
}
ISTHMUS_STREAM_EXPORT(int) isthmus_stream_port_free(isthmus_stream_port* port) {
  return guarded_stream_call(port, "port", [&]() -> Result<> {
    if (port->shares > 0)
      return fail(ErrorClass::pending, fmt::format("port is in use: {} shares are not freed", port->shares));
    const std::unique_ptr<isthmus_stream_port> last(port);
    close_port(*port);
    return {};
  });
}
ISTHMUS_STREAM_EXPORT(int) isthmus_stream_port_check(isthmus_stream_port* port) {
  return guarded_stream_call(port, "port", [&] { return port->port->check(); });
}
ISTHMUS_STREAM_EXPORT(int) isthmus_stream_port_cancel(isthmus_stream_port* port) {
  return guarded_stream_call(port, "port", [&]() -> Result<> {
    port->port->cancel();
    return {};
  });
}

}  // namespace isthmus::abi
