#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <utility>

#include "commands.hpp"
#include "devices.hpp"
#include "launch/job.hpp"
#include "launch/shared_region.hpp"
#include "memory_access.hpp"
#include "place/binding.hpp"
#include "place/topology.hpp"

namespace isthmus::tool {
namespace {

void row(std::string_view name, std::string_view value) {
  fmt::print("  {:<20}{}\n", name, value);
}

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  return std::getline(file, line) ? line : "";
}

std::string plural(int count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

/// "3 of 4 cores" where not all may be used.
std::string share(int allowed, int all, std::string_view noun) {
  return allowed == all ? plural(all, noun) : fmt::format("{} of {}", allowed, plural(all, noun));
}

void print_host() {
  utsname system{};
  ::uname(&system);
  fmt::print("Host\n");
  row("name", launch::host_name());
  row("kernel", fmt::format("{} {} ({})", system.sysname, system.release, system.machine));
  row("boot", first_line("/proc/sys/kernel/random/boot_id"));
}

/// For each socket with usable cores: its NUMA nodes and CPUs.
void print_packages(const Topology& topology) {
  struct Package {
    int cores = 0;
    std::map<int, CpuSet> numa;
  };
  std::map<int, Package> packages;
  for (const Core& core : topology.cores) {
    ++packages[core.package].cores;
    packages[core.package].numa[core.numa] |= core.cpus;
  }
  for (const auto& [number, package] : packages)
    for (const auto& [node, cpus] : package.numa)
      row(fmt::format("socket {}", number), fmt::format("NUMA node {}: CPU {}", node, cpus.to_string()));
}

void print_processors(const Topology& topology) {
  const auto cores = static_cast<int>(topology.cores.size());
  const auto threads = static_cast<int>(topology.cpus.size());
  fmt::print("\nProcessors that a job started here may use{}\n",
             topology.this_machine ? "" : " (of a machine that hwloc was told of, not of this one)");
  row("cores", share(cores, topology.machine_cores, "core"));
  row("hardware threads", share(threads, topology.machine_cpus, "hardware thread"));
  row("sockets", share(topology.packages(), topology.machine_packages, "socket"));
  row("NUMA nodes", share(topology.numa_nodes(), topology.machine_numa_nodes, "NUMA node"));
  print_packages(topology);
  const unsigned quota = processor_quota();
  row("cgroup quota",
      quota == 0 ? "none" : fmt::format("time of {}", plural(static_cast<int>(quota), "processor")));
  row("so mpiexec",
      fmt::format("lets up to {} wait by spinning; more sleep when they wait",
                  plural(quota ? std::min(threads, static_cast<int>(quota)) : threads, "rank")));
}

void print_place() {
  fmt::print("\nPlace of this process\n");
  row("user", fmt::format("uid {}, gid {}", ::getuid(), ::getgid()));
  row("pid here", std::to_string(::getpid()));
  std::string namespaces;
  for (const char* name : {"ipc", "mnt", "net", "pid", "user", "uts"}) {
    struct stat status{};
    const bool known = ::stat(fmt::format("/proc/self/ns/{}", name).c_str(), &status) == 0;
    namespaces += fmt::format("{}{} {}", namespaces.empty() ? "" : ", ", name,
                              known ? std::to_string(status.st_ino) : "unknown");
  }
  row("namespaces", namespaces);
}

void print_limits() {
  constexpr std::array<std::pair<const char*, __rlimit_resource>, 5> limits{
      {{"open files", RLIMIT_NOFILE},
       {"processes", RLIMIT_NPROC},
       {"locked memory", RLIMIT_MEMLOCK},
       {"address space", RLIMIT_AS},
       {"file size", RLIMIT_FSIZE}}};
  const auto text = [](rlim_t value) { return value == RLIM_INFINITY ? "unlimited" : std::to_string(value); };
  fmt::print("\nLimits (soft, hard)\n");
  for (const auto& [name, resource] : limits) {
    rlimit limit{};
    ::getrlimit(resource, &limit);
    row(name, limit.rlim_cur == limit.rlim_max
                  ? text(limit.rlim_cur)
                  : fmt::format("{}, {}", text(limit.rlim_cur), text(limit.rlim_max)));
  }
}

std::string yama() {
  const std::string scope = first_line("/proc/sys/kernel/yama/ptrace_scope");
  if (scope.empty()) return "not in this kernel";
  const char* meaning = scope == "0"   ? "no restriction"
                        : scope == "1" ? "only where the other process allows it; ranks do"
                        : scope == "2" ? "only with CAP_SYS_PTRACE"
                                       : "nobody";
  return fmt::format("ptrace_scope {}: {}", scope, meaning);
}

void print_devices() {
  fmt::print("\nDevices\n");
  for (const auto& rows : {network_devices(), loadable_parts(), shared_devices()})
    for (const auto& [name, meaning] : rows)
      row(name, meaning);
  row("GPUs", "not looked for yet");
}

/// A region as a job of two ranks would have, made and thrown away.
std::string shared_region() {
  const auto jobs = launch::local_jobs(2, wire::RingGeometry::for_ranks(2));
  return jobs ? "works" : jobs.error().text();
}

void print_channels() {
  fmt::print("\nKernel\n");
  const MemoryAccess access = try_memory_access();
  const std::string region = shared_region();
  const bool reads = access.read_refusal.empty();
  const bool writes = access.write_refusal.empty();
  row("memfd, sealed", region);
  const auto [folder, room] = shared_memory_folder();
  row(folder, room);
  row("Yama", yama());
  row("process_vm_readv", reads ? "works between two processes of one parent (tried)" : access.read_refusal);
  row("process_vm_writev",
      writes ? "works between two processes of one parent (tried)" : access.write_refusal);
  fmt::print("\nChannels on this host\n");
  row("self", "yes: messages of a rank to itself");
  row("shm", region == "works" ? "yes: rings in a memfd that mpiexec hands to its ranks" : "no: " + region);
  row("cma", reads && writes ? "yes: large messages are copied by both sides, half each"
             : reads         ? "in one direction: large messages are copied by the receiver"
                     : "no: large messages go through the rings, copied twice; see process_vm_readv above");
}

}  // namespace

int print_machine() {
  print_host();
  if (const auto topology = Topology::load())
    print_processors(*topology);
  else
    fmt::print("\nProcessors\n  {}\n", topology.error().text());
  print_place();
  print_limits();
  std::fflush(stdout);  // not to be printed again by the processes that are forked now
  print_channels();
  print_devices();
  fmt::print(
      "\nWhat a job really takes is tried by each pair of its ranks: isthmus explain mpiexec -n 2 "
      "./program\n");
  return 0;
}

}  // namespace isthmus::tool
