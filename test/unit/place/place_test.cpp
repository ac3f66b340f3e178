#include "place/place.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "place/spot.hpp"

namespace isthmus::place_test {
namespace {

using testing::HasSubstr;

Place sample() {
  auto place = Place::here();
  EXPECT_TRUE(place);
  place->host = "here";
  place->region = {1, 2, 3};
  place->has_folder = true;
  place->package = 1;
  place->core = 17;
  place->device = "0000:00:04.0";
  return std::move(*place);
}

TEST(Place, IsWhereThisProcessRuns) {
  const auto place = Place::here();
  ASSERT_TRUE(place);
  EXPECT_EQ(place->pid, static_cast<std::uint32_t>(::getpid()));
  EXPECT_EQ(place->uid, ::getuid());
  EXPECT_FALSE(place->cpus.empty());
  EXPECT_NE(place->boot, (std::array<std::uint8_t, 16>{}));
  EXPECT_NE(place->in(Namespace::net), 0U);
  EXPECT_FALSE(place->has_region());
}

TEST(Place, HasOtherSecretsEachTime) {
  const auto a = Place::here();
  const auto b = Place::here();
  ASSERT_TRUE(a && b);
  EXPECT_NE(a->key, b->key);
  EXPECT_NE(a->nonce, b->nonce);
  EXPECT_NE(a->socket, b->socket);
  EXPECT_EQ(a->boot, b->boot);
}

TEST(Place, ComesBackFromItsEncoding) {
  const Place place = sample();
  const std::string bytes = place.encode();
  EXPECT_LT(bytes.size(), 300U);
  const auto read = Place::decode(bytes);
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->boot, place.boot);
  EXPECT_EQ(read->namespaces, place.namespaces);
  EXPECT_EQ(read->pid, place.pid);
  EXPECT_EQ(read->cpus.to_string(), place.cpus.to_string());
  EXPECT_EQ(read->host, place.host);
  EXPECT_EQ(read->nonce, place.nonce);
  EXPECT_EQ(read->socket, place.socket);
  EXPECT_EQ(read->key, place.key);
  EXPECT_EQ(read->region, place.region);
  EXPECT_TRUE(read->has_folder);
  EXPECT_EQ(read->package, 1);
  EXPECT_EQ(read->numa, -1);
  EXPECT_EQ(read->core, 17);
  EXPECT_EQ(read->device, place.device);
  EXPECT_EQ(read->encode(), bytes);
}

TEST(Place, IsRefusedWhereverItIsCutOffAndWithAnythingBehindIt) {
  const std::string bytes = sample().encode();
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(Place::decode(bytes.substr(0, size))) << size;
  EXPECT_FALSE(Place::decode(bytes + '\0'));
}

TEST(Place, OfAnotherReleaseIsNamedAsThat) {
  std::string bytes = sample().encode();
  bytes[4] = 9;
  const auto read = Place::decode(bytes);
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().text(), HasSubstr("different releases"));
}

TEST(Place, SurvivesAnyBytes) {
  std::mt19937 random(1);  // NOLINT(cert-msc51-cpp): the same bytes each time
  const std::string good = sample().encode();
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = good;
    for (unsigned flips = 1 + random() % 4; flips > 0; --flips)
      bytes[5 + random() % (bytes.size() - 5)] = static_cast<char>(random());
    const auto read = Place::decode(bytes);
    EXPECT_TRUE(!read || Place::decode(read->encode()));
  }
}

TEST(CpuSet, ComesBackFromItsText) {
  for (const char* text : {"none", "0", "0-3,8", "1,3,5-127", "1048575"}) {
    const auto set = CpuSet::parse(text);
    ASSERT_TRUE(set) << text;
    EXPECT_EQ(set->to_string(), text);
  }
  for (const char* text : {"", "-", "3-", "3-1", "0,", "5,1", "1048576", "0-99999999999", "0 1", "none,1"})
    EXPECT_FALSE(CpuSet::parse(text)) << text;
}

TEST(CpuSet, KnowsItsFirst) {
  EXPECT_EQ(CpuSet::parse("none")->first(), std::nullopt);
  EXPECT_EQ(CpuSet::parse("130-140")->first(), 130U);
}

/// A machine of two sockets with two NUMA nodes each, of two hardware threads each, as a folder.
class SpotOfAFolder : public testing::Test {
 protected:
  void SetUp() override {
    for (int cpu = 0; cpu < 8; ++cpu) {
      const std::filesystem::path thread = folder("cpu/cpu" + std::to_string(cpu));
      write(thread / "topology/physical_package_id", std::to_string(cpu / 4));
      write(thread / "topology/core_siblings_list", cpu < 4 ? "0-3" : "4-7");
      std::filesystem::create_directories(thread / ("node" + std::to_string(cpu / 2)));
    }
    for (int node = 0; node < 4; ++node)
      write(folder("node/node" + std::to_string(node)) / "cpulist",
            std::to_string(2 * node) + "-" + std::to_string(2 * node + 1));
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  [[nodiscard]] std::filesystem::path folder(const std::string& name) const {
    return root_ / "devices/system" / name;
  }
  static void write(const std::filesystem::path& path, const std::string& text) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << '\n';
  }
  void expect(const char* cpus, std::int32_t package, std::int32_t numa) const {
    const Spot spot = find_spot(*CpuSet::parse(cpus), root_);
    EXPECT_EQ(spot.package, package) << cpus;
    EXPECT_EQ(spot.numa, numa) << cpus;
  }

  const std::filesystem::path root_ =
      std::filesystem::temp_directory_path() / ("isthmus-spot." + std::to_string(::getpid()));
};

TEST_F(SpotOfAFolder, IsKnownWhereAllThreadsLieInOne) {
  expect("5", 1, 2);
  expect("6-7", 1, 3);
  expect("0-3", 0, -1);
  expect("3-4", -1, -1);
  expect("0-7", -1, -1);
  expect("none", -1, -1);
  expect("99", -1, -1);
}

TEST_F(SpotOfAFolder, IsUnknownWhereTheKernelTellsNonsense) {
  write(folder("cpu/cpu0/topology/physical_package_id"), "-1");
  write(folder("cpu/cpu2/topology/core_siblings_list"), "all of them");
  write(folder("node/node0/cpulist"), "");
  expect("0", -1, -1);
  expect("2", -1, 1);
}

}  // namespace
}  // namespace isthmus::place_test
