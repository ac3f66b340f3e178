#include "base/plugin.hpp"

#include <dlfcn.h>

#include <filesystem>
#include <string>
#include <system_error>

namespace isthmus {
namespace {

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

std::string find_object(const char* file) {
  const std::filesystem::path folder = own_folder();
  for (const auto& beside : {folder, folder / ".." / "lib"}) {
    const std::filesystem::path candidate = beside / "isthmus" / file;
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

Result<const void*> load_plugin(const PluginObject& object) {
  const std::string path = find_object(object.file);
  if (path.empty())
    return fail(ErrorClass::unsupported_operation,
                "this installation of Isthmus has no isthmus/" + std::string(object.file) + ", because " +
                    object.foreign + " was not there when it was built (Debian: " + object.build_package +
                    ")");
  void* loaded = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!loaded)
    return fail(ErrorClass::unsupported_operation, std::string(object.role) + " cannot be loaded (Debian: " +
                                                       object.run_package + "): " + why_not_loaded());
  const void* symbol = dlsym(loaded, object.symbol);
  if (!symbol) return foreign_plugin(object);
  return symbol;
}

std::unexpected<Error> foreign_plugin(const PluginObject& object) {
  return fail(ErrorClass::unsupported_operation,
              find_object(object.file) + " belongs to another version of Isthmus");
}

}  // namespace isthmus
