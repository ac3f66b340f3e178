#pragma once

#include <string_view>

/// Why GPU memory goes no faster way, in the words that the sentences about it are made of, each with what
/// would help. A sentence may come from a peer's process or be kept as text, so the words find the remedy.
namespace isthmus::gpu_refusal {

struct Words {
  std::string_view text;
  std::string_view remedy;
};

inline constexpr Words not_visible{
    "this process does not see",
    "let each rank see all GPUs of its host (mpiexec --gpu-bind closest:order, CUDA_VISIBLE_DEVICES, the "
    "container's --gpus all)"};
inline constexpr Words no_peer_access{
    "has no peer access to GPU",
    "take GPUs that reach each other (nvidia-smi topo -p2p r); an IOMMU, PCIe ACS or a virtual machine may "
    "keep them apart"};
inline constexpr Words out_of_reach{"the two GPUs do not reach each other's memory", no_peer_access.remedy};
inline constexpr Words managed{"CUDA does not hand managed memory to another process",
                               "send from and receive into memory of cudaMalloc"};
inline constexpr Words of_another_process{
    "CUDA hands over only what a process has allocated",
    "send from and receive into memory that this process has allocated"};
inline constexpr Words several_allocations{"spans several allocations",
                                           "keep each buffer within one allocation"};
inline constexpr Words vmm_without_handle{
    "it was created without CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR among its requestedHandleTypes",
    "ask cuMemCreate for that handle type, or allocate with cudaMalloc or MPI_Alloc_mem"};
inline constexpr Words pool_without_handle{
    "its pool was created without cudaMemHandleTypePosixFileDescriptor",
    "allocate from a pool that cudaMemPoolCreate has made with that handle type, or with cudaMalloc"};
/// Both ends of handles of cudaMalloc memory.
inline constexpr std::string_view other_memory =
    "allocate the buffer with MPI_Alloc_mem; containers may need --ipc=host and --pid=host";
inline constexpr Words no_ipc_handle{"make an IPC handle of cudaMalloc memory", other_memory};
inline constexpr Words ipc_handle_not_opened{"open a peer's cudaMalloc memory", other_memory};
inline constexpr Words not_pinned{
    "no pinned host memory for copies from and to GPUs",
    "raise the limit of locked memory (ulimit -l) and the container's of memory, or free pinned memory"};
inline constexpr Words path_is_set{"ISTHMUS_GPU_PATH wants another way",
                                   "leave ISTHMUS_GPU_PATH at its default"};

/// What helps where a sentence has such words in it; empty where nothing is known.
[[nodiscard]] std::string_view remedy_of(std::string_view why) noexcept;

}  // namespace isthmus::gpu_refusal
