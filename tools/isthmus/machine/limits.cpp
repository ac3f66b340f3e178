#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <string_view>

#include "launch/job.hpp"
#include "launch/region/shared_region.hpp"
#include "machine/machine_facts.hpp"
#include "machine/memory_access.hpp"

namespace isthmus::tool {
namespace {

struct Limit {
  const char* key;
  __rlimit_resource resource;
  bool bytes;
  const char* meaning;
};

constexpr std::array<Limit, 5> limits{{
    {"open_files", RLIMIT_NOFILE, false,
     "mpiexec needs about 3 a rank, a rank a few for each peer on another host"},
    {"processes", RLIMIT_NPROC, false, "of this user: each rank is one, with a thread more where ranks meet"},
    {"locked_memory", RLIMIT_MEMLOCK, true,
     "InfiniBand and RoCE lock what they send from; nothing else does"},
    {"address_space", RLIMIT_AS, true, "a job's region reserves some for each pair of its ranks on a host"},
    {"file_size", RLIMIT_FSIZE, true, "a job's region is a file in memory"},
}};

/// `value`, null for unlimited.
Json number(rlim_t value) {
  return value == RLIM_INFINITY ? Json() : Json(value);
}

std::string text_of(rlim_t value, bool bytes) {
  return value == RLIM_INFINITY ? "unlimited" : bytes ? bytes_text(value) : std::to_string(value);
}

void add_shared_memory_folder(Section& section) {
  struct statvfs status{};
  const bool there = ::statvfs("/dev/shm", &status) == 0;
  const std::uint64_t free = status.f_bavail * status.f_frsize;
  const std::uint64_t all = status.f_blocks * status.f_frsize;
  section.add("dev_shm", "/dev/shm", there ? Json{{"free", free}, {"all", all}} : Json(),
              there ? fmt::format("{} of {} free: jobs keep no memory in it, their regions are memfds",
                                  bytes_text(free), bytes_text(all))
                    : fmt::format("{}: jobs do not need it", std::strerror(errno)));
}

void add_yama(Section& section) {
  const std::string scope = first_line("/proc/sys/kernel/yama/ptrace_scope");
  const char* meaning = scope.empty()  ? "this kernel has no Yama, which could forbid direct copies"
                        : scope == "0" ? "no restriction"
                        : scope == "1" ? "direct copies where the other process allows them; ranks do"
                        : scope == "2" ? "direct copies only with CAP_SYS_PTRACE"
                                       : "no direct copies";
  section.add("ptrace_scope", "Yama", scope.empty() ? Json() : Json(scope),
              scope.empty() ? meaning : fmt::format("ptrace_scope {}: {}", scope, meaning));
}

/// A line "NAME:\tVALUE" of /proc/self/status.
std::string status_line(std::string_view name) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(name) && line.size() > name.size() + 2 && line[name.size()] == ':')
      return line.substr(line.find_first_not_of("\t ", name.size() + 1));
  return {};
}

void add_process_rights(Section& section) {
  constexpr unsigned cap_sys_ptrace = 19;
  const std::string text = status_line("CapEff");
  std::uint64_t capabilities = 0;
  std::from_chars(text.data(), text.data() + text.size(), capabilities, 16);
  const bool traces = (capabilities >> cap_sys_ptrace & 1) != 0;
  section.add("cap_sys_ptrace", "CAP_SYS_PTRACE", traces,
              traces ? "here: direct copies between processes of different users too"
                     : "not here: direct copies between processes of one user alone");
  const std::string seccomp = status_line("Seccomp");
  section.add("seccomp", seccomp,
              seccomp == "0"
                  ? "no filter of system calls"
                  : "a filter of system calls, as engines of containers set one: see process_vm_readv");
}

void add_user_namespaces(Section& section) {
  const std::string most = first_line("/proc/sys/user/max_user_namespaces");
  const std::string unprivileged = first_line("/proc/sys/kernel/unprivileged_userns_clone");
  const std::string restricted = first_line("/proc/sys/kernel/apparmor_restrict_unprivileged_userns");
  const bool none = most.empty() || most == "0";
  const bool allowed =
      !none && (::geteuid() == 0 || (unprivileged != "0" && (restricted.empty() || restricted == "0")));
  section.add("user_namespaces", allowed,
              allowed ? "allowed: mpiexec --container can start containers without root (podman, unshare)"
              : none  ? "none: only root can start containers"
                      : "not for this user: only root can start containers");
}

/// A region as a job of two ranks would have, made and thrown away.
std::string shared_region() {
  const auto jobs = launch::local_jobs(2, wire::RingGeometry::for_ranks(2));
  return jobs ? "" : jobs.error().text();
}

}  // namespace

Section limit_facts() {
  Section section{.key = "limits", .title = "Limits (soft, hard), and whom they limit", .facts = {}};
  for (const Limit& limit : limits) {
    rlimit found{};
    ::getrlimit(limit.resource, &found);
    std::string text = text_of(found.rlim_cur, limit.bytes);
    if (found.rlim_cur != found.rlim_max) text += ", " + text_of(found.rlim_max, limit.bytes);
    section.add(limit.key, {{"soft", number(found.rlim_cur)}, {"hard", number(found.rlim_max)}},
                text + ": " + limit.meaning);
  }
  add_shared_memory_folder(section);
  return section;
}

Section permission_facts() {
  Section section{.key = "permissions", .title = "What the kernel permits", .facts = {}};
  const std::string region = shared_region();
  section.add("memfd", "memfd, sealed", region.empty(),
              region.empty() ? "works: memory in common for a job" : region);
  const MemoryAccess access = try_memory_access();
  for (const auto& [name, refusal] :
       {std::pair{"process_vm_readv", access.read_refusal}, {"process_vm_writev", access.write_refusal}})
    section.add(name, name, refusal.empty(),
                refusal.empty() ? "works between two processes of one parent (tried)" : refusal);
  add_yama(section);
  add_process_rights(section);
  add_user_namespaces(section);
  return section;
}

}  // namespace isthmus::tool
