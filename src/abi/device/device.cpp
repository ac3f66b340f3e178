// The functions of <isthmus/device_runtime.h>.

#include <isthmus/device_runtime.h>
#include <mpi.h>

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "abi/carry/carrier.hpp"
#include "abi/core/call.hpp"
#include "abi/core/gpu_share.hpp"
#include "abi/device/requests.hpp"
#include "device/port.hpp"
#include "gpu/memory/mapping_cache.hpp"
#include "p2p/protocol/gpu/messages.hpp"

#define ISTHMUS_DEVICE_EXPORT(type) extern "C" __attribute__((visibility("default"))) type

using isthmus::Result;
namespace device = isthmus::device;

/// Memory of each process under one number.
struct DeviceShare {
  bool is_there = false;
  isthmus::Buffer own;  ///< as it was when it was shared
  std::vector<isthmus::abi::Part> parts;
};

struct isthmus_device_port {
  MPI_Comm comm = MPI_COMM_NULL;
  std::shared_ptr<device::Port> port;
  std::vector<isthmus::abi::Part> peers;         ///< their signals
  std::vector<DeviceShare> shares;               ///< by number
  std::shared_ptr<isthmus::abi::Carrier> proxy;  ///< null: kernels reach all that there is
  bool holds_mappings = false;
};

namespace isthmus::abi {
namespace {

constexpr std::uint32_t most_signals = 65536;
constexpr std::uint32_t most_shares_ever = 4096;

thread_local std::string last_device_error;

int tell_of(const Error& error) {
  last_device_error = error.text().empty() ? "no reason is known" : error.text();
  return static_cast<int>(error.error_class());
}

/// No exception passes through C.
template <class Body>
int guarded_call(Body&& body) noexcept {
  try {
    if (!Runtime::get().running())
      return tell_of(Error(ErrorClass::other, "MPI is not initialised, or finalized"));
    Result<> result = body();
    return result ? MPI_SUCCESS : tell_of(result.error());
  } catch (const std::bad_alloc&) {
    return tell_of(Error(ErrorClass::no_mem, "there is no memory"));
  } catch (const std::exception& exception) {
    return tell_of(Error(ErrorClass::intern, exception.what()));
  }
}

/// The same for a call on `port`, which a program's object has no more when it is freed or moved from.
template <class Body>
int guarded_call(const isthmus_device_port* port, Body&& body) noexcept {
  return guarded_call([&]() -> Result<> {
    if (!port) return fail(ErrorClass::arg, "port is null: it has been freed, or moved from");
    return body();
  });
}

Members members_of(const device::Port& port) {
  return {port.ids, port.rank, port.device()};
}

// --- ports

Result<> find_gpu(isthmus_device_port& made, MPI_Comm comm) {
  auto gpu = find_port_gpu("kernels");
  if (!gpu) return outcome_of(gpu);
  Runtime& runtime = Runtime::get();
  const CallGuard guard(runtime);
  made.port = std::make_shared<device::Port>(*runtime.engine, *gpu->functions, gpu->device, gpu->context);
  Result<Communicator*> found = find_comm(comm);
  if (!found) return std::unexpected(std::move(found).error());
  made.port->rank = (*found)->rank();
  for (int i = 0; i < (*found)->size(); ++i)
    made.port->ids.push_back((*found)->peer(i));
  return {};
}

/// Collective: where a kernel of any process does not reach something, all have a proxy from now on.
Result<> start_proxy(isthmus_device_port& of, bool is_needed_here) {
  if (of.proxy) return {};
  int mine = is_needed_here ? 1 : 0, any = 0;
  ISTHMUS_TRY(check_mpi(PMPI_Allreduce(&mine, &any, 1, MPI_INT, MPI_MAX, of.comm), "processes do not meet"));
  if (any == 0) return {};
  auto started = Carrier::start(std::make_unique<KernelRequests>(*of.port),
                                Runtime::get().engine->gpu()->copies().contexts(), of.comm);
  ISTHMUS_TRY(agree(of.comm, outcome_of(started)));
  of.proxy = std::move(*started);
  of.port->set_proxy(true);
  of.port->before_end = [proxy = std::weak_ptr(of.proxy)] {
    if (const auto still_there = proxy.lock()) still_there->stop();
  };
  // Behind the program's shares: what kernels match messages in.
  of.proxy->set_share(of.port->extent().shares, of.port->shared(), of.port->shared_bytes());
  for (std::uint32_t i = 0; i < of.shares.size(); ++i)
    of.proxy->set_share(i, of.shares[i].own.data, of.shares[i].own.bytes);
  return {};
}

Result<> meet_peers(isthmus_device_port& made) {
  device::Port& port = *made.port;
  Result<Buffer> own = [&] {
    const CallGuard guard(Runtime::get());
    return look_at_shared(port.shared(), port.shared_bytes());
  }();
  const auto all = share_with_all(made.comm, members_of(port), std::move(own), made.peers);
  if (!all) return outcome_of(all);
  bool is_team = true;
  Result<> written;
  for (std::size_t i = 0; i < made.peers.size() && written; ++i) {
    const Part& part = made.peers[i];
    is_team = is_team && part.data;
    written = port.set_peer(i, part.data, part.is_linked);
  }
  // All or none: a team's members do not wait for one that cannot write to them.
  int mine = is_team ? 1 : 0, least = 0;
  Result<> met =
      check_mpi(PMPI_Allreduce(&mine, &least, 1, MPI_INT, MPI_MIN, made.comm), "processes do not meet");
  ISTHMUS_TRY(std::move(met));
  ISTHMUS_TRY(agree(made.comm, std::move(written)));
  port.set_team(least == 1);
  return start_proxy(made, least == 0);
}

Result<> open_port(isthmus_device_port& made, const device::Port::Extent& extent) {
  PMPI_Comm_set_errhandler(made.comm, MPI_ERRORS_RETURN);
  ISTHMUS_TRY(agree(made.comm, find_gpu(made, made.comm)));
  ISTHMUS_TRY(agree(made.comm, made.port->make(Runtime::get().engine->gpu()->copies().contexts(), extent)));
  ISTHMUS_TRY(agree(made.comm, meet_peers(made)));
  hold_mappings(made.holds_mappings);
  return agree(made.comm, made.port->start());
}

void close_port(isthmus_device_port& port) {
  port.proxy.reset();
  if (port.port) port.port->stop();
  {
    Runtime& runtime = Runtime::get();
    const CallGuard guard(runtime);
    std::erase(runtime.device_ports, port.port);
    port.shares.clear();
    release_mappings(port.holds_mappings);
    close_parts(port.peers);
    port.port.reset();
  }
  if (port.comm != MPI_COMM_NULL) PMPI_Comm_free(&port.comm);
}

// --- shares

std::vector<isthmus_device_span> spans_of(const std::vector<Part>& parts) {
  std::vector<isthmus_device_span> spans;
  spans.reserve(parts.size());
  for (const Part& part : parts)
    spans.push_back({.base = reinterpret_cast<std::uint64_t>(part.data), .bytes = part.bytes});
  return spans;
}

Result<> make_share(isthmus_device_port& port, void* address, std::size_t bytes, std::uint32_t& number) {
  const auto free_one = std::ranges::find(port.shares, false, &DeviceShare::is_there);
  const auto at = static_cast<std::uint32_t>(free_one - port.shares.begin());
  if (at == port.port->extent().shares)
    return fail(ErrorClass::no_mem,
                fmt::format("the port has {} shares already, which is what it was made for", at));
  Result<Buffer> own = [&] {
    const CallGuard guard(Runtime::get());
    return look_at_shared(address, bytes);
  }();
  DeviceShare made{.is_there = true, .own = own ? *own : Buffer(), .parts = {}};
  auto all = share_with_all(port.comm, members_of(*port.port), std::move(own), made.parts);
  Result<> outcome = all ? port.port->set_spans(at, spans_of(made.parts)) : outcome_of(all);
  if (all) outcome = agree(port.comm, std::move(outcome));
  // A process whose kernels reach nothing but its own memory needs nobody.
  if (outcome)
    outcome = start_proxy(
        port, std::ranges::any_of(made.parts, [](const Part& part) { return !part.data && part.bytes > 0; }));
  if (outcome) {
    if (port.proxy) port.proxy->set_share(at, made.own.data, made.own.bytes);
    for (std::size_t i = 0; i < made.parts.size() && outcome; ++i)
      if (!made.parts[i].data && made.parts[i].bytes > 0) outcome = port.port->set_detour(i);
    // Nobody's proxy is asked for what it does not know.
    outcome = agree(port.comm, std::move(outcome));
  }
  const CallGuard guard(Runtime::get());
  if (!outcome) {
    made = {};
    return outcome;
  }
  if (at == port.shares.size()) port.shares.emplace_back();
  port.shares[at] = std::move(made);
  number = at;
  return {};
}

Result<DeviceShare*> find_share(isthmus_device_port& port, std::uint32_t number) {
  if (number < port.shares.size() && port.shares[number].is_there) return &port.shares[number];
  return fail(ErrorClass::arg, fmt::format("share is {}, which the port has not", number));
}

Result<> end_share(isthmus_device_port& port, std::uint32_t number) {
  auto share = find_share(port, number);
  ISTHMUS_TRY(agree(port.comm, outcome_of(share)));
  ISTHMUS_TRY(port.port->set_spans(number, std::vector<isthmus_device_span>(port.peers.size())));
  if (port.proxy) {
    ISTHMUS_TRY(port.proxy->drain());
    port.proxy->set_share(number, nullptr, 0);
  }
  // Nobody's kernels name it any more, and only now may its owner free the memory.
  ISTHMUS_TRY(agree(port.comm, {}));
  const CallGuard guard(Runtime::get());
  **share = {};
  return {};
}

Result<> check_reach(const isthmus_device_port& port, std::uint32_t number, int rank) {
  auto share = find_share(const_cast<isthmus_device_port&>(port), number);
  if (!share) return std::unexpected(std::move(share).error());
  if (rank < 0 || static_cast<std::size_t>(rank) >= port.peers.size())
    return fail(ErrorClass::rank,
                fmt::format("rank is {}, not one of the {} of the port", rank, port.peers.size()));
  const Part& part = (*share)->parts[static_cast<std::size_t>(rank)];
  if (part.data) return {};
  return fail(ErrorClass::unsupported_operation,
              fmt::format("no kernel reaches what rank {} shares: {}", rank, part.why));
}

Result<> check_all(isthmus_device_port& port) {
  ISTHMUS_TRY(port.port->take_refusal());
  ISTHMUS_TRY(port.port->check());
  const CallGuard guard(Runtime::get());
  for (const DeviceShare& share : port.shares)
    if (share.is_there) ISTHMUS_TRY(check_still_there(share.own));
  return {};
}

}  // namespace

ISTHMUS_DEVICE_EXPORT(const char*) isthmus_device_error(void) {
  return last_device_error.c_str();
}

ISTHMUS_DEVICE_EXPORT(int)
isthmus_device_make(MPI_ABI_Comm* comm, std::uint32_t signals, std::uint32_t most_shares,
                    isthmus_device_port** port) {
  return guarded_call([&]() -> Result<> {
    if (!port) return fail(ErrorClass::arg, "port is null");
    if (signals < 1 || signals > most_signals)
      return fail(ErrorClass::arg, fmt::format("signals is {}, not between 1 and {}", signals, most_signals));
    if (most_shares < 1 || most_shares > most_shares_ever)
      return fail(ErrorClass::arg,
                  fmt::format("most_shares is {}, not between 1 and {}", most_shares, most_shares_ever));
    auto made = std::make_unique<isthmus_device_port>();
    ISTHMUS_TRY(check_mpi(PMPI_Comm_dup(comm, &made->comm), "the communicator of a port"));
    int size = 0;
    PMPI_Comm_size(made->comm, &size);
    Result<> opened =
        open_port(*made, {.ranks = static_cast<std::size_t>(size),
                          .signals = signals,
                          .shares = most_shares,
                          .room = device::Messages::room_bytes(static_cast<device::u32>(size))});
    if (!opened) {
      close_port(*made);
      return opened;
    }
    Runtime::get().device_ports.push_back(made->port);
    *port = made.release();
    return {};
  });
}

ISTHMUS_DEVICE_EXPORT(int) isthmus_device_free(isthmus_device_port* port) {
  return guarded_call(port, [&]() -> Result<> {
    const std::unique_ptr<isthmus_device_port> last(port);
    // Where a process has died, the others are told by MPI that they need not wait.
    if (port->port->check() && (!port->proxy || port->proxy->drain())) PMPI_Barrier(port->comm);
    close_port(*port);
    return {};
  });
}

ISTHMUS_DEVICE_EXPORT(int)
isthmus_device_share(isthmus_device_port* port, void* address, std::size_t bytes, std::uint32_t* share) {
  return guarded_call(port, [&]() -> Result<> {
    if (!share) return fail(ErrorClass::arg, "share is null");
    ISTHMUS_TRY(port->port->check());
    return make_share(*port, address, bytes, *share);
  });
}
ISTHMUS_DEVICE_EXPORT(int) isthmus_device_unshare(isthmus_device_port* port, std::uint32_t share) {
  return guarded_call(port, [&] { return end_share(*port, share); });
}
ISTHMUS_DEVICE_EXPORT(int)
isthmus_device_reach(const isthmus_device_port* port, std::uint32_t share, int rank) {
  return guarded_call(port, [&] { return check_reach(*port, share, rank); });
}

ISTHMUS_DEVICE_EXPORT(int) isthmus_device_view_of(isthmus_device_port* port, isthmus_device_view* view) {
  return guarded_call(port, [&]() -> Result<> {
    if (!view) return fail(ErrorClass::arg, "view is null");
    ISTHMUS_TRY(check_all(*port));
    *view = port->port->view(static_cast<std::uint32_t>(port->shares.size()));
    return {};
  });
}
ISTHMUS_DEVICE_EXPORT(int) isthmus_device_check(isthmus_device_port* port) {
  return guarded_call(port, [&] { return check_all(*port); });
}
ISTHMUS_DEVICE_EXPORT(int) isthmus_device_cancel(isthmus_device_port* port) {
  return guarded_call(port, [&]() -> Result<> {
    port->port->cancel();
    return {};
  });
}

}  // namespace isthmus::abi
