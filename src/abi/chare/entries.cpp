// The functions of <isthmus/chare_runtime.h>.

#include <isthmus/chare_runtime.h>
#include <mpi.h>

#include <fmt/format.h>

#include <cstdlib>
#include <exception>
#include <new>
#include <span>
#include <string>
#include <string_view>

#include "abi/core/call.hpp"
#include "abi/request/completion.hpp"
#include "chare/runtime.hpp"
#include "chare/strategies.hpp"

#define ISTHMUS_CHARE_EXPORT(type) extern "C" __attribute__((visibility("default"))) type

namespace isthmus::abi {
namespace {

/// What the program has open; the runtime itself is reached from its handle alone.
struct Opened {
  std::unique_ptr<chare::Runtime> runtime;
  bool began_mpi = false;
};

void end_job(std::string_view reason) {
  Runtime& runtime = Runtime::get();
  runtime.abort_job(1, fmt::format("{}: {}", runtime.who(), reason));
}

/// `handle` is null before `run` and after it.
const Opened& opened(const isthmus_chare_runtime* handle) {
  if (!handle) [[unlikely]]
    end_job("chares are used before `run`, or after it has returned");
  return *reinterpret_cast<const Opened*>(handle);
}
chare::Runtime& of(const isthmus_chare_runtime* handle) {
  return *opened(handle).runtime;
}

/// No exception passes through C: those of the library, of which there are only those of memory, end the job.
template <class Body>
auto guarded(Body&& body) noexcept {
  try {
    return body();
  } catch (const std::exception& exception) {
    end_job(fmt::format("chares cannot go on: {}", exception.what()));
  } catch (...) {
    end_job("chares cannot go on: an exception of unknown type");
  }
  std::abort();  // `end_job` does not return
}

std::span<const std::byte> bytes_of(const void* data, std::size_t bytes) {
  return {static_cast<const std::byte*>(data), bytes};
}

}  // namespace

ISTHMUS_CHARE_EXPORT(isthmus_chare_runtime*)
isthmus_chare_open(isthmus_chare_item* const* items, std::size_t count) {
  return guarded([&] {
    Runtime& runtime = Runtime::get();
    const bool begins = runtime.world_phase() == Phase::before_init;
    if (begins) PMPI_Init(nullptr, nullptr);
    if (runtime.world_phase() != Phase::running) end_job("chares begin when MPI is finalized");
    const CallGuard guard(runtime);
    auto made = chare::Runtime::make(*runtime.world, {items, count}, end_job);
    if (!made) end_job(made.error().text());
    return reinterpret_cast<isthmus_chare_runtime*>(new Opened{std::move(*made), begins});
  });
}

ISTHMUS_CHARE_EXPORT(int)
isthmus_chare_run(isthmus_chare_runtime* runtime, void (*start)(void*), void* context) {
  return guarded([&] { return of(runtime).run(start, context); });
}

ISTHMUS_CHARE_EXPORT(int)
isthmus_chare_work(isthmus_chare_runtime* runtime, std::uint32_t turns, int is_idle) {
  return guarded([&] { return of(runtime).work_some(turns, is_idle != 0); });
}
ISTHMUS_CHARE_EXPORT(void)
isthmus_chare_wait(isthmus_chare_runtime* runtime, std::uint64_t microseconds,
                   MPI_ABI_Request* const* requests, int count) {
  guarded([&] {
    Runtime& mpi = Runtime::get();
    const CallGuard guard(mpi);
    of(runtime).wait(microseconds, [&] {
      bool active = false;
      return find_ready(mpi, count, requests, 0, active) < count;
    });
  });
}
ISTHMUS_CHARE_EXPORT(int) isthmus_chare_sleeps(const isthmus_chare_runtime* runtime) {
  return of(runtime).sleeps() ? 1 : 0;
}
ISTHMUS_CHARE_EXPORT(int) isthmus_chare_finish(isthmus_chare_runtime* runtime) {
  return guarded([&] { return of(runtime).finish(); });
}

ISTHMUS_CHARE_EXPORT(int) isthmus_chare_restart(isthmus_chare_runtime* runtime, const char* path) {
  return guarded([&] { return of(runtime).restart(path); });
}
ISTHMUS_CHARE_EXPORT(void)
isthmus_chare_checkpoint(isthmus_chare_runtime* runtime, const char* path,
                         const isthmus_chare_callback* written, const isthmus_chare_callback* restarted) {
  guarded([&] { of(runtime).checkpoint(path, *written, *restarted); });
}

ISTHMUS_CHARE_EXPORT(void)
isthmus_chare_checkpoint_in_memory(isthmus_chare_runtime* runtime, const isthmus_chare_callback* written,
                                   const isthmus_chare_callback* restarted) {
  guarded([&] { of(runtime).checkpoint_in_memory(*written, *restarted); });
}
ISTHMUS_CHARE_EXPORT(void)
isthmus_chare_when_going_back(isthmus_chare_runtime* runtime, void (*forget)()) {
  of(runtime).when_going_back(forget);
}
ISTHMUS_CHARE_EXPORT(std::uint32_t) isthmus_chare_rollbacks(const isthmus_chare_runtime* runtime) {
  return of(runtime).rollbacks();
}

ISTHMUS_CHARE_EXPORT(void) isthmus_chare_close(isthmus_chare_runtime* runtime) {
  guarded([&] {
    const bool began_mpi = opened(runtime).began_mpi;
    {
      const CallGuard guard(Runtime::get());
      delete &opened(runtime);
    }
    if (began_mpi) PMPI_Finalize();
  });
}

ISTHMUS_CHARE_EXPORT(std::uint32_t) isthmus_chare_rank(const isthmus_chare_runtime* runtime) {
  return of(runtime).rank();
}
ISTHMUS_CHARE_EXPORT(std::uint32_t) isthmus_chare_size(const isthmus_chare_runtime* runtime) {
  return of(runtime).size();
}
ISTHMUS_CHARE_EXPORT(std::uint32_t) isthmus_chare_processes(const isthmus_chare_runtime* runtime) {
  return of(runtime).processes();
}
ISTHMUS_CHARE_EXPORT(std::uint32_t) isthmus_chare_nodes(const isthmus_chare_runtime* runtime) {
  return of(runtime).nodes().size();
}
ISTHMUS_CHARE_EXPORT(std::uint32_t)
isthmus_chare_node_of(const isthmus_chare_runtime* runtime, std::uint32_t rank) {
  const chare::Runtime& asked = of(runtime);
  if (rank >= asked.size())
    end_job(
        fmt::format("the node of rank {} is asked for, and {} processes have chares", rank, asked.size()));
  return asked.nodes().of(rank);
}
ISTHMUS_CHARE_EXPORT(void)
isthmus_chare_begin_in(isthmus_chare_runtime* runtime, std::uint32_t processes) {
  guarded([&] {
    const CallGuard guard(Runtime::get());
    if (const Result<> done = of(runtime).begin_in(processes); !done) end_job(done.error().text());
  });
}
ISTHMUS_CHARE_EXPORT(void)
isthmus_chare_resize(isthmus_chare_runtime* runtime, std::uint32_t processes,
                     const isthmus_chare_callback* done) {
  guarded([&] { of(runtime).resize(processes, *done); });
}
ISTHMUS_CHARE_EXPORT(void) isthmus_chare_exit(isthmus_chare_runtime* runtime, int code) {
  guarded([&] { of(runtime).exit(code); });
}
ISTHMUS_CHARE_EXPORT(void)
isthmus_chare_fail(isthmus_chare_runtime* runtime, const char* reason, const char* entry) {
  guarded([&] { of(runtime).fail(reason, entry); });
}

ISTHMUS_CHARE_EXPORT(isthmus_chare_element*) isthmus_chare_self(const isthmus_chare_runtime* runtime) {
  return of(runtime).self();
}
ISTHMUS_CHARE_EXPORT(const isthmus_chare_item*) isthmus_chare_making(const isthmus_chare_runtime* runtime) {
  return of(runtime).making();
}
ISTHMUS_CHARE_EXPORT(const isthmus_chare_item*) isthmus_chare_current(const isthmus_chare_runtime* runtime) {
  return of(runtime).current();
}
ISTHMUS_CHARE_EXPORT(isthmus_chare_index) isthmus_chare_index_of(const isthmus_chare_element* element) {
  return element->index;
}
ISTHMUS_CHARE_EXPORT(std::uint64_t) isthmus_chare_collection_of(const isthmus_chare_element* element) {
  return element->collection->id();
}
ISTHMUS_CHARE_EXPORT(void)
isthmus_chare_shape_of(const isthmus_chare_element* element, isthmus_chare_shape* shape) {
  *shape = element->collection->shape();
}
ISTHMUS_CHARE_EXPORT(void*) isthmus_chare_object_of(const isthmus_chare_element* element) {
  return element->object;
}

ISTHMUS_CHARE_EXPORT(isthmus_chare_element*)
isthmus_chare_find(isthmus_chare_runtime* runtime, std::uint64_t collection, isthmus_chare_index index) {
  return of(runtime).find(collection, index);
}
ISTHMUS_CHARE_EXPORT(void*) isthmus_chare_take(isthmus_chare_runtime* runtime, std::size_t bytes) {
  return guarded([&] { return of(runtime).take(bytes); });
}
ISTHMUS_CHARE_EXPORT(void)
isthmus_chare_post(isthmus_chare_runtime* runtime, isthmus_chare_element* element,
                   const isthmus_chare_item* item, void* arguments, std::int32_t priority) {
  guarded([&] { of(runtime).post(element, item, arguments, priority); });
}
ISTHMUS_CHARE_EXPORT(void*)
isthmus_chare_begin(isthmus_chare_runtime* runtime, const isthmus_chare_target* target,
                    const isthmus_chare_item* item, std::size_t bytes, std::int32_t priority) {
  return guarded([&]() -> void* { return of(runtime).begin(*target, item, bytes, priority); });
}
ISTHMUS_CHARE_EXPORT(void) isthmus_chare_send(isthmus_chare_runtime* runtime) {
  guarded([&] { of(runtime).send(); });
}
ISTHMUS_CHARE_EXPORT(void*)
isthmus_chare_begin_with(isthmus_chare_runtime* runtime, const isthmus_chare_target* target,
                         const isthmus_chare_item* item, std::size_t bytes, std::int32_t priority,
                         const isthmus_chare_buffer* buffers, std::uint32_t count) {
  return guarded(
      [&]() -> void* { return of(runtime).begin_with(*target, item, bytes, priority, {buffers, count}); });
}
ISTHMUS_CHARE_EXPORT(void)
isthmus_chare_copy(isthmus_chare_runtime* runtime, void* to, const void* from, std::size_t bytes) {
  guarded([&] { of(runtime).copy(to, from, bytes); });
}

ISTHMUS_CHARE_EXPORT(std::uint64_t) isthmus_chare_mailbox_open(isthmus_chare_runtime* runtime) {
  return guarded([&] { return of(runtime).data().open_mailbox(); });
}
ISTHMUS_CHARE_EXPORT(void)
isthmus_chare_mailbox_close(isthmus_chare_runtime* runtime, std::uint64_t mailbox) {
  if (runtime) guarded([&] { of(runtime).data().close_mailbox(mailbox); });
}
ISTHMUS_CHARE_EXPORT(void)
isthmus_chare_mailbox_post(isthmus_chare_runtime* runtime, std::uint64_t mailbox, void* address,
                           std::uint64_t bytes, std::uint32_t item_bytes,
                           const isthmus_chare_callback* came) {
  guarded([&] { of(runtime).data().post(mailbox, address, bytes, item_bytes, *came); });
}
ISTHMUS_CHARE_EXPORT(void)
isthmus_chare_mailbox_send(isthmus_chare_runtime* runtime, std::uint64_t mailbox,
                           const isthmus_chare_buffer* buffer) {
  guarded([&] { of(runtime).send_to_mailbox(mailbox, *buffer); });
}

ISTHMUS_CHARE_EXPORT(void*) isthmus_chare_keep(isthmus_chare_runtime* runtime) {
  return guarded([&]() -> void* { return of(runtime).keep(); });
}
ISTHMUS_CHARE_EXPORT(void) isthmus_chare_release(isthmus_chare_runtime* runtime, void* kept) {
  guarded([&] {
    if (runtime)
      of(runtime).release(kept);
    else
      std::free(kept);
  });
}
ISTHMUS_CHARE_EXPORT(void) isthmus_chare_flush(isthmus_chare_runtime* runtime) {
  guarded([&] { of(runtime).flush(); });
}

ISTHMUS_CHARE_EXPORT(std::uint64_t)
isthmus_chare_create(isthmus_chare_runtime* runtime, const isthmus_chare_shape* shape,
                     const isthmus_chare_item* type, const isthmus_chare_item* constructor,
                     const void* arguments, std::size_t bytes) {
  return guarded([&] { return of(runtime).create(*shape, type, constructor, bytes_of(arguments, bytes)); });
}
ISTHMUS_CHARE_EXPORT(void)
isthmus_chare_insert(isthmus_chare_runtime* runtime, std::uint64_t collection, isthmus_chare_index index,
                     std::uint32_t rank, const isthmus_chare_item* constructor, const void* arguments,
                     std::size_t bytes) {
  guarded([&] { of(runtime).insert(collection, index, rank, constructor, bytes_of(arguments, bytes)); });
}
ISTHMUS_CHARE_EXPORT(void)
isthmus_chare_done_inserting(isthmus_chare_runtime* runtime, std::uint64_t collection) {
  guarded([&] { of(runtime).done_inserting(collection); });
}
ISTHMUS_CHARE_EXPORT(void)
isthmus_chare_destroy(isthmus_chare_runtime* runtime, isthmus_chare_element* element) {
  guarded([&] { of(runtime).destroy(*element); });
}
ISTHMUS_CHARE_EXPORT(void)
isthmus_chare_migrate(isthmus_chare_runtime* runtime, isthmus_chare_element* element, std::uint32_t rank) {
  guarded([&] { of(runtime).migrate(*element, rank); });
}
ISTHMUS_CHARE_EXPORT(void)
isthmus_chare_hold(isthmus_chare_runtime* runtime, isthmus_chare_element* element, int change) {
  guarded([&] { of(runtime).hold(*element, change); });
}
ISTHMUS_CHARE_EXPORT(void)
isthmus_chare_resume(isthmus_chare_runtime* runtime, isthmus_chare_element* element, void (*step)(void*),
                     void* context) {
  guarded([&] { of(runtime).resume(element, step, context); });
}

ISTHMUS_CHARE_EXPORT(void)
isthmus_chare_at_sync(isthmus_chare_runtime* runtime, isthmus_chare_element* element,
                      const isthmus_chare_item* next, const isthmus_chare_item* balancer) {
  guarded([&] { of(runtime).at_sync(*element, next, balancer); });
}
ISTHMUS_CHARE_EXPORT(void)
isthmus_chare_balance_now(isthmus_chare_runtime* runtime, std::uint64_t collection,
                          const isthmus_chare_item* balancer, const isthmus_chare_callback* callback) {
  guarded([&] { of(runtime).balance_now(collection, balancer, *callback); });
}
ISTHMUS_CHARE_EXPORT(void)
isthmus_chare_set_load(isthmus_chare_runtime* runtime, isthmus_chare_element* element, double seconds) {
  guarded([&] { of(runtime).set_load(*element, seconds); });
}
ISTHMUS_CHARE_EXPORT(void) isthmus_chare_place_greedily(isthmus_chare_balance* balance) {
  guarded([&] { chare::place_greedily({balance->loads, balance->count}, balance->processes); });
}
ISTHMUS_CHARE_EXPORT(void) isthmus_chare_refine(isthmus_chare_balance* balance) {
  guarded([&] { chare::refine({balance->loads, balance->count}, balance->processes); });
}

ISTHMUS_CHARE_EXPORT(void)
isthmus_chare_contribute(isthmus_chare_runtime* runtime, isthmus_chare_element* element,
                         const isthmus_chare_item* reducer, const void* value,
                         const isthmus_chare_callback* callback) {
  guarded([&] { of(runtime).contribute(*element, reducer, value, *callback); });
}
ISTHMUS_CHARE_EXPORT(void)
isthmus_chare_call(isthmus_chare_runtime* runtime, const isthmus_chare_callback* callback, const void* value,
                   std::size_t bytes) {
  guarded([&] { of(runtime).call(*callback, bytes_of(value, bytes)); });
}
ISTHMUS_CHARE_EXPORT(void)
isthmus_chare_quiescence(isthmus_chare_runtime* runtime, const isthmus_chare_callback* callback) {
  guarded([&] { of(runtime).quiescence(*callback); });
}

}  // namespace isthmus::abi
