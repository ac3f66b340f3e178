#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "channel/network/plugin.hpp"
#include "channel/network/port.hpp"

namespace isthmus::network {
namespace {

constexpr const char* object_name = "isthmus/libisthmus_network.so";

/// The folder of the library or program that holds this function.
std::filesystem::path own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&own_folder), &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code error;
  auto path = std::filesystem::canonical(info.dli_fname, error);
  // A program may be named by a word that is not a path.
  if (error) path = std::filesystem::canonical("/proc/self/exe", error);
  return path.parent_path();
}

/// Beside the library; and for a program, in the `lib` beside its own folder.
std::string find_object() {
  const std::filesystem::path folder = own_folder();
  for (const auto& candidate : {folder / object_name, folder / ".." / "lib" / object_name}) {
    std::error_code error;
    if (std::filesystem::exists(candidate, error)) return candidate.lexically_normal();
  }
  return {};
}

std::string why_not_loaded() {
  const char* text = dlerror();
  return text ? text : "no reason is given";
}

}  // namespace

Result<std::unique_ptr<Port>> open(const Settings& settings, Identity self, Events& events) {
  const std::string path = find_object();
  if (path.empty())
    return fail(ErrorClass::unsupported_operation,
                "this installation of Isthmus has no " + std::string(object_name) +
                    ", because UCX was not there when it was built (Debian: libucx-dev)");
  // For the life of the process: UCX has threads.
  void* object = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!object)
    return fail(ErrorClass::unsupported_operation,
                "the network library cannot be loaded (Debian: libucx0): " + why_not_loaded());
  const auto* plugin = static_cast<const Plugin*>(dlsym(object, plugin_symbol));
  if (!plugin || plugin->version != interface_version || plugin->settings_bytes != sizeof(Settings))
    return fail(ErrorClass::unsupported_operation, path + " belongs to another version of Isthmus");
  return plugin->open(settings, self, events);
}

}  // namespace isthmus::network
