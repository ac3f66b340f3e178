#include "place/place.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <random>

namespace isthmus {
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

}  // namespace
}  // namespace isthmus
