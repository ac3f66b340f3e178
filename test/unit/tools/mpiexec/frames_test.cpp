#include "talk/frames.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "node/order.hpp"
#include "talk/pack.hpp"

namespace isthmus::mpiexec::frames_test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::size_t longest = 4 << 20;
constexpr wire::JobKey key{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

std::pair<UniqueFd, UniqueFd> socket_pair() {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

/// One side of a connection, and what somebody on the line has in hand of it.
struct Station {
  explicit Station(std::pair<UniqueFd, UniqueFd> ends, Link made)
      : line(std::move(ends.second)), link(std::move(made)) {}

  static Station head(const wire::JobKey& known = key) {
    auto ends = socket_pair();
    Link link(std::move(ends.first), longest, known);
    return Station(std::move(ends), std::move(link));
  }
  static Station agent(std::uint32_t host = 0, const wire::JobKey& known = key) {
    auto ends = socket_pair();
    Link link(std::move(ends.first), longest, known, host);
    return Station(std::move(ends), std::move(link));
  }

  /// What the link has sent since it was last asked.
  [[nodiscard]] std::string said() {
    link.pump();
    std::string bytes;
    std::array<char, 65536> part{};
    for (ssize_t count = 0; (count = ::read(line.get(), part.data(), part.size())) > 0; link.pump())
      bytes.append(part.data(), static_cast<std::size_t>(count));
    return bytes;
  }
  /// What the link makes of these bytes.
  std::vector<Frame> hears(const std::string& bytes) {
    std::vector<Frame> frames;
    for (std::size_t at = 0; at < bytes.size();) {
      const ssize_t count =
          ::write(line.get(), bytes.data() + at, std::min<std::size_t>(bytes.size() - at, 1 << 16));
      if (count <= 0) break;
      at += static_cast<std::size_t>(count);
      link.listen();
      while (auto frame = link.next())
        frames.push_back(std::move(*frame));
    }
    return frames;
  }
  void hang_up() {
    line.reset();
    link.listen();
  }

  UniqueFd line;
  Link link;
};

/// A head and an agent that have met; what each has said until then.
struct Pair {
  explicit Pair(std::uint32_t host = 0) : agent(Station::agent(host)) {
    opening = agent.said();
    head.hears(opening);
    answer = head.said();
    agent.hears(answer);
    header = agent.said();
    head.hears(header);
    const std::string more = head.said();
    agent.hears(more);
    answer += more;
  }
  /// What the head's frame is on the line.
  std::string from_head(const std::string& body) {
    head.link.send(FrameKind::order, body);
    return head.said();
  }
  std::string from_agent(const std::string& body) {
    agent.link.send(FrameKind::barrier, body);
    return agent.said();
  }

  Station head = Station::head();
  Station agent;
  std::string opening, answer, header;
};

void expect_refused(Station& station, const std::string& bytes, const std::string& what) {
  EXPECT_TRUE(station.hears(bytes).empty()) << what;
  EXPECT_TRUE(station.link.closed()) << what;
}

TEST(Frames, ArriveAsTheyWereSentInWhateverPieces) {
  Pair pair(7);
  EXPECT_EQ(pair.head.link.host(), 7U);
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{5000}, longest - Secrecy::seal_bytes - 1}) {
    const std::string body(size, 'x');
    pair.head.link.send(FrameKind::order, body);
    std::vector<Frame> heard;
    for (std::string part = pair.head.said(); !part.empty(); part = pair.head.said())
      for (Frame& frame : pair.agent.hears(part))
        heard.push_back(std::move(frame));
    ASSERT_EQ(heard.size(), 1U) << size;
    EXPECT_EQ(heard[0].kind, FrameKind::order);
    EXPECT_EQ(heard[0].body, body);
  }
  const std::string bytes = pair.from_agent("put");
  std::size_t frames = 0;
  for (const char byte : bytes)
    frames += pair.head.hears(std::string(1, byte)).size();
  EXPECT_EQ(frames, 1U);
}

TEST(Frames, WaitForTheAnswerWhereTheyAreSentBeforeIt) {
  Station agent = Station::agent(3);
  agent.link.send(FrameKind::hello, "first");
  agent.link.send(FrameKind::started, "second");
  Station head = Station::head();
  EXPECT_TRUE(head.hears(agent.said()).empty());
  agent.hears(head.said());
  const auto heard = head.hears(agent.said());
  ASSERT_EQ(heard.size(), 2U);
  EXPECT_EQ(heard[0].body, "first");
  EXPECT_EQ(heard[1].body, "second");
}

TEST(Frames, ShowNothingOfWhatIsSaidToWhoListens) {
  Pair pair;
  const std::string line =
      pair.opening + pair.answer + pair.header + pair.from_head("TOKEN=secret") + pair.from_agent("a place");
  EXPECT_THAT(line, Not(HasSubstr("TOKEN")));
  EXPECT_THAT(line, Not(HasSubstr("secret")));
  EXPECT_THAT(line, Not(HasSubstr("a place")));
  EXPECT_THAT(line, Not(HasSubstr(std::string(key.begin(), key.end()))));
  EXPECT_NE(pair.from_head("again"), pair.from_head("again"));
}

TEST(Frames, EndTheConnectionWhereAnyBitOfThemWasChanged) {
  const std::string sound = Pair().from_head("end all");
  for (std::size_t at = 0; at < sound.size(); ++at)
    for (const int bit : {0, 7}) {
      Pair pair;
      std::string bytes = pair.from_head("end all");
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << bit));
      // A length that has grown waits for the rest, which must not help it.
      EXPECT_TRUE(pair.agent.hears(bytes).empty()) << at;
      if (!pair.agent.link.closed())
        expect_refused(pair.agent, std::string(longest, 'x'), std::to_string(at));
    }
}

TEST(Frames, EndTheConnectionWhereOneIsRepeatedLeftOutOrOvertaken) {
  {
    Pair pair;
    const std::string bytes = pair.from_head("once");
    EXPECT_EQ(pair.agent.hears(bytes).size(), 1U);
    expect_refused(pair.agent, bytes, "repeated");
  }
  Pair pair;
  const std::string first = pair.from_head("first");
  const std::string second = pair.from_head("second");
  expect_refused(pair.agent, second, "left out");
  EXPECT_TRUE(pair.agent.hears(first).empty());
}

TEST(Frames, AreRefusedByWhoHasSentThem) {
  Pair pair;
  const std::string order = pair.from_head("order");
  expect_refused(pair.head, order, "the head's own");
  Pair other;
  const std::string put = other.from_agent("put");
  expect_refused(other.agent, put, "the agent's own");
  Station agent = Station::agent();
  const std::string opening = agent.said();
  agent.hears(opening);  // its first bytes, taken for an answer
  agent.link.send(FrameKind::hello);
  expect_refused(agent, agent.said(), "what it has said to itself");
}

TEST(Frames, ForOneHostAreNothingToAnother) {
  Pair first(0);
  Pair second(1);
  const std::string order = first.from_head("order for host 0");
  expect_refused(second.agent, order, "an order of another connection");
  // From its beginning: the same nonce of the head, and all that the head has said.
  Station fresh = Station::agent(1);
  static_cast<void>(fresh.said());
  expect_refused(fresh, first.answer + order, "another connection's words from the start");
  Station claimed = Station::head();
  std::string opening = Station::agent(0).said();
  opening[offsetof(Opening, host)] = 1;
  expect_refused(claimed, opening, "an opening with another host in it");
  EXPECT_EQ(claimed.said(), "");
}

TEST(Frames, OfAConnectionThatIsPlayedAgainAreRefused) {
  Pair pair;
  const std::string put = pair.from_agent("put");
  Station head = Station::head();
  EXPECT_TRUE(head.hears(pair.opening).empty());
  EXPECT_FALSE(head.link.closed());
  expect_refused(head, pair.header + put, "the agent's words of another connection");
}

TEST(Frames, ThatAreCutOffAreNone) {
  Pair sound;
  const std::string whole = sound.from_head("order");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    Pair pair;
    EXPECT_TRUE(pair.agent.hears(pair.from_head("order").substr(0, size)).empty()) << size;
    pair.agent.hang_up();
    EXPECT_FALSE(pair.agent.link.next()) << size;
    EXPECT_TRUE(pair.agent.link.closed()) << size;
  }
}

TEST(Frames, AreNotAnsweredWithoutTheKey) {
  wire::JobKey wrong = key;
  wrong.back() ^= 1;
  for (const std::string& bytes : {Station::agent(0, wrong).said(), std::string(5000, 'x'),
                                   "GET / HTTP/1.1\r\n\r\n" + std::string(100, ' ')}) {
    Station head = Station::head();
    expect_refused(head, bytes, "no opening");
    EXPECT_EQ(head.said(), "");
  }
  Station agent = Station::agent();
  Station impostor = Station::head(wrong);
  static_cast<void>(agent.said());
  agent.link.send(FrameKind::hello, "host 0");
  agent.hears(impostor.said() + std::string(sizeof(Answer) + Secrecy::header_bytes, 'x'));
  expect_refused(agent, std::string(100, '\1'), "a head without the key");
}

TEST(Frames, LongerThanAllowedEndTheConnection) {
  Pair pair;
  pair.agent.link.allow(100);
  EXPECT_EQ(pair.agent.hears(pair.from_head(std::string(100 - Secrecy::seal_bytes - 1, 'x'))).size(), 1U);
  expect_refused(pair.agent, pair.from_head(std::string(100 - Secrecy::seal_bytes, 'x')), "one byte more");
}

constexpr int fuzzed_inputs = 30'000;

/// A few bytes of `sound` changed, some put in or left out: what nearly makes sense is worse than nonsense.
std::string damaged(std::string sound, std::mt19937_64& random) {
  for (auto times = random() % 4 + 1; times > 0 && !sound.empty(); --times) {
    const std::size_t at = random() % sound.size();
    switch (random() % 4) {
      case 0:
        sound[at] = static_cast<char>(random());
        break;
      case 1:
        sound.insert(at, std::string(random() % 20, static_cast<char>(random())));
        break;
      case 2:
        sound.erase(at, random() % 20 + 1);
        break;
      default:
        sound.replace(at, std::min<std::size_t>(4, sound.size() - at),
                      random() % 2 ? "\xff\xff\xff\xff" : std::string(4, '\0'));
    }
  }
  return sound;
}

TEST(FrameBodies, ReadAsNothingOrAsWhatPacksToTheSame) {
  Options options;
  options.parts = {{.command = {"program", "a b"}}, {.command = {"other"}}};
  const std::vector<std::string> sound{
      pack(Hello{3, "1.0"}),
      pack(Order{.job = "job",
                 .folder = "/",
                 .environment = {"A=1", "B=2"},
                 .first_rank = 1,
                 .world = 4,
                 .mapping = "m",
                 .options = options}),
      pack(Failure{.kind = Failure::Kind::signal, .rank = 1, .pid = 2, .value = 9}),
      pack(Pairs{{"a", "1"}, {"b", "2"}})};
  std::mt19937_64 random(12);
  for (int i = 0; i < fuzzed_inputs; ++i) {
    const std::string bytes = damaged(sound[random() % sound.size()], random);
    if (const auto pairs = unpack_pairs(bytes)) EXPECT_EQ(unpack_pairs(pack(*pairs)), pairs);
    if (const auto order = unpack_order(bytes)) EXPECT_TRUE(unpack_order(pack(*order)));
    if (const auto hello = unpack_hello(bytes)) EXPECT_TRUE(unpack_hello(pack(*hello)));
    if (const auto failure = unpack_failure(bytes)) EXPECT_TRUE(unpack_failure(pack(*failure)));
  }
}

TEST(Frames, ThatWereDamagedAnywhereInAConversationAreNotBelieved) {
  std::mt19937_64 random(12);
  for (int i = 0; i < fuzzed_inputs / 10; ++i) {
    Station agent = Station::agent(1);
    Station head = Station::head();
    agent.link.send(FrameKind::hello, "hello");
    const bool in_opening = random() % 2 == 0;
    const std::string opening = agent.said();
    const std::string heard = in_opening ? damaged(opening, random) : opening;
    EXPECT_TRUE(head.hears(heard).empty());
    if (in_opening && !heard.starts_with(opening)) {
      EXPECT_EQ(head.said(), "") << i;
      continue;
    }
    agent.hears(head.said());
    const std::string words = agent.said();
    const std::string changed = damaged(words, random);
    for (const Frame& frame : head.hears(changed))
      EXPECT_EQ(frame.body, "hello") << i;
  }
}

}  // namespace
}  // namespace isthmus::mpiexec::frames_test
