#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "p2p/message/held_up.hpp"
#include "p2p/message/matcher.hpp"
#include "p2p/message/request_pool.hpp"

namespace isthmus::matcher_loss_test {
namespace {

constexpr int together = 100;  // tags below

/// Stands for what a request of the program's belongs to.
class Handle final : public RefCounted {};

class MatcherLossTest : public testing::Test {
 protected:
  MatcherLossTest() { context.name_sources(processes); }
  Request* post(int source, int tag, bool has_handle = true) {
    Request* receive = pool.take(Request::Kind::receive);
    receive->source = source;
    receive->tag = tag;
    if (has_handle) receive->owner = make_ref<Handle>();
    context.post(receive);
    return receive;
  }

  /// The receives that have been taken out.
  std::vector<Request*> lose(PeerId process) {
    std::vector<Request*> ended;
    context.lose(
        process, [&](Request& receive) { ended.push_back(&receive); },
        [this](Request& receive) { held_up.push_back(&receive); });
    return ended;
  }
  std::vector<Request*> break_off(ErrorClass why) {
    std::vector<Request*> ended;
    context.break_off(why, [&](Request& receive) { ended.push_back(&receive); });
    return ended;
  }

  RequestPool pool;
  Matcher matcher;
  const std::array<PeerId, 3> processes{10, 11, 12};
  MatchContext& context = matcher.open(7, 3);
  std::vector<Request*> held_up;
};

TEST_F(MatcherLossTest, EndsReceivesFromTheLostSourceAndNoOthers) {
  Request* from_lost = post(1, 5);
  Request* from_other = post(2, 5);
  EXPECT_EQ(lose(11), std::vector{from_lost});
  EXPECT_TRUE(held_up.empty());
  EXPECT_TRUE(context.is_broken(1, 5));
  EXPECT_FALSE(context.is_broken(2, 5));
  EXPECT_EQ(context.why_broken(), ErrorClass::proc_aborted);
  EXPECT_EQ(context.match(2, 5), from_other);
}

TEST_F(MatcherLossTest, HoldsUpReceivesFromAnySourceWhichStillMatch) {
  Request* any = post(any_source, 5);
  EXPECT_TRUE(lose(11).empty());
  EXPECT_EQ(held_up, std::vector{any});
  EXPECT_TRUE(context.is_broken(any_source, 5)) << "until the loss is acknowledged";
  context.acknowledge_losses();
  EXPECT_FALSE(context.is_broken(any_source, 5));
  any->complete = true;
  any->status.error = static_cast<int>(ErrorClass::proc_failed_pending);
  EXPECT_TRUE(is_held_up(*any));
  EXPECT_EQ(context.match(2, 5), any);
  EXPECT_FALSE(any->complete);
  EXPECT_EQ(any->error(), 0);
}

TEST_F(MatcherLossTest, EndsReceivesFromAnySourceThatNobodyHasAHandleOf) {
  Request* any = post(any_source, 5, false);
  EXPECT_EQ(lose(11), std::vector{any});
  EXPECT_TRUE(held_up.empty());
}

TEST_F(MatcherLossTest, EndsAllThatIsDoneTogether) {
  bool broken = false;
  context.work_together(together, broken);
  Request* collective = post(2, together - 1);
  Request* apart = post(2, together);
  EXPECT_EQ(lose(11), std::vector{collective});
  EXPECT_TRUE(broken);
  EXPECT_TRUE(context.is_broken(2, together - 1));
  EXPECT_FALSE(context.is_broken(2, together));
  EXPECT_EQ(context.match(2, together), apart);
}

TEST_F(MatcherLossTest, BreaksOffEverything) {
  bool broken = false;
  int ranks = 3;
  context.work_together(together, broken);
  context.reaches(ranks);
  Request* any = post(any_source, 5);
  Request* apart = post(2, together);
  EXPECT_EQ(break_off(ErrorClass::revoked), (std::vector{any, apart}));
  EXPECT_TRUE(broken);
  EXPECT_EQ(ranks, 0);
  EXPECT_TRUE(context.is_broken_off());
  EXPECT_TRUE(context.is_broken(2, together));
  EXPECT_EQ(context.why_broken(), ErrorClass::revoked);
  break_off(ErrorClass::proc_aborted);
  EXPECT_EQ(context.why_broken(), ErrorClass::revoked) << "the first reason stays";
}

TEST_F(MatcherLossTest, ALossElsewhereIsNone) {
  EXPECT_FALSE(context.has_process(13));
  EXPECT_FALSE(context.is_broken(any_source, 5));
}

}  // namespace
}  // namespace isthmus::matcher_loss_test
