#include "halo.hpp"

#include <array>
#include <cstddef>
#include <vector>

#include "field.hpp"

namespace jacobi {
namespace {

// One of the six faces of a block.
struct Face {
  int axis;
  int step;  // -1: the face at the axis's beginning; 1: at its end

  // The message that leaves by this face travels in this direction; its receiver expects it from the opposite
  // one.
  [[nodiscard]] int tag() const { return 2 * axis + (step > 0 ? 1 : 0); }
  [[nodiscard]] int opposite_tag() const { return 2 * axis + (step > 0 ? 0 : 1); }
};

constexpr std::array<Face, 6> faces{{{0, -1}, {0, 1}, {1, -1}, {1, 1}, {2, -1}, {2, 1}}};

int neighbour_or_null(const Block& block, const Face& face) {
  const int rank = block.neighbour(face.axis, face.step);
  return rank < 0 ? MPI_PROC_NULL : rank;
}

// A face as `outer` rows of `inner` doubles; strides in doubles.
struct FaceShape {
  int inner, outer;
  std::ptrdiff_t inner_stride, outer_stride;
};

FaceShape shape_of(const Layout& layout, int axis) {
  const auto [x, y, z] = layout.size();
  switch (axis) {
    case 0:
      return {y, z, layout.stride_y(), layout.stride_z()};
    case 1:
      return {x, z, 1, layout.stride_z()};
    default:
      return {x, y, 1, layout.stride_y()};
  }
}

// Index of a face's first point in the outermost layer of the block, or in the layer around it.
std::ptrdiff_t first_point(const Layout& layout, const Face& face, bool around) {
  Triple at{1, 1, 1};
  if (face.step > 0) {
    at[face.axis] = layout.size()[face.axis] + (around ? 1 : 0);
  } else {
    at[face.axis] = around ? 0 : 1;
  }
  return layout.index(at[0], at[1], at[2]);
}

// Owns a committed derived type.
class Datatype {
 public:
  explicit Datatype(const FaceShape& shape) {
    MPI_Datatype row = MPI_DATATYPE_NULL;
    MPI_Type_vector(shape.inner, 1, static_cast<int>(shape.inner_stride), MPI_DOUBLE, &row);
    MPI_Type_create_hvector(shape.outer, 1, static_cast<MPI_Aint>(shape.outer_stride * sizeof(double)), row,
                            &type_);
    MPI_Type_free(&row);
    MPI_Type_commit(&type_);
  }
  Datatype(const Datatype&) = delete;
  Datatype& operator=(const Datatype&) = delete;
  ~Datatype() { MPI_Type_free(&type_); }

  [[nodiscard]] MPI_Datatype get() const { return type_; }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

class DatatypeHalo final : public Halo {
 public:
  DatatypeHalo(const Block& block, MPI_Comm comm)
      : block_(block),
        layout_(block.size),
        comm_(comm),
        types_{Datatype(shape(0)), Datatype(shape(1)), Datatype(shape(2))} {}

  void exchange(double* values) override {
    std::array<MPI_Request, 2 * faces.size()> requests;
    requests.fill(MPI_REQUEST_NULL);  // what cannot be started stays so
    std::size_t count = 0;
    for (const Face& face : faces) {
      MPI_Irecv(values + first(face, true), 1, types_[face.axis].get(), neighbour_or_null(block_, face),
                face.opposite_tag(), comm_, &requests[count++]);
    }
    for (const Face& face : faces) {
      MPI_Isend(values + first(face, false), 1, types_[face.axis].get(), neighbour_or_null(block_, face),
                face.tag(), comm_, &requests[count++]);
    }
    MPI_Waitall(static_cast<int>(count), requests.data(), MPI_STATUSES_IGNORE);
  }

 private:
  // A face across z with what is around it, which nobody reads, is one run. Others receive there if there are
  // neighbours along x or y.
  [[nodiscard]] bool is_whole_layer(int axis) const {
    return axis == 2 && block_.grid[0] == 1 && block_.grid[1] == 1;
  }
  [[nodiscard]] FaceShape shape(int axis) const {
    if (is_whole_layer(axis)) return {static_cast<int>(layout_.stride_z()), 1, 1, 0};
    return shape_of(layout_, axis);
  }
  [[nodiscard]] std::ptrdiff_t first(const Face& face, bool around) const {
    return first_point(layout_, face, around) - (is_whole_layer(face.axis) ? layout_.index(1, 1, 0) : 0);
  }

  Block block_;
  Layout layout_;
  MPI_Comm comm_;
  std::array<Datatype, 3> types_;
};

class PackedHalo final : public Halo {
 public:
  PackedHalo(const Block& block, MPI_Comm comm) : block_(block), layout_(block.size), comm_(comm) {
    for (std::size_t i = 0; i < faces.size(); ++i) {
      std::size_t points = 1;
      for (int axis = 0; axis < 3; ++axis)
        points *= axis == faces[i].axis ? 1 : static_cast<std::size_t>(block.size[axis]);
      outgoing_[i].resize(points);
      incoming_[i].resize(points);
    }
  }

  void exchange(double* values) override {
    std::array<MPI_Request, faces.size()> receives{};
    std::array<MPI_Request, faces.size()> sends{};
    for (std::size_t i = 0; i < faces.size(); ++i) {
      MPI_Irecv(incoming_[i].data(), static_cast<int>(incoming_[i].size()), MPI_DOUBLE,
                neighbour_or_null(block_, faces[i]), faces[i].opposite_tag(), comm_, &receives[i]);
    }
    for (std::size_t i = 0; i < faces.size(); ++i) {
      const int to = neighbour_or_null(block_, faces[i]);
      if (to != MPI_PROC_NULL) pack(values, faces[i], outgoing_[i]);
      MPI_Isend(outgoing_[i].data(), static_cast<int>(outgoing_[i].size()), MPI_DOUBLE, to, faces[i].tag(),
                comm_, &sends[i]);
    }
    for (std::size_t done = 0; done < faces.size(); ++done) {
      int i = MPI_UNDEFINED;
      MPI_Waitany(static_cast<int>(receives.size()), receives.data(), &i, MPI_STATUS_IGNORE);
      if (neighbour_or_null(block_, faces[i]) != MPI_PROC_NULL) unpack(incoming_[i], faces[i], values);
    }
    MPI_Waitall(static_cast<int>(sends.size()), sends.data(), MPI_STATUSES_IGNORE);
  }

 private:
  void pack(const double* values, const Face& face, std::vector<double>& buffer) const {
    const FaceShape shape = shape_of(layout_, face.axis);
    const double* row = values + first_point(layout_, face, false);
    double* out = buffer.data();
    for (int i = 0; i < shape.outer; ++i, row += shape.outer_stride) {
      for (int j = 0; j < shape.inner; ++j)
        *out++ = row[j * shape.inner_stride];
    }
  }

  void unpack(const std::vector<double>& buffer, const Face& face, double* values) const {
    const FaceShape shape = shape_of(layout_, face.axis);
    double* row = values + first_point(layout_, face, true);
    const double* in = buffer.data();
    for (int i = 0; i < shape.outer; ++i, row += shape.outer_stride) {
      for (int j = 0; j < shape.inner; ++j)
        row[j * shape.inner_stride] = *in++;
    }
  }

  Block block_;
  Layout layout_;
  MPI_Comm comm_;
  std::array<std::vector<double>, faces.size()> outgoing_;
  std::array<std::vector<double>, faces.size()> incoming_;
};

}  // namespace

std::unique_ptr<Halo> make_halo(HaloKind kind, const Block& block, MPI_Comm comm) {
  if (kind == HaloKind::datatype) return std::make_unique<DatatypeHalo>(block, comm);
  return std::make_unique<PackedHalo>(block, comm);
}

}  // namespace jacobi
