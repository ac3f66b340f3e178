#include "abi/core/gpu_share.hpp"

#include <fmt/format.h>

#include <utility>

#include "abi/core/call.hpp"
#include "abi/core/runtime.hpp"
#include "base/rank_turns.hpp"
#include "gpu/driver/gpu.hpp"
#include "gpu/memory/mapping_cache.hpp"
#include "p2p/protocol/gpu/messages.hpp"

namespace isthmus::abi {

namespace {

/// As `Part::is_linked`, of memory of the GPU `of`.
bool is_linked(const cuda::Functions& functions, cuda::Device own, const cuda::Uuid& of) {
  auto gpus = GpuList::read(functions);
  if (!gpus) return false;
  const auto found = gpus->find(of);
  if (!found) return false;
  if (*found == own) return true;
  int supported = 0;
  return functions.device_peer_attribute(&supported, cuda::PeerAttribute::native_atomic_supported, own,
                                         *found) == cuda::Status::success &&
         supported != 0;
}

}  // namespace

Result<> check_mpi(int code, const char* what) {
  if (code == MPI_SUCCESS) return {};
  char text[MPI_MAX_ERROR_STRING];
  int length = 0, error_class = MPI_ERR_OTHER;
  PMPI_Error_string(code, text, &length);
  PMPI_Error_class(code, &error_class);
  return fail(static_cast<ErrorClass>(error_class), fmt::format("{}: {}", what, text));
}

Result<> agree(MPI_Comm comm, Result<> mine) {
  int rank = 0, size = 0;
  PMPI_Comm_rank(comm, &rank);
  PMPI_Comm_size(comm, &size);
  int first = mine ? size : rank, least = size;
  Result<> met =
      check_mpi(PMPI_Allreduce(&first, &least, 1, MPI_INT, MPI_MIN, comm), "processes do not meet");
  if (!mine) return mine;
  ISTHMUS_TRY(std::move(met));
  if (least < size) return fail(ErrorClass::other, fmt::format("rank {} has failed to do its part", least));
  return {};
}

Result<bool> all_can(MPI_Comm comm, bool mine) {
  int own = mine ? 1 : 0, least = 0;
  ISTHMUS_TRY(check_mpi(PMPI_Allreduce(&own, &least, 1, MPI_INT, MPI_MIN, comm), "processes do not meet"));
  return least == 1;
}

Result<bool> have_gpu_each(MPI_Comm comm, const cuda::Functions& functions, cuda::Device device) {
  cuda::Uuid own;
  auto known = all_can(comm, functions.device_uuid(&own, device) == cuda::Status::success);
  if (!known || !*known) return known;
  int members = 0;
  ISTHMUS_TRY(check_mpi(PMPI_Comm_size(comm, &members), "processes do not meet"));
  std::vector<cuda::Uuid> all(static_cast<std::size_t>(members));
  ISTHMUS_TRY(check_mpi(PMPI_Allgather(&own, sizeof own, MPI_BYTE, all.data(), sizeof own, MPI_BYTE, comm),
                        "processes do not meet"));
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t k = 0; k < i; ++k)
      if (all[i] == all[k]) return false;
  return true;
}

Result<> check_one_rank(const Runtime& runtime, std::string_view what) {
  if (!runtime.turns()) return {};
  return fail(
      ErrorClass::unsupported_operation,
      fmt::format("{} are for processes of one rank: a rank that waits in CUDA would keep those that it "
                  "waits for from their turns. Start the job without --ranks-per-process",
                  what));
}

Result<std::vector<Told>> exchange(MPI_Comm comm, const Told& mine) {
  int size = 0;
  PMPI_Comm_size(comm, &size);
  std::vector<Told> all(static_cast<std::size_t>(size));
  ISTHMUS_TRY(check_mpi(PMPI_Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, comm),
                        "processes do not tell each other of their memory"));
  return all;
}

std::vector<PeerId> Members::local_others() const {
  std::vector<PeerId> others;
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (static_cast<int>(i) != rank && Runtime::get().job->slot_of(ids[i])) others.push_back(ids[i]);
  return others;
}

std::string why_apart(PeerId peer) {
  return Runtime::get().job->slot_of(peer) ? "" : Runtime::get().job->why_apart(peer);
}

Result<PortGpu> find_port_gpu(const char* for_what) {
  Runtime& runtime = Runtime::get();
  ISTHMUS_TRY(check_one_rank(runtime, fmt::format("ports of {}", for_what)));
  runtime.engine->lock().enable();
  const CallGuard guard(runtime);
  GpuMessages* const gpu = runtime.engine->gpu();
  PortGpu found{.functions = runtime.cuda.find()};
  if (!gpu || !found.functions)
    return fail(ErrorClass::unsupported_operation,
                fmt::format("there is no CUDA driver that the program has initialised, so there are no {}",
                            for_what));
  if (found.functions->context_current(&found.context) != cuda::Status::success || !found.context ||
      found.functions->context_device(&found.device) != cuda::Status::success)
    return fail(ErrorClass::arg, "no CUDA context is current: a port is on one GPU (cudaSetDevice)");
  auto primary = gpu->copies().contexts().of(found.device);
  if (!primary) return std::unexpected(std::move(primary).error());
  if (*primary != found.context)
    return fail(ErrorClass::arg, "the current CUDA context is not the primary one of its GPU");
  ISTHMUS_TRY(gpu->prepare(found.device));
  return found;
}

void hold_mappings(bool& holds) {
  const CallGuard guard(Runtime::get());
  if (!std::exchange(holds, true)) Runtime::get().engine->gpu()->exports().mappings().hold();
}

void release_mappings(bool& holds) {
  if (std::exchange(holds, false)) Runtime::get().engine->gpu()->exports().mappings().release();
}

void close_parts(std::vector<Part>& parts) {
  for (Part& part : parts) {
    const std::uint64_t allocation = part.mapping ? part.allocation : 0;
    part.mapping.reset();
    if (allocation != 0) Runtime::get().engine->gpu()->exports().mappings().forget(part.exporter, allocation);
  }
  parts.clear();
}

Result<std::vector<Told>> share_with_all(MPI_Comm comm, const Members& members, Result<Buffer> own,
                                         std::vector<Part>& parts) {
  Told told;
  UniqueFd descriptor;
  if (own) {
    const CallGuard guard(Runtime::get());
    offer_shared(members, *own, descriptor, told);
  }
  auto all = exchange(comm, told);
  if (!all) return all;
  parts.resize(all->size());
  {
    const CallGuard guard(Runtime::get());
    for (std::size_t i = 0; i < all->size(); ++i)
      if (static_cast<int>(i) != members.rank)
        open_shared(members, i, (*all)[i], parts[i]);
      else if (own)
        parts[i] = {.data = own->data, .bytes = own->bytes, .mapping = {}, .why = {}, .is_linked = true};
  }
  if (Result<> met = agree(comm, own ? Result<>() : std::unexpected(std::move(own).error())); !met)
    return std::unexpected(std::move(met).error());
  return all;
}

Result<Buffer> look_at_shared(void* address, std::size_t bytes) {
  GpuMessages& gpu = *Runtime::get().engine->gpu();
  if (bytes == 0) return Buffer{};
  if (!address) return fail(ErrorClass::buffer, "address is null, bytes is not 0");
  auto own = gpu.copies().look(Payload::of(address, bytes));
  if (!own) return own;
  if (own->kind == MemoryKind::managed)
    return fail(ErrorClass::buffer, "address is managed memory, whose pages move: share memory of one place");
  if (!own->is_whole())
    return fail(ErrorClass::buffer,
                fmt::format("address has {} bytes up to the end of its allocation, not {}",
                            own->room - own->offset(), bytes));
  if (!own->is_own) return fail(ErrorClass::buffer, "address is memory of another process");
  // To pin it here would pin what else lies in its pages, which breaks the program's copies of that.
  if (own->kind == MemoryKind::pageable)
    return fail(ErrorClass::buffer,
                "address is pageable memory, which streams do not reach: pin it first "
                "(cudaHostRegister, cudaMallocHost)");
  return own;
}

void offer_shared(const Members& members, const Buffer& own, UniqueFd& descriptor, Told& told) {
  GpuMessages& gpu = *Runtime::get().engine->gpu();
  told.bytes = own.bytes;
  if (own.bytes == 0) return told.refuse("it shares no memory");
  if (own.is_host_readable()) return told.refuse("it shares memory of the host, which others cannot map");
  auto offer = gpu.exports().exporter().offer(own);
  if (!offer) return told.refuse(offer.error().text());
  told.memory = {.memory = *offer, .descriptor = -1, .ticket = 0};
  told.offset = own.offset();
  const std::vector<PeerId> others = members.local_others();
  if (offer->has_descriptor() && !others.empty()) {
    auto made = gpu.exports().exporter().descriptor(offer->allocation);
    if (!made) return told.refuse(made.error().text());
    descriptor = std::move(*made);
    gpu.exports().hand_over(others, told.memory, descriptor);
  }
  for (const PeerId id : others)
    gpu.exports().handed(id, offer->allocation);
  told.is_there = 1;
}

void open_shared(const Members& members, std::size_t rank, const Told& told, Part& part) {
  GpuMessages& gpu = *Runtime::get().engine->gpu();
  const PeerId peer = members.ids[rank];
  part.bytes = told.bytes;
  UniqueFd descriptor;
  if (told.is_there != 0 && Runtime::get().job->slot_of(peer))
    descriptor = gpu.exports().take(peer, told.memory);
  part.why = why_apart(peer);
  if (part.why.empty() && told.is_there == 0) part.why = told.why.data();
  if (!part.why.empty()) return;
  if (const launch::Job& job = *Runtime::get().job; job.turns && job.turns->is_here(peer)) {
    part.why =
        "it is a rank of this process: kernels that wait for each other's could keep its ranks from "
        "launching those";
    return;
  }
  auto opened = gpu.exports().open(peer, told.memory, members.device, std::move(descriptor));
  if (!opened) {
    part.why = opened.error().text();
    return;
  }
  part.is_linked = is_linked(gpu.copies().contexts().functions(), members.device, told.memory.memory.device);
  part.mapping = opened->mapping;
  part.exporter = told.memory.memory.exporter;
  part.allocation = told.memory.memory.allocation;
  part.data = opened->base + told.offset;
}

Result<> check_still_there(const Buffer& own) {
  if (own.allocation == 0) return {};
  auto now = Runtime::get().engine->gpu()->copies().look(Payload::of(own.data, own.bytes));
  if (now && now->allocation == own.allocation) return {};
  return fail(ErrorClass::buffer, "the memory that this process shares has been freed");
}

}  // namespace isthmus::abi
