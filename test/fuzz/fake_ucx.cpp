#include "fake_ucx.hpp"

#include <sys/eventfd.h>
#include <ucs/async/async_fwd.h>
#include <ucs/config/global_opts.h>
#include <ucs/debug/debug.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "wire/port.hpp"

namespace {

using isthmus::fuzz::ucx::to_gpu;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fake ucx: %s\n", what);
  std::abort();
}

struct Endpoint {
  std::uint32_t peer;
  ucp_err_handler_t on_failure;
  bool is_open = true;
};
/// A send to a peer, or a fetch from it.
struct Pending {
  std::uint32_t peer;
  void* request;
  std::function<void(void* request, ucs_status_t status, bool is_short)> end;
};
struct Descriptor {
  std::uint32_t peer;
  std::vector<std::byte> bytes;
};
struct Generic {
  ucp_generic_dt_ops_t operations;
  void* context;
};

struct World {
  ucp_am_handler_param_t handler{};
  std::string lane = "tcp/eth0";
  bool has_cuda = false;
  std::uint32_t pending_bits = 0;
  std::deque<std::function<void()>> events;
  std::deque<Pending> pending;
  std::list<Endpoint> endpoints;
  std::vector<std::unique_ptr<Descriptor>> descriptors;
  std::vector<std::unique_ptr<char>> requests;
  std::list<Generic> types;
  std::uint64_t arrived = 0;
  bool is_in_progress = false;
} world;

template <class T>
std::unique_ptr<T> take(std::vector<std::unique_ptr<T>>& all, const void* which, const char* what) {
  const auto found =
      std::ranges::find(all, which, [](const auto& each) -> const void* { return each.get(); });
  require(found != all.end(), what);
  std::unique_ptr<T> taken = std::move(*found);
  all.erase(found);
  return taken;
}
void* new_request() {
  // UCX's requests are aligned as any memory is; the lowest bits of errors are not.
  world.requests.push_back(std::unique_ptr<char>(new char));
  return world.requests.back().get();
}
void end(const Pending& pending, ucs_status_t status, bool is_short) {
  pending.end(pending.request, status, is_short);
}

}  // namespace

namespace isthmus::fuzz::ucx {

std::function<void(void*, std::span<const std::byte>)> to_gpu;

void reset() {
  world.events.clear();
  world.pending.clear();
  world.endpoints.clear();
  world.types.clear();
  world.handler = {};
  world.pending_bits = 0;
  world.arrived = 0;
}
void describe_as(const char* lane, bool has_cuda) {
  world.lane = lane;
  world.has_cuda = has_cuda;
}
void leave_pending(std::uint32_t bits) {
  world.pending_bits = bits;
}
std::uint64_t arrived() {
  return world.arrived;
}
std::size_t pending() {
  return world.pending.size();
}
bool is_clean() {
  std::fprintf(stderr, "%s", world.descriptors.empty() ? "" : "fake ucx: an offer is left over\n");
  std::fprintf(stderr, "%s", world.requests.empty() ? "" : "fake ucx: a request is left over\n");
  std::fprintf(stderr, "%s", world.pending.empty() ? "" : "fake ucx: an operation is left over\n");
  return world.descriptors.empty() && world.requests.empty() && world.pending.empty();
}

void arrive(std::span<const std::byte> head, std::span<const std::byte> data, bool rendezvous) {
  std::vector<std::byte> header(head.begin(), head.end());
  std::vector<std::byte> bytes(data.begin(), data.end());
  world.events.emplace_back([header = std::move(header), bytes = std::move(bytes), rendezvous]() mutable {
    if (!world.handler.cb) return;
    ++world.arrived;
    ucp_am_recv_param_t param{};
    if (!rendezvous) {
      const ucs_status_t status = world.handler.cb(world.handler.arg, header.data(), header.size(),
                                                   bytes.data(), bytes.size(), &param);
      require(status == UCS_OK, "the port keeps what is not its own");
      return;
    }
    param.recv_attr = UCP_AM_RECV_ATTR_FLAG_RNDV;
    wire::PortEnvelope envelope{};
    if (header.size() >= sizeof envelope) std::memcpy(&envelope, header.data(), sizeof envelope);
    auto made = std::make_unique<Descriptor>(Descriptor{envelope.sender, std::move(bytes)});
    Descriptor* const descriptor = made.get();
    world.descriptors.push_back(std::move(made));
    const ucs_status_t status = world.handler.cb(world.handler.arg, header.data(), header.size(), descriptor,
                                                 descriptor->bytes.size(), &param);
    require(status == UCS_OK || status == UCS_INPROGRESS, "the port answers what is no answer");
    if (status == UCS_OK)
      take(world.descriptors, descriptor, "the port has used an offer that it does not keep");
  });
}
void complete(unsigned index, ucs_status_t status, bool is_short) {
  world.events.emplace_back([=] {
    if (world.pending.empty()) return;
    const auto at = world.pending.begin() + static_cast<std::ptrdiff_t>(index % world.pending.size());
    Pending pending = std::move(*at);
    world.pending.erase(at);
    end(pending, status, is_short);
  });
}
void break_off(std::uint32_t peer) {
  world.events.emplace_back([=] {
    for (Endpoint& each : world.endpoints)
      if (each.peer == peer && each.is_open)
        return each.on_failure.cb(each.on_failure.arg, reinterpret_cast<ucp_ep_h>(&each),
                                  UCS_ERR_CONNECTION_RESET);
  });
}

}  // namespace isthmus::fuzz::ucx

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): UCX names them its own way.
extern "C" {

ucs_status_t ucp_config_read(const char*, const char*, ucp_config_t** config) {
  *config = reinterpret_cast<ucp_config_t*>(&world);
  return UCS_OK;
}
void ucp_config_release(ucp_config_t*) {}
ucs_status_t ucp_config_modify(ucp_config_t*, const char*, const char*) {
  return UCS_OK;
}
ucs_status_t ucs_global_opts_set_value(const char*, const char*) {
  return UCS_OK;
}
ucs_status_t ucs_async_modify_handler(int, ucs_event_set_types_t) {
  return UCS_OK;
}
void ucs_debug_disable_signal(int) {}
const char* ucs_status_string(ucs_status_t) {
  return "a status";
}
void ucp_get_version(unsigned* major, unsigned* minor, unsigned* release) {
  *major = 1;
  *minor = 20;
  *release = 0;
}
const char* ucp_get_version_string() {
  return "1.20.0";
}
ucs_status_t ucp_init_version(unsigned, unsigned, const ucp_params_t*, const ucp_config_t*,
                              ucp_context_h* context) {
  *context = reinterpret_cast<ucp_context_h>(&world);
  return UCS_OK;
}
void ucp_cleanup(ucp_context_h) {}
ucs_status_t ucp_context_query(ucp_context_h, ucp_context_attr_t* attributes) {
  attributes->memory_types = UCS_BIT(UCS_MEMORY_TYPE_HOST);
  if (world.has_cuda) attributes->memory_types |= UCS_BIT(UCS_MEMORY_TYPE_CUDA);
  return UCS_OK;
}
void ucp_context_print_info(ucp_context_h, FILE*) {}

ucs_status_t ucp_worker_create(ucp_context_h, const ucp_worker_params_t*, ucp_worker_h* worker) {
  *worker = reinterpret_cast<ucp_worker_h>(&world);
  return UCS_OK;
}
void ucp_worker_destroy(ucp_worker_h) {
  world.handler = {};
}
ucs_status_t ucp_worker_get_address(ucp_worker_h, ucp_address_t** address, size_t* length) {
  static char own[4] = {'m', 'i', 'n', 'e'};
  *address = reinterpret_cast<ucp_address_t*>(own);
  *length = sizeof own;
  return UCS_OK;
}
void ucp_worker_release_address(ucp_worker_h, ucp_address_t*) {}
ucs_status_t ucp_worker_get_efd(ucp_worker_h, int* descriptor) {
  static const int made = eventfd(0, EFD_CLOEXEC);
  *descriptor = made;
  return UCS_OK;
}
ucs_status_t ucp_worker_arm(ucp_worker_h) {
  return world.events.empty() ? UCS_OK : UCS_ERR_BUSY;
}
ucs_status_t ucp_worker_set_am_recv_handler(ucp_worker_h, const ucp_am_handler_param_t* parameters) {
  world.handler = *parameters;
  return UCS_OK;
}
unsigned ucp_worker_progress(ucp_worker_h) {
  require(!world.is_in_progress, "progress from inside of a callback");
  world.is_in_progress = true;
  unsigned happened = 0;
  for (std::size_t left = world.events.size(); left > 0; --left, ++happened) {
    const auto event = std::move(world.events.front());
    world.events.pop_front();
    event();
  }
  world.is_in_progress = false;
  return happened;
}

ucs_status_t ucp_ep_create(ucp_worker_h, const ucp_ep_params_t* parameters, ucp_ep_h* made) {
  // The address of a peer is its number.
  const auto peer = *reinterpret_cast<const std::uint8_t*>(parameters->address);
  *made = reinterpret_cast<ucp_ep_h>(&world.endpoints.emplace_back(Endpoint{peer, parameters->err_handler}));
  return UCS_OK;
}
void ucp_ep_print_info(ucp_ep_h, FILE* stream) {
  std::fprintf(stream, "#                 lane[0]:  2:%s.0 md[1]\n", world.lane.c_str());
}
ucs_status_ptr_t ucp_ep_close_nbx(ucp_ep_h handle, const ucp_request_param_t*) {
  auto* const endpoint = reinterpret_cast<Endpoint*>(handle);
  require(std::exchange(endpoint->is_open, false), "an endpoint that is closed twice");
  // What was on its way there ends.
  world.events.emplace_back([endpoint] {
    for (std::size_t i = 0; i < world.pending.size();) {
      if (world.pending[i].peer != endpoint->peer) {
        ++i;
        continue;
      }
      const Pending pending = std::move(world.pending[i]);
      world.pending.erase(world.pending.begin() + static_cast<std::ptrdiff_t>(i));
      end(pending, UCS_ERR_CANCELED, false);
    }
  });
  return nullptr;
}
ucs_status_ptr_t ucp_ep_flush_nbx(ucp_ep_h, const ucp_request_param_t*) {
  return nullptr;
}
void ucp_request_free(void* request) {
  take(world.requests, request, "a request that is freed twice");
}

ucs_status_ptr_t ucp_am_send_nbx(ucp_ep_h handle, unsigned, const void* header, size_t header_bytes,
                                 const void* data, size_t bytes, const ucp_request_param_t* param) {
  auto* const endpoint = reinterpret_cast<Endpoint*>(handle);
  require(endpoint->is_open, "a send to where is closed");
  const bool is_late = (world.pending_bits & 1U) != 0 || (param->flags & UCP_AM_SEND_FLAG_RNDV) != 0;
  world.pending_bits >>= 1U;
  // All of it must be there until the send is over.
  const bool is_host = param->memory_type == UCS_MEMORY_TYPE_HOST;
  const auto look = [=] {
    volatile unsigned sum = 0;
    for (const auto& [from, count] : {std::pair(header, header_bytes), std::pair(data, is_host ? bytes : 0)})
      for (std::size_t i = 0; i < count; i += 61)
        sum = sum + static_cast<const unsigned char*>(from)[i];
  };
  look();
  if (!is_late) return nullptr;
  world.pending.push_back({.peer = endpoint->peer,
                           .request = new_request(),
                           .end = [=, callback = param->cb.send, user = param->user_data](
                                      void* request, ucs_status_t status, bool) {
                             if (status == UCS_OK) look();
                             callback(request, status, user);
                           }});
  return world.pending.back().request;
}

void ucp_am_data_release(ucp_worker_h, void* data) {
  require(!world.is_in_progress, "an offer that is let go from inside of a callback");
  take(world.descriptors, data, "an offer that is let go twice");
}
ucs_status_ptr_t ucp_am_recv_data_nbx(ucp_worker_h, void* data, void* buffer, size_t count,
                                      const ucp_request_param_t* param) {
  std::shared_ptr<Descriptor> descriptor = take(world.descriptors, data, "an offer that is fetched twice");
  const auto* const type =
      std::ranges::any_of(
          world.types,
          [&](const Generic& each) { return reinterpret_cast<ucp_datatype_t>(&each) == param->datatype; })
          ? reinterpret_cast<const Generic*>(param->datatype)
          : nullptr;
  require(type || count >= descriptor->bytes.size(), "a fetch to less than has been offered");
  const bool is_gpu = param->memory_type == UCS_MEMORY_TYPE_CUDA;
  const auto bring = [=](std::size_t bytes) {
    const std::span from = std::span(descriptor->bytes).first(bytes);
    if (type) {
      void* const state = type->operations.start_unpack(type->context, buffer, count);
      // In two parts, the second first.
      const std::size_t half = bytes / 2;
      type->operations.unpack(state, half, from.data() + half, bytes - half);
      type->operations.unpack(state, 0, from.data(), half);
      type->operations.finish(state);
    } else if (is_gpu) {
      to_gpu(buffer, from);
    } else if (bytes != 0) {
      std::memcpy(buffer, from.data(), bytes);
    }
  };
  const bool is_late = (world.pending_bits & 1U) != 0;
  world.pending_bits >>= 1U;
  if (!is_late) {
    bring(descriptor->bytes.size());
    return nullptr;
  }
  world.pending.push_back({.peer = descriptor->peer,
                           .request = new_request(),
                           .end = [=, callback = param->cb.recv_am, user = param->user_data](
                                      void* request, ucs_status_t status, bool is_short) {
                             const std::size_t bytes = descriptor->bytes.size() / (is_short ? 2 : 1);
                             if (status == UCS_OK) bring(bytes);
                             callback(request, status, bytes, user);
                           }});
  return world.pending.back().request;
}

ucs_status_t ucp_dt_create_generic(const ucp_generic_dt_ops_t* operations, void* context,
                                   ucp_datatype_t* made) {
  *made = reinterpret_cast<ucp_datatype_t>(&world.types.emplace_back(Generic{*operations, context}));
  return UCS_OK;
}
void ucp_dt_destroy(ucp_datatype_t type) {
  world.types.remove_if(
      [type](const Generic& each) { return reinterpret_cast<ucp_datatype_t>(&each) == type; });
}
}
// NOLINTEND(readability-inconsistent-declaration-parameter-name)
