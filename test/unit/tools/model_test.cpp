#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "model/equations.hpp"
#include "model/observed.hpp"
#include "model/report.hpp"

namespace isthmus::tool::model::model_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr double us = 1e-6;

/// One iteration of the paper's pattern (figure 8) with X = Y = Z = 1, in which the host waits for each
/// kernel.
Parts iteration() {
  Parts parts;
  parts.launch = 9 * us;
  parts.gpu_wait = 24 * us;
  parts.send = 5 * us;
  parts.wait = 22 * us;
  parts.total = 60 * us;
  parts.a.seconds = 8 * us;
  parts.b.seconds = 10 * us;
  parts.c.seconds = 6 * us;
  parts.stream_exchange = parts.graph_exchange = 20 * us;
  parts.stream_enqueue = 6 * us;
  parts.launches = 3;
  parts.gpu_waits = 2;
  parts.exchanges = 1;
  parts.messages = 2;
  return parts;
}

TEST(Model, TheStreamFormTakesWhatTheGpuDoesWhereTheHostEnqueuesFaster) {
  const Prediction forms = predict(iteration());
  EXPECT_DOUBLE_EQ(forms.sync, 60 * us);
  EXPECT_DOUBLE_EQ(forms.idle, 36 * us);        // 60 - (8 + 10 + 6)
  EXPECT_DOUBLE_EQ(forms.stream_gpu, 34 * us);  // 24 + 20, of which B hides 10
  EXPECT_DOUBLE_EQ(forms.stream_cpu, 15 * us);
  EXPECT_DOUBLE_EQ(forms.stream, 34 * us);
  EXPECT_TRUE(forms.c1.holds());
  EXPECT_TRUE(forms.c2.holds());
  EXPECT_TRUE(forms.c3());
  EXPECT_NEAR(forms.gain(forms.stream), 43.3, 0.05);
}

TEST(Model, WithoutC1TheStreamFormGoesAtTheHostsPaceAndAGraphDoesNot) {
  Parts parts = iteration();
  parts.launch = 45 * us;
  const Prediction forms = predict(parts);
  EXPECT_FALSE(forms.c1.holds());
  EXPECT_DOUBLE_EQ(forms.stream, 51 * us);
  EXPECT_DOUBLE_EQ(forms.graph, 34 * us);
}

/// The iteration of kernels of which a launch takes 5 us, timed by themselves.
Parts iteration_of_short_kernels() {
  Parts parts = iteration();
  parts.a = {8 * us, 1};
  parts.b = {10 * us, 1};
  parts.c = {6 * us, 1};
  parts.piece_alone = 5 * us;
  return parts;
}

TEST(Model, AKernelOfARowTakesWhatItComputesAndWhatAPieceOfTheRowTakes) {
  Parts parts = iteration_of_short_kernels();
  parts.piece_in_stream = {3 * us, 3 * us};
  parts.piece_in_graph = {1 * us, 1 * us};
  parts.graph_exchange = 15 * us;
  const Prediction forms = predict(parts);
  EXPECT_DOUBLE_EQ(forms.stream_gpu, (3 + 5 + 1 + 3 * 3 + 20 - 8) * us);  // B hides what it takes
  EXPECT_DOUBLE_EQ(forms.graph_gpu, (3 + 5 + 1 + 3 * 1 + 15 - 6) * us);
  EXPECT_DOUBLE_EQ(forms.idle, (60 - 18) * us);
  EXPECT_DOUBLE_EQ(forms.c1.right, 30 * us);
}

/// A put is a piece of the row, and so is a wait: while the GPU is busy with these, B is not computed.
TEST(Model, WhatIsComputedMeanwhileHidesTheBytesWayAndNoPiecesOfTheRow) {
  Parts parts = iteration();
  parts.piece_in_graph = {4 * us, 4 * us};
  EXPECT_DOUBLE_EQ(predict(parts).graph_gpu, (24 + 20 - 4) * us);  // 20 - 2 messages x 2 x 4
  parts.messages = 10;
  EXPECT_DOUBLE_EQ(predict(parts).graph_gpu, (24 + 20) * us);
  parts.messages = 2;
  parts.b.seconds = 1 * us;
  EXPECT_DOUBLE_EQ(predict(parts).graph_gpu, (15 + 20 - 1) * us);
}

TEST(Model, KernelsThatComputeLessThanAPieceTakesComputeNothing) {
  Parts parts = iteration_of_short_kernels();
  parts.piece_alone = 9 * us;
  parts.piece_in_graph = {1 * us, 1 * us};
  EXPECT_DOUBLE_EQ(parts.gpu(parts.piece_in_graph), (0 + 1 + 0 + 3) * us);
}

/// One for each exchange: the first of C.
TEST(Model, TheFirstKernelBehindAWaitTakesMoreThanOneInARow) {
  Parts parts = iteration_of_short_kernels();
  parts.c.pieces = 2;
  parts.piece_in_stream = {2 * us, 5 * us};
  EXPECT_DOUBLE_EQ(predict(parts).stream_gpu, (3 + 5 + 0 + 3 * 2 + 5 + 20 - 7) * us);
  parts.exchanges = 10;
  EXPECT_DOUBLE_EQ(predict(parts).stream_gpu, (3 + 5 + 0 + 2 * 2 + 2 * 5 + 20 - 7) * us);
  parts.piece_in_stream = {2 * us, 1 * us};  // by noise
  EXPECT_DOUBLE_EQ(predict(parts).stream_gpu, (3 + 5 + 0 + 4 * 2 + 20 - 7) * us);
}

TEST(Model, AGraphGoesAtTheHostsPaceWhereThatIsTheSlowerOne) {
  Parts parts = iteration_of_short_kernels();
  parts.graph_enqueue = 10 * us;
  const Prediction forms = predict(parts);
  EXPECT_DOUBLE_EQ(forms.graph_cpu, (3 + 2 * 2) * 10 * us);
  EXPECT_DOUBLE_EQ(forms.graph, forms.graph_cpu);
}

/// What is a launch in other forms is a phase here, and an exchange a meeting and what its bytes take.
TEST(Model, KernelsSaveLaunchesAndMeet) {
  Parts parts = iteration_of_short_kernels();
  parts.piece_in_stream = parts.piece_in_graph = {5 * us, 5 * us};
  parts.graph_exchange = 20 * us;
  parts.bare_exchange = 14 * us;
  parts.meeting = 2 * us;
  const Prediction forms = predict(parts);
  EXPECT_DOUBLE_EQ(forms.kernel_exchange, (2 + 6) * us);
  EXPECT_DOUBLE_EQ(forms.kernel_worst, (3 + 5 + 1 + 3 * 2 + 8) * us);
  EXPECT_NEAR(forms.kernel_best, (3 + 5 + 1 + 8 - 3) * us, 1e-15);  // A hides
  EXPECT_LT(forms.kernel_worst, forms.graph);
}

/// Section 4.2: T_GPU_SA < T_S is the same as S + W (what is not hidden) < T_idle, at the border too.
TEST(Model, ThereIsAGainExactlyWhereC2Holds) {
  for (const double exchange : {0.0, 45.9, 46.1, 80.0}) {  // B hides 10
    Parts parts = iteration();
    parts.stream_exchange = parts.graph_exchange = exchange * us;
    const Prediction forms = predict(parts);
    EXPECT_EQ(forms.c2.holds(), forms.gain(forms.graph) > 0) << exchange;
  }
}

/// Section 4.3: with everything at the same time the overlap is the least of A + S, B and W + C; without,
/// they come one behind the other.
TEST(Model, KernelsHideTheLeastOfWhatTheyDo) {
  const Prediction forms = predict(iteration());
  EXPECT_DOUBLE_EQ(forms.kernel_worst, 44 * us);
  EXPECT_DOUBLE_EQ(forms.kernel_best, 36 * us);  // A hides
  Parts small_b = iteration();
  small_b.b.seconds = 2 * us;
  EXPECT_DOUBLE_EQ(predict(small_b).kernel_best, 34 * us);  // of 36, B hides
  Parts no_b = iteration();
  no_b.b.seconds = 0;
  EXPECT_DOUBLE_EQ(predict(no_b).kernel_best, 26 * us);  // of 34, A hides
}

/// The paper's multigrid gains 24 % in the stream form and 26 % in the kernel form, on boxes of 16^3 and two
/// processes. By the equations, that is where all but 24 of 100 go into kernels and messages, of which B
/// hides 20; messages of kernels take 20 less, and hide 2.
TEST(Model, HasThePapersGainsOfMultigrid) {
  Parts parts;
  parts.total = 100;
  parts.a.seconds = 2;
  parts.b.seconds = 20;
  parts.c.seconds = 10;
  parts.stream_exchange = parts.graph_exchange = 64;
  parts.bare_exchange = 20;
  parts.launch = 30;
  parts.launches = 3;
  parts.gpu_waits = parts.exchanges = 1;
  const Prediction forms = predict(parts);
  EXPECT_NEAR(forms.gain(forms.stream), 24, 1e-9);
  EXPECT_NEAR(forms.gain(forms.kernel_best), 26, 1e-9);
}

/// The paper's breadth-first search: what is to be done is known only when it runs, so kernels must be
/// launched for the largest case, which takes them 14 % longer; then the idle time is less than what messages
/// take.
TEST(Model, BreadthFirstSearchDoesNotGain) {
  Parts parts;
  parts.total = 100;
  parts.c.seconds = 70 * 1.14;
  parts.stream_exchange = parts.graph_exchange = 25;
  parts.exchanges = 1;
  const Prediction forms = predict(parts);
  EXPECT_FALSE(forms.c2.holds());
  EXPECT_LT(forms.gain(forms.graph), 0);
}

TEST(Model, AllGoAtThePaceOfTheSlowest) {
  Parts slow = iteration();
  slow.b.seconds = 30 * us;
  slow.total = 80 * us;
  const Prediction forms = predict({iteration(), slow});
  EXPECT_DOUBLE_EQ(forms.sync, 80 * us);
  EXPECT_DOUBLE_EQ(forms.stream, 44 * us);
}

TEST(Model, NothingBetweenTwoWaitsIsNothingToRunAheadWith) {
  Parts parts = iteration();
  parts.launches = 0;
  EXPECT_FALSE(predict(parts).c3());
}

constexpr const char* file =
    "isthmus-observed 2\nrank 1 2\nseconds 0.5\nlaunch 300 0.03\ngpu_wait 200 0.2\nsend 200 0.01\nwait 100 "
    "0.1\n"
    "collective 5 0.001\na 100 0.01\nb 50 0.02\nc 150 0.03\nexchanges 100 200 819200\ngpu 300\n"
    "stream 50 0.001 0.0002\ngraph 0.0008 0.0006\npieces 3e-6 2e-6 4e-6 1e-6 7e-6 5e-7\nmeeting "
    "9e-7\nwhy_not \n"
    "why_no_meeting \n";

TEST(Model, ReadsWhatTheObserverWrites) {
  const auto observed = read_observed(file);
  ASSERT_TRUE(observed) << observed.error();
  EXPECT_EQ(observed->rank, 1);
  EXPECT_EQ(observed->launch.count, 300);
  EXPECT_DOUBLE_EQ(observed->c.seconds, 0.03);
  EXPECT_TRUE(observed->why_not.empty());
  const Parts parts = parts_of(*observed, *observed);
  EXPECT_DOUBLE_EQ(parts.gpu(3e-6), 0.06);
  EXPECT_DOUBLE_EQ(parts.gpu(0), 0.06 - 900e-6);
  EXPECT_DOUBLE_EQ(parts.stream_exchange, 0.002);  // 50 were replayed of 100
  EXPECT_DOUBLE_EQ(parts.graph_exchange, 0.0016);
  EXPECT_DOUBLE_EQ(parts.bare_exchange, 0.0012);
  EXPECT_DOUBLE_EQ(parts.piece_in_stream.in_a_row, 2e-6);
  EXPECT_DOUBLE_EQ(parts.piece_in_stream.behind_wait, 4e-6);
  EXPECT_DOUBLE_EQ(parts.piece_in_graph.in_a_row, 1e-6);
  EXPECT_DOUBLE_EQ(parts.piece_in_graph.behind_wait, 7e-6);
  EXPECT_DOUBLE_EQ(parts.graph_enqueue, 5e-7);
  EXPECT_DOUBLE_EQ(parts.meeting, 9e-7);
}

/// A run that ends when the answer is good enough may do more in one run than in the other.
TEST(Model, TakesKernelsByTheLaunch) {
  auto host = read_observed(file);
  auto kernels = read_observed(file);
  ASSERT_TRUE(host && kernels);
  kernels->gpu_count = 600;
  EXPECT_DOUBLE_EQ(parts_of(*host, *kernels).a.seconds, 0.005);
  EXPECT_DOUBLE_EQ(parts_of(*host, *kernels).a.pieces, 50);
}

TEST(Model, SaysWhatIsWrongWithAFile) {
  const std::string whole = file;
  EXPECT_THAT(read_observed("").error(), HasSubstr("no file of an observed process"));
  for (std::size_t length = 20; length + 10 < whole.size(); length += 7)
    EXPECT_FALSE(read_observed(std::string_view(whole).substr(0, length))) << length;
  std::string strange = whole;
  strange.replace(strange.find("rank 1 2"), 8, "rank 2 2");
  EXPECT_FALSE(read_observed(strange));
  std::string endless = whole;
  endless.replace(endless.find("0.5"), 3, "nan");
  EXPECT_FALSE(read_observed(endless));
}

TEST(Model, SaysWhichConditionFails) {
  Parts parts = iteration();
  parts.stream_exchange = 50 * us;
  Findings findings{{parts}, predict(parts), 100, "", ""};
  EXPECT_THAT(to_text(findings), HasSubstr("there is nothing to gain"));
  EXPECT_THAT(to_json(findings), HasSubstr(R"("why_no_prediction":null)"));
  EXPECT_THAT(to_json(findings), Not(HasSubstr(R"("kernel_best":null)")));
  findings.why_no_kernel = "they do not meet";
  EXPECT_THAT(to_text(findings), HasSubstr("nothing is predicted: they do not meet"));
  EXPECT_THAT(to_json(findings), HasSubstr(R"("kernel_worst":null,"kernel_best":null)"));
  findings.why_no_stream = "the \"network\" is between";
  EXPECT_THAT(to_text(findings), Not(HasSubstr("C2")));
  EXPECT_THAT(
      to_json(findings),
      HasSubstr(
          R"("why_no_prediction":"the \"network\" is between","why_no_kernel":"they do not meet","seconds":null)"));
}

}  // namespace
}  // namespace isthmus::tool::model::model_test
