// A program as people write them, with the CUDA runtime and nothing of this project: every rank passes a
// vector in the memory of its GPU to the next one by MPI_Sendrecv, and adds what it has got, until all have
// seen all. Prints one line, and ends with 1 if the sum is wrong.
#include <cuda_runtime.h>
#include <mpi.h>

#include <cstdio>
#include <vector>

#define CUDA(call)                                                                    \
  do {                                                                                \
    const cudaError_t error = (call);                                                 \
    if (error != cudaSuccess) {                                                       \
      std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));             \
      MPI_Abort(MPI_COMM_WORLD, 1);                                                   \
    }                                                                                 \
  } while (0)

__global__ void fill(double* values, int count, double first) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] = first + i % 97;
}

__global__ void add(double* sum, const double* values, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) sum[i] += values[i];
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 0, devices = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  CUDA(cudaGetDeviceCount(&devices));
  CUDA(cudaSetDevice(rank % devices));

  const int count = 1 << 20;
  const int blocks = (count + 255) / 256;
  double *mine = nullptr, *next = nullptr, *sum = nullptr;
  CUDA(cudaMalloc(&mine, count * sizeof(double)));
  CUDA(cudaMalloc(&next, count * sizeof(double)));
  CUDA(cudaMalloc(&sum, count * sizeof(double)));
  fill<<<blocks, 256>>>(mine, count, rank);
  CUDA(cudaMemset(sum, 0, count * sizeof(double)));
  add<<<blocks, 256>>>(sum, mine, count);
  for (int step = 1; step < size; ++step) {
    CUDA(cudaDeviceSynchronize());
    MPI_Sendrecv(mine, count, MPI_DOUBLE, (rank + 1) % size, 0, next, count, MPI_DOUBLE, (rank + size - 1) % size, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    add<<<blocks, 256>>>(sum, next, count);
    double* const other = mine;
    mine = next;
    next = other;
  }
  std::vector<double> got(count);
  CUDA(cudaMemcpy(got.data(), sum, count * sizeof(double), cudaMemcpyDeviceToHost));
  int wrong = 0;
  for (int i = 0; i < count; ++i)
    if (got[i] != size * (i % 97) + size * (size - 1) / 2.0) ++wrong;
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) std::printf("ring of %d ranks on %d GPUs: %s\n", size, devices, wrong == 0 ? "right" : "WRONG");
  CUDA(cudaFree(mine));
  CUDA(cudaFree(next));
  CUDA(cudaFree(sum));
  MPI_Finalize();
  return wrong == 0 ? 0 : 1;
}
