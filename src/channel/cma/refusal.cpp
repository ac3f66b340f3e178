#include "channel/cma/refusal.hpp"

#include <cstddef>

#include "place/place.hpp"

namespace isthmus::cma {

Refusal explain_refusal(const Error& error, const wire::PlaceRecord& mine, const wire::PlaceRecord& theirs) {
  const auto differ = [&](Namespace name) {
    const auto index = static_cast<std::size_t>(name);
    const auto here = mine.namespaces[index];
    const auto there = theirs.namespaces[index];
    return here != 0 && there != 0 && here != there;
  };
  const std::string said = " (" + error.text() + ")";
  if (differ(Namespace::pid))
    return {.text = "it is in another pid namespace, and its pid there, " + std::to_string(theirs.pid) +
                    ", does not name it here" + said,
            .remedy = one_pid_namespace};
  if (error.error_class() == ErrorClass::proc_aborted) return {.text = error.text(), .remedy = {}};
  if (differ(Namespace::user))
    return {.text = "it is in another user namespace" + said,
            .remedy = "start both in one user namespace (docker and podman: --userns=host)"};
  if (mine.uid != theirs.uid)
    return {.text = "it runs as user " + std::to_string(theirs.uid) + ", and this process as user " +
                    std::to_string(mine.uid) + said,
            .remedy = "run both as the same user"};
  return {
      .text = "this process lacks a capability that it has, or a rule forbids it (dumpable, Yama, seccomp)" +
              said,
      .remedy =
          "in containers --cap-add SYS_PTRACE or a seccomp profile with process_vm_readv; else "
          "sysctl kernel.yama.ptrace_scope=0"};
}

}  // namespace isthmus::cma
