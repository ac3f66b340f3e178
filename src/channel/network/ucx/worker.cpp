#include "channel/network/ucx/worker.hpp"

#include <string>
#include <utility>

#include "channel/network/ucx/config.hpp"
#include "channel/network/ucx/describe.hpp"
#include "channel/network/ucx/status.hpp"

namespace isthmus::network {

namespace {

/// The first version that changes to a GPU's context by itself.
constexpr unsigned least_major = 1, least_minor = 19;

std::string_view why_no_gpu_memory(const Settings& settings, ucp_context_h context) {
  if (!wants_gpu_memory(settings))
    return settings.gpu_path == GpuPathSetting::staged
               ? "ISTHMUS_GPU_PATH wants another way"
               : "no InfiniBand or RoCE device was there, or CUDA was not loaded, at MPI_Init";
  unsigned major = 0, minor = 0, release = 0;
  ucp_get_version(&major, &minor, &release);
  if (std::pair(major, minor) < std::pair(least_major, least_minor)) return "this UCX is older than 1.19";
  ucp_context_attr_t attributes{};
  attributes.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES;
  const bool has_cuda = ucp_context_query(context, &attributes) == UCS_OK &&
                        (attributes.memory_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA)) != 0;
  return has_cuda ? "" : "this UCX has no CUDA, or has found no GPU";
}

}  // namespace

/// For the user who has asked for a transport that this host has not.
Error UcxWorker::not_there(const Settings& settings, PeerId ranks) {
  const bool rdma = settings.transport != TransportSetting::tcp;
  std::string text =
      "this host has no device for the transport " + std::string(name_of(settings.transport)) +
      " (--transport, ISTHMUS_TRANSPORT), which needs " +
      (rdma ? "an InfiniBand or RoCE device with an active port" : "a network interface that is up");
  Settings any = settings;
  any.transport = TransportSetting::automatic;
  const auto context = open_context(any, ranks);
  text += context ? "; there is: " + to_string(transports_of(context->get()))
                  : "; there is none for others either";
  return Error(ErrorClass::other, std::move(text));
}

Result<UcxWorker::Context> UcxWorker::open_context(const Settings& settings, PeerId ranks) {
  auto config = read_config(settings);
  if (!config) return std::unexpected(std::move(config).error());
  ucp_params_t params{};
  params.field_mask =
      UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_RMA | UCP_FEATURE_WAKEUP;
  params.estimated_num_eps = ranks;
  ucp_context_h context = nullptr;
  const ucs_status_t status = ucp_init(&params, config->get(), &context);
  if (status == UCS_OK) return Context(context);
  if (status == UCS_ERR_NO_DEVICE && settings.transport != TransportSetting::automatic)
    return std::unexpected(not_there(settings, ranks));
  return std::unexpected(ucx_error(ErrorClass::other, "the network cannot be used", status));
}

Result<std::vector<Inventory::Transport>> UcxWorker::transports(const Settings& settings) {
  auto context = open_context(settings, 2);
  if (!context) return std::unexpected(std::move(context).error());
  return transports_of(context->get());
}

Result<UcxWorker> UcxWorker::open(const Settings& settings, Identity self) {
  auto context = open_context(settings, self.ranks);
  if (!context) return std::unexpected(std::move(context).error());
  ucp_worker_params_t worker_params{};
  worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_FLAGS;
  worker_params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  worker_params.flags = UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK;  // of peers that have died
  const auto listening = Doors::listening();
  ucp_worker_h worker = nullptr;
  const ucs_status_t status = ucp_worker_create(context->get(), &worker_params, &worker);
  if (status != UCS_OK)
    return std::unexpected(ucx_error(ErrorClass::other, "no transport of the network can be used", status));
  const std::string_view why_not = why_no_gpu_memory(settings, context->get());
  return UcxWorker(std::move(*context), Worker(worker), Doors(listening), why_not);
}

Result<std::vector<std::byte>> UcxWorker::address() const {
  ucp_address_t* address = nullptr;
  std::size_t bytes = 0;
  const ucs_status_t status = ucp_worker_get_address(get(), &address, &bytes);
  if (status != UCS_OK)
    return std::unexpected(ucx_error(ErrorClass::other, "the network has no address", status));
  const auto* from = reinterpret_cast<const std::byte*>(address);
  std::vector<std::byte> copy(from, from + bytes);
  ucp_worker_release_address(get(), address);
  return copy;
}

}  // namespace isthmus::network
