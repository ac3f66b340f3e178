#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "abi/comm/communicator.hpp"
#include "abi/core/call.hpp"
#include "abi/core/entry.hpp"
#include "coll/agree/agree.hpp"

// MPI_Comm_split_type: by where processes run (MPI 5.0, section 7.4.2).
namespace isthmus::abi {
namespace {

constexpr std::string_view resource_key = "mpi_hw_resource_type";
constexpr std::string_view process_set_key = "mpi_pset_name";
constexpr std::string_view shared_memory = "mpi_shared_memory";

/// A kind of hardware that processes can be bound to, from the largest to the smallest.
struct Resource {
  std::string_view name;  ///< as hwloc calls its objects
  std::string_view alias;
  std::int32_t wire::PlaceRecord::* number;  ///< negative for processes that are not bound to one
};
constexpr std::array<Resource, 3> resources = {{
    {"package", "socket", &wire::PlaceRecord::package},
    {"numanode", "numa", &wire::PlaceRecord::numa},
    {"core", "core", &wire::PlaceRecord::core},
}};

std::string uri(const Resource& resource) {
  return fmt::format("hwloc://{}", resource.name);
}

/// Case does not matter, nor does a scheme ("hwloc://", "hwloc:").
const Resource* find_resource(std::string_view name) {
  std::string wanted(name);
  std::ranges::transform(wanted, wanted.begin(), [](unsigned char c) { return std::tolower(c); });
  if (const std::size_t scheme = wanted.rfind(':'); scheme != std::string::npos) wanted.erase(0, scheme + 1);
  wanted.erase(0, std::min(wanted.find_first_not_of('/'), wanted.size()));
  const auto found = std::ranges::find_if(
      resources, [&](const Resource& r) { return wanted == r.name || wanted == r.alias; });
  return found == resources.end() ? nullptr : &*found;
}

/// Which host this process is on, as a color.
int host_color(const Communicator& comm) {
  return static_cast<int>(comm.engine().job().host_number());
}

bool spans_hosts(const Communicator& comm) {
  return std::ranges::any_of(comm.group()->members(),
                             [&](PeerId process) { return !comm.engine().is_local(process); });
}

/// A color within one host: MPI_UNDEFINED where a process is not bound to one such resource.
int color_of(const Communicator& comm, const Resource& resource, PeerId process) {
  const launch::Job& job = comm.engine().job();
  const std::int32_t number = job.region.block(job.slot_of(process).value()).place.*resource.number;
  return number >= 0 ? number : MPI_UNDEFINED;
}

/// The largest resource that divides a communicator on one host. The launcher has published where each
/// process runs before it started the first one, so that all come to the same answer by themselves.
const Resource* dividing_resource(Communicator& comm) {
  for (const Resource& resource : resources) {
    const int mine = color_of(comm, resource, comm.group()->process(0));
    if (std::ranges::any_of(comm.group()->members(),
                            [&](PeerId process) { return color_of(comm, resource, process) != mine; }))
      return &resource;
  }
  return nullptr;
}

/// Colors for one call, or nothing where the result is MPI_COMM_NULL for all.
std::optional<int> guided_color(Communicator& comm, const Info* info) {
  if (info == nullptr) return std::nullopt;
  const PeerId me = comm.engine().rank();
  if (const std::string* name = info->find(resource_key)) {
    if (*name == shared_memory) return host_color(comm);
    const Resource* resource = find_resource(*name);
    return resource != nullptr ? std::optional(color_of(comm, *resource, me)) : std::nullopt;
  }
  return std::nullopt;
}

std::optional<int> unguided_color(Communicator& comm, Info* info) {
  if (spans_hosts(comm)) {
    if (info != nullptr) info->set(resource_key, shared_memory);
    return host_color(comm);
  }
  const Resource* resource = dividing_resource(comm);
  if (resource == nullptr) return std::nullopt;
  if (info != nullptr) info->set(resource_key, uri(*resource));
  return color_of(comm, *resource, comm.engine().rank());
}

std::optional<int> process_set_color(const Info* info) {
  const std::string* name = info != nullptr ? info->find(process_set_key) : nullptr;
  if (name != nullptr && *name == "mpi://WORLD") return 0;
  return std::nullopt;
}

Result<> split_by_type(Communicator& comm, int split_type, int key, Info* info, MPI_Comm* newcomm) {
  std::optional<int> color;
  switch (split_type) {
    case MPI_COMM_TYPE_SHARED:
      color = host_color(comm);
      break;
    case MPI_COMM_TYPE_HW_GUIDED:
      color = guided_color(comm, info);
      break;
    case MPI_COMM_TYPE_RESOURCE_GUIDED:
      color = guided_color(comm, info);
      if (!color) color = process_set_color(info);
      break;
    case MPI_COMM_TYPE_HW_UNGUIDED:
      color = unguided_color(comm, info);
      break;
    case MPI_UNDEFINED:
      break;
    default:
      return fail(ErrorClass::arg,
                  fmt::format("split_type is {}, which is none of MPI_COMM_TYPE_*", split_type));
  }
  // Processes may differ in MPI_UNDEFINED alone, so that even a null result is made in common.
  if (comm.engine().job().on_one_host())
    return give(coll::split(comm, color.value_or(MPI_UNDEFINED), key), comm, nullptr, newcomm);
  // The numbers of sockets and cores begin anew on each host.
  auto host = coll::split(comm, host_color(comm), key);
  if (!host) return std::unexpected(std::move(host).error());
  return give(coll::split(**host, color.value_or(MPI_UNDEFINED), key), comm, nullptr, newcomm);
}

}  // namespace

ISTHMUS_ENTRY(int, Comm_split_type)
(MPI_Comm comm, int split_type, int key, MPI_Info info, MPI_Comm* newcomm) {
  return call("MPI_Comm_split_type", comm, [&](Communicator& c) -> Result<> {
    ISTHMUS_TRY(clear_output(newcomm, "newcomm"));
    Result<Info*> hints = find_info(info);
    if (!hints) return std::unexpected(std::move(hints).error());
    return split_by_type(c, split_type, key, *hints, newcomm);
  });
}

ISTHMUS_ENTRY(int, Get_hw_resource_info)(MPI_Info* hw_info) {
  return call("MPI_Get_hw_resource_info", [&](Runtime& runtime) -> Result<> {
    ISTHMUS_TRY(check_pointer(hw_info, "hw_info"));
    const wire::PlaceRecord& place = runtime.job->region.block(runtime.job->slot).place;
    Ref<Info> info = make_ref<Info>();
    info->set(shared_memory, "true");
    for (const Resource& resource : resources)
      info->set(uri(resource), place.*resource.number >= 0 ? "true" : "false");
    *hw_info = runtime.infos.add(std::move(info));
    return {};
  });
}

}  // namespace isthmus::abi
