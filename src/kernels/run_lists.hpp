#pragma once

#include <cstddef>
#include <cstdint>
#include <list>

#include "base/error.hpp"
#include "base/ref.hpp"
#include "kernels/gpu_kernels.hpp"
#include "kernels/shape.hpp"

namespace isthmus {

/// The blocks of irregular layouts in the memory of devices, where kernels look them up. Each is made at the
/// first message of its type and kept while there is room, the last used longest.
class GpuKernels::RunLists {
 public:
  /// Bytes of all together. What is dropped is freed when the device is idle, as CUDA frees.
  static constexpr std::size_t most = std::size_t{64} << 20U;

  explicit RunLists(cuda::PrimaryContexts& contexts) : contexts_(contexts) {}
  RunLists(const RunLists&) = delete;
  RunLists& operator=(const RunLists&) = delete;
  ~RunLists();

  /// Sets the runs of a side that has an irregular part. They stay until the next call.
  Result<> place(GpuStream where, const Datatype& type, ShapedSide& side);

 private:
  struct Entry {
    Ref<const Layout> layout;
    cuda::Device device = 0;
    cuda::ContextLife life = 0;  ///< of the context that the memory is in
    cuda::Address memory = 0;
    std::size_t bytes = 0;
    RunList list{};  ///< without its runs
    std::uint32_t count = 0;
  };
  Result<> add(GpuStream where, const Layout& layout, const Layout::Node& node);
  void drop(const Entry& entry) noexcept;

  cuda::PrimaryContexts& contexts_;
  std::list<Entry> entries_;  ///< the last used first
  std::size_t bytes_ = 0;
};

}  // namespace isthmus
