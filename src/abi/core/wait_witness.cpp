#include "abi/core/wait_witness.hpp"

#include <dlfcn.h>
#include <unwind.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>

#include "abi/core/runtime.hpp"

namespace isthmus::abi {
namespace {

struct Search {
  const void* library;  ///< where this library begins
  const char* found = nullptr;
  int frames_left = 100;
};

/// Where this library begins; null where the linker does not know, as in a program that is linked statically.
const void* own_library() {
  Dl_info info{};
  return ::dladdr(reinterpret_cast<const void*>(&own_library), &info) != 0 ? info.dli_fbase : nullptr;
}

_Unwind_Reason_Code look(_Unwind_Context* frame, void* argument) {
  Search& search = *static_cast<Search*>(argument);
  if (search.frames_left-- == 0) return _URC_END_OF_STACK;
  Dl_info info{};
  // The return address: the call itself is before it.
  const auto address = static_cast<std::uintptr_t>(_Unwind_GetIP(frame)) - 1;
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  if (::dladdr(reinterpret_cast<const void*>(address), &info) == 0) return _URC_NO_REASON;
  if (info.dli_fbase != search.library || !info.dli_sname) return _URC_NO_REASON;
  const std::string_view name = info.dli_sname;
  if (!name.starts_with("MPI") && !name.starts_with("PMPI")) return _URC_NO_REASON;
  search.found = info.dli_sname + (name.starts_with('P') ? 1 : 0);
  return _URC_END_OF_STACK;
}

wire::WaitComm comm_of(const Communicator& comm) {
  wire::WaitComm result{};
  result.context = comm.context_id();
  result.calls = comm.current.number;
  result.size = static_cast<std::uint32_t>(comm.size());
  std::memcpy(result.name.data(), comm.name.data(), std::min(comm.name.size(), result.name.size() - 1));
  return result;
}

void name(const Communicator& comm, wire::WaitReport& report) {
  const auto known = std::span(report.comm).first(report.comms);
  const auto is_it = [&](const wire::WaitComm& each) { return each.context == comm.context_id(); };
  if (std::ranges::any_of(known, is_it) || report.comms == report.comm.size()) return;
  report.comm[report.comms++] = comm_of(comm);
}

/// As ranges where that takes few of them.
void name_members(std::span<const PeerId> members, wire::WaitReport& report) {
  std::size_t next = 0;
  while (next < members.size()) {
    if (report.ranges == report.range.size()) return;
    wire::WaitRange range{.first = members[next++], .count = 1, .stride = 1};
    if (next < members.size() && members[next] > range.first) range.stride = members[next] - range.first;
    while (next < members.size() && members[next] == range.first + range.count * range.stride) {
      ++range.count;
      ++next;
    }
    report.range[report.ranges++] = range;
  }
  report.knows_members = 1;
}

}  // namespace

const char* WaitWitness::call() noexcept {
  Search search{.library = own_library()};
  if (search.library) _Unwind_Backtrace(&look, &search);
  return search.found;
}

void WaitWitness::say_wait(wire::WaitReport& report, WaitItems&) noexcept {
  const Communicator* in = nullptr;
  runtime_.communicators.for_each([&](const Communicator& comm) {
    if (comm.current.say && !in) in = &comm;
  });
  if (in) {
    in->current.say(in->current.call, *in, report);
    name(*in, report);
    if (!in->is_inter()) name_members(in->group()->members(), report);
  }
  for (wire::WaitItem& item : std::span(report.item).first(report.items)) {
    bool is_known = false;
    runtime_.communicators.for_each([&](const Communicator& comm) {
      if (is_known || (item.context != comm.context_id() && item.context != comm.context_id() + 1)) return;
      is_known = true;
      if (item.context != comm.context_id()) item.flags |= wire::WaitItem::inner;
      item.context = comm.context_id();
      name(comm, report);
    });
    // Of a communicator without a handle: one that the library has made for itself, or the program has freed.
    if (!is_known && in) item.flags |= wire::WaitItem::inner;
  }
  if (runtime_.world) name(*runtime_.world, report);
}

}  // namespace isthmus::abi
