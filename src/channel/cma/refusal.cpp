#include "channel/cma/refusal.hpp"

#include <cstddef>

#include "place/place.hpp"

namespace isthmus::cma {

std::string explain_refusal(const Error& error, const wire::PlaceRecord& mine,
                            const wire::PlaceRecord& theirs) {
  const auto differ = [&](Namespace name) {
    const auto index = static_cast<std::size_t>(name);
    const auto here = mine.namespaces[index];
    const auto there = theirs.namespaces[index];
    return here != 0 && there != 0 && here != there;
  };
  const std::string said = " (" + error.text() + ")";
  if (differ(Namespace::pid))
    return "it is in another pid namespace, and its pid there, " + std::to_string(theirs.pid) +
           ", does not name it here" + said;
  if (error.error_class() == ErrorClass::proc_aborted) return error.text();
  if (differ(Namespace::user)) return "it is in another user namespace" + said;
  if (mine.uid != theirs.uid)
    return "it runs as user " + std::to_string(theirs.uid) + ", and this process as user " +
           std::to_string(mine.uid) + said;
  return "this process lacks a capability that it has, or a rule forbids it (dumpable, Yama, seccomp)" + said;
}

}  // namespace isthmus::cma
