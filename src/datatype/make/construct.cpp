#include "datatype/make/construct.hpp"

#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "datatype/make/maker.hpp"

namespace isthmus {

namespace {

/// Gathers the arguments of a constructor where MPI_Type_get_contents will look for them.
class ContentsBuilder {
 public:
  ContentsBuilder(Combiner combiner, Form form) : large_(form == Form::large) {
    contents_.combiner = combiner;
    contents_.form = form;
  }

  void reserve(std::size_t counts, std::size_t addresses) {
    if (large_) {
      contents_.large_counts.reserve(counts + addresses);
    } else {
      contents_.integers.reserve(counts);
      contents_.addresses.reserve(addresses);
    }
  }
  ContentsBuilder& count(std::int64_t value) {
    if (large_) {
      contents_.large_counts.push_back(value);
    } else {
      contents_.integers.push_back(static_cast<int>(value));
    }
    return *this;
  }
  ContentsBuilder& address(std::int64_t value) {
    (large_ ? contents_.large_counts : contents_.addresses).push_back(value);
    return *this;
  }
  ContentsBuilder& type(Datatype& type) {
    contents_.types.push_back(Ref<Datatype>::share(&type));
    return *this;
  }
  [[nodiscard]] Result<Ref<Datatype>> make() { return Datatype::Maker::derive(std::move(contents_)); }

 private:
  Contents contents_;
  bool large_;
};

/// Runs `make`; memory that is not there is an error, not an exception.
template <class Make>
Result<Ref<Datatype>> guarded(Make&& make) try {
  return make();
} catch (const std::bad_alloc&) {
  return fail(ErrorClass::no_mem, "no memory for the arguments of a datatype");
} catch (const std::length_error&) {
  return fail(ErrorClass::no_mem, "no memory for the arguments of a datatype");
}

Result<> check_count(std::int64_t count) {
  if (count < 0) return fail(ErrorClass::count, "count " + std::to_string(count) + " is negative");
  return {};
}

Result<> check_blocklength(std::int64_t blocklength) {
  if (blocklength < 0) {
    return fail(ErrorClass::arg, "block length " + std::to_string(blocklength) + " is negative");
  }
  return {};
}

Result<> check_blocklengths(Integers blocklengths) {
  for (std::size_t i = 0; i < blocklengths.size(); ++i) {
    if (blocklengths[i] < 0) {
      return fail(ErrorClass::arg, "block length [" + std::to_string(i) +
                                       "] = " + std::to_string(blocklengths[i]) + " is negative");
    }
  }
  return {};
}

std::int64_t length(std::size_t size) {
  return static_cast<std::int64_t>(size);
}

Result<Ref<Datatype>> strided(Combiner combiner, std::int64_t count, std::int64_t blocklength,
                              std::int64_t stride, Datatype& old, Form form) {
  ISTHMUS_TRY(check_count(count));
  ISTHMUS_TRY(check_blocklength(blocklength));
  return guarded([&] {
    ContentsBuilder contents(combiner, form);
    contents.count(count).count(blocklength).type(old);
    return (combiner == Combiner::vector ? contents.count(stride) : contents.address(stride)).make();
  });
}

}  // namespace

Result<Ref<Datatype>> dup_type(Datatype& old) {
  return guarded([&] { return ContentsBuilder(Combiner::dup, Form::small).type(old).make(); });
}

Result<Ref<Datatype>> clone_type(const Datatype& old) {
  return guarded([&] { return Datatype::Maker::clone(old); });
}

Result<Ref<Datatype>> contiguous_type(std::int64_t count, Datatype& old, Form form) {
  ISTHMUS_TRY(check_count(count));
  return guarded([&] { return ContentsBuilder(Combiner::contiguous, form).count(count).type(old).make(); });
}

Result<Ref<Datatype>> vector_type(std::int64_t count, std::int64_t blocklength, std::int64_t stride,
                                  Datatype& old, Form form) {
  return strided(Combiner::vector, count, blocklength, stride, old, form);
}

Result<Ref<Datatype>> hvector_type(std::int64_t count, std::int64_t blocklength, std::int64_t stride,
                                   Datatype& old, Form form) {
  return strided(Combiner::hvector, count, blocklength, stride, old, form);
}

Result<Ref<Datatype>> indexed_type(Integers blocklengths, Integers displacements, Datatype& old, Form form) {
  ISTHMUS_TRY(check_blocklengths(blocklengths));
  return guarded([&] {
    const std::size_t n = blocklengths.size();
    ContentsBuilder contents(Combiner::indexed, form);
    contents.reserve(1 + 2 * n, 0);
    contents.count(length(n)).type(old);
    for (std::size_t i = 0; i < n; ++i)
      contents.count(blocklengths[i]);
    for (std::size_t i = 0; i < n; ++i)
      contents.count(displacements[i]);
    return contents.make();
  });
}

Result<Ref<Datatype>> hindexed_type(Integers blocklengths, std::span<const std::int64_t> displacements,
                                    Datatype& old, Form form) {
  ISTHMUS_TRY(check_blocklengths(blocklengths));
  return guarded([&] {
    const std::size_t n = blocklengths.size();
    ContentsBuilder contents(Combiner::hindexed, form);
    contents.reserve(1 + n, n);
    contents.count(length(n)).type(old);
    for (std::size_t i = 0; i < n; ++i)
      contents.count(blocklengths[i]);
    for (const std::int64_t displacement : displacements)
      contents.address(displacement);
    return contents.make();
  });
}

Result<Ref<Datatype>> indexed_block_type(std::int64_t blocklength, Integers displacements, Datatype& old,
                                         Form form) {
  ISTHMUS_TRY(check_blocklength(blocklength));
  return guarded([&] {
    const std::size_t n = displacements.size();
    ContentsBuilder contents(Combiner::indexed_block, form);
    contents.reserve(2 + n, 0);
    contents.count(length(n)).count(blocklength).type(old);
    for (std::size_t i = 0; i < n; ++i)
      contents.count(displacements[i]);
    return contents.make();
  });
}

Result<Ref<Datatype>> hindexed_block_type(std::int64_t blocklength,
                                          std::span<const std::int64_t> displacements, Datatype& old,
                                          Form form) {
  ISTHMUS_TRY(check_blocklength(blocklength));
  return guarded([&] {
    ContentsBuilder contents(Combiner::hindexed_block, form);
    contents.reserve(2, displacements.size());
    contents.count(length(displacements.size())).count(blocklength).type(old);
    for (const std::int64_t displacement : displacements)
      contents.address(displacement);
    return contents.make();
  });
}

Result<Ref<Datatype>> struct_type(Integers blocklengths, std::span<const std::int64_t> displacements,
                                  std::span<Datatype* const> types, Form form) {
  ISTHMUS_TRY(check_blocklengths(blocklengths));
  return guarded([&] {
    const std::size_t n = blocklengths.size();
    ContentsBuilder contents(Combiner::structure, form);
    contents.reserve(1 + n, n);
    contents.count(length(n));
    for (std::size_t i = 0; i < n; ++i)
      contents.count(blocklengths[i]);
    for (const std::int64_t displacement : displacements)
      contents.address(displacement);
    for (Datatype* type : types)
      contents.type(*type);
    return contents.make();
  });
}

Result<Ref<Datatype>> resized_type(std::int64_t lb, std::int64_t extent, Datatype& old, Form form) {
  return guarded(
      [&] { return ContentsBuilder(Combiner::resized, form).address(lb).address(extent).type(old).make(); });
}

}  // namespace isthmus
