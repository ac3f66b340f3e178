#include "gpu/gpu_block.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace jacobi::gpu {
namespace {

unsigned blocks_for(int points, int threads) {
  return static_cast<unsigned>((points + threads - 1) / threads);
}

}  // namespace

GpuBlock::GpuBlock(const Device& device, const Block& block, const Field& initial, const Field& source,
                   int sets, bool staged)
    : device_(device),
      staged_(staged),
      shape_{block.size[0], block.size[1], block.size[2]},
      on_host_(initial),
      now_(std::make_unique<DeviceDoubles>(device_, initial.count())),
      older_(std::make_unique<DeviceDoubles>(device_, initial.count())),
      source_(device_, initial.count()),
      largest_(device_, 1),
      largest_on_host_(device_, 1),
      sweep_(device_.kernel("jacobi_sweep")),
      pack_(device_.kernel("jacobi_pack")),
      unpack_(device_.kernel("jacobi_unpack")),
      sets_(static_cast<std::size_t>(sets)) {
  device_.copy(now_->data(), initial.data(), now_->bytes());
  device_.copy(older_->data(), initial.data(), older_->bytes());
  device_.copy(source_.data(), source.data(), source_.bytes());
  device_.wait();
  for (int face = 0; face < face_count; ++face) {
    const auto number = static_cast<std::size_t>(face);
    neighbours_[number] = block.neighbour(face / 2, face % 2 == 0 ? -1 : 1);
    if (neighbours_[number] < 0) continue;
    for (Set& set : sets_)
      set[number].emplace(device_, static_cast<std::size_t>(length(face)), staged);
  }
}

void GpuBlock::pack(int set) const {
  const Set& faces = sets_[static_cast<std::size_t>(set)];
  launch(pack_, faces, &FaceBuffers::outgoing);
  if (staged_) {
    for (const auto& face : faces)
      if (face) device_.copy(face->outgoing_on_host->data(), face->outgoing.data(), face->outgoing.bytes());
  }
  device_.wait();
}

void GpuBlock::unpack(int set) const {
  const Set& faces = sets_[static_cast<std::size_t>(set)];
  if (staged_) {
    for (const auto& face : faces)
      if (face) device_.copy(face->incoming.data(), face->incoming_on_host->data(), face->incoming.bytes());
  }
  launch(unpack_, faces, &FaceBuffers::incoming);
  device_.wait();  // so that what comes next is not taken for communication
}

double GpuBlock::sweep(double weight, bool measure, bool enqueue) const {
  const auto launch = [&](unsigned long long* largest) {
    device_.launch(sweep_, {blocks_for(shape_.x, 32), blocks_for(shape_.y, 4), blocks_for(shape_.z, 4)},
                   {32, 4, 4},
                   SweepWork{shape_, now_->data(), older_->data(), source_.data(), weight, largest});
  };
  if (measure) return measured(launch);
  launch(nullptr);
  if (!enqueue) device_.wait();
  return 0;
}

void GpuBlock::clear_largest() const {
  device_.clear(largest_.data(), largest_.bytes());
}

double GpuBlock::read_largest() const {
  device_.copy(largest_on_host_.data(), largest_.data(), largest_.bytes());
  device_.wait();
  const double largest = *largest_on_host_.data();
  return std::isfinite(largest) ? largest : std::numeric_limits<double>::infinity();
}

const Field& GpuBlock::values() {
  device_.copy(on_host_.data(), now_->data(), now_->bytes());
  device_.wait();
  return on_host_;
}

void GpuBlock::launch(Kernel kernel, const Set& faces, DeviceDoubles FaceBuffers::* side) const {
  Buffers buffers{};
  for (std::size_t face = 0; face < faces.size(); ++face)
    if (faces[face]) buffers[face] = ((*faces[face]).*side).data();
  launch(kernel, buffers);
}

void GpuBlock::launch(Kernel kernel, const Buffers& buffers) const {
  FacesWork work{shape_, now_->data(), {}};
  int longest = 0;
  for (int face = 0; face < face_count; ++face) {
    double* const buffer = buffers[static_cast<std::size_t>(face)];
    if (!buffer) continue;
    work.buffers[face] = buffer;
    longest = std::max(longest, length(face));
  }
  if (longest > 0)
    device_.launch(kernel, {std::min(blocks_for(longest, 256), 256U), face_count, 1}, {256, 1, 1}, work);
}

}  // namespace jacobi::gpu
