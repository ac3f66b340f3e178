// MPI_Alloc_mem by kind, the kinds of memory that objects tell of, and whether CUDA is there. Prints nothing
// when all is right. At 2 ranks, with `mpiexec --memory-alloc-kinds cuda:device:host,rocm,system`.
#include <mpi-ext.h>

#include <algorithm>

#include "gpu/memory/classify.hpp"
#include "gpu_memory.hpp"

using namespace isthmus;
using namespace isthmus::testing_gpu;

namespace {

int rank = -1;

void* allocate(const char* kinds, std::size_t bytes) {
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpi_memory_alloc_kinds", kinds);
  void* memory = nullptr;
  CHECK_MPI(MPI_Alloc_mem(static_cast<MPI_Aint>(bytes), info, &memory));
  MPI_Info_free(&info);
  return memory;
}

/// It is of that kind, and messages go from and to it.
void check_kind(const Gpu& gpu, const char* kinds, MemoryKind wanted) {
  constexpr std::size_t bytes = 3'000'000;
  void* const memory = allocate(kinds, bytes);
  CudaDriver driver;
  Classifier classifier(driver);
  const auto buffer = classifier.classify(memory, bytes);
  CHECK(buffer.has_value());
  CHECK_EQUAL(static_cast<int>(buffer->kind), static_cast<int>(wanted));
  const auto address = reinterpret_cast<cuda::Address>(memory);
  std::vector<unsigned char> values(bytes, static_cast<unsigned char>(7 + rank));
  CHECK_CUDA(gpu.functions().copy(address, reinterpret_cast<cuda::Address>(values.data()), bytes));
  CHECK_CUDA(gpu.functions().stream_synchronize(default_stream));
  CHECK_MPI(MPI_Sendrecv_replace(memory, static_cast<int>(bytes), MPI_BYTE, 1 - rank, 0, 1 - rank, 0,
                                 MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  void* const second = allocate(kinds, bytes);
  if (rank == 0) CHECK_MPI(MPI_Send(memory, static_cast<int>(bytes), MPI_BYTE, 1, 1, MPI_COMM_WORLD));
  if (rank == 1) {
    CHECK_MPI(MPI_Recv(second, static_cast<int>(bytes), MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_CUDA(gpu.functions().copy(reinterpret_cast<cuda::Address>(values.data()),
                                    reinterpret_cast<cuda::Address>(second), bytes));
    CHECK(std::ranges::all_of(values, [](unsigned char value) { return value == 7 + rank; }));
  }
  CHECK_MPI(MPI_Free_mem(second));
  CHECK_MPI(MPI_Free_mem(memory));
}

std::string value_of(MPI_Info info, const char* key) {
  char value[MPI_MAX_INFO_VAL + 1] = "";
  int length = sizeof value;
  int flag = 0;
  MPI_Info_get_string(info, key, &length, value, &flag);
  return flag ? value : "none";
}

void check_infos() {
  MPI_Info info;
  CHECK_MPI(MPI_Comm_get_info(MPI_COMM_WORLD, &info));
  CHECK(value_of(info, "mpi_memory_alloc_kinds") == "system,mpi,cuda:device:host");
  CHECK(value_of(info, "mpi_assert_memory_alloc_kinds") == "none");
  MPI_Info_free(&info);
  CHECK(value_of(MPI_INFO_ENV, "mpi_memory_alloc_kinds") == "cuda:device:host,rocm,system");

  for (const auto& [asserted, kept] :
       {std::pair{"cuda:device", "cuda:device"}, {"cuda:managed", "cuda:device"}}) {
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_assert_memory_alloc_kinds", asserted);
    CHECK_MPI(MPI_Comm_set_info(MPI_COMM_WORLD, info));
    MPI_Info_free(&info);
    CHECK_MPI(MPI_Comm_get_info(MPI_COMM_WORLD, &info));
    CHECK(value_of(info, "mpi_assert_memory_alloc_kinds") == kept);
    MPI_Info_free(&info);
  }

  MPI_Info_create(&info);
  MPI_Info_set(info, "mpi_memory_alloc_kinds", "cuda:managed,level_zero");
  MPI_Session session;
  CHECK_MPI(MPI_Session_init(info, MPI_ERRORS_ARE_FATAL, &session));
  MPI_Info_free(&info);
  CHECK_MPI(MPI_Session_get_info(session, &info));
  CHECK(value_of(info, "mpi_memory_alloc_kinds") == "system,mpi,cuda:managed");
  MPI_Info_free(&info);
  CHECK_MPI(MPI_Session_finalize(&session));
}

void check_refusals() {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Info info;
  MPI_Info_create(&info);
  void* memory = nullptr;
  MPI_Info_set(info, "mpi_memory_alloc_kinds", "rocm:device");
  int error = MPI_Alloc_mem(100, info, &memory);
  MPI_Error_class(error, &error);
  CHECK_EQUAL(error, MPI_ERR_INFO_VALUE);
  MPI_Info_set(info, "mpi_memory_alloc_kinds", "cuda:device");
  error = MPI_Alloc_mem(MPI_Aint{1} << 50, info, &memory);
  MPI_Error_class(error, &error);
  CHECK_EQUAL(error, MPI_ERR_NO_MEM);
  MPI_Info_free(&info);
}

}  // namespace

int main(int argc, char** argv) {
  CHECK_EQUAL(MPIX_Query_cuda_support(), 1);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int flag = -1;
  CHECK_MPI(MPIX_GPU_query_support(MPIX_GPU_SUPPORT_CUDA, &flag));
  CHECK_EQUAL(flag, 1);
  CHECK_MPI(MPIX_GPU_query_support(MPIX_GPU_SUPPORT_HIP, &flag));
  CHECK_EQUAL(flag, 0);
  {
    const Gpu gpu(rank);
    check_kind(gpu, "cuda:device", MemoryKind::vmm);
    check_kind(gpu, "cuda", MemoryKind::vmm);
    check_kind(gpu, "cuda:host,system", MemoryKind::pinned);
    check_kind(gpu, "cuda:managed", MemoryKind::managed);
    check_kind(gpu, "mpi:alloc_mem", MemoryKind::pageable);
    check_infos();
    check_refusals();
    // Freed at the end of MPI.
    allocate("cuda:device", 100);
    MPI_Finalize();
  }
  return 0;
}
