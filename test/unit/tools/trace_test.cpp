#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "route/plan.hpp"
#include "trace/model.hpp"
#include "trace/record.hpp"

namespace isthmus::tool::trace::trace_test {
namespace {

namespace file = isthmus::trace;
using file::Kind;
using file::Record;
using testing::HasSubstr;

/// A rank's file, record by record.
class File {
 public:
  /// `kernel`: whose clock it has.
  File(std::uint32_t rank, std::uint32_t size, char kernel = 'a') {
    file::Header header{};
    header.magic = file::magic;
    header.header_bytes = file::header_bytes;
    header.record_bytes = sizeof(Record);
    header.rank = rank;
    header.size = size;
    header.boot = {kernel, 0};
    bytes_.resize(file::header_bytes);
    std::memcpy(bytes_.data(), &header, sizeof header);
    Record name = make(Kind::name, 1);
    name.is = {.context = 0, .bytes = 0, .name = 1, .text = {"MPI_Recv"}};
    add(name);
  }
  static Record make(Kind kind, std::int64_t time) {
    Record record{};
    record.kind = kind;
    record.thread = 5;
    record.time = time;
    return record;
  }
  File& add(const Record& record) {
    const auto* const begin = reinterpret_cast<const std::byte*>(&record);
    bytes_.insert(bytes_.end(), begin, begin + sizeof record);
    return *this;
  }
  /// `name`: one that `names` has told; 1: MPI_Recv.
  File& call(std::int64_t begin, std::uint16_t name = 1) {
    Record record = make(Kind::call_begin, begin);
    record.of.name = name;
    return add(record);
  }
  File& names(std::uint16_t name, const char* text) {
    Record record = make(Kind::name, 1);
    record.is = {.context = 0, .bytes = 0, .name = name, .text = {}};
    std::strncpy(record.is.text.data(), text, record.is.text.size() - 1);
    return add(record);
  }
  File& begins(std::int64_t time, const file::Collective& what) {
    Record record = make(Kind::collective, time);
    record.collective = what;
    return add(record);
  }
  File& ends(std::int64_t time, const file::Collective& what) {
    Record record = make(Kind::collective_end, time);
    record.collective = what;
    return add(record);
  }
  File& end(std::int64_t time) { return add(make(Kind::call_end, time)); }
  File& send(std::int64_t time, int to, int tag, std::uint64_t bytes) {
    Record record = make(Kind::send, time);
    record.of.peer = to;
    record.of.tag = tag;
    record.of.bytes = bytes;
    return add(record);
  }
  File& receive(std::int64_t time, std::uint64_t request) {
    Record record = make(Kind::receive, time);
    record.of.number = request;
    record.of.peer = -1;
    return add(record);
  }
  File& got(std::int64_t time, std::uint64_t request, int from, int tag, std::uint64_t bytes) {
    Record record = make(Kind::complete, time);
    record.of.number = request;
    record.of.peer = from;
    record.of.tag = tag;
    record.of.bytes = bytes;
    record.of.flags = file::is_matched;
    return add(record);
  }
  std::vector<std::byte>& bytes() { return bytes_; }
  [[nodiscard]] Rank read() const { return trace::read(bytes_).value(); }

 private:
  std::vector<std::byte> bytes_;
};

TEST(Trace, WaitOfAReceiveIsFromItsBeginToTheSendsAndTheRestIsNot) {
  const File receiver = File(0, 2).call(100).receive(110, 7).got(900, 7, 1, 3, 8).end(1000);
  const File sender = File(1, 2).call(600).send(610, 0, 3, 8).end(700);
  const Job job = analyse({receiver.read(), sender.read()}).value();
  const Call& call = job.ranks[0].calls.at(0);
  EXPECT_EQ(call.waits_for, 1);
  EXPECT_EQ(call.waits_until, 610);
  EXPECT_EQ(job.ranks[1].calls.at(0).waits_for, -1);
}

TEST(Trace, NoWaitForASenderThatCameFirst) {
  const File receiver = File(0, 2).call(100).receive(110, 7).got(900, 7, 1, 3, 8).end(1000);
  const File sender = File(1, 2).call(40).send(50, 0, 3, 8).end(60);
  const Job job = analyse({receiver.read(), sender.read()}).value();
  EXPECT_EQ(job.ranks[0].calls.at(0).waits_for, -1);
}

TEST(Trace, MessagesArePairedByWhenReceivesBeganAndNotByWhenTheyEnded) {
  const File receiver = File(0, 2).receive(10, 1).receive(20, 2).got(30, 2, 1, 3, 200).got(40, 1, 1, 3, 100);
  const File sender = File(1, 2).send(1, 0, 3, 100).send(2, 0, 3, 200);
  const Job job = analyse({receiver.read(), sender.read()}).value();
  ASSERT_EQ(job.messages.size(), 2U);
  for (const Message& message : job.messages)
    EXPECT_EQ(job.ranks[1].sends.at(message.send).bytes, job.ranks[0].receives.at(message.receive).bytes);
}

TEST(Trace, ClocksOfKernelsAreAlignedByMessagesThatWentBothWays) {
  // Rank 1's clock is 10,000 ahead; a message takes 100 there, and 300 back.
  const File first = File(0, 2).send(1000, 1, 3, 8).receive(1010, 1).got(1900, 1, 1, 3, 8);
  const File second = File(1, 2, 'b').receive(10'900, 1).got(11'100, 1, 0, 3, 8).send(11'600, 0, 3, 8);
  const Job job = analyse({first.read(), second.read()}).value();
  EXPECT_EQ(job.kernels, 2U);
  EXPECT_FALSE(job.is_aligned_roughly);
  EXPECT_EQ(job.clock_error, 200);
  EXPECT_EQ(job.ranks[1].sends.at(0).begin, 11'600 - 9'900);
  EXPECT_THAT(summary(job),
              HasSubstr("on 2 kernels: their clocks are aligned by the messages between them, to 0.2 us."));
  EXPECT_THAT(to_json(job, 0, 1), HasSubstr("clock to 0.200 us"));
}

TEST(Trace, ClocksAreAlignedFromKernelToKernelAndByTheTimeOfDayWhereNoneWentBothWays) {
  // The third kernel is 500 ahead of the second, which is 1000 ahead of the first; nobody has heard of the
  // fourth.
  const File first = File(0, 4).send(100, 1, 0, 8).receive(110, 1).got(200, 1, 1, 0, 8);
  const File second = File(1, 4, 'b')
                          .receive(1000, 1)
                          .got(1150, 1, 0, 0, 8)
                          .send(1150, 0, 0, 8)
                          .send(1300, 2, 0, 8)
                          .receive(1310, 2)
                          .got(1400, 2, 2, 0, 8);
  const File third = File(2, 4, 'c').receive(1700, 1).got(1850, 1, 1, 0, 8).send(1850, 1, 0, 8);
  const File fourth = File(3, 4, 'd').send(77, 0, 9, 8);
  const Job job = analyse({first.read(), second.read(), third.read(), fourth.read()}).value();
  EXPECT_EQ(job.ranks[1].sends.at(0).begin, 150);
  EXPECT_EQ(job.ranks[2].sends.at(0).begin, 350);
  EXPECT_EQ(job.ranks[2].clock_error, 100);
  EXPECT_EQ(job.ranks[3].sends.at(0).begin, 77);
  EXPECT_TRUE(job.is_aligned_roughly);
  EXPECT_THAT(summary(job), HasSubstr("by the time of day"));
}

TEST(Trace, AProbeWaitsForTheSenderOfWhatIsReceivedNext) {
  File receiver(0, 2);
  Record name = File::make(Kind::name, 1);
  name.is = {.context = 0, .bytes = 0, .name = 2, .text = {"MPI_Probe"}};
  Record probe = File::make(Kind::call_begin, 100);
  probe.of.name = 2;
  receiver.add(name).add(probe).end(700).call(720).receive(730, 7).got(740, 7, 1, 3, 8).end(750);
  const File sender = File(1, 2).call(600).send(610, 0, 3, 8).end(620);
  const Job job = analyse({receiver.read(), sender.read()}).value();
  EXPECT_EQ(job.ranks[0].calls.at(0).waits_for, 1);
  EXPECT_EQ(job.ranks[0].calls.at(0).waits_until, 610);
  EXPECT_EQ(job.ranks[0].calls.at(1).waits_for, -1);
}

file::Collective collective(int member, file::Needs needs, file::Form form) {
  return {.number = 1,
          .bytes = 8,
          .context = 4,
          .root = -1,
          .member = member,
          .tag = 9,
          .needs = needs,
          .form = form};
}

TEST(Trace, AScanWaitsForWhoeverOfLowerRankCameLast) {
  // Their ranks in the communicator are 2, 0 and 1.
  std::vector<Rank> ranks;
  const int members[] = {2, 0, 1};
  const std::int64_t begins[] = {100, 500, 900};
  for (std::uint32_t r = 0; r < 3; ++r) {
    const auto what = collective(members[r], file::Needs::before, file::Form::blocking);
    ranks.push_back(File(r, 3).call(begins[r]).begins(begins[r] + 1, what).end(2000).read());
  }
  const Job job = analyse(ranks).value();
  EXPECT_EQ(job.ranks[0].calls.at(0).waits_for, 2);
  EXPECT_EQ(job.ranks[0].calls.at(0).waits_until, 900);
  EXPECT_EQ(job.ranks[1].calls.at(0).waits_for, -1);
  EXPECT_EQ(job.ranks[2].calls.at(0).waits_for, -1) << "rank 0 of the communicator came first";
}

TEST(Trace, AWaitForACollectiveIsForWhoeverHasStartedItLastAndATestIsNot) {
  const auto form = file::Form::persistent;
  const auto here = collective(0, file::Needs::all, form), there = collective(1, file::Needs::all, form);
  const File first = File(0, 2)
                         .names(2, "MPI_Start")
                         .names(3, "MPI_Wait")
                         .names(4, "MPI_Test")
                         .call(100, 2)
                         .begins(110, here)
                         .end(120)
                         .call(130, 3)
                         .ends(290, here)
                         .end(300)
                         .call(400, 2)
                         .begins(410, here)
                         .end(420)
                         .call(430, 4)
                         .ends(690, here)
                         .end(700);
  const File second = File(1, 2).begins(90, there).ends(200, there).begins(600, there).ends(700, there);
  const File late = File(1, 2).begins(250, there).ends(280, there).begins(600, there).ends(700, there);
  EXPECT_EQ(analyse({first.read(), second.read()}).value().ranks[0].calls.at(1).waits_for, -1);
  const Job job = analyse({first.read(), late.read()}).value();
  EXPECT_EQ(job.ranks[0].calls.at(1).waits_for, 1);
  EXPECT_EQ(job.ranks[0].calls.at(1).waits_until, 250);
  EXPECT_EQ(job.ranks[0].calls.at(3).waits_for, -1);
}

TEST(Trace, WhatGpusCarryIsOnLinesOfItsOwnWithoutOverlap) {
  File receiver(0, 2);
  const auto carried = [&](std::uint64_t request, std::int64_t begin) {
    receiver.receive(begin - 5, request);
    Record record = File::make(Kind::carry, begin);
    record.of.number = request;
    receiver.add(record);
  };
  const auto got = [&](std::uint64_t request, std::int64_t end, Protocol way) {
    Record record = File::make(Kind::complete, end);
    record.of = {.number = request,
                 .bytes = 8,
                 .context = 0,
                 .peer = 1,
                 .tag = static_cast<int>(request),
                 .flags = file::is_matched,
                 .name = 0,
                 .way = static_cast<std::uint16_t>(way)};
    receiver.add(record);
  };
  carried(1, 1000);
  carried(2, 2000);
  got(1, 3000, Protocol::gpu_pull);
  got(2, 4000, Protocol::gpu_push);
  carried(3, 5000);
  got(3, 6000, Protocol::gpu_staged);
  carried(4, 7000);
  got(4, 8000, Protocol::gpu_courier);
  carried(5, 9000);
  got(5, 9500, Protocol::pull);
  const std::string text = to_json(analyse({receiver.read()}).value(), 0, 1);
  EXPECT_THAT(
      text,
      testing::ContainsRegex(
          R"-("tid":1048576,"ph":"X","cat":"gpu","name":"from rank 1, 8 bytes","ts":0.999,"dur":2.000)-"));
  EXPECT_THAT(text,
              testing::ContainsRegex(R"-("tid":1048577,"ph":"X","cat":"gpu",.*"ts":1.999,"dur":2.000)-"));
  EXPECT_THAT(text,
              testing::ContainsRegex(R"-("tid":1048576,"ph":"X","cat":"gpu",.*"ts":4.999,"dur":1.000)-"));
  EXPECT_THAT(text,
              testing::ContainsRegex(R"-("tid":2097152,"ph":"X","cat":"gpu",.*"ts":6.999,"dur":1.000)-"));
  EXPECT_THAT(text, HasSubstr(R"-("copies by GPUs, 2")-"));
  EXPECT_THAT(text, HasSubstr(R"-("couriers")-"));
  EXPECT_THAT(text, testing::Not(HasSubstr(R"-("ts":8.999)-")));
}

TEST(Trace, EndsWithoutAnotherAreKeptAsSuch) {
  const File receiver = File(0, 2).receive(10, 1).got(30, 1, 1, 4, 200);
  const File sender = File(1, 2).send(1, 0, 3, 100);
  const Job job = analyse({receiver.read(), sender.read()}).value();
  ASSERT_EQ(job.messages.size(), 2U);
  EXPECT_EQ(job.messages[0].send, nowhere);
  EXPECT_EQ(job.messages[1].receive, nowhere);
  EXPECT_THAT(summary(job), HasSubstr("2 sends and receives have no other end"));
}

TEST(Trace, FilesOfAnotherJobAndTwoOfOneRankAreRefused) {
  EXPECT_FALSE(analyse({}));
  EXPECT_THAT(analyse({File(0, 2).read(), File(1, 3).read()}).error(), HasSubstr("several jobs"));
  EXPECT_THAT(analyse({File(1, 2).read(), File(1, 2).read()}).error(), HasSubstr("rank 1"));
}

TEST(Trace, TextOfAFileCannotLeaveItsPlace) {
  Record name = File::make(Kind::name, 2);
  name.is = {.context = 0, .bytes = 0, .name = 1, .text = {"a\"b\\c\x1b[31m"}};
  const File evil = File(0, 1).add(name).call(3).end(4);
  EXPECT_EQ(evil.read().calls.at(0).name, "a?b?c?[31m");
}

// Whatever a file holds, reading it ends, and so does all that follows.
TEST(Trace, AnyBytesAreReadOrRefused) {
  std::mt19937 random(1);
  for (int round = 0; round < 400; ++round) {
    File whole = File(0, 2).call(100).receive(110, 7).got(900, 7, 1, 3, 8).send(910, 1, 2, 8).end(1000);
    const auto some = collective(0, file::Needs::neighbours, static_cast<file::Form>(round % 3));
    whole.call(1100).begins(1100, some).ends(1200, some).end(1200);
    auto& bytes = whole.bytes();
    for (int i = 0; i < 1 + round % 8; ++i) {
      const bool in_header = round % 3 == 0;
      const std::size_t begin = in_header ? 0 : file::header_bytes;
      const std::size_t size = in_header ? sizeof(file::Header) : bytes.size() - begin;
      bytes[begin + random() % size] = static_cast<std::byte>(random());
    }
    if (round % 5 == 0) bytes.resize(random() % bytes.size());
    const auto rank = trace::read(bytes);
    if (!rank) continue;
    const auto job = analyse({*rank});
    ASSERT_TRUE(job);
    EXPECT_THAT(to_json(*job, 0, 1e9), HasSubstr("traceEvents"));
    EXPECT_FALSE(summary(*job).empty());
  }
}

}  // namespace
}  // namespace isthmus::tool::trace::trace_test
