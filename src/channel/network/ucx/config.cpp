#include "channel/network/ucx/config.hpp"

#include <dlfcn.h>
#include <ucs/config/global_opts.h>
#include <ucs/debug/debug.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <string>
#include <string_view>

#include "channel/network/adapters.hpp"
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
void set_globals(const Settings& settings) {
  // Unreachable peers are told by errors here; UCX would say the same on stdout, into the program's output.
  static constexpr std::array<Wish, 2> wishes{
      {{"UCX_LOG_LEVEL", "LOG_LEVEL", "fatal"}, {"UCX_WARN_UNUSED_ENV_VARS", "WARN_UNUSED_ENV_VARS", "n"}}};
  for (const Wish& wish : wishes)
    if (!user_sets(wish.variable)) ucs_global_opts_set_value(wish.name, wish.value);
  // Its cache of allocations takes what it has not seen being made for the host's memory, also where a
  // message says what it is: TCP then sends from addresses of a GPU (UCX 1.22, 2 x H200).
  constexpr Wish no_cache{"UCX_MEMTYPE_CACHE", "MEMTYPE_CACHE", "n"};
  if (wants_gpu_memory(settings) && !user_sets(no_cache.variable))
    ucs_global_opts_set_value(no_cache.name, no_cache.value);
  // A program that crashes is not UCX's business: its signals are as the program had them.
  if (!user_sets("UCX_HANDLE_ERRORS"))
    for (const int signal : {SIGILL, SIGSEGV, SIGBUS, SIGFPE})
      ucs_debug_disable_signal(signal);
}

/// Always without UCX's own shared memory: processes that can share memory do so by Isthmus's channels.
std::string_view networks(TransportSetting setting) {
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

std::string transports(const Settings& settings) {
  std::string names(networks(settings.transport));
  // Not cuda_ipc: what it could open is on this host, where Isthmus's own channels are.
  if (wants_gpu_memory(settings)) names += ",cuda_copy,gdr_copy";
  return names;
}

bool has_loaded_cuda() {
  void* const driver = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (driver) ::dlclose(driver);
  return driver != nullptr;
}

void wish_for(ucp_config_t& config, const Wish& wish) {
  if (!user_sets(wish.variable))
    static_cast<void>(ucp_config_modify(&config, wish.name, wish.value));  // other versions lack some
}

Result<> modify(ucp_config_t& config, const Settings& settings) {
  static constexpr std::array<Wish, 6> wishes{{
      // Between the hosts' kernels, for connections on which no data waits; `Watch` does what these cannot.
      {"UCX_TCP_KEEPIDLE", "KEEPIDLE", "3s"},
      {"UCX_TCP_KEEPINTVL", "KEEPINTVL", "1s"},
      {"UCX_TCP_KEEPCNT", "KEEPCNT", "4"},
      // Of InfiniBand: an empty write to each peer, which its adapter answers.
      {"UCX_KEEPALIVE_INTERVAL", "KEEPALIVE_INTERVAL", "3s"},
      // An unreachable host would else hold the process in connect() for two minutes.
      {"UCX_TCP_CONN_NB", "CONN_NB", "y"},
      // What is received at a time: an eager message in one piece, with its header, is not put together from
      // several first. 64 KiB take 9.9 us one way where the default (64 KiB) takes 19.7, 256 KiB 34 and 68.
      {"UCX_TCP_RX_SEG_SIZE", "RX_SEG_SIZE", "288k"},
  }};
  const bool users_choice = settings.transport == TransportSetting::automatic && user_sets("UCX_TLS");
  if (!users_choice) {
    const ucs_status_t status = ucp_config_modify(&config, "TLS", transports(settings).c_str());
    if (status != UCS_OK)
      return std::unexpected(ucx_error(ErrorClass::other, "the network's transports cannot be set", status));
  }
  for (const Wish& wish : wishes)
    wish_for(config, wish);
  // UCX before 1.18 compares a datagram's address with its own by what only Mellanox's drivers tell of it
  // (openucx/ucx, pull request 10209). With soft-RoCE and IPv4 it drops them all, and rc, which connects by
  // datagrams, hangs as well. The device makes that comparison itself.
  constexpr std::string_view mellanox = "0x15b3";
  if (!has_adapter(mellanox)) wish_for(config, {"UCX_UD_VERBS_ETH_DGID_CHECK", "UD_ETH_DGID_CHECK", "n"});
  return {};
}

}  // namespace

bool wants_gpu_memory(const Settings& settings) {
  if (settings.gpu_path == GpuPathSetting::network) return true;
  return settings.gpu_path != GpuPathSetting::staged && settings.transport != TransportSetting::tcp &&
         has_adapter() && has_loaded_cuda();
}

Result<UcxConfig> read_config(const Settings& settings) {
  set_globals(settings);
  ucp_config_t* read = nullptr;
  const ucs_status_t status = ucp_config_read(nullptr, nullptr, &read);
  if (status != UCS_OK)
    return std::unexpected(ucx_error(ErrorClass::other, "the variables UCX_* cannot be read", status));
  UcxConfig config(read);
  ISTHMUS_TRY(modify(*config, settings));
  return config;
}

}  // namespace isthmus::network
