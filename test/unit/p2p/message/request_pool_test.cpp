#include "p2p/message/request_pool.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace isthmus::request_pool_test {
namespace {

TEST(RequestPool, FindsTheLivingByIndexAndGeneration) {
  RequestPool pool;
  Request* request = pool.take(Request::Kind::send);
  EXPECT_EQ(pool.find(request->cookie()), request);
  EXPECT_EQ(pool.find(request->index, request->generation), request);
  EXPECT_EQ(pool.at(request->index), request);
  EXPECT_EQ(pool.living(), 1U);
}

TEST(RequestPool, StaleCookiesFindNothing) {
  RequestPool pool;
  Request* request = pool.take(Request::Kind::receive);
  const wire::Cookie stale = request->cookie();
  pool.give_back(request);
  EXPECT_EQ(pool.find(stale), nullptr);
  Request* again = pool.take(Request::Kind::receive);
  ASSERT_EQ(again, request) << "the last one given back is the next one taken";
  EXPECT_EQ(pool.find(stale), nullptr);
  EXPECT_NE(again->cookie(), stale);
  EXPECT_EQ(pool.find(again->cookie()), again);
}

TEST(RequestPool, WhatOneOperationWasAskedIsNotAskedOfTheNext) {
  constexpr bool Request::* marks[]{&Request::complete,    &Request::cancelled, &Request::matched,
                                    &Request::synchronous, &Request::unsent,    &Request::released,
                                    &Request::orphan,      &Request::exhausted};
  RequestPool pool;
  Request* request = pool.take(Request::Kind::send);
  for (bool Request::* mark : marks)
    request->*mark = true;
  pool.give_back(request);
  ASSERT_EQ(pool.take(Request::Kind::send), request);
  for (bool Request::* mark : marks)
    EXPECT_FALSE(request->*mark);
}

TEST(RequestPool, WhatNobodyTookIsNotFound) {
  RequestPool pool;
  EXPECT_EQ(pool.find(0), nullptr);
  EXPECT_EQ(pool.find(~wire::Cookie{0}), nullptr);
  Request* request = pool.take(Request::Kind::send);
  for (std::uint32_t index = 0; index < 1000; ++index)
    for (std::uint32_t generation = 0; generation < 3; ++generation) {
      const bool taken = index == request->index && generation == request->generation;
      EXPECT_EQ(pool.find(index, generation), taken ? request : nullptr) << index << ", " << generation;
    }
  EXPECT_EQ(pool.at(request->index + 1), nullptr);
  EXPECT_EQ(pool.at(~std::uint32_t{0}), nullptr);
}

TEST(RequestPool, GenerationsStayWithin24BitsAndComeAround) {
  RequestPool pool;
  Request* request = pool.take(Request::Kind::send);
  request->generation = 0xff'ffff;
  pool.give_back(request);
  request = pool.take(Request::Kind::send);
  EXPECT_EQ(request->generation, 0U);
  EXPECT_EQ(pool.find(request->cookie()), request);
}

TEST(RequestPool, GrowsWithoutMovingAnybody) {
  RequestPool pool;
  std::vector<Request*> requests;
  std::set<wire::Cookie> cookies;
  for (int i = 0; i < 1000; ++i) {
    requests.push_back(pool.take(Request::Kind::send));
    cookies.insert(requests.back()->cookie());
  }
  EXPECT_EQ(cookies.size(), 1000U);
  EXPECT_EQ(pool.living(), 1000U);
  for (Request* request : requests)
    EXPECT_EQ(pool.find(request->cookie()), request);
  for (Request* request : requests)
    pool.give_back(request);
  EXPECT_EQ(pool.living(), 0U);
}

TEST(RequestPool, NothingOfAnEarlierUseIsLeft) {
  RequestPool pool;
  Request* request = pool.take(Request::Kind::send);
  request->complete = request->cancelled = request->matched = request->synchronous = request->unsent =
      request->orphan = true;
  request->status = {.source = 3, .tag = 4, .error = 5, .cancelled = true, .bytes = 6};
  request->moved = 7;
  request->limit = 8;
  request->transfer = Request::Transfer::stream;
  request->peer = reinterpret_cast<Peer*>(64);
  pool.give_back(request);
  request = pool.take(Request::Kind::receive);
  EXPECT_FALSE(request->complete || request->cancelled || request->matched || request->synchronous ||
               request->unsent || request->orphan);
  EXPECT_EQ(request->status.source, any_source);
  EXPECT_EQ(request->status.tag, any_tag);
  EXPECT_EQ(request->status.error, 0);
  EXPECT_FALSE(request->status.cancelled);
  EXPECT_EQ(request->status.bytes, 0U);
  EXPECT_EQ(request->moved, 0U);
  EXPECT_EQ(request->limit, 0U);
  EXPECT_EQ(request->transfer, Request::Transfer::none);
  EXPECT_EQ(request->peer, nullptr);
  EXPECT_FALSE(request->cursor);
  EXPECT_FALSE(request->type);
  EXPECT_FALSE(request->owner);
}

}  // namespace
}  // namespace isthmus::request_pool_test
