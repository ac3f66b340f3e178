#include "abi/core/info.hpp"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "abi/core/call.hpp"
#include "abi/core/entry.hpp"
#include "base/settings.hpp"

namespace isthmus::abi {
namespace {

// Programs read keys and values into arrays of these sizes.
constexpr std::size_t longest_key = MPI_MAX_INFO_KEY - 1;
constexpr std::size_t longest_value = MPI_MAX_INFO_VAL - 1;

void set_if_known(Info& info, std::string_view key, std::string_view value) {
  if (!value.empty()) info.set(key, value.substr(0, longest_value));
}

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

/// This process's, as the system knows it.
std::vector<std::string> command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');)
    words.push_back(std::move(word));
  return words;
}

/// The keys command and argv. `words`: the command and its arguments.
void set_command(Info& info, const std::vector<std::string>& words) {
  if (words.empty()) return;
  set_if_known(info, "command", words.front());
  std::string rest;
  for (auto word = words.begin() + 1; word != words.end(); ++word)
    rest += (rest.empty() ? "" : " ") + *word;
  info.erase("argv");
  set_if_known(info, "argv", rest);
}

Result<Info*> find_living(MPI_Info info) {
  Result<Info*> found = find_info(info);
  if (found && *found == nullptr) return fail(ErrorClass::info, "info is MPI_INFO_NULL");
  return found;
}

Result<> check_key(const char* key) {
  if (key == nullptr) return fail(ErrorClass::info_key, "key is a null pointer");
  const std::size_t length = std::strlen(key);
  if (length == 0) return fail(ErrorClass::info_key, "key is empty");
  if (length > longest_key)
    return fail(
        ErrorClass::info_key,
        fmt::format("key has {} characters, more than the {} of MPI_MAX_INFO_KEY", length, longest_key));
  return {};
}

Result<> check_value(const char* value) {
  if (value == nullptr) return fail(ErrorClass::info_value, "value is a null pointer");
  const std::size_t length = std::strlen(value);
  if (length > longest_value)
    return fail(
        ErrorClass::info_value,
        fmt::format("value has {} characters, more than the {} of MPI_MAX_INFO_VAL", length, longest_value));
  return {};
}

/// Copies as much as `room` characters and their terminating zero hold.
void copy_string(const std::string& from, std::size_t room, char* to) {
  const std::size_t length = std::min(from.size(), room);
  std::memcpy(to, from.data(), length);
  to[length] = '\0';
}

/// For functions on an info object. `body`: `Result<>(Info&)`.
template <class Body>
int call_with_info(const char* function, MPI_Info info, Body&& body) noexcept {
  return call_any_time(function, [&](Runtime&) -> Result<> {
    Result<Info*> found = find_living(info);
    if (!found) return std::unexpected(std::move(found).error());
    return body(**found);
  });
}

}  // namespace

Info& environment_info(Runtime& runtime) {
  if (Info* made = runtime.infos.find(MPI_INFO_ENV)) return *made;
  Ref<Info> info = make_ref<Info>();
  set_command(*info, command_line());
  // The launcher's variables are this process's as long as its rank is there: MPI_Init takes it away, so that
  // the programs which this one starts do not believe them.
  if (std::getenv(launcher_variable::rank))
    set_if_known(*info, "maxprocs", variable(launcher_variable::app_size));
  set_if_known(*info, "mpi_memory_alloc_kinds", variable("ISTHMUS_MEMORY_ALLOC_KINDS"));
  utsname system{};
  if (uname(&system) == 0) {
    set_if_known(*info, "host", system.nodename);
    set_if_known(*info, "arch", system.machine);
  }
  std::array<char, 4096> directory{};
  if (getcwd(directory.data(), directory.size()) != nullptr) set_if_known(*info, "wdir", directory.data());
  runtime.infos.define(MPI_INFO_ENV, std::move(info));
  return *runtime.infos.find(MPI_INFO_ENV);
}

ISTHMUS_ENTRY(int, Info_create)(MPI_Info* info) {
  return call_any_time("MPI_Info_create", [&](Runtime& runtime) -> Result<> {
    ISTHMUS_TRY(check_pointer(info, "info"));
    *info = runtime.infos.add(make_ref<Info>());
    return {};
  });
}

ISTHMUS_ENTRY(int, Info_create_env)(int argc, char* argv[], MPI_Info* info) {
  return call_any_time("MPI_Info_create_env", [&](Runtime& runtime) -> Result<> {
    ISTHMUS_TRY(check_pointer(info, "info"));
    Ref<Info> copy = environment_info(runtime).duplicate();
    // Fortran and programs without arguments at hand pass 0 and a null pointer.
    if (argc > 0 && argv != nullptr) set_command(*copy, {argv, argv + argc});
    *info = runtime.infos.add(std::move(copy));
    return {};
  });
}

ISTHMUS_ENTRY(int, Info_dup)(MPI_Info info, MPI_Info* newinfo) {
  return call_with_info("MPI_Info_dup", info, [&](Info& from) -> Result<> {
    ISTHMUS_TRY(check_pointer(newinfo, "newinfo"));
    *newinfo = Runtime::get().infos.add(from.duplicate());
    return {};
  });
}

ISTHMUS_ENTRY(int, Info_free)(MPI_Info* info) {
  return call_any_time("MPI_Info_free", [&](Runtime& runtime) -> Result<> {
    ISTHMUS_TRY(check_pointer(info, "info"));
    ISTHMUS_TRY(find_living(*info));
    if (*info == MPI_INFO_ENV) return fail(ErrorClass::info, "info is MPI_INFO_ENV, which cannot be freed");
    runtime.infos.remove(*info);
    *info = MPI_INFO_NULL;
    return {};
  });
}

ISTHMUS_ENTRY(int, Info_set)(MPI_Info info, const char* key, const char* value) {
  return call_with_info("MPI_Info_set", info, [&](Info& target) -> Result<> {
    if (info == MPI_INFO_ENV) return fail(ErrorClass::info, "info is MPI_INFO_ENV, which cannot be changed");
    ISTHMUS_TRY(check_key(key));
    ISTHMUS_TRY(check_value(value));
    target.set(key, value);
    return {};
  });
}

ISTHMUS_ENTRY(int, Info_delete)(MPI_Info info, const char* key) {
  return call_with_info("MPI_Info_delete", info, [&](Info& target) -> Result<> {
    if (info == MPI_INFO_ENV) return fail(ErrorClass::info, "info is MPI_INFO_ENV, which cannot be changed");
    ISTHMUS_TRY(check_key(key));
    if (!target.erase(key))
      return fail(ErrorClass::info_nokey, fmt::format("key \"{}\" is not in info", key));
    return {};
  });
}

ISTHMUS_ENTRY(int, Info_get_string)(MPI_Info info, const char* key, int* buflen, char* value, int* flag) {
  return call_with_info("MPI_Info_get_string", info, [&](Info& source) -> Result<> {
    ISTHMUS_TRY(check_key(key));
    ISTHMUS_TRY(check_pointer(buflen, "buflen"));
    ISTHMUS_TRY(check_pointer(flag, "flag"));
    if (*buflen < 0) return fail(ErrorClass::arg, fmt::format("buflen is {}", *buflen));
    const std::string* found = source.find(key);
    *flag = found != nullptr ? 1 : 0;
    if (found == nullptr) return {};
    if (*buflen > 0) {
      ISTHMUS_TRY(check_pointer(value, "value"));
      copy_string(*found, static_cast<std::size_t>(*buflen - 1), value);
    }
    *buflen = static_cast<int>(found->size() + 1);
    return {};
  });
}

ISTHMUS_ENTRY(int, Info_get)(MPI_Info info, const char* key, int valuelen, char* value, int* flag) {
  return call_with_info("MPI_Info_get", info, [&](Info& source) -> Result<> {
    ISTHMUS_TRY(check_key(key));
    ISTHMUS_TRY(check_pointer(flag, "flag"));
    if (valuelen < 0) return fail(ErrorClass::arg, fmt::format("valuelen is {}", valuelen));
    const std::string* found = source.find(key);
    *flag = found != nullptr ? 1 : 0;
    if (found == nullptr) return {};
    ISTHMUS_TRY(check_pointer(value, "value"));
    copy_string(*found, static_cast<std::size_t>(valuelen), value);
    return {};
  });
}

ISTHMUS_ENTRY(int, Info_get_valuelen)(MPI_Info info, const char* key, int* valuelen, int* flag) {
  return call_with_info("MPI_Info_get_valuelen", info, [&](Info& source) -> Result<> {
    ISTHMUS_TRY(check_key(key));
    ISTHMUS_TRY(check_pointer(valuelen, "valuelen"));
    ISTHMUS_TRY(check_pointer(flag, "flag"));
    const std::string* found = source.find(key);
    *flag = found != nullptr ? 1 : 0;
    if (found != nullptr) *valuelen = static_cast<int>(found->size());
    return {};
  });
}

ISTHMUS_ENTRY(int, Info_get_nkeys)(MPI_Info info, int* nkeys) {
  return call_with_info("MPI_Info_get_nkeys", info, [&](Info& source) -> Result<> {
    ISTHMUS_TRY(check_pointer(nkeys, "nkeys"));
    *nkeys = static_cast<int>(source.size());
    return {};
  });
}

ISTHMUS_ENTRY(int, Info_get_nthkey)(MPI_Info info, int n, char* key) {
  return call_with_info("MPI_Info_get_nthkey", info, [&](Info& source) -> Result<> {
    ISTHMUS_TRY(check_pointer(key, "key"));
    if (n < 0 || static_cast<std::size_t>(n) >= source.size())
      return fail(ErrorClass::arg, fmt::format("n is {}, but info has {} keys", n, source.size()));
    copy_string(source.entry(static_cast<std::size_t>(n)).first, longest_key, key);
    return {};
  });
}

ISTHMUS_ENTRY(int, Info_toint)(MPI_Info info) {
  return InfoTable::to_int(info);
}
ISTHMUS_ENTRY(MPI_Info, Info_fromint)(int info) {
  Runtime& runtime = Runtime::get();
  const CallGuard guard(runtime);
  return runtime.infos.from_int(info);
}

}  // namespace isthmus::abi
