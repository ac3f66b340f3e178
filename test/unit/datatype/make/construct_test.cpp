// Constructors refuse what the standard refuses, give the bounds that it defines, and tell their arguments
// again as they were given.

#include "datatype/make/construct.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "datatype/make/array_types.hpp"
#include "datatype/make/unnamed.hpp"

namespace isthmus::test::construct_test {
namespace {

using Ints = std::vector<int>;
using Longs = std::vector<std::int64_t>;

constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();

Datatype& integer() {
  return Datatype::basic(Basic::int_);
}
Datatype& real() {
  return Datatype::basic(Basic::double_);
}
Integers view(const Ints& values) {
  return std::span<const int>(values);
}
Integers view(const Longs& values) {
  return std::span<const std::int64_t>(values);
}

ErrorClass class_of(const Result<Ref<Datatype>>& made) {
  return made ? ErrorClass::success : made.error().error_class();
}

TEST(Basic, EveryHandleOfTheAbiIsFoundAndNoOther) {
  int found = 0;
  for (std::uintptr_t handle = 0; handle < 0x400; ++handle) {
    const auto basic = basic_from_abi(handle);
    if (!basic) continue;
    ++found;
    EXPECT_EQ(static_cast<std::uintptr_t>(*basic), handle);
    EXPECT_EQ(info(*basic).basic, *basic);
    EXPECT_TRUE(Datatype::basic(*basic).committed());
    EXPECT_TRUE(Datatype::basic(*basic).is_predefined());
    EXPECT_EQ(Datatype::basic(*basic).default_name(), info(*basic).name);
  }
  EXPECT_EQ(found, 70);
}

TEST(Basic, PairsAreLaidOutLikeStructs) {
  struct DoubleInt {
    double value;
    int index;
  };
  struct ShortInt {
    short value;
    int index;
  };
  struct LongDoubleInt {
    long double value;
    int index;
  };
  EXPECT_EQ(Datatype::basic(Basic::double_int).extent(), sizeof(DoubleInt));
  EXPECT_EQ(Datatype::basic(Basic::double_int).size(), 12);
  EXPECT_EQ(Datatype::basic(Basic::double_int).true_extent(), 12);
  EXPECT_EQ(Datatype::basic(Basic::short_int).extent(), sizeof(ShortInt));
  EXPECT_EQ(Datatype::basic(Basic::short_int).as_pair()->index_offset,
            static_cast<std::int64_t>(offsetof(ShortInt, index)));
  EXPECT_EQ(Datatype::basic(Basic::long_double_int).extent(), sizeof(LongDoubleInt));
  EXPECT_EQ(Datatype::basic(Basic::two_int).size(), 8);
  EXPECT_EQ(Datatype::basic(Basic::two_int).bounds().elements, 2);
}

TEST(Construct, NegativeCountsAndLengthsAreRefused) {
  EXPECT_EQ(class_of(contiguous_type(-1, integer(), Form::small)), ErrorClass::count);
  EXPECT_EQ(class_of(vector_type(-1, 1, 1, integer(), Form::small)), ErrorClass::count);
  EXPECT_EQ(class_of(vector_type(1, -1, 1, integer(), Form::small)), ErrorClass::arg);
  EXPECT_EQ(class_of(hvector_type(1, -1, 1, integer(), Form::large)), ErrorClass::arg);
  EXPECT_EQ(class_of(indexed_type(view(Ints{1, -2}), view(Ints{0, 1}), integer(), Form::small)),
            ErrorClass::arg);
  EXPECT_EQ(class_of(hindexed_block_type(-1, Longs{0}, integer(), Form::small)), ErrorClass::arg);
}

TEST(Construct, SizesBeyond64BitsAreRefused) {
  EXPECT_EQ(class_of(contiguous_type(huge, integer(), Form::large)), ErrorClass::count);
  EXPECT_EQ(class_of(vector_type(huge / 2, 3, 3, integer(), Form::large)), ErrorClass::count);
  const auto big = contiguous_type(huge / 8, real(), Form::large);
  ASSERT_TRUE(big);
  EXPECT_EQ((*big)->bytes(2).error().error_class(), ErrorClass::count);
  EXPECT_EQ((*big)->bytes(-1).error().error_class(), ErrorClass::count);
  EXPECT_EQ((*big)->bytes(1).value(), huge / 8 * 8);
}

TEST(Construct, BoundsBeyond64BitsAreRefused) {
  EXPECT_EQ(class_of(hvector_type(3, 1, huge / 2, integer(), Form::large)), ErrorClass::arg);
  EXPECT_EQ(class_of(vector_type(2, 1, huge, integer(), Form::large)), ErrorClass::arg);
  EXPECT_EQ(class_of(hindexed_type(view(Ints{1, 1}), Longs{-huge, huge}, integer(), Form::small)),
            ErrorClass::arg);
  EXPECT_EQ(class_of(resized_type(huge, 1, integer(), Form::small)), ErrorClass::arg);
  EXPECT_EQ(class_of(hindexed_type(view(Ints{1}), Longs{huge}, integer(), Form::small)), ErrorClass::arg);
}

TEST(Construct, StructsArePaddedToTheirAlignment) {
  Datatype* const types[] = {&real(), &Datatype::basic(Basic::char_)};
  const auto made = struct_type(view(Ints{1, 1}), Longs{0, 8}, types, Form::small);
  EXPECT_EQ((*made)->size(), 9);
  EXPECT_EQ((*made)->extent(), 16);
  EXPECT_EQ((*made)->true_extent(), 9);
}

TEST(Construct, MarkersOfResizedTypesStick) {
  // MPI 5.0, section 5.1.8, by hand: the markers of the inner type decide the outer bounds.
  const auto inner = resized_type(-3, 9, integer(), Form::small);
  EXPECT_EQ((*inner)->lb(), -3);
  EXPECT_EQ((*inner)->extent(), 9);
  Datatype* const types[] = {inner->get(), &integer()};
  const auto outer = struct_type(view(Ints{2, 1}), Longs{0, 100}, types, Form::small);
  EXPECT_EQ((*outer)->lb(), -3);
  EXPECT_EQ((*outer)->ub(), 15);
  EXPECT_EQ((*outer)->true_lb(), 0);
  EXPECT_EQ((*outer)->true_extent(), 104);
  const auto again = resized_type(0, 200, **outer, Form::small);
  EXPECT_EQ((*again)->ub(), 200);
  EXPECT_EQ((*again)->true_extent(), 104);
}

TEST(Construct, EmptyTypesHaveNoBounds) {
  const auto empty = indexed_type(view(Ints{0, 0}), view(Ints{5, 9}), real(), Form::small);
  ASSERT_TRUE((*empty)->commit());
  EXPECT_EQ((*empty)->size(), 0);
  EXPECT_EQ((*empty)->extent(), 0);
  EXPECT_EQ((*empty)->true_lb(), 0);
  EXPECT_EQ((*empty)->elements_in(0), 0);
  EXPECT_EQ((*empty)->elements_in(8), std::nullopt);
}

TEST(Construct, CommitIsNeededOnceAndDupInheritsIt) {
  const auto made = vector_type(2, 1, 2, integer(), Form::small);
  EXPECT_FALSE((*made)->committed());
  EXPECT_FALSE((*dup_type(**made))->committed());
  ASSERT_TRUE((*made)->commit());
  ASSERT_TRUE((*made)->commit());
  EXPECT_TRUE((*made)->committed());
  const auto copy = dup_type(**made);
  EXPECT_TRUE((*copy)->committed());
  EXPECT_EQ(&(*copy)->layout(), &(*made)->layout());
}

TEST(Construct, NestingWithoutEndIsRefusedBeforeTheStackIs) {
  Ref<Datatype> type = Ref<Datatype>::share(&integer());
  Result<Ref<Datatype>> made = type;
  for (int i = 0; made && i < 10'000; ++i) {
    type = *made;
    made = dup_type(*type);
  }
  EXPECT_EQ(class_of(made), ErrorClass::type);
  ASSERT_TRUE(type->commit());
  EXPECT_TRUE(type->is_contiguous());
}

TEST(Contents, SmallFormsKeepIntegersAndAddresses) {
  const auto hindexed = hindexed_type(view(Ints{2, 3}), Longs{-8, 40}, integer(), Form::small);
  const Contents& contents = (*hindexed)->contents();
  EXPECT_EQ(contents.combiner, Combiner::hindexed);
  EXPECT_EQ(contents.integers, (Ints{2, 2, 3}));
  EXPECT_EQ(contents.addresses, (Longs{-8, 40}));
  EXPECT_TRUE(contents.large_counts.empty());
  ASSERT_EQ(contents.types.size(), 1u);
  EXPECT_EQ(contents.types[0].get(), &integer());

  EXPECT_EQ((*vector_type(3, 2, -4, real(), Form::small))->contents().integers, (Ints{3, 2, -4}));
  EXPECT_EQ((*resized_type(-1, 30, real(), Form::small))->contents().addresses, (Longs{-1, 30}));
  EXPECT_EQ((*indexed_block_type(3, view(Ints{7, 8}), real(), Form::small))->contents().integers,
            (Ints{2, 3, 7, 8}));
}

TEST(Contents, LargeFormsKeepCounts) {
  const auto hvector = hvector_type(3, 2, 100, real(), Form::large);
  EXPECT_TRUE((*hvector)->contents().integers.empty());
  EXPECT_TRUE((*hvector)->contents().addresses.empty());
  EXPECT_EQ((*hvector)->contents().large_counts, (Longs{3, 2, 100}));

  Datatype* const types[] = {&integer(), &real()};
  const auto structure = struct_type(view(Longs{1, 2}), Longs{0, 8}, types, Form::large);
  EXPECT_EQ((*structure)->contents().large_counts, (Longs{2, 1, 2, 0, 8}));
  EXPECT_EQ((*structure)->contents().types.size(), 2u);

  const auto subarray = subarray_type(view(Longs{4, 5}), view(Longs{2, 3}), view(Longs{1, 2}), ArrayOrder::c,
                                      real(), Form::large);
  EXPECT_EQ((*subarray)->contents().integers, (Ints{2, static_cast<int>(ArrayOrder::c)}));
  EXPECT_EQ((*subarray)->contents().large_counts, (Longs{4, 5, 2, 3, 1, 2}));
}

TEST(Name, IsEmptyForDerivedTypes) {
  const auto made = contiguous_type(2, integer(), Form::small);
  EXPECT_EQ((*made)->default_name(), "");
  EXPECT_FALSE((*made)->is_named());
  EXPECT_EQ(Datatype::basic(Basic::two_double_precision).default_name(), "MPI_2DOUBLE_PRECISION");
  EXPECT_TRUE(Datatype::basic(Basic::two_double_precision).is_named());
}

TEST(Elements, AllOfOneBasicTypeAreRecognised) {
  const auto vector = vector_type(2, 3, 4, real(), Form::small);
  EXPECT_EQ((*vector)->only_basic(), Basic::double_);
  Datatype* const types[] = {vector->get(), &integer()};
  EXPECT_EQ((*struct_type(view(Ints{1, 1}), Longs{0, 100}, types, Form::small))->only_basic(), std::nullopt);
  EXPECT_EQ((*struct_type(view(Ints{1, 0}), Longs{0, 100}, types, Form::small))->only_basic(),
            Basic::double_);
}

TEST(Unnamed, F90TypesAreTheSameForTheSameArguments) {
  F90Types types;
  Datatype* const type = *types.real(15, unspecified);
  EXPECT_EQ(type, *types.real(15, unspecified));
  EXPECT_NE(type, *types.real(14, unspecified));
  EXPECT_TRUE(type->is_predefined());
  EXPECT_FALSE(type->is_named());
  EXPECT_TRUE(type->committed());
  EXPECT_EQ(type->as_basic(), Basic::real8);
  EXPECT_EQ(type->combiner(), Combiner::f90_real);
  EXPECT_EQ(type->contents().integers, (Ints{15, unspecified}));
  EXPECT_EQ(type->default_name(), "");
  EXPECT_EQ((*types.real(unspecified, 37))->size(), 4);
  EXPECT_EQ((*types.complex(33, 4931))->size(), 32);
  EXPECT_EQ((*types.integer(18))->size(), 8);
  EXPECT_EQ((*types.integer(0))->size(), 1);
  EXPECT_EQ(types.real(34, 0).error().error_class(), ErrorClass::arg);
  EXPECT_EQ(types.real(unspecified, unspecified).error().error_class(), ErrorClass::arg);
  EXPECT_EQ(types.integer(39).error().error_class(), ErrorClass::arg);
}

TEST(Unnamed, F90TypesBelongToWhoMadeThem) {
  F90Types mine;
  F90Types theirs;
  Datatype* const type = *mine.real(15, 307);
  EXPECT_NE(type, *theirs.real(15, 307));
  type->handle = 7;
  EXPECT_EQ((*theirs.real(15, 307))->handle, 0u);
  EXPECT_EQ((*mine.real(15, 307))->handle, 7u);
}

TEST(Unnamed, SizesMatchNamedTypes) {
  EXPECT_EQ((*match_size_type(SizeClass::complex, 16)), &Datatype::basic(Basic::complex16));
  EXPECT_EQ((*match_size_type(SizeClass::real, 2)), &Datatype::basic(Basic::real2));
  EXPECT_EQ(match_size_type(SizeClass::integer, 3).error().error_class(), ErrorClass::arg);
}

TEST(Unnamed, ValueIndexTypesAreTheNamedPairs) {
  EXPECT_EQ(*value_index_type(Datatype::basic(Basic::float_), integer()), &Datatype::basic(Basic::float_int));
  EXPECT_EQ(*value_index_type(integer(), integer()), &Datatype::basic(Basic::two_int));
  EXPECT_EQ(*value_index_type(real(), Datatype::basic(Basic::int64)), nullptr);
  EXPECT_EQ(*value_index_type(Datatype::basic(Basic::complex8), integer()), nullptr);
  const auto derived = contiguous_type(1, integer(), Form::small);
  EXPECT_EQ(value_index_type(**derived, integer()).error().error_class(), ErrorClass::type);
}

}  // namespace
}  // namespace isthmus::test::construct_test
