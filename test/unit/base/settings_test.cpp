#include "base/settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "base/spelling.hpp"

namespace isthmus::settings_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

std::string complaint(const char* variable) {
  const std::array<const char*, 2> environment{variable, nullptr};
  const auto settings = Settings::read(environment.data());
  return settings ? "" : settings.error().text();
}

Settings read(const char* variable) {
  const std::array<const char*, 2> environment{variable, nullptr};
  auto settings = Settings::read(environment.data());
  EXPECT_TRUE(settings) << variable;
  return settings.value_or(Settings{});
}

TEST(Settings, AreTheDefaultsWithoutVariablesAndWithEmptyOnes) {
  EXPECT_EQ(read("PATH=/bin").eager_limit, Settings{}.eager_limit);
  EXPECT_EQ(read("ISTHMUS_IDLE=").idle, IdleSetting::automatic);
  EXPECT_TRUE(Settings::read(nullptr));
}

TEST(Settings, TakeNoDivisionOfATagThatIsNone) {
  for (const auto* text :
       {"", "4", "4,32", "4,32,28,0", "4,32,27", "1,32,31", "4,33,27", "40,9,15", "4,11,49", "4,32,x",
        "4,,60", "4 ,32,28", "18446744073709551615,32,33", "-4,32,36"})
    EXPECT_FALSE(parse_tag_division(text)) << text;
  EXPECT_EQ(parse_tag_division("4,32,28"), TagDivision{});
}

TEST(Settings, UnderstandValuesAndUnits) {
  EXPECT_EQ(read("ISTHMUS_EAGER_LIMIT=4096").eager_limit, 4096U);
  EXPECT_EQ(read("ISTHMUS_EAGER_LIMIT=16K").eager_limit, 16384U);
  EXPECT_EQ(read("ISTHMUS_EAGER_LIMIT=1m").eager_limit, 1048576U);
  EXPECT_EQ(read("ISTHMUS_IDLE=sleep").idle, IdleSetting::sleep);
  EXPECT_EQ(read("ISTHMUS_SPIN_MICROSECONDS=0").spin_microseconds, 0U);
  EXPECT_EQ(read("ISTHMUS_PROGRESS=calls").progress, ProgressSetting::calls);
  EXPECT_TRUE(read("ISTHMUS_CHECK=1").check);
  EXPECT_FALSE(read("ISTHMUS_CHECK=").check);
  EXPECT_EQ(read("ISTHMUS_PROGRESS=thread").progress, ProgressSetting::thread);
  EXPECT_EQ(read("ISTHMUS_UNEXPECTED_LIMIT=64M").unexpected_limit, 64U << 20U);
  EXPECT_EQ(read("ISTHMUS_CHARE_TAG_BITS=3,16,45").chare_tag_bits, (TagDivision{3, 16, 45}));
  EXPECT_EQ(read("ISTHMUS_CMA=off").cma, CmaSetting::off);
  EXPECT_EQ(read("ISTHMUS_LINES=keep").lines, LinesSetting::keep);
  EXPECT_EQ(read("ISTHMUS_LINES=hand-back").lines, LinesSetting::hand_back);
  EXPECT_EQ(read("ISTHMUS_MAPPING=off").mapping, MappingSetting::off);
  EXPECT_EQ(read("ISTHMUS_GPU_PATH=pull").gpu_path, GpuPathSetting::pull);
  EXPECT_EQ(read("ISTHMUS_GPU_PATH=network").gpu_path, GpuPathSetting::network);
  EXPECT_EQ(read("ISTHMUS_GPU_COURIER=off").gpu_courier, GpuCourierSetting::off);
  EXPECT_EQ(read("ISTHMUS_GPU_EAGER_LIMIT=64").gpu_eager_limit, 64U);
  EXPECT_EQ(read("ISTHMUS_GPU_PUSH_FROM=4K").gpu_push_from, 4096U);
  EXPECT_EQ(read("ISTHMUS_GPU_DIRECT_LIMIT=1M").gpu_direct_limit, 1U << 20U);
  EXPECT_EQ(read("ISTHMUS_GPU_CHUNK=256K").gpu_chunk, 256U << 10U);
  EXPECT_EQ(read("ISTHMUS_COPY_THREADS=3").copy_threads, 3U);
  EXPECT_EQ(read("ISTHMUS_COPY_THREADS=auto").copy_threads, std::nullopt);
  EXPECT_EQ(read("ISTHMUS_GPU_BOUNCE=16M").gpu_bounce, 16U << 20U);
  EXPECT_EQ(read("ISTHMUS_GPU_BOUNCE=0").gpu_bounce, 0U);
  EXPECT_EQ(read("ISTHMUS_MEMORY_ALLOC_KINDS=cuda:device,mpi").memory_alloc_kinds, "cuda:device,mpi");
  EXPECT_EQ(read("ISTHMUS_RING_CELLS=64").ring_cells, 64U);
  EXPECT_EQ(read("ISTHMUS_RING_BYTES=0").ring_bytes, 0U);
  EXPECT_EQ(read("ISTHMUS_TRANSPORT=ud").transport, TransportSetting::ud);
  EXPECT_EQ(read("ISTHMUS_TRANSPORT=auto").transport, TransportSetting::automatic);
  EXPECT_EQ(read("ISTHMUS_NETWORK_EAGER_LIMIT=64K").network_eager_limit, 65536U);
  EXPECT_EQ(read("ISTHMUS_LOCALITY=static").locality, LocalitySetting::static_locality);
  EXPECT_EQ(read("ISTHMUS_RENDEZVOUS_DIR=/a folder").rendezvous_dir, "/a folder");
  EXPECT_EQ(read("ISTHMUS_EXPLAIN=yes").explain, ExplainSetting::summary);
  EXPECT_EQ(read("ISTHMUS_EXPLAIN=json").explain, ExplainSetting::json);
  EXPECT_EQ(read("ISTHMUS_BANDWIDTH_EAGER_LIMIT=64K").bandwidth_eager_limit, 65536U);
  EXPECT_EQ(read("ISTHMUS_SPLIT_FROM=128K").split_from, 131072U);
  EXPECT_EQ(read("ISTHMUS_FRAGMENT=8K").fragment, 8192U);
  EXPECT_EQ(read("ISTHMUS_TUNING=/a/table.json").tuning, "/a/table.json");
  EXPECT_EQ(read("ISTHMUS_IVSHMEM=0000:00:03.0").ivshmem, "0000:00:03.0");
  EXPECT_FALSE(read("ISTHMUS_WARN=0").warn);
}

TEST(Settings, RefuseNonsenseByNameValueAndWhatIsAllowed) {
  for (const char* variable : {"ISTHMUS_COPY_THREADS=9",
                               "ISTHMUS_COPY_THREADS=many",
                               "ISTHMUS_EAGER_LIMIT=-1",
                               "ISTHMUS_EAGER_LIMIT=4 K",
                               "ISTHMUS_EAGER_LIMIT=K",
                               "ISTHMUS_EAGER_LIMIT=2G",
                               "ISTHMUS_EAGER_LIMIT=17179869184G",
                               "ISTHMUS_EAGER_LIMIT=99999999999999999999",
                               "ISTHMUS_IDLE=Spin",
                               "ISTHMUS_SPIN_MICROSECONDS=1000001",
                               "ISTHMUS_SPIN_MICROSECONDS=1.5",
                               "ISTHMUS_PROGRESS=on",
                               "ISTHMUS_UNEXPECTED_LIMIT=4K",
                               "ISTHMUS_CMA=on",
                               "ISTHMUS_LINES=on",
                               "ISTHMUS_MAPPING=on",
                               "ISTHMUS_GPU_PATH=ipc",
                               "ISTHMUS_GPU_COURIER=always",
                               "ISTHMUS_MEMORY_ALLOC_KINDS=cuda device",
                               "ISTHMUS_RING_CELLS=100",
                               "ISTHMUS_RING_CELLS=8",
                               "ISTHMUS_RING_CELLS=131072",
                               "ISTHMUS_RING_BYTES=2K",
                               "ISTHMUS_RING_BYTES=0x1000",
                               "ISTHMUS_LOCALITY=Static",
                               "ISTHMUS_RENDEZVOUS_DIR=tmp",
                               "ISTHMUS_TRANSPORT=TCP",
                               "ISTHMUS_NETWORK_EAGER_LIMIT=2G",
                               "ISTHMUS_EXPLAIN=maybe",
                               "ISTHMUS_BANDWIDTH_EAGER_LIMIT=2G",
                               "ISTHMUS_SPLIT_FROM=half",
                               "ISTHMUS_FRAGMENT=512",
                               "ISTHMUS_TUNING=table.json",
                               "ISTHMUS_IVSHMEM=on",
                               "ISTHMUS_WARN=2"}) {
    const std::string name = std::string(variable).substr(0, std::string_view(variable).find('='));
    const std::string value = std::string(variable).substr(name.size() + 1);
    EXPECT_THAT(complaint(variable),
                AllOf(HasSubstr(name), HasSubstr("='" + value + "'"), HasSubstr("allowed: ")));
  }
}

TEST(Settings, NameUnknownVariablesWithTheNearestKnown) {
  const std::array<const char*, 6> environment{"ISTHMUS_EAGER=1",   "ISTHMUS_IDLE=spin", "ISTHMUS_RANK=0",
                                               "ISTHMUS_IDEL=spin", "MPI_EAGER=1",       nullptr};
  const auto warnings = Settings::unknown_variables(environment.data());
  ASSERT_EQ(warnings.size(), 2U);
  EXPECT_THAT(warnings[0], AllOf(HasSubstr("ISTHMUS_EAGER "), HasSubstr("ISTHMUS_EAGER_LIMIT ")));
  EXPECT_THAT(warnings[1], AllOf(HasSubstr("ISTHMUS_IDEL "), HasSubstr("ISTHMUS_IDLE ")));
}

TEST(Settings, DescribeEachWithValueAndOrigin) {
  const std::array<const char*, 2> environment{"ISTHMUS_RING_CELLS=64", nullptr};
  const auto descriptions = describe(read(environment[0]));
  for (const SettingDescription& setting : descriptions) {
    const bool set = setting.variable == "ISTHMUS_RING_CELLS";
    EXPECT_EQ(setting.origin, set ? Origin::environment : Origin::standard) << setting.variable;
    EXPECT_EQ(setting.value, set ? "64" : setting.default_value) << setting.variable;
    EXPECT_THAT(setting.documentation, testing::Not(IsEmpty()));
    EXPECT_THAT(setting.allowed, testing::Not(IsEmpty()));
  }
  EXPECT_LT(descriptions.size(), 38U);
}

TEST(Settings, TakeTunedValuesWhereTheEnvironmentSaysNothing) {
  Settings settings = read("ISTHMUS_RING_CELLS=64");
  EXPECT_TRUE(settings.tune("ISTHMUS_RING_CELLS", "1024"));
  EXPECT_TRUE(settings.tune("ISTHMUS_EAGER_LIMIT", "32768"));
  EXPECT_FALSE(settings.tune("ISTHMUS_RING_BYTES", "100"));
  EXPECT_FALSE(settings.tune("ISTHMUS_RING_SHAPE", "100"));
  EXPECT_EQ(settings.ring_cells, 64U);
  EXPECT_EQ(settings.eager_limit, 32768U);
  EXPECT_EQ(settings.ring_bytes, 0U);
  EXPECT_EQ(settings.origin("ISTHMUS_RING_CELLS"), Origin::environment);
  EXPECT_EQ(settings.origin("ISTHMUS_EAGER_LIMIT"), Origin::tuned);
  EXPECT_EQ(settings.origin("ISTHMUS_RING_BYTES"), Origin::standard);
}

TEST(Spelling, PrefersTheFewestEditsAndCompletions) {
  constexpr std::array<std::string_view, 3> words{"bind-to", "map-by", "tag-output"};
  EXPECT_EQ(nearest("bindto", words), "bind-to");
  EXPECT_EQ(nearest("mapby", words), "map-by");
  EXPECT_EQ(nearest("tag", words), "tag-output");
}

}  // namespace
}  // namespace isthmus::settings_test
