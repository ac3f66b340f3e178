#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <variant>
#include <vector>

#include "suite/core/options.hpp"

namespace isthmus::bench::options_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr unsigned bandwidth = Feature::sizes | Feature::window | Feature::placement;
constexpr unsigned nonblocking = Feature::sizes | Feature::placement | Feature::overlap;

Options taken(const std::vector<std::string>& words, unsigned features = bandwidth) {
  const auto parsed = parse_options(words, features);
  if (const auto* refusal = std::get_if<Refusal>(&parsed)) ADD_FAILURE() << refusal->why;
  return std::holds_alternative<Options>(parsed) ? std::get<Options>(parsed) : Options{};
}

std::string refused(const std::vector<std::string>& words, unsigned features = bandwidth) {
  const auto parsed = parse_options(words, features);
  return std::holds_alternative<Refusal>(parsed) ? std::get<Refusal>(parsed).why : "";
}

TEST(BenchOptions, ThoseOfTheOsuSuiteMeanWhatTheyMeanThere) {
  const Options options = taken({"-m", "8:4096", "-i", "100", "-x", "10", "-W", "32", "-c", "-f", "-z"});
  EXPECT_EQ(options.smallest, 8U);
  EXPECT_EQ(options.largest, 4096U);
  EXPECT_EQ(options.effort.iterations, 100);
  EXPECT_EQ(options.effort.warmup, 10);
  EXPECT_EQ(options.window, 32);
  EXPECT_TRUE(options.validate);
  EXPECT_TRUE(options.full);
  EXPECT_THAT(options.percentiles, ElementsAre(50, 90, 99));
}

constexpr unsigned typed = bandwidth | Feature::types | Feature::layouts;

TEST(BenchOptions, ElementsAndTheirLayout) {
  EXPECT_THAT(taken({"-T", "all"}, typed).elements,
              ElementsAre(Element::character, Element::integer, Element::real));
  EXPECT_THAT(taken({"--type=mpi_int"}, typed).elements, ElementsAre(Element::integer));
  EXPECT_THAT(taken({"-m", "8:64"}, typed).elements, IsEmpty());
  EXPECT_FALSE(taken({"-D", "cont"}, typed).layout.has_gaps());
  const Layout vector = taken({"-D", "vect:5:2"}, typed).layout;
  EXPECT_EQ(vector.span, 5U);
  EXPECT_THAT(vector.blocks, ElementsAre(Stretch{0, 2}));
  EXPECT_THAT(refused({"-T", "mpi_double"}, typed), HasSubstr("knows all, mpi_char, mpi_int, mpi_float"));
  EXPECT_THAT(refused({"-D", "cont"}), HasSubstr("not for this benchmark"));
  for (const char* wrong : {"vect", "vect:", "vect:2", "vect:2:3", "vect:0:0", "vect:2:0", "vect:a:1",
                            "vect:4:1:1", "vect:-4:1", "vect:99999999999999999999:1"})
    EXPECT_THAT(refused({"-D", wrong}, typed), HasSubstr("vect:STRIDE:BLOCK")) << wrong;
  EXPECT_THAT(refused({"-D", "indx:/no/such/file"}, typed), HasSubstr("cannot be read"));
}

TEST(BenchOptions, ALayoutCarriesWhatLiesInItsBlocks) {
  const Layout layout{.kind = Layout::Kind::indexed, .span = 9, .blocks = {{0, 2}, {4, 1}, {6, 3}}};
  EXPECT_EQ(layout.repetitions(26), 2U);
  EXPECT_EQ(layout.carried(26), 12U);
  std::string carried;
  for (std::size_t i = 0; i < 26; ++i)
    carried += layout.carries(i, 26) ? 'x' : '.';
  EXPECT_EQ(carried, "xx..x.xxxxx..x.xxx........");
  EXPECT_EQ(Layout{}.carried(26), 26U);
  EXPECT_TRUE(Layout{}.carries(25, 26));
  EXPECT_FALSE(Layout{}.carries(26, 26));
}

TEST(BenchOptions, ALayoutIsReadFromAFile) {
  const std::string path = testing::TempDir() + "/layout." + std::to_string(getpid());
  const auto read = [&path](const char* text) {
    std::ofstream(path) << text;
    return layout_named("indx:" + path);
  };
  const auto good = read("# two blocks\n\n 1,2 # the first\n\t4 , 1\r\n");
  ASSERT_TRUE(std::holds_alternative<Layout>(good));
  EXPECT_EQ(std::get<Layout>(good).span, 5U);
  EXPECT_THAT(std::get<Layout>(good).blocks, ElementsAre(Stretch{1, 2}, Stretch{4, 1}));
  for (const char* wrong : {"1", "1,", ",1", "1,0", "a,1", "1,1,1", "0,2\n1,1", "3,1\n0,1"})
    EXPECT_TRUE(std::holds_alternative<std::string>(read(wrong))) << wrong;
  EXPECT_THAT(std::get<std::string>(read("0,2\n1,1")), HasSubstr("line 2"));
  EXPECT_THAT(std::get<std::string>(read("# nothing\n")), HasSubstr("no line"));
  std::filesystem::remove(path);
}

TEST(BenchOptions, AValueMayStandInTheSameWord) {
  EXPECT_EQ(taken({"-m8:64"}).largest, 64U);
  EXPECT_EQ(taken({"--message-size=8:64"}).smallest, 8U);
  EXPECT_THAT(taken({"-z99,P50"}).percentiles, ElementsAre(99, 50));
}

TEST(BenchOptions, PercentilesDoNotSwallowAPlacement) {
  const Options options = taken({"-z", "D", "H"});
  EXPECT_THAT(options.percentiles, ElementsAre(50, 90, 99));
  EXPECT_EQ(options.placement[0], Placement::device);
  EXPECT_EQ(options.placement[1], Placement::host);
}

TEST(BenchOptions, PlacementsOfBothSidesOrOneForBoth) {
  EXPECT_EQ(taken({"MD", "MH"}).placement[1], Placement::managed_host);
  EXPECT_EQ(taken({"VMM"}).placement[1], Placement::vmm);
  EXPECT_EQ(taken({"-d", "cuda"}).placement[0], Placement::device);
  EXPECT_EQ(taken({"-d", "managed"}).placement[1], Placement::managed_device);
  EXPECT_THAT(refused({"X"}), HasSubstr("no placement"));
  EXPECT_THAT(refused({"H", "D", "H"}), HasSubstr("third"));
  EXPECT_THAT(refused({"D"}, static_cast<unsigned>(Feature::sizes)), HasSubstr("takes no placement"));
}

TEST(BenchOptions, OneLetterMeansWhatTheBenchmarkMakesOfIt) {
  EXPECT_EQ(taken({"-r", "gpu"}, nonblocking).compute_target, "gpu");
  EXPECT_FALSE(taken({"-r", "0"}, bandwidth | Feature::rate).print_rate);
  EXPECT_EQ(taken({"-t", "3"}, nonblocking).test_calls, 3);
  EXPECT_EQ(taken({"-t", "3"}, static_cast<unsigned>(Feature::threads)).threads, 3);
}

TEST(BenchOptions, WhatIsWrongIsSaid) {
  EXPECT_THAT(refused({"-W", "8"}, static_cast<unsigned>(Feature::sizes)),
              HasSubstr("not for this benchmark"));
  EXPECT_THAT(refused({"--frobnicate"}), HasSubstr("no option"));
  EXPECT_THAT(refused({"-i", "0"}), HasSubstr("at least 1"));
  EXPECT_THAT(refused({"-i", "ten"}), HasSubstr("whole number"));
  EXPECT_THAT(refused({"-i", "99999999999999999999"}), HasSubstr("whole number"));
  EXPECT_THAT(refused({"-W", "4294967297"}), HasSubstr("whole number"));
  EXPECT_THAT(refused({"-m"}), HasSubstr("needs [MIN:]MAX"));
  EXPECT_THAT(refused({"-m", "8:x"}), HasSubstr("a size is a number of bytes"));
  EXPECT_THAT(refused({"-m", "64:8"}), HasSubstr("below the least"));
  EXPECT_THAT(refused({"-c=1"}), HasSubstr("takes no value"));
  EXPECT_THAT(refused({"-z", "101"}), HasSubstr("percentiles from 0 to 100"));
  EXPECT_THAT(refused({"--seconds", "nan"}), HasSubstr("above 0"));
  EXPECT_THAT(refused({"-d", "rocm"}), HasSubstr("knows cuda and managed"));
}

TEST(BenchOptions, SizesDoubleFromTheLeastToTheGreatest) {
  EXPECT_THAT(sizes_of(taken({"-m", "1:8"}), 1), ElementsAre(1, 2, 4, 8));
  EXPECT_THAT(sizes_of(taken({"-m", "0:2"}), 1), ElementsAre(0, 1, 2));
  EXPECT_THAT(sizes_of(taken({"-m", "16"}), 4), ElementsAre(4, 8, 16));
  EXPECT_THAT(sizes_of(taken({"-m", "64K,8,3"}), 4), ElementsAre(65536, 8));
  EXPECT_THAT(sizes_of(taken({"-m", "3:3"}), 4), IsEmpty());
}

TEST(BenchOptions, SizesAreBytesOrHaveALetter) {
  EXPECT_EQ(size_of("4096"), 4096U);
  EXPECT_EQ(size_of("64K"), 65536U);
  EXPECT_EQ(size_of("4MiB"), 4U << 20);
  EXPECT_EQ(size_of("1G"), 1U << 30);
  EXPECT_FALSE(size_of("").has_value());
  EXPECT_FALSE(size_of("8X").has_value());
  EXPECT_FALSE(size_of("99999999999999999G").has_value());
}

TEST(BenchOptions, HelpNamesWhatTheBenchmarkHasAndNothingElse) {
  EXPECT_THAT(options_help(bandwidth), HasSubstr("--window-size"));
  EXPECT_THAT(options_help(bandwidth), HasSubstr("VMM"));
  EXPECT_THAT(options_help(static_cast<unsigned>(Feature::sizes)), testing::Not(HasSubstr("--window-size")));
}

}  // namespace
}  // namespace isthmus::bench::options_test
