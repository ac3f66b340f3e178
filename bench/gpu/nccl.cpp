#include "gpu/nccl.hpp"

#include <dlfcn.h>
#include <mpi.h>

#include <cstdio>
#include <cstdlib>

namespace isthmus::bench {

struct Nccl::Functions {
  int (*version)(int* version);
  int (*unique_id)(Id* id);
  int (*init)(Communicator* communicator, int ranks, Id id, int rank);
  int (*destroy)(Communicator communicator);
  const char* (*error)(int status);
  int (*group_start)();
  int (*group_end)();
  int (*send)(const void* data, std::size_t count, NcclType type, int peer, Communicator, driver::Stream);
  int (*receive)(void* data, std::size_t count, NcclType type, int peer, Communicator, driver::Stream);
  int (*all_reduce)(const void* from, void* to, std::size_t count, NcclType, NcclOp, Communicator,
                    driver::Stream);
  int (*broadcast)(const void* from, void* to, std::size_t count, NcclType, int root, Communicator,
                   driver::Stream);
  int (*all_gather)(const void* from, void* to, std::size_t count, NcclType, Communicator, driver::Stream);

  // The first name that is missing, null if none is.
  const char* load(void* library) {
    const char* missing = nullptr;
    const auto take = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      if (!function && !missing) missing = name;
    };
    take(version, "ncclGetVersion");
    take(unique_id, "ncclGetUniqueId");
    take(init, "ncclCommInitRank");
    take(destroy, "ncclCommDestroy");
    take(error, "ncclGetErrorString");
    take(group_start, "ncclGroupStart");
    take(group_end, "ncclGroupEnd");
    take(send, "ncclSend");
    take(receive, "ncclRecv");
    take(all_reduce, "ncclAllReduce");
    take(broadcast, "ncclBroadcast");
    take(all_gather, "ncclAllGather");
    return missing;
  }
};

std::unique_ptr<Nccl> Nccl::open(const Cuda& cuda, const std::string& path, std::string& why) {
  auto functions = std::make_unique<Functions>();
  void* const library = dlopen(path.empty() ? "libnccl.so.2" : path.c_str(), RTLD_NOW | RTLD_LOCAL);
  const char* const missing = library ? functions->load(library) : "libnccl.so.2";
  const int loaded = missing ? 0 : 1;
  int everywhere = 0;
  MPI_Allreduce(&loaded, &everywhere, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (everywhere != 0) return std::unique_ptr<Nccl>(new Nccl(cuda, std::move(functions)));
  why = std::string(missing ? missing : "libnccl.so.2 on another rank") + " was not found";
  return nullptr;
}

Nccl::Nccl(const Cuda& cuda, std::unique_ptr<Functions> functions)
    : cuda_(cuda), functions_(std::move(functions)) {
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  Id id{};
  if (rank == 0) demand(functions_->unique_id(&id), "ncclGetUniqueId");
  MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
  demand(functions_->init(&communicator_, ranks, id, rank), "ncclCommInitRank");
}

Nccl::~Nccl() {
  functions_->destroy(communicator_);
}

void Nccl::demand(int status, const char* what) const {
  if (status == 0) return;
  std::fprintf(stderr, "bench_gpu: %s: %s\n", what, functions_->error(status));
  MPI_Abort(MPI_COMM_WORLD, 2);
}

int Nccl::version() const {
  int version = 0;
  demand(functions_->version(&version), "ncclGetVersion");
  return version;
}

void Nccl::send(const Memory& from, std::size_t bytes, int peer) const {
  demand(functions_->send(from.data(), bytes, NcclType::bytes, peer, communicator_, cuda_.stream()),
         "ncclSend");
}
void Nccl::receive(const Memory& to, std::size_t bytes, int peer) const {
  demand(functions_->receive(to.data(), bytes, NcclType::bytes, peer, communicator_, cuda_.stream()),
         "ncclRecv");
}
void Nccl::all_reduce(const Memory& from, const Memory& to, std::size_t floats) const {
  demand(functions_->all_reduce(from.data(), to.data(), floats, NcclType::float32, NcclOp::sum, communicator_,
                                cuda_.stream()),
         "ncclAllReduce");
}
void Nccl::broadcast(const Memory& data, std::size_t bytes, int root) const {
  demand(functions_->broadcast(data.data(), data.data(), bytes, NcclType::bytes, root, communicator_,
                               cuda_.stream()),
         "ncclBroadcast");
}
void Nccl::all_gather(const Memory& from, const Memory& to, std::size_t bytes) const {
  demand(
      functions_->all_gather(from.data(), to.data(), bytes, NcclType::bytes, communicator_, cuda_.stream()),
      "ncclAllGather");
}
void Nccl::all_to_all(const Memory& from, const Memory& to, std::size_t bytes) const {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  begin_group();
  for (int i = 0; i < ranks; ++i) {
    const std::size_t at = static_cast<std::size_t>(i) * bytes;
    demand(functions_->send(from.data() + at, bytes, NcclType::bytes, i, communicator_, cuda_.stream()),
           "ncclSend");
    demand(functions_->receive(to.data() + at, bytes, NcclType::bytes, i, communicator_, cuda_.stream()),
           "ncclRecv");
  }
  end_group();
}
void Nccl::begin_group() const {
  demand(functions_->group_start(), "ncclGroupStart");
}
void Nccl::end_group() const {
  demand(functions_->group_end(), "ncclGroupEnd");
}
void Nccl::wait() const {
  cuda_.demand(cuda_->stream_synchronize(cuda_.stream()), "cuStreamSynchronize");
}

}  // namespace isthmus::bench
