#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "launch/job.hpp"
#include "launch/region/shared_region.hpp"

namespace isthmus::launch::launch_test {
namespace {

using testing::HasSubstr;

constexpr wire::RingGeometry geometry{64, 8192};

SharedRegion region_of(std::uint32_t ranks) {
  auto region = make_region(wire::RegionShape::of(ranks, geometry),
                            {.idle = wire::IdlePolicy::sleep, .job = "test", .host = "here"});
  EXPECT_TRUE(region);
  return std::move(*region);
}

TEST(SharedRegion, HasASealedSizeAndIsCloseOnExec) {
  const SharedRegion region = region_of(3);
  EXPECT_EQ(::ftruncate(region.fd.get(), 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::ftruncate(region.fd.get(), 1 << 30), -1);
  EXPECT_EQ(::fcntl(region.fd.get(), F_GETFD), FD_CLOEXEC);
  EXPECT_EQ(::fcntl(region.fd.get(), F_ADD_SEALS, F_SEAL_WRITE), -1);
}

TEST(SharedRegion, IsTheSameMemoryForWhoeverOpensIt) {
  const SharedRegion region = region_of(3);
  const auto other = open_region(::dup(region.fd.get()));
  ASSERT_TRUE(other);
  EXPECT_EQ(other->view.slots(), 3U);
  EXPECT_NE(other->mapping->memory().data(), region.mapping->memory().data());
  region.view.roster(2).store(wire::RosterState::joined);
  EXPECT_EQ(other->view.roster(2).load(), wire::RosterState::joined);
}

TEST(SharedRegion, IsRefusedWhereItsSizeIsNotSealedAndTheDescriptorStaysOpen) {
  const int fd = ::memfd_create("not-sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(::ftruncate(fd, 1 << 20), 0);
  const auto region = open_region(fd);
  ASSERT_FALSE(region);
  EXPECT_THAT(region.error().text(), HasSubstr("sealed"));
  EXPECT_EQ(::close(fd), 0);
}

TEST(SharedRegion, IsRefusedWithAnotherHeader) {
  const int fd = ::memfd_create("zeros", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(::ftruncate(fd, 1 << 20), 0);
  ASSERT_EQ(::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
  const auto region = open_region(fd);
  ASSERT_FALSE(region);
  EXPECT_THAT(region.error().text(), HasSubstr("header"));
  EXPECT_EQ(::close(fd), 0);
}

TEST(SharedRegion, TakesTheGeometryThatTheUserSets) {
  Settings settings;
  EXPECT_EQ(ring_geometry(settings, 4).cells, wire::RingGeometry::for_ranks(4).cells);
  settings.ring_cells = 1024;
  settings.ring_bytes = 65536;
  EXPECT_EQ(ring_geometry(settings, 4).cells, 1024U);
  EXPECT_EQ(ring_geometry(settings, 4).data_bytes, 65536U);
}

TEST(LocalJobs, ShareOneMappingAndAreAllJoined) {
  const auto jobs = local_jobs(5, geometry);
  ASSERT_TRUE(jobs);
  ASSERT_EQ(jobs->size(), 5U);
  for (std::uint32_t rank = 0; rank < 5; ++rank) {
    const Job& job = (*jobs)[rank];
    EXPECT_EQ(job.rank, rank);
    EXPECT_EQ(job.size, 5U);
    EXPECT_FALSE(job.singleton);
    EXPECT_EQ(job.mapping, jobs->front().mapping);
    EXPECT_EQ(job.region.roster(rank).load(), wire::RosterState::joined);
    EXPECT_EQ(job.region.block(rank).place.pid, ::getpid());
  }
}

TEST(LocalJobs, RefuseNoRanksAndBadGeometry) {
  EXPECT_FALSE(local_jobs(0, geometry));
  EXPECT_FALSE(local_jobs(wire::maximum_local_ranks + 1, geometry));
  EXPECT_FALSE(local_jobs(2, {100, 8192}));
}

TEST(Join, IsAJobOfOneWithoutALauncherAndPublishesThePlace) {
  const auto job = join({}, {.address = 4711, .nonce = 42});
  ASSERT_TRUE(job) << job.error().text();
  EXPECT_TRUE(job->singleton);
  EXPECT_EQ(job->size, 1U);
  const wire::PlaceRecord& place = job->region.block(0).place;
  EXPECT_EQ(place.pid, ::getpid());
  EXPECT_EQ(place.uid, ::getuid());
  EXPECT_EQ(place.core, -1);
  EXPECT_EQ(place.probe_address, 4711U);
  EXPECT_EQ(place.probe_nonce, 42U);
  EXPECT_EQ(job->region.roster(0).load(), wire::RosterState::joined);
}

}  // namespace
}  // namespace isthmus::launch::launch_test
