// A block in a GPU's memory, and what is done with it there: whoever carries its faces.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/gpu/device.hpp"
#include "decomposition.hpp"
#include "field.hpp"
#include "gpu/work.hpp"

namespace jacobi::gpu {

using apps::gpu::Device;
using apps::gpu::DeviceDoubles;
using apps::gpu::Kernel;
using apps::gpu::PinnedDoubles;

// One face's way to its neighbour and back.
class FaceBuffers {
 public:
  FaceBuffers(const Device& device, std::size_t points, bool staged)
      : outgoing(device, points), incoming(device, points) {
    if (!staged) return;
    outgoing_on_host.emplace(device, points);
    incoming_on_host.emplace(device, points);
  }
  // What is sent, and where it is received: the host's memory where it is staged.
  [[nodiscard]] double* sent() const { return outgoing_on_host ? outgoing_on_host->data() : outgoing.data(); }
  [[nodiscard]] double* received() const {
    return incoming_on_host ? incoming_on_host->data() : incoming.data();
  }

  DeviceDoubles outgoing, incoming;
  std::optional<PinnedDoubles> outgoing_on_host, incoming_on_host;
};

class GpuBlock {
 public:
  // With `sets` of buffers for the faces that have a neighbour; staged: beside each one in the host's memory.
  // The device is borrowed.
  GpuBlock(const Device& device, const Block& block, const Field& initial, const Field& source, int sets,
           bool staged);

  // Of a face that has a neighbour.
  [[nodiscard]] const FaceBuffers& face(int number, int set = 0) const {
    return *sets_[static_cast<std::size_t>(set)][static_cast<std::size_t>(number)];
  }
  [[nodiscard]] int length(int face) const { return points_of_face(shape_, face); }
  [[nodiscard]] int neighbour(int face) const { return neighbours_[static_cast<std::size_t>(face)]; }

  // Faces to their buffers, and back into the layer around the block; when they return the buffers may be
  // read.
  void pack(int set = 0) const;
  void unpack(int set = 0) const;
  // The same with buffers of the caller's, null for a face that has none: only enqueued.
  using Buffers = std::array<double*, face_count>;
  void enqueue_pack(const Buffers& buffers) const { launch(pack_, buffers); }
  void enqueue_unpack(const Buffers& buffers) const { launch(unpack_, buffers); }
  // As `Stepper::sweep`. With `enqueue` it waits only where it measures.
  double sweep(double weight, bool measure, bool enqueue = false) const;
  // What `enqueue(largest)` launches, which finds the largest change as SweepWork does, measured.
  template <class Enqueue>
  double measured(Enqueue enqueue) const {
    clear_largest();
    enqueue(reinterpret_cast<unsigned long long*>(largest_.data()));
    return read_largest();
  }
  void swap() { std::swap(now_, older_); }
  // The current values: of the GPU's, and on the host.
  [[nodiscard]] double* data() const { return now_->data(); }
  [[nodiscard]] double* older() const { return older_->data(); }
  [[nodiscard]] const double* source() const { return source_.data(); }
  [[nodiscard]] const Shape& shape() const { return shape_; }
  const Field& values();

 private:
  using Set = std::array<std::optional<FaceBuffers>, face_count>;

  void clear_largest() const;
  // Waits for it.
  [[nodiscard]] double read_largest() const;
  void launch(Kernel kernel, const Set& faces, DeviceDoubles FaceBuffers::* side) const;
  void launch(Kernel kernel, const Buffers& buffers) const;

  const Device& device_;
  const bool staged_;
  const Shape shape_;
  Field on_host_;
  std::unique_ptr<DeviceDoubles> now_, older_;
  const DeviceDoubles source_, largest_;
  const PinnedDoubles largest_on_host_;
  Kernel sweep_, pack_, unpack_;
  std::array<int, face_count> neighbours_{};
  std::vector<Set> sets_;
};

}  // namespace jacobi::gpu
