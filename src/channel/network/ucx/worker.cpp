#include "channel/network/ucx/worker.hpp"

#include <ucs/config/global_opts.h>
#include <ucs/debug/debug.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "channel/network/ucx/status.hpp"

namespace isthmus::network {
namespace {

bool user_sets(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

/// What Isthmus wants of UCX where the user has not said otherwise with `variable`.
struct Wish {
  const char* variable;
  const char* name;  ///< as the interface to set it has it: UCX 1.13 leaves the prefix of a transport out
  const char* value;
};

/// Options of the whole library, which it has read from the environment when it was loaded.
void set_globals() {
  // Unreachable peers are told by errors here; UCX would say the same on stdout, into the program's output.
  static constexpr std::array<Wish, 2> wishes{
      {{"UCX_LOG_LEVEL", "LOG_LEVEL", "fatal"}, {"UCX_WARN_UNUSED_ENV_VARS", "WARN_UNUSED_ENV_VARS", "n"}}};
  for (const Wish& wish : wishes)
    if (!user_sets(wish.variable)) ucs_global_opts_set_value(wish.name, wish.value);
  // A program that crashes is not UCX's business: its signals are as the program had them.
  if (!user_sets("UCX_HANDLE_ERRORS"))
    for (const int signal : {SIGILL, SIGSEGV, SIGBUS, SIGFPE})
      ucs_debug_disable_signal(signal);
}

/// Always without UCX's own shared memory: processes that can share memory do so by Isthmus's channels.
const char* transports(TransportSetting setting) {
  switch (setting) {
    case TransportSetting::rc:
      return "rc";  // rc_verbs, or rc_mlx5 where the device has it, and ud to connect
    case TransportSetting::ud:
      return "ud";
    case TransportSetting::tcp:
      return "tcp";
    case TransportSetting::automatic:
      break;
  }
  return "ib,tcp";
}

Result<> modify(ucp_config_t& config, const Settings& settings) {
  static constexpr std::array<Wish, 5> wishes{{
      // Between the hosts' kernels, for connections on which no data waits; `Watch` does what these cannot.
      {"UCX_TCP_KEEPIDLE", "KEEPIDLE", "3s"},
      {"UCX_TCP_KEEPINTVL", "KEEPINTVL", "1s"},
      {"UCX_TCP_KEEPCNT", "KEEPCNT", "4"},
      // Of InfiniBand: an empty write to each peer, which its adapter answers.
      {"UCX_KEEPALIVE_INTERVAL", "KEEPALIVE_INTERVAL", "3s"},
      // An unreachable host would else hold the process in connect() for two minutes.
      {"UCX_TCP_CONN_NB", "CONN_NB", "y"},
  }};
  const bool users_choice = settings.transport == TransportSetting::automatic && user_sets("UCX_TLS");
  if (!users_choice) {
    const ucs_status_t status = ucp_config_modify(&config, "TLS", transports(settings.transport));
    if (status != UCS_OK)
      return std::unexpected(ucx_error(ErrorClass::other, "the network's transports cannot be set", status));
  }
  for (const Wish& wish : wishes)
    if (!user_sets(wish.variable))
      static_cast<void>(ucp_config_modify(&config, wish.name, wish.value));  // other versions lack some
  return {};
}

}  // namespace

Result<UcxWorker::Context> UcxWorker::open_context(const Settings& settings, PeerId ranks) {
  set_globals();
  ucp_config_t* config = nullptr;
  ucs_status_t status = ucp_config_read(nullptr, nullptr, &config);
  if (status != UCS_OK)
    return std::unexpected(ucx_error(ErrorClass::other, "the variables UCX_* cannot be read", status));
  const std::unique_ptr<ucp_config_t, void (*)(ucp_config_t*)> release(config, ucp_config_release);
  ISTHMUS_TRY(modify(*config, settings));

  ucp_params_t params{};
  params.field_mask =
      UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_RMA | UCP_FEATURE_WAKEUP;
  params.estimated_num_eps = ranks;
  ucp_context_h context = nullptr;
  status = ucp_init(&params, config, &context);
  if (status != UCS_OK)
    return std::unexpected(ucx_error(ErrorClass::other, "the network cannot be used", status));
  return Context(context);
}

Result<std::string> UcxWorker::printed_transports(const Settings& settings) {
  auto context = open_context(settings, 2);
  if (!context) return std::unexpected(std::move(context).error());
  char* text = nullptr;
  std::size_t bytes = 0;
  std::FILE* stream = open_memstream(&text, &bytes);
  if (!stream) return fail(ErrorClass::no_mem, "no memory for a list of transports");
  ucp_context_print_info(context->get(), stream);
  static_cast<void>(std::fclose(stream));
  const std::unique_ptr<char, void (*)(void*)> release(text, std::free);
  return std::string(text, bytes);
}

Result<UcxWorker> UcxWorker::open(const Settings& settings, Identity self) {
  auto context = open_context(settings, self.ranks);
  if (!context) return std::unexpected(std::move(context).error());

  ucp_worker_params_t worker_params{};
  worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_FLAGS;
  worker_params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  worker_params.flags = UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK;  // of peers that have died
  ucp_worker_h worker = nullptr;
  const ucs_status_t status = ucp_worker_create(context->get(), &worker_params, &worker);
  if (status != UCS_OK)
    return std::unexpected(ucx_error(ErrorClass::other, "no transport of the network can be used", status));
  return UcxWorker(std::move(*context), Worker(worker));
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
