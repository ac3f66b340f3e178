#include "datatype/make/array_types.hpp"

#include <algorithm>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "datatype/checked.hpp"
#include "datatype/make/maker.hpp"

namespace isthmus {

namespace {

using Made = Result<Ref<Datatype>>;

/// A part of one dimension of an array: `blocks` runs of `length` indices, `period` indices from start to
/// start, and a last, shorter run of `tail` where the dimension ends inside it.
struct Runs {
  std::int64_t start = 0;
  std::int64_t blocks = 0;
  std::int64_t length = 0;
  std::int64_t period = 0;
  std::int64_t tail = 0;
};

/// Builds the part of an array from its fastest dimension to its slowest.
class ArrayBuilder {
 public:
  explicit ArrayBuilder(Datatype& old) : type_(Ref<Datatype>::share(&old)), step_(old.extent()) {}

  /// Adds the next slower dimension, `size` indices long, of which `runs` are taken.
  Result<> add(std::int64_t size, const Runs& runs) {
    const Checked period = Checked(runs.period) * step_;
    const Checked tail_at = Checked(runs.blocks) * period;
    const Checked shift = Checked(runs.start) * step_;
    if (!step_.ok() || !period.ok() || !tail_at.ok() || !shift.ok()) return too_large();
    ISTHMUS_TRY(take(runs, period.value(), tail_at.value()));
    offset_ = offset_ + shift;
    step_ = step_ * size;
    return {};
  }

  /// The type: the array's extent, lower bound 0.
  [[nodiscard]] Made finish() {
    if (!offset_.ok() || !step_.ok()) return too_large();
    const std::int64_t offset = offset_.value();
    Made shifted = hindexed_block_type(1, {&offset, 1}, *type_, Form::large);
    if (!shifted) return shifted;
    return resized_type(0, step_.value(), **shifted, Form::large);
  }

 private:
  static std::unexpected<Error> too_large() {
    return fail(ErrorClass::arg, "the array's extent leaves the 64-bit range");
  }

  /// `length` consecutive indices of this dimension. The types made on the way have whatever extent; all
  /// strides are in bytes.
  [[nodiscard]] Made run(std::int64_t length) const {
    return hvector_type(length, 1, step_.value(), *type_, Form::large);
  }

  Result<> take(const Runs& runs, std::int64_t period, std::int64_t tail_at) {
    Made full = run(runs.length);
    if (!full) return std::unexpected(std::move(full).error());
    Made all = hvector_type(runs.blocks, 1, period, **full, Form::large);
    if (!all) return std::unexpected(std::move(all).error());
    if (runs.tail == 0) {
      type_ = *std::move(all);
      return {};
    }
    Made rest = run(runs.tail);
    if (!rest) return std::unexpected(std::move(rest).error());
    const std::int64_t lengths[] = {1, 1};
    const std::int64_t displacements[] = {0, tail_at};
    Datatype* const types[] = {all->get(), rest->get()};
    Made both = struct_type(std::span<const std::int64_t>(lengths), displacements, types, Form::large);
    if (!both) return std::unexpected(std::move(both).error());
    type_ = *std::move(both);
    return {};
  }

  Ref<Datatype> type_;
  Checked step_;  // bytes from one index of the next dimension to the next one
  Checked offset_;
};

/// The i-th dimension in the order from the fastest to the slowest.
std::size_t dimension(std::size_t i, std::size_t n, ArrayOrder order) {
  return order == ArrayOrder::fortran ? i : n - 1 - i;
}

std::string at(std::size_t i) {
  return "[" + std::to_string(i) + "]";
}

Result<> check_dimensions(std::size_t n, ArrayOrder order) {
  if (n == 0) return fail(ErrorClass::arg, "an array has at least one dimension");
  if (order != ArrayOrder::c && order != ArrayOrder::fortran) {
    return fail(ErrorClass::arg, "order is neither MPI_ORDER_C nor MPI_ORDER_FORTRAN");
  }
  return {};
}

Result<> check_subarray(Integers sizes, Integers subsizes, Integers starts) {
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 1) return fail(ErrorClass::arg, "size" + at(i) + " is not positive");
    if (subsizes[i] < 1 || subsizes[i] > sizes[i]) {
      return fail(ErrorClass::arg, "subsize" + at(i) + " is not between 1 and the array's size");
    }
    if (starts[i] < 0 || starts[i] > sizes[i] - subsizes[i]) {
      return fail(ErrorClass::arg, "start" + at(i) + " leads out of the array");
    }
  }
  return {};
}

void append(std::vector<int>& to, std::span<const int> from) {
  to.insert(to.end(), from.begin(), from.end());
}

void append(Contents& to, Integers from) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (to.form == Form::large) {
      to.large_counts.push_back(from[i]);
    } else {
      to.integers.push_back(static_cast<int>(from[i]));
    }
  }
}

Contents subarray_contents(Integers sizes, Integers subsizes, Integers starts, ArrayOrder order, Form form) {
  Contents contents;
  contents.combiner = Combiner::subarray;
  contents.form = form;
  contents.integers.push_back(static_cast<int>(sizes.size()));
  append(contents, sizes);
  append(contents, subsizes);
  append(contents, starts);
  contents.integers.push_back(static_cast<int>(order));
  return contents;
}

Contents darray_contents(const ProcessGrid& grid, Integers global_sizes, ArrayOrder order, Form form) {
  Contents contents;
  contents.combiner = Combiner::darray;
  contents.form = form;
  contents.integers = {grid.size, grid.rank, static_cast<int>(global_sizes.size())};
  append(contents, global_sizes);
  append(contents.integers, grid.distributions);
  append(contents.integers, grid.arguments);
  append(contents.integers, grid.process_counts);
  contents.integers.push_back(static_cast<int>(order));
  return contents;
}

Made finish(ArrayBuilder& builder, Contents contents, Datatype& old) {
  Made lowered = builder.finish();
  if (!lowered) return lowered;
  contents.types.push_back(Ref<Datatype>::share(&old));
  return Datatype::Maker::derive(std::move(contents), *std::move(lowered));
}

Result<> check_grid(const ProcessGrid& grid, Integers global_sizes) {
  if (grid.size < 1) return fail(ErrorClass::arg, "size " + std::to_string(grid.size) + " is not positive");
  if (grid.rank < 0 || grid.rank >= grid.size) {
    return fail(ErrorClass::arg, "rank " + std::to_string(grid.rank) + " is not in the process grid");
  }
  Checked processes = 1;
  for (std::size_t i = 0; i < global_sizes.size(); ++i) {
    if (global_sizes[i] < 1) return fail(ErrorClass::arg, "gsize" + at(i) + " is not positive");
    if (grid.process_counts[i] < 1) return fail(ErrorClass::arg, "psize" + at(i) + " is not positive");
    processes = processes * grid.process_counts[i];
  }
  if (!processes.ok() || processes.value() != grid.size) {
    return fail(ErrorClass::arg, "the product of psizes is not size " + std::to_string(grid.size));
  }
  return {};
}

/// What process `coordinate` of `processes` has of a dimension of `size` indices (MPI 5.0, section 5.1.4).
struct Share {
  std::int64_t size;
  std::int64_t processes;
  std::int64_t coordinate;

  [[nodiscard]] Result<Runs> none() const {
    if (processes != 1) return fail(ErrorClass::arg, "MPI_DISTRIBUTE_NONE needs a psize of 1");
    return Runs{0, 1, size, 0, 0};
  }
  [[nodiscard]] Result<Runs> block(int argument) const {
    const std::int64_t fair = size / processes + (size % processes != 0 ? 1 : 0);
    const std::int64_t length = argument == default_distribution_argument ? fair : argument;
    if (length < fair) {
      return fail(ErrorClass::arg, "darg " + std::to_string(argument) + " does not cover the dimension");
    }
    const std::int64_t start = start_of(length);
    return Runs{start, 1, std::min(length, size - start), 0, 0};
  }
  [[nodiscard]] Result<Runs> cyclic(int argument) const {
    const std::int64_t length = argument == default_distribution_argument ? 1 : argument;
    if (length < 1) return fail(ErrorClass::arg, "darg " + std::to_string(argument) + " is not positive");
    const std::int64_t period = length * processes;
    const std::int64_t start = start_of(length);
    const std::int64_t rounds = (size - start) / period;
    const std::int64_t rest = std::min((size - start) % period, length);
    if (rest == length) return Runs{start, rounds + 1, length, period, 0};
    return Runs{start, rounds, length, period, rest};
  }

 private:
  /// Where this process's first run of `length` indices begins, or the end of the dimension.
  [[nodiscard]] std::int64_t start_of(std::int64_t length) const {
    const Checked start = Checked(length) * coordinate;
    return start.ok() ? std::min(start.value(), size) : size;
  }
};

Result<Runs> runs_of(const Share& share, int distribution, int argument) {
  switch (static_cast<Distribution>(distribution)) {
    case Distribution::none:
      return share.none();
    case Distribution::block:
      return share.block(argument);
    case Distribution::cyclic:
      return share.cyclic(argument);
  }
  return fail(ErrorClass::arg, "distribution " + std::to_string(distribution) + " is unknown");
}

Made make_darray(const ProcessGrid& grid, Integers global_sizes, ArrayOrder order, Datatype& old, Form form) {
  const std::size_t n = global_sizes.size();
  std::vector<int> coordinates(n);
  int rest = grid.rank;
  for (std::size_t i = n; i-- > 0; rest /= grid.process_counts[i]) {
    coordinates[i] = rest % grid.process_counts[i];
  }
  ArrayBuilder builder(old);
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t d = dimension(i, n, order);
    const Share share{global_sizes[d], grid.process_counts[d], coordinates[d]};
    const Result<Runs> runs = runs_of(share, grid.distributions[d], grid.arguments[d]);
    if (!runs) return fail(runs.error().error_class(), runs.error().text() + " in dimension " + at(d));
    ISTHMUS_TRY(builder.add(share.size, *runs));
  }
  return finish(builder, darray_contents(grid, global_sizes, order, form), old);
}

Made make_subarray(Integers sizes, Integers subsizes, Integers starts, ArrayOrder order, Datatype& old,
                   Form form) {
  const std::size_t n = sizes.size();
  ArrayBuilder builder(old);
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t d = dimension(i, n, order);
    ISTHMUS_TRY(builder.add(sizes[d], Runs{starts[d], 1, subsizes[d], 0, 0}));
  }
  return finish(builder, subarray_contents(sizes, subsizes, starts, order, form), old);
}

}  // namespace

Made subarray_type(Integers sizes, Integers subsizes, Integers starts, ArrayOrder order, Datatype& old,
                   Form form) try {
  ISTHMUS_TRY(check_dimensions(sizes.size(), order));
  ISTHMUS_TRY(check_subarray(sizes, subsizes, starts));
  return make_subarray(sizes, subsizes, starts, order, old, form);
} catch (const std::bad_alloc&) {
  return fail(ErrorClass::no_mem, "no memory for a datatype");
} catch (const std::length_error&) {
  return fail(ErrorClass::no_mem, "no memory for a datatype");
}

Made darray_type(const ProcessGrid& grid, Integers global_sizes, ArrayOrder order, Datatype& old,
                 Form form) try {
  ISTHMUS_TRY(check_dimensions(global_sizes.size(), order));
  ISTHMUS_TRY(check_grid(grid, global_sizes));
  return make_darray(grid, global_sizes, order, old, form);
} catch (const std::bad_alloc&) {
  return fail(ErrorClass::no_mem, "no memory for a datatype");
} catch (const std::length_error&) {
  return fail(ErrorClass::no_mem, "no memory for a datatype");
}

}  // namespace isthmus
