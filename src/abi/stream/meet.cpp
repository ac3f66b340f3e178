#include "abi/stream/meet.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "abi/core/gpu_share.hpp"
#include "abi/stream/enqueue.hpp"
#include "coll/call/even_cut.hpp"
#include "coll/call/local.hpp"
#include "gpu/memory/pinned_pool.hpp"
#include "p2p/protocol/gpu/messages.hpp"
#include "stream/board.hpp"

namespace isthmus::abi {
namespace {

using kernel::Byte;
using kernel::MeetArguments;
using kernel::MeetSide;

/// Bytes that one member sends in all. Members that take turns on one GPU do so for each piece.
constexpr std::uint64_t most_to_meet = std::uint64_t{64} << 20U;
constexpr std::uint64_t most_to_meet_on_one_gpu = std::uint64_t{4} << 20U;
/// From so many on in pieces. Two H200, an allreduce in pieces and in packets: of 256 KiB 7.2 and 6.9 us, of
/// 512 KiB 8.1 and 8.8, of 1 MiB 9.8 and 12.6.
constexpr std::uint64_t least_in_pieces = std::uint64_t{512} << 10U;
/// Of an allreduce of more than two members: up to here each sends all it has to all others, which takes one
/// round; beyond, each computes a share.
constexpr std::uint64_t most_unshared = std::uint64_t{64} << 10U;

/// A copy by the stream's thread, of what kernels do not reach or what has gaps, from or to pinned memory.
class StagedCopy final : public stream::Operation {
 public:
  StagedCopy(Engine& engine, const Payload& from, const Payload& to, const Datatype* type,
             std::shared_ptr<const PinnedBuffer> memory)
      : engine_(engine),
        from_(from),
        to_(to),
        type_(Ref<const Datatype>::share(type)),
        memory_(std::move(memory)) {}

  Result<> start() override {
    Result<bool> copied = engine_.gpu()->copies().try_copy(from_, to_);
    if (!copied) return std::unexpected(std::move(copied).error());
    if (!*copied) coll::copy(from_, to_);
    return {};
  }
  [[nodiscard]] bool is_complete() const noexcept override { return true; }
  Result<> finish() override { return {}; }

 private:
  Engine& engine_;
  const Payload from_, to_;
  const Ref<const Datatype> type_;
  const std::shared_ptr<const PinnedBuffer> memory_;
};

/// One member's part in a collective, with its buffers where kernels reach them.
class MeetingCall {
 public:
  MeetingCall(const char* function, Communicator& comm, stream::Stream& stream)
      : function_(function),
        comm_(comm),
        stream_(stream),
        work(static_cast<const stream::Board&>(*comm.board).arguments()) {}

  enum class Use : std::uint8_t { read, write, both };
  /// Where a kernel finds it.
  Result<Byte*> place(const Payload& payload, Use use) {
    if (payload.bytes == 0) return nullptr;
    auto reached = kernels_reach(comm_, stream_, payload);
    if (!reached) return std::unexpected(std::move(reached).error());
    if (*reached) return reinterpret_cast<Byte*>(payload.data);
    return place_apart(payload, use);
  }
  /// In memory of the call's own.
  Result<Byte*> place_apart(const Payload& payload, Use use) {
    if (payload.bytes == 0) return nullptr;
    auto memory = stream_.stage(payload.bytes);
    if (!memory) return std::unexpected(std::move(memory).error());
    const Payload staged = Payload::of((*memory)->data(), payload.bytes);
    if (use != Use::write) ISTHMUS_TRY(enqueue_copy(payload, staged, payload.type, *memory));
    if (use != Use::read) after_.push_back({staged, payload, payload.type, std::move(*memory)});
    return reinterpret_cast<Byte*>(staged.data);
  }

  Result<> run(const Op* op = nullptr, const Datatype* type = nullptr) {
    GpuKernels& kernels = comm_.engine().gpu()->copies().kernels();
    const bool in_pieces = work.longest * (work.members - 1) >= least_in_pieces;
    if (in_pieces) {
      work.piece = kernel::piece_bytes(work.longest, work.members);
      if (op) work.combine = GpuKernels::combiner(*op, *type).value();
    }
    auto kernel =
        in_pieces ? kernels.meeting_in_pieces(stream_.device()) : kernels.meeting(stream_.device(), op, type);
    if (!kernel) return std::unexpected(std::move(kernel).error());
    ISTHMUS_TRY(stream_.launch(*kernel, kernel::meet_grid(work), kernel::meet_threads, &work, comm_.board));
    ++comm_.engine().gpu()->collectives.between_gpus;
    for (Copy& each : after_)
      ISTHMUS_TRY(enqueue_copy(each.from, each.to, each.type, std::move(each.memory)));
    return {};
  }

 private:
  struct Copy {
    Payload from, to;
    const Datatype* type;
    std::shared_ptr<const PinnedBuffer> memory;
  };

  Result<> enqueue_copy(const Payload& from, const Payload& to, const Datatype* type,
                        std::shared_ptr<const PinnedBuffer> memory) {
    return enqueue(function_, comm_,
                   std::make_unique<StagedCopy>(comm_.engine(), from, to, type, std::move(memory)),
                   stream::Then::waits);
  }

  const char* const function_;
  Communicator& comm_;
  stream::Stream& stream_;
  std::vector<Copy> after_;

 public:
  MeetArguments work;
};

/// The part of it from byte `at` on.
MeetSide part(Byte* data, std::uint64_t at, std::uint64_t bytes) {
  return {bytes == 0 ? nullptr : data + at, bytes};
}

std::uint64_t most_of(const Communicator& comm) {
  const bool apart = comm.board && static_cast<const stream::Board&>(*comm.board).has_gpu_each();
  return apart ? most_to_meet : most_to_meet_on_one_gpu;
}
bool meets(const Communicator& comm, std::uint64_t longest) {
  return longest * static_cast<std::uint64_t>(comm.size() - 1) <= most_of(comm);
}

/// Runs `body(MeetingCall&)` where this communicator meets on GPUs, and `wants`; all members alike.
template <class Body>
std::optional<Result<>> meet_where(const char* function, Communicator& comm, bool wants, Body&& body) {
  if (!comm.board || !wants || comm.checks) return std::nullopt;
  return [&]() -> Result<> {
    Result<stream::Stream*> stream = open_stream_of(comm);
    if (!stream) return std::unexpected(std::move(stream).error());
    if (comm.is_broken()) return std::unexpected(comm.why_broken());
    ISTHMUS_TRY(static_cast<const stream::Board&>(*comm.board).check());
    MeetingCall call(function, comm, **stream);
    return body(call);
  }();
}

bool has_kernel(const coll::Reduction& what) {
  return what.op->is_predefined() && GpuKernels::can_reduce(*what.op, *what.type);
}

/// The operand of a reduction, and where its result goes.
struct Operands {
  Byte* send = nullptr;
  Byte* receive = nullptr;
};
/// `keeps_apart`: the result covers other parts of an operand in place than the member's own, which other
/// blocks may have to send still.
Result<Operands> place_operands(MeetingCall& call, const coll::call::Combine& what, std::int64_t count,
                                std::int64_t result_count, bool keeps_apart = false) {
  const coll::Reduction& of = what.what;
  const bool here = what.send == coll::in_place;
  if (here && keeps_apart) {
    auto operand = call.place(Payload::of(what.receive, count, *of.type), MeetingCall::Use::read);
    if (!operand) return std::unexpected(std::move(operand).error());
    auto result =
        call.place_apart(Payload::of(what.receive, result_count, *of.type), MeetingCall::Use::write);
    if (!result) return std::unexpected(std::move(result).error());
    return Operands{*operand, *result};
  }
  // The operand in place is longer than the result.
  auto receive = call.place(Payload::of(what.receive, here ? count : result_count, *of.type),
                            here ? MeetingCall::Use::both : MeetingCall::Use::write);
  if (!receive) return std::unexpected(std::move(receive).error());
  if (here) return Operands{*receive, *receive};
  auto send = call.place(Payload::of(what.send, count, *of.type), MeetingCall::Use::read);
  if (!send) return std::unexpected(std::move(send).error());
  return Operands{*send, *receive};
}

std::optional<Result<>> meet_to_scatter(const char* function, Communicator& comm,
                                        const coll::call::Combine& what, const coll::Integers& counts) {
  const auto element = static_cast<std::uint64_t>(what.what.type->size());
  std::int64_t total = 0, longest = 0;
  bool are_alike = true;
  for (int i = 0; i < comm.size(); ++i) {
    total += counts[i];
    longest = std::max(longest, counts[i]);
    are_alike = are_alike && counts[i] == counts[0];
  }
  const bool wants = has_kernel(what.what) && meets(comm, static_cast<std::uint64_t>(longest) * element);
  return meet_where(function, comm, wants, [&](MeetingCall& call) -> Result<> {
    const auto own = counts[comm.rank()];
    auto placed = place_operands(call, what, total, own, !are_alike);
    if (!placed) return std::unexpected(std::move(placed).error());
    std::uint64_t at = 0;
    for (int i = 0; i < comm.size(); ++i) {
      const std::uint64_t bytes = static_cast<std::uint64_t>(counts[i]) * element;
      call.work.out[i] = part(placed->send, at, bytes);
      at += bytes;
    }
    call.work.result = part(placed->receive, 0, static_cast<std::uint64_t>(own) * element);
    call.work.longest = static_cast<std::uint64_t>(longest) * element;
    return call.run(what.what.op, what.what.type);
  });
}

}  // namespace

Result<bool> kernels_reach(Communicator& comm, const stream::Stream& stream, const Payload& payload) {
  if (payload.type) return false;
  GpuMessages& gpu = *comm.engine().gpu();
  auto buffer = gpu.copies().look(payload);
  if (!buffer) return std::unexpected(std::move(buffer).error());
  if (buffer->kind == MemoryKind::pageable || !buffer->is_whole()) return false;
  if (buffer->is_host_readable()) return true;
  return buffer->device == stream.device() && reaches(gpu.copies().contexts(), *buffer);
}

std::optional<Result<>> meet(const char* function, Communicator& comm, const coll::call::Barrier&) {
  return meet_where(function, comm, true, [](MeetingCall& call) { return call.run(); });
}

std::optional<Result<>> meet(const char* function, Communicator& comm, const coll::call::Bcast& what) {
  const std::uint64_t bytes = coll::bytes_of(what.count, *what.type);
  return meet_where(function, comm, meets(comm, bytes), [&](MeetingCall& call) -> Result<> {
    const bool sends = comm.rank() == what.root;
    auto data = call.place(Payload::of(what.buffer, what.count, *what.type),
                           sends ? MeetingCall::Use::read : MeetingCall::Use::write);
    if (!data) return std::unexpected(std::move(data).error());
    if (sends) std::fill_n(call.work.out, comm.size(), part(*data, 0, bytes));
    call.work.in[what.root] = part(*data, 0, bytes);
    call.work.longest = bytes;
    return call.run();
  });
}

std::optional<Result<>> meet(const char* function, Communicator& comm, const coll::call::Allgather& what) {
  const std::uint64_t bytes = coll::bytes_of(what.receive.count, *what.receive.type);
  return meet_where(function, comm, meets(comm, bytes), [&](MeetingCall& call) -> Result<> {
    const bool here = what.send.buffer == coll::in_place;
    const auto own = static_cast<std::uint64_t>(comm.rank()) * bytes;
    auto receive =
        call.place(Payload::of(what.receive.buffer, what.receive.count * comm.size(), *what.receive.type),
                   here ? MeetingCall::Use::both : MeetingCall::Use::write);
    if (!receive) return std::unexpected(std::move(receive).error());
    Result<Byte*> send = *receive + own;
    if (!here) send = call.place(coll::whole(what.send), MeetingCall::Use::read);
    if (!send) return std::unexpected(std::move(send).error());
    for (int i = 0; i < comm.size(); ++i) {
      call.work.out[i] = part(*send, 0, bytes);
      call.work.in[i] = part(*receive, static_cast<std::uint64_t>(i) * bytes, bytes);
    }
    call.work.longest = bytes;
    return call.run();
  });
}

std::optional<Result<>> meet(const char* function, Communicator& comm, const coll::call::Alltoall& what) {
  const std::uint64_t bytes = coll::bytes_of(what.receive.count, *what.receive.type);
  return meet_where(function, comm, meets(comm, bytes), [&](MeetingCall& call) -> Result<> {
    const bool here = what.send.buffer == coll::in_place;
    auto receive =
        call.place(Payload::of(what.receive.buffer, what.receive.count * comm.size(), *what.receive.type),
                   here ? MeetingCall::Use::both : MeetingCall::Use::write);
    if (!receive) return std::unexpected(std::move(receive).error());
    Result<Byte*> send = *receive;
    if (!here)
      send = call.place(Payload::of(what.send.buffer, what.send.count * comm.size(), *what.send.type),
                        MeetingCall::Use::read);
    if (!send) return std::unexpected(std::move(send).error());
    for (int i = 0; i < comm.size(); ++i) {
      const std::uint64_t at = static_cast<std::uint64_t>(i) * bytes;
      call.work.out[i] = part(*send, at, bytes);
      call.work.in[i] = part(*receive, at, bytes);
    }
    call.work.longest = bytes;
    return call.run();
  });
}

std::optional<Result<>> meet(const char* function, Communicator& comm, const coll::call::Allreduce& what) {
  const coll::Reduction& of = what.what;
  const std::uint64_t bytes = coll::bytes_of(of.count, *of.type);
  const bool wants = bytes <= most_of(comm) && has_kernel(of);
  return meet_where(function, comm, wants, [&](MeetingCall& call) -> Result<> {
    auto placed = place_operands(call, what, of.count, of.count);
    if (!placed) return std::unexpected(std::move(placed).error());
    const int members = comm.size();
    MeetArguments& work = call.work;
    if (members == 2 || bytes * static_cast<std::uint64_t>(members - 1) <= most_unshared) {
      std::fill_n(work.out, members, part(placed->send, 0, bytes));
      work.result = part(placed->receive, 0, bytes);
      work.longest = bytes;
      return call.run(of.op, of.type);
    }
    const coll::EvenCut cut(of.count, members, coll::grain_of(*of.type));
    for (int i = 0; i < members; ++i) {
      const std::uint64_t at = coll::bytes_of(cut.begin(i), *of.type);
      const std::uint64_t length = coll::bytes_of(cut.size(i), *of.type);
      work.out[i] = part(placed->send, at, length);
      work.in[i] = part(placed->receive, at, length);
    }
    work.result = work.in[comm.rank()];
    work.longest = work.in[0].bytes;
    work.shared = 1;
    return call.run(of.op, of.type);
  });
}

std::optional<Result<>> meet(const char* function, Communicator& comm,
                             const coll::call::ReduceScatter& what) {
  return meet_to_scatter(function, comm, what, what.counts);
}

std::optional<Result<>> meet(const char* function, Communicator& comm,
                             const coll::call::ReduceScatterBlock& what) {
  return meet_to_scatter(function, comm, what, coll::Integers::same(what.what.count));
}

// --- boards

namespace {

/// With the value "true": the program promises that all messages of the communicator are short, enqueued, and
/// from a named process with a named tag (docs/streams.md).
constexpr const char* short_key = "isthmus_assert_short_enqueued";

/// Sets an error handler that returns for as long as it lives.
class ErrorsReturn {
 public:
  explicit ErrorsReturn(Communicator& comm) : comm_(comm), before_(comm.errhandler) {
    comm.errhandler = Ref<Errhandler>::share(Runtime::get().errhandlers.find(MPI_ERRORS_RETURN));
  }
  ErrorsReturn(const ErrorsReturn&) = delete;
  ErrorsReturn& operator=(const ErrorsReturn&) = delete;
  ~ErrorsReturn() { comm_.errhandler = before_; }

 private:
  Communicator& comm_;
  const Ref<Errhandler> before_;
};

/// Whether this member's kernels could meet others'. As `GpuMessages::may_meet`, not where its process has
/// several ranks.
bool can_meet(Communicator& comm) {
  const CallGuard guard(Runtime::get());
  GpuMessages* const gpu = comm.engine().gpu();
  if (!comm.stream || !gpu || comm.engine().job().turns) return false;
  const auto& stream = static_cast<const stream::Stream&>(*comm.stream);
  const auto primary = gpu->copies().contexts().of(stream.device());
  return primary && *primary == stream.context() && gpu->copies().kernels().load_all(stream.device()).empty();
}

Result<std::shared_ptr<device::Port>> make_port(Communicator& comm, const stream::Stream& stream,
                                                bool has_mail) {
  auto port =
      std::make_shared<device::Port>(comm.engine(), stream.functions(), stream.device(), stream.context());
  port->rank = comm.rank();
  for (int i = 0; i < comm.size(); ++i)
    port->ids.push_back(comm.peer(i));
  const auto members = static_cast<std::size_t>(comm.size());
  ISTHMUS_TRY(
      port->make(comm.engine().gpu()->copies().contexts(),
                 {.ranks = members,
                  .signals = 0,
                  .shares = 0,
                  .room = kernel::meet_room_bytes(static_cast<std::uint32_t>(members)) +
                          (has_mail ? kernel::Mail::room_bytes(static_cast<std::uint32_t>(members)) : 0)}));
  return port;
}

/// Opens the others' rooms; whether all are open here.
Result<bool> open_rooms(MPI_Comm comm, device::Port& port, std::vector<Part>& parts) {
  Result<Buffer> own = [&] {
    const CallGuard guard(Runtime::get());
    return look_at_shared(port.shared(), port.shared_bytes());
  }();
  auto all = share_with_all(comm, {port.ids, port.rank, port.device()}, std::move(own), parts);
  if (!all) return std::unexpected(std::move(all).error());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i].data) return false;
    ISTHMUS_TRY(port.set_peer(i, parts[i].data, false));
  }
  return true;
}

}  // namespace

Result<> open_board(MPI_Comm handle) {
  Runtime& runtime = Runtime::get();
  Communicator* const comm = runtime.communicators.find(handle);
  if (comm->size() < 2 || comm->size() > stream::Board::most_members) return {};
  const ErrorsReturn errors(*comm);
  auto can = all_can(handle, can_meet(*comm));
  if (!can || !*can) return outcome_of(can);
  const std::string* const asked = comm->info ? comm->info->find(short_key) : nullptr;
  auto has_mail = all_can(handle, asked && *asked == "true");
  if (!has_mail) return outcome_of(has_mail);
  const auto& stream = static_cast<const stream::Stream&>(*comm->stream);
  const auto has_gpu_each = have_gpu_each(handle, stream.functions(), stream.device());
  if (!has_gpu_each) return outcome_of(has_gpu_each);
  auto port = make_port(*comm, stream, *has_mail);
  can = all_can(handle, port.has_value());
  if (!can || !*can) return outcome_of(can);
  std::vector<Part> parts;
  auto opened = open_rooms(handle, **port, parts);
  can = all_can(handle, opened && *opened);
  if (!can || !*can) return outcome_of(can);
  (*port)->why_broken = [&runtime, context = comm->context_id()] {
    std::optional<Error> why;
    runtime.communicators.for_each([&](const Communicator& each) {
      if (each.context_id() == context && each.is_broken()) why = each.why_broken();
    });
    return why;
  };
  ISTHMUS_TRY(agree(handle, (*port)->start()));
  std::vector<std::shared_ptr<const Mapping>> mappings;
  mappings.reserve(parts.size());
  for (Part& part : parts)
    mappings.push_back(std::move(part.mapping));
  const CallGuard guard(runtime);
  auto board = make_ref<stream::Board>(std::move(*port), std::move(mappings), *has_mail, *has_gpu_each);
  runtime.boards.push_back(board);
  comm->board = std::move(board);
  return {};
}

}  // namespace isthmus::abi
