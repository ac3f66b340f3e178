// `isthmus info`
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <map>
#include <string>
#include <utility>

#include "commands.hpp"
#include "launch/job.hpp"
#include "machine/machine_facts.hpp"
#include "place/binding.hpp"
#include "place/topology.hpp"
#include "route/tuning.hpp"

namespace isthmus::tool {
namespace {

/// "3 of 4 cores" where not all may be used.
std::string share(int allowed, int all, std::string_view noun) {
  return allowed == all ? plural(all, noun) : fmt::format("{} of {}", allowed, plural(all, noun));
}

void add_share(Section& section, const char* key, int allowed, int all, std::string_view noun) {
  section.add(key, {{"usable", allowed}, {"all", all}}, share(allowed, all, noun));
}

/// For each socket with usable cores: its NUMA nodes and CPUs.
void add_packages(Section& section, const Topology& topology) {
  std::map<std::pair<int, int>, CpuSet> nodes;
  for (const Core& core : topology.cores)
    nodes[{core.package, core.numa}] |= core.cpus;
  for (const auto& [place, cpus] : nodes) {
    const auto [package, numa] = place;
    section.add(fmt::format("socket_{}_numa_{}", package, numa), fmt::format("socket {}", package),
                {{"socket", package}, {"numa", numa}, {"cpus", cpus.to_string()}},
                fmt::format("NUMA node {}: CPU {}", numa, cpus.to_string()));
  }
}

}  // namespace

Section host_facts() {
  Section section{.key = "host", .title = "Host", .facts = {}};
  utsname system{};
  ::uname(&system);
  section.add("name", launch::host_name(), launch::host_name());
  section.add("kernel", {{"release", system.release}, {"machine", system.machine}},
              fmt::format("{} {} ({})", system.sysname, system.release, system.machine));
  const std::string processor = tuning::Machine::here().processor;
  section.add("processor", processor,
              processor.empty() ? "of a model that the kernel does not name" : processor);
  const std::string boot = first_line("/proc/sys/kernel/random/boot_id");
  section.add("boot", boot, boot + " (equal for containers of one kernel, different for virtual machines)");
  return section;
}

Section processor_facts() {
  Section section{.key = "processors", .title = "Processors that a job started here may use", .facts = {}};
  const auto topology = Topology::load();
  if (!topology) {
    section.add("topology", nullptr, topology.error().text());
    return section;
  }
  if (!topology->this_machine) section.title += " (of a machine that hwloc was told of, not of this one)";
  const auto cores = static_cast<int>(topology->cores.size());
  const auto threads = static_cast<int>(topology->cpus.size());
  add_share(section, "cores", cores, topology->machine_cores, "core");
  add_share(section, "hardware_threads", threads, topology->machine_cpus, "hardware thread");
  add_share(section, "sockets", topology->packages(), topology->machine_packages, "socket");
  section.add("numa_nodes", "NUMA nodes",
              {{"usable", topology->numa_nodes()}, {"all", topology->machine_numa_nodes}},
              share(topology->numa_nodes(), topology->machine_numa_nodes, "NUMA node"));
  add_packages(section, *topology);
  const auto quota = static_cast<int>(processor_quota());
  section.add("cgroup_quota", quota == 0 ? Json() : Json(quota),
              quota == 0 ? "none" : fmt::format("time of {}", plural(quota, "processor")));
  const int spinning = quota ? std::min(threads, quota) : threads;
  section.add(
      "spinning_ranks", "so mpiexec", spinning,
      fmt::format("lets up to {} wait by spinning; more sleep when they wait", plural(spinning, "rank")));
  return section;
}

Section place_facts() {
  Section section{.key = "place", .title = "Place of this process", .facts = {}};
  section.add("user", {{"uid", ::getuid()}, {"gid", ::getgid()}},
              fmt::format("uid {}, gid {}", ::getuid(), ::getgid()));
  section.add("pid", "pid here", ::getpid(), std::to_string(::getpid()));
  Json numbers = Json::object();
  std::string namespaces;
  for (const char* name : {"cgroup", "ipc", "mnt", "net", "pid", "user", "uts"}) {
    struct stat status{};
    const bool known = ::stat(fmt::format("/proc/self/ns/{}", name).c_str(), &status) == 0;
    numbers[name] = known ? Json(status.st_ino) : Json();
    namespaces += fmt::format("{}{} {}", namespaces.empty() ? "" : ", ", name,
                              known ? std::to_string(status.st_ino) : "unknown");
  }
  section.add("namespaces", numbers, namespaces);
  return section;
}

int print_machine(bool json) {
  const Section permissions = permission_facts();
  const Section devices = device_facts();
  const Section libraries = library_facts();
  const std::vector<Section> sections{
      host_facts(), processor_facts(), place_facts(), limit_facts(),
      permissions,  devices,           libraries,     channel_facts(permissions, devices, libraries)};
  if (json) {
    print_json(sections);
    return 0;
  }
  print_text(sections);
  fmt::print(
      "\nWhat a job really takes is tried by each pair of its ranks: isthmus explain mpiexec -n 2 "
      "./program\n");
  return 0;
}

}  // namespace isthmus::tool
