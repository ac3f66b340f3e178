#include "p2p/message/matcher.hpp"

#include <gtest/gtest.h>

#include <array>

#include "p2p/message/request_pool.hpp"

namespace isthmus::matcher_test {
namespace {

class MatcherTest : public testing::Test {
 protected:
  Request* post(int source, int tag) {
    Request* receive = pool.take(Request::Kind::receive);
    receive->source = source;
    receive->tag = tag;
    context.post(receive);
    return receive;
  }
  UnexpectedMessage* arrive(int source, int tag) {
    UnexpectedMessage* message = matcher.take_message();
    message->source = source;
    message->tag = tag;
    message->context = &context;
    context.add(message);
    return message;
  }
  void consume(UnexpectedMessage* message) {
    context.remove(message);
    matcher.give_back(message);
  }

  RequestPool pool;
  Matcher matcher;
  MatchContext& context = matcher.open(7, 4);
};

TEST_F(MatcherTest, TheOldestOfEqualReceivesMatches) {
  Request* first = post(1, 5);
  Request* second = post(1, 5);
  EXPECT_EQ(context.match(1, 5), first);
  EXPECT_EQ(context.match(1, 5), second);
  EXPECT_EQ(context.match(1, 5), nullptr);
}

TEST_F(MatcherTest, EnvelopesMatchInSourceAndTag) {
  Request* receive = post(1, 5);
  EXPECT_EQ(context.match(2, 5), nullptr);
  EXPECT_EQ(context.match(1, 6), nullptr);
  EXPECT_EQ(context.match(1, 5), receive);
}

TEST_F(MatcherTest, SpecificAndWildcardReceivesMatchInTheOrderOfPosting) {
  Request* any = post(any_source, 5);
  Request* specific = post(1, 5);
  Request* any_later = post(any_source, any_tag);
  Request* specific_later = post(1, any_tag);
  EXPECT_EQ(context.match(1, 5), any);
  EXPECT_EQ(context.match(1, 5), specific);
  EXPECT_EQ(context.match(1, 5), any_later);
  EXPECT_EQ(context.match(1, 5), specific_later);
}

TEST_F(MatcherTest, ASpecificReceiveThatIsOlderWinsOverAWildcard) {
  Request* specific = post(1, 5);
  Request* any = post(any_source, 5);
  EXPECT_EQ(context.match(2, 5), any) << "not for this source";
  Request* any_again = post(any_source, 5);
  EXPECT_EQ(context.match(1, 5), specific);
  EXPECT_EQ(context.match(1, 5), any_again);
}

TEST_F(MatcherTest, AReceiveOfAnotherTagIsPassedAndStays) {
  Request* other = post(any_source, 1);
  Request* another = post(1, 2);
  Request* wanted = post(any_source, 3);
  EXPECT_EQ(context.match(1, 3), wanted);
  EXPECT_EQ(context.match(1, 2), another);
  EXPECT_EQ(context.match(1, 1), other);
}

TEST_F(MatcherTest, AWithdrawnReceiveDoesNotMatch) {
  std::array receives{post(1, 5), post(1, 5), post(any_source, 5), post(1, 5)};
  context.withdraw(receives[0]);
  context.withdraw(receives[2]);
  EXPECT_EQ(context.match(1, 5), receives[1]);
  EXPECT_EQ(context.match(1, 5), receives[3]);
  EXPECT_EQ(context.match(1, 5), nullptr);
}

TEST_F(MatcherTest, UnexpectedMessagesAreFoundInTheOrderOfArrival) {
  UnexpectedMessage* a = arrive(2, 5);
  UnexpectedMessage* b = arrive(1, 5);
  UnexpectedMessage* c = arrive(1, 6);
  UnexpectedMessage* d = arrive(1, 5);
  EXPECT_EQ(context.find(any_source, any_tag), a);
  EXPECT_EQ(context.find(1, any_tag), b);
  EXPECT_EQ(context.find(any_source, 6), c);
  EXPECT_EQ(context.find(1, 6), c);
  EXPECT_EQ(context.find(3, any_tag), nullptr);
  EXPECT_EQ(context.find(any_source, 7), nullptr);
  consume(b);
  EXPECT_EQ(context.find(1, 5), d);
  consume(a);
  EXPECT_EQ(context.find(any_source, any_tag), c);
  consume(c);
  EXPECT_EQ(context.find(any_source, any_tag), d);
  consume(d);
  EXPECT_FALSE(context.has_unexpected());
}

TEST_F(MatcherTest, MessagesThatComeBeforeTheirContextAreInItWhenItOpens) {
  MatchContext& early = matcher.context(99);
  EXPECT_TRUE(matcher.is_unopened(early));
  EXPECT_FALSE(matcher.is_open(99));
  EXPECT_EQ(matcher.match(early, 2, 1), nullptr);
  std::array<UnexpectedMessage*, 3> messages{};
  for (UnexpectedMessage*& message : messages) {
    message = matcher.take_message();
    message->source = 2;
    message->tag = 1;
    matcher.keep(early, 99, message);
  }
  MatchContext& other = matcher.open(100, 8);
  EXPECT_FALSE(other.has_unexpected());
  MatchContext& opened = matcher.open(99, 8);
  EXPECT_FALSE(matcher.is_unopened(opened));
  EXPECT_EQ(opened.sources(), 8U);
  for (UnexpectedMessage* message : messages) {
    EXPECT_EQ(opened.find(2, 1), message) << "in the order in which they came";
    EXPECT_EQ(message->context, &opened);
    opened.remove(message);
    matcher.give_back(message);
  }
  EXPECT_FALSE(opened.has_unexpected());
  EXPECT_EQ(matcher.take_early(), nullptr);
}

TEST_F(MatcherTest, EarlyMessagesOfSourcesThatTheContextHasNotAreHandedOut) {
  UnexpectedMessage* message = matcher.take_message();
  message->source = 4;
  matcher.keep(matcher.context(99), 99, message);
  UnexpectedMessage* misfit = nullptr;
  const MatchContext& opened = matcher.open(99, 4, [&](UnexpectedMessage* each) { misfit = each; });
  EXPECT_EQ(misfit, message);
  EXPECT_FALSE(opened.has_unexpected());
  matcher.give_back(message);
}

TEST_F(MatcherTest, WhatAProcessCouldCompleteIsTakenOut) {
  const std::array<PeerId, 4> processes{10, 11, 12, 13};
  context.name_sources(processes);
  Request* first = post(1, 5);
  Request* other = post(2, 5);
  Request* any = post(any_source, 5);
  EXPECT_TRUE(context.may_come_from(1, 11));
  EXPECT_FALSE(context.may_come_from(2, 11));
  EXPECT_TRUE(context.may_come_from(any_source, 11));
  EXPECT_FALSE(context.may_come_from(any_source, 14));
  EXPECT_TRUE(context.withdraw_from(14).empty());
  const std::vector<Request*> taken = context.withdraw_from(11);
  EXPECT_EQ(taken, (std::vector{any, first}));
  EXPECT_EQ(context.match(2, 5), other);
}

TEST_F(MatcherTest, ContextsAreApartAndEmptyAfterTheyWereClosed) {
  Request* here = post(1, 5);
  EXPECT_EQ(matcher.context(8).sources(), 0U);
  EXPECT_EQ(matcher.open(8, 4).match(1, 5), nullptr);
  MatchContext& other = matcher.open(9, 4);
  Request* there = pool.take(Request::Kind::receive);
  there->source = 1;
  there->tag = 5;
  other.post(there);
  EXPECT_EQ(&matcher.context(9), &other);
  other.withdraw(there);
  matcher.close(9);
  EXPECT_EQ(matcher.open(9, 4).match(1, 5), nullptr);
  EXPECT_EQ(matcher.context(7).match(1, 5), here);
}

TEST_F(MatcherTest, SourcesBeyondTheGroupAreNone) {
  EXPECT_TRUE(context.is_source(0));
  EXPECT_TRUE(context.is_source(3));
  EXPECT_FALSE(context.is_source(4));
  EXPECT_FALSE(context.is_source(-1));
  EXPECT_FALSE(context.is_source(any_tag));
}

TEST_F(MatcherTest, MessagesThatAreReusedCarryNothingOver) {
  UnexpectedMessage* message = matcher.take_message();
  message->is_awaited = true;
  message->where = pool.take(Request::Kind::send);
  message->large = std::make_unique<std::byte[]>(500);
  message->data = message->large.get();
  matcher.give_back(message);
  UnexpectedMessage* again = matcher.take_message();
  ASSERT_EQ(again, message);
  EXPECT_FALSE(again->is_awaited);
  EXPECT_EQ(again->content(), UnexpectedMessage::Content::bytes);
  EXPECT_EQ(again->large, nullptr);
  matcher.give_back(again);
}

TEST_F(MatcherTest, MessagesThatNobodyReceivesGoWithTheMatcher) {
  for (int i = 0; i < 2000; ++i)
    arrive(i % 4, i);
  EXPECT_TRUE(context.has_unexpected());  // LeakSanitizer proves the rest
}

}  // namespace
}  // namespace isthmus::matcher_test
