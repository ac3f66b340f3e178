#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstring>

#include "wire/region.hpp"
#include "wire/ring.hpp"

namespace isthmus::wire::region_test {
namespace {

using testing::HasSubstr;

constexpr RingGeometry geometry{16, 4096};

/// Zero-filled address space.
class Memory {
 public:
  explicit Memory(std::uint64_t bytes) : bytes_(bytes) {
    void* address =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address != MAP_FAILED) data_ = static_cast<std::byte*>(address);
  }
  ~Memory() {
    if (data_) ::munmap(data_, bytes_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  [[nodiscard]] std::span<std::byte> span() const { return {data_, bytes_}; }

 private:
  std::byte* data_ = nullptr;
  std::uint64_t bytes_;
};

RegionLayout layout_of(std::uint32_t ranks, RingGeometry ring_geometry = geometry) {
  auto layout = RegionLayout::make(RegionShape::of(ranks, ring_geometry));
  EXPECT_TRUE(layout);
  return *layout;
}

TEST(RegionLayout, PartsAreAlignedAndDoNotOverlap) {
  for (const std::uint32_t ranks : {1U, 2U, 3U, 8U, 63U, 64U, 65U, 1000U, maximum_local_ranks}) {
    const RegionLayout layout = layout_of(ranks, RingGeometry::for_ranks(ranks));
    EXPECT_GE(layout.roster, sizeof(RegionHeader));
    EXPECT_GE(layout.blocks, layout.roster + ranks);
    EXPECT_GE(layout.doorbells, layout.blocks + std::uint64_t{ranks} * sizeof(RankBlock));
    EXPECT_GE(layout.doorbell_words * 64, ranks);
    EXPECT_GE(layout.directory, layout.doorbells + ranks * layout.doorbell_words * 8);
    EXPECT_GE(layout.rings, layout.directory + std::uint64_t{ranks} * ranks * 4);
    EXPECT_GE(layout.ring_bytes, sizeof(RingHeader) + layout.shape.geometry.cells * sizeof(Cell) +
                                     layout.shape.geometry.data_bytes + place_bytes(layout.shape.geometry));
    EXPECT_GE(layout.heap, layout.rings + std::uint64_t{ranks} * (ranks - 1) * layout.ring_bytes);
    EXPECT_EQ(layout.bytes, layout.heap + layout.shape.heap_bytes);
    for (const std::uint64_t offset : {layout.roster, layout.blocks, layout.doorbells, layout.directory,
                                       layout.rings, layout.ring_bytes, layout.heap})
      EXPECT_EQ(offset % cache_line, 0U) << ranks << " ranks";
    EXPECT_EQ(layout.heap % 4096, 0U);
  }
}

TEST(RegionLayout, TheLargestGeometryDoesNotOverflow) {
  const RegionLayout layout = layout_of(maximum_local_ranks, {65536, 1U << 30});
  EXPECT_GT(layout.heap, std::uint64_t{maximum_local_ranks} * (maximum_local_ranks - 1) * (1U << 30));
  EXPECT_LT(layout.bytes, std::uint64_t{1} << 62);
}

TEST(RegionLayout, RefusesRanksAndGeometriesOutOfRange) {
  EXPECT_FALSE(RegionLayout::make(RegionShape::of(0, geometry)));
  EXPECT_FALSE(RegionLayout::make(RegionShape::of(maximum_local_ranks + 1, geometry)));
  for (const RingGeometry bad :
       {RingGeometry{0, 4096}, RingGeometry{8, 4096}, RingGeometry{17, 4096}, RingGeometry{131072, 4096},
        RingGeometry{16, 0}, RingGeometry{16, 2048}, RingGeometry{16, 5000}, RingGeometry{16, 1U << 31}}) {
    const auto layout = RegionLayout::make(RegionShape::of(2, bad));
    ASSERT_FALSE(layout) << bad.cells << " cells, " << bad.data_bytes << " bytes";
    EXPECT_EQ(layout.error().error_class(), ErrorClass::arg);
  }
}

TEST(RegionView, OpensWhatWasFormatted) {
  const RegionLayout layout = layout_of(3);
  const Memory memory(layout.bytes);
  const JobKey key{1, 2, 3};
  RegionView::format(
      memory.span(), layout,
      {.key = key, .idle = IdlePolicy::sleep, .cores = 7, .universe = 9, .job = "j", .host = "h"});
  const auto view = RegionView::open(memory.span());
  ASSERT_TRUE(view) << view.error().text();
  EXPECT_EQ(view->slots(), 3U);
  EXPECT_EQ(view->layout().bytes, layout.bytes);
  EXPECT_EQ(view->ring_capacity(), 6U);
  EXPECT_EQ(view->header().key, key);
  EXPECT_EQ(view->header().idle, IdlePolicy::sleep);
  EXPECT_EQ(view->header().cores, 7U);
  EXPECT_EQ(view->header().universe, 9U);
  EXPECT_STREQ(view->header().job.data(), "j");
  EXPECT_STREQ(view->header().host.data(), "h");
}

TEST(RegionView, NamesThatAreTooLongAreCutAndTerminated) {
  const RegionLayout layout = layout_of(1);
  const Memory memory(layout.bytes);
  const std::string name(200, 'x');
  const RegionView view = RegionView::format(memory.span(), layout, {.job = name.c_str(), .host = "h"});
  EXPECT_EQ(view.header().job.back(), '\0');
  EXPECT_EQ(std::strlen(view.header().job.data()), view.header().job.size() - 1);
}

TEST(RegionView, EveryBitOfWhatLaterAccessesRelyOnIsChecked) {
  const RegionLayout layout = layout_of(3);
  const Memory memory(layout.bytes);
  RegionView::format(memory.span(), layout, {.idle = IdlePolicy::sleep});
  const auto refused = [&](std::size_t offset, std::size_t bytes, const char* field) {
    for (std::size_t bit = 0; bit < 8 * bytes; ++bit) {
      std::byte& byte = memory.span()[offset + bit / 8];
      const std::byte mask{static_cast<unsigned char>(1U << bit % 8)};
      byte ^= mask;
      EXPECT_FALSE(RegionView::open(memory.span())) << field << ", bit " << bit;
      byte ^= mask;
    }
  };
  refused(offsetof(RegionHeader, magic), 8, "magic");
  refused(offsetof(RegionHeader, version), 4, "version");
  refused(offsetof(RegionHeader, header_bytes), 4, "header_bytes");
  refused(offsetof(RegionHeader, region_bytes), 8, "region_bytes");
  refused(offsetof(RegionHeader, shape) + offsetof(RegionShape, slots), 4, "slots");
  refused(offsetof(RegionHeader, idle) + 1, 3, "idle");  // the lowest bits make one policy another
  refused(offsetof(RegionHeader, shape) + offsetof(RegionShape, geometry), sizeof(RingGeometry), "geometry");
  refused(offsetof(RegionHeader, shape) + offsetof(RegionShape, heap_bytes), 8, "heap");
  EXPECT_TRUE(RegionView::open(memory.span()));
}

TEST(RegionView, RefusesMemoryThatIsTooSmallOrNotAligned) {
  const RegionLayout layout = layout_of(2);
  const Memory memory(layout.bytes + 4096);
  const std::span<std::byte> exact = memory.span().first(layout.bytes);
  RegionView::format(exact, layout, {});
  EXPECT_TRUE(RegionView::open(exact));
  EXPECT_FALSE(RegionView::open(exact.first(layout.bytes - 1)));
  EXPECT_FALSE(RegionView::open(exact.first(sizeof(RegionHeader) - 1)));
  EXPECT_FALSE(RegionView::open({}));
  const std::span<std::byte> shifted = memory.span().subspan(8, layout.bytes);
  RegionView::format(exact, layout, {});
  std::memmove(shifted.data(), exact.data(), sizeof(RegionHeader));
  EXPECT_FALSE(RegionView::open(shifted));
}

TEST(RegionView, AnotherReleaseIsNamed) {
  const RegionLayout layout = layout_of(1);
  const Memory memory(layout.bytes);
  RegionView::format(memory.span(), layout, {}).header().version = 77;
  const auto view = RegionView::open(memory.span());
  ASSERT_FALSE(view);
  EXPECT_THAT(view.error().text(), HasSubstr("77"));
}

TEST(RegionView, WhatBelongsToARankLiesWithinItsPart) {
  const std::uint32_t ranks = 65;
  const RegionLayout layout = layout_of(ranks);
  const Memory memory(layout.bytes);
  const RegionView view = RegionView::format(memory.span(), layout, {});
  const auto offset = [&](const auto* thing) {
    return static_cast<std::uint64_t>(reinterpret_cast<const std::byte*>(thing) - memory.span().data());
  };
  EXPECT_EQ(offset(&view.roster(ranks - 1)), layout.roster + ranks - 1);
  EXPECT_LE(offset(&view.block(ranks - 1) + 1), layout.doorbells);
  EXPECT_EQ(view.doorbells(ranks - 1).size(), layout.doorbell_words);
  EXPECT_LE(offset(view.doorbells(ranks - 1).data() + layout.doorbell_words), layout.directory);
  EXPECT_EQ(view.directory(0).size(), ranks);
  EXPECT_LE(offset(view.directory(ranks - 1).data() + ranks), layout.rings);
  const auto last = view.ring(static_cast<std::uint32_t>(view.ring_capacity()) - 1);
  EXPECT_EQ(offset(last.data() + last.size()), layout.heap);
}

TEST(CellHeader, IsRefusedWhereAFieldHasNoMeaning) {
  const CellHeader good{.context = 1,
                        .source = 0,
                        .tag = 3,
                        .size = 8,
                        .kind = CellKind::eager_inline,
                        .flag = CellFlag::none,
                        .mark = 0};
  EXPECT_TRUE(check(good, geometry));
  const auto refused = [&](auto change) {
    CellHeader header = good;
    change(header);
    const auto checked = check(header, geometry);
    return !checked && checked.error().error_class() == ErrorClass::intern;
  };
  EXPECT_TRUE(refused([](CellHeader& h) { h.kind = CellKind{0}; }));
  EXPECT_TRUE(refused([](CellHeader& h) { h.kind = CellKind{10}; }));
  EXPECT_TRUE(refused([](CellHeader& h) { h.kind = CellKind{255}; }));
  EXPECT_TRUE(refused([](CellHeader& h) { h.flag = CellFlag{2}; }));
  EXPECT_TRUE(refused([](CellHeader& h) { h.size = inline_capacity + 1; }));
  for (const CellKind kind : {CellKind::eager_inline, CellKind::eager, CellKind::ready_to_send})
    EXPECT_TRUE(refused([&](CellHeader& h) { h.kind = kind, h.source = -1; }));
  for (const CellKind kind : {CellKind::eager, CellKind::eager_over, CellKind::eager_more, CellKind::fragment,
                              CellKind::fragment_over}) {
    EXPECT_TRUE(refused([&](CellHeader& h) { h.kind = kind, h.size = maximum_piece(geometry) + 1; }));
    EXPECT_FALSE(refused([&](CellHeader& h) { h.kind = kind, h.size = maximum_piece(geometry); }));
  }
  for (const CellKind kind : {CellKind::eager_placed, CellKind::placed_more}) {
    EXPECT_TRUE(refused([&](CellHeader& h) { h.kind = kind, h.size = place_bytes(geometry) + 1; }));
    EXPECT_FALSE(refused([&](CellHeader& h) { h.kind = kind, h.size = place_bytes(geometry); }));
    EXPECT_TRUE(refused([&](CellHeader& h) { h.kind = kind, h.source = -1; }));
  }
}

}  // namespace
}  // namespace isthmus::wire::region_test
