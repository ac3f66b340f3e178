// What the library does with bytes of peers, with names, with indices, and how it finds quiescence. What
// chares do is in test/chare.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <isthmus/chare/archive.hpp>

#include <map>
#include <random>
#include <vector>

#include "chare/collection.hpp"
#include "chare/index_map.hpp"
#include "chare/items.hpp"
#include "chare/message.hpp"
#include "chare/quiescence.hpp"
#include "chare/record.hpp"

namespace isthmus::chare::chare_test {
namespace {

using testing::HasSubstr;

std::vector<std::byte> written(const Record& record, std::string_view payload) {
  std::vector<std::byte> bytes(record_size(record, payload.size()));
  std::memcpy(write_record(bytes.data(), record, payload.size()), payload.data(), payload.size());
  return bytes;
}
std::string text_of(const Record& record) {
  return {reinterpret_cast<const char*>(record.payload.data()), record.payload.size()};
}

TEST(ChareRecord, IsReadAsItWasWritten) {
  for (const bool tail : {false, true}) {
    Record record{.kind = RecordKind::insert, .item = 7, .collection = 9, .index = {11, 0}};
    if (tail) {
      record.index.high = 12;
      record.priority = -3;
      record.origin = 2;
    }
    auto bytes = written(record, "first");
    const auto second = written({.kind = RecordKind::exit}, "");
    bytes.insert(bytes.end(), second.begin(), second.end());
    std::span<const std::byte> rest = bytes;
    const Result<Record> read = read_record(rest);
    ASSERT_TRUE(read);
    EXPECT_EQ(read->kind, RecordKind::insert);
    EXPECT_EQ(read->item, 7);
    EXPECT_EQ(read->collection, 9);
    EXPECT_TRUE(is_same(read->index, record.index));
    EXPECT_EQ(read->priority, record.priority);
    EXPECT_EQ(read->origin, record.origin);
    EXPECT_EQ(text_of(*read), "first");
    EXPECT_EQ(rest.size(), second.size());
    EXPECT_EQ(read_record(rest)->kind, RecordKind::exit);
    EXPECT_TRUE(rest.empty());
  }
}

TEST(ChareRecord, AnInvocationOfEightBytesFitsIntoACell) {
  EXPECT_LE(
      record_size({.kind = RecordKind::invoke, .item = 65535, .collection = ~0UL, .index = {~0UL, 0}}, 8),
      32);
}

TEST(ChareRecord, EveryCutIsRefused) {
  const auto bytes = written({.kind = RecordKind::invoke, .index = {1, 2}}, "payload!");
  for (std::size_t size = 0; size + 1 < bytes.size(); ++size) {
    std::span<const std::byte> rest(bytes.data(), size);
    const Result<Record> read = read_record(rest);
    ASSERT_FALSE(read) << size;
    EXPECT_EQ(read.error().error_class(), ErrorClass::truncate);
  }
}

TEST(ChareRecord, KindsFlagsAndSizesThatAreNoneAreRefused) {
  const auto refused = [](auto change) {
    auto bytes = written({.kind = RecordKind::invoke}, "12345678");
    RecordHeader header;
    std::memcpy(&header, bytes.data(), sizeof header);
    change(header);
    std::memcpy(bytes.data(), &header, sizeof header);
    std::span<const std::byte> rest = bytes;
    const Result<Record> read = read_record(rest);
    return read ? std::string("read") : read.error().text();
  };
  EXPECT_THAT(refused([](RecordHeader& header) { header.kind = 0; }), HasSubstr("no record of kind 0"));
  EXPECT_THAT(refused([](RecordHeader& header) { header.kind = 200; }), HasSubstr("no record of kind 200"));
  EXPECT_THAT(refused([](RecordHeader& header) { header.flags = 0x82; }), HasSubstr("unknown flags"));
  EXPECT_THAT(refused([](RecordHeader& header) { header.bytes = 8; }), HasSubstr("a record of 8 bytes"));
  EXPECT_THAT(refused([](RecordHeader& header) { header.bytes = ~0U; }),
              HasSubstr("a record of 4294967295 bytes"));
  EXPECT_THAT(refused([](RecordHeader& header) {
                header.flags = record_has_tail;
                header.bytes = 32;
              }),
              HasSubstr("a record of 32 bytes"));
  EXPECT_EQ(refused([](RecordHeader&) {}), "read");
}

TEST(ChareRecord, NoBytesMakeAReaderLeaveItsMessage) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::byte> bytes(random() % 200);
    for (auto& each : bytes)
      each = static_cast<std::byte>(random() % 4 == 0 ? random() : random() % 40);
    std::span<const std::byte> rest = bytes;
    while (!rest.empty()) {
      const std::size_t before = rest.size();
      const Result<Record> read = read_record(rest);
      if (!read) break;
      ASSERT_LT(rest.size(), before);
      const std::byte* const end = read->payload.data() + read->payload.size();
      ASSERT_TRUE(read->payload.data() >= bytes.data() && end <= bytes.data() + bytes.size());
    }
  }
}

// --- items

std::vector<Item> items_named(const std::vector<const char*>& names) {
  std::vector<Item> items(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    items[i].name = names[i];
    items[i].kind = ISTHMUS_CHARE_ENTRY;
  }
  return items;
}
Result<Items> numbered(std::vector<Item>& items) {
  std::vector<Item*> pointers;
  for (Item& each : items)
    pointers.push_back(&each);
  return Items::make(pointers);
}

TEST(ChareItems, HaveTheSameNumbersInWhateverOrderTheyCome) {
  auto one = items_named({"1b", "1a", "1c"});
  auto other = items_named({"1c", "1b", "1a"});
  const auto first = numbered(one);
  const auto second = numbered(other);
  EXPECT_EQ(one[0].number, other[1].number);
  EXPECT_EQ(one[1].number, other[2].number);
  EXPECT_EQ(one[2].number, other[0].number);
  EXPECT_EQ(first->difference(second->list()), "");
  EXPECT_EQ(first->find(1, ISTHMUS_CHARE_ENTRY), &one[0]);
  EXPECT_EQ(first->find(1, ISTHMUS_CHARE_REDUCER), nullptr);
  EXPECT_EQ(first->find(3, ISTHMUS_CHARE_ENTRY), nullptr);
}

TEST(ChareItems, OneNameTwiceIsRefusedAndNamed) {
  auto items = items_named({"1a", "N4main4CellE", "N4main4CellE"});
  const auto refused = numbered(items);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().text(), HasSubstr("two are called"));
}

TEST(ChareItems, TheFirstThatDiffersIsNamed) {
  auto few = items_named({"1a", "1c"});
  auto more = items_named({"1a", "1b", "1c"});
  const auto without = numbered(few);
  const auto with = numbered(more);
  EXPECT_EQ(with->difference(without->list()), "b is here alone");
  EXPECT_EQ(without->difference(with->list()), "b is not here");
  few[0].kind = ISTHMUS_CHARE_TYPE;
  EXPECT_THAT(numbered(few)->difference(with->list()), HasSubstr("a is of kind 1 here and 3 there"));
}

// --- indices

TEST(ChareIndexMap, FindsWhatAMapFindsWhateverIsErased) {
  struct Thing {
    Index index;
  };
  struct IndexOfThing {
    Index operator()(const Thing* thing) const noexcept { return thing->index; }
  };
  std::mt19937_64 random(11);
  std::vector<Thing> things(500);
  for (std::size_t i = 0; i < things.size(); ++i)
    things[i].index = {i / 3, i % 3};
  IndexMap<Thing*, IndexOfThing> map;
  std::map<std::size_t, bool> there;
  for (int step = 0; step < 40000; ++step) {
    const std::size_t i = random() % things.size();
    if (!there[i]) {
      ASSERT_EQ(map.find(things[i].index), nullptr);
      if (step % 2 == 0) map.insert(&things[i]), there[i] = true;
    } else {
      ASSERT_EQ(map.find(things[i].index), &things[i]);
      if (step % 2 == 0) map.erase(things[i].index), there[i] = false;
    }
  }
  std::size_t count = 0;
  for (const auto& [i, is_there] : there)
    count += is_there ? 1 : 0;
  EXPECT_EQ(map.size(), count);
}

TEST(ChareCollection, BlocksOfADenseOneAreWhatTheirHomesSay) {
  for (const std::uint32_t processes : {1U, 2U, 3U, 7U, 64U})
    for (const std::uint64_t count : {1UL, 2UL, 5UL, 64UL, 1000UL}) {
      const Shape shape{
          .count = count, .kind = ISTHMUS_CHARE_DENSE, .dimensions = 1, .extent = {count, 0, 0}};
      const Collection collection(Collection::id_of(0, 1), shape, nullptr, processes);
      EXPECT_EQ(collection.first_of(0), 0);
      EXPECT_EQ(collection.first_of(processes), count);
      for (std::uint64_t i = 0; i < count; ++i) {
        const std::uint32_t home = collection.home({i, 0});
        ASSERT_LT(home, processes);
        ASSERT_TRUE(collection.first_of(home) <= i && i < collection.first_of(home + 1))
            << i << " in " << home;
      }
    }
}

TEST(ChareCollection, IsFoundAsBeforeWithAnotherNumberOfProcesses) {
  const Item type{};
  for (const std::uint32_t kind : {ISTHMUS_CHARE_DENSE, ISTHMUS_CHARE_SPARSE}) {
    Shape shape{};
    shape.kind = kind;
    shape.count = kind == ISTHMUS_CHARE_DENSE ? 40 : 0;
    shape.dimensions = 1;
    shape.extent[0] = shape.count;
    Collection collection(Collection::id_of(1, 1), shape, &type, 4);
    collection.have_own_block(1);
    std::map<std::uint64_t, Element*> all;
    int object = 0;
    for (const std::uint64_t index : {3, 10, 11, 19, 39}) {
      all[index] = collection.add({index, 0});
      all[index]->object = &object;
      all[index]->reductions = 7;
    }
    collection.remove(*all[11]);
    all.erase(11);
    collection.located[{5, 0}] = {.rank = 3, .moves = 2};
    collection.broadcasts = 9;
    for (const std::uint32_t processes : {2U, 1U, 5U, 1U}) {
      collection.rehome(shape, processes, 1);
      EXPECT_EQ(collection.size(), all.size());
      for (std::uint64_t index = 0; index < 40; ++index) {
        const auto known = all.find(index);
        EXPECT_EQ(collection.find({index, 0}), known == all.end() ? nullptr : known->second) << index;
        EXPECT_LT(collection.home({index, 0}), processes);
      }
      EXPECT_EQ(all[3]->reductions, 0U);
      EXPECT_EQ(all[3]->moves, 1U);
      EXPECT_TRUE(collection.located.empty());
      EXPECT_EQ(collection.broadcasts, 0U);
      EXPECT_EQ(collection.inserts_sent, all.size());
      EXPECT_EQ(collection.root(), 1 % processes);
    }
  }
}

TEST(ChareCollection, ShapesThatCannotBeAreRefused) {
  const auto dense = [](std::uint64_t count, std::uint32_t dimensions, std::array<std::uint64_t, 3> extent) {
    Shape shape{.count = count, .kind = ISTHMUS_CHARE_DENSE, .dimensions = dimensions};
    std::copy(extent.begin(), extent.end(), shape.extent);
    return static_cast<bool>(check(shape, 2, 1));
  };
  EXPECT_TRUE(dense(24, 3, {2, 3, 4}));
  EXPECT_FALSE(dense(25, 3, {2, 3, 4}));
  EXPECT_FALSE(dense(0, 1, {0, 0, 0}));
  EXPECT_FALSE(dense(1, 0, {1, 1, 1}));
  EXPECT_FALSE(dense(1, 4, {1, 1, 1}));
  EXPECT_FALSE(dense(0, 3, {1UL << 32, 1UL << 32, 1}));  // the product is 0 in 64 bits
  EXPECT_FALSE(check({.count = 3, .kind = ISTHMUS_CHARE_GROUP}, 2, 1));
  EXPECT_FALSE(check({.count = 2, .kind = ISTHMUS_CHARE_NODE_GROUP}, 2, 1));
  EXPECT_TRUE(check({.count = 1, .kind = ISTHMUS_CHARE_NODE_GROUP}, 2, 1));
  EXPECT_FALSE(check({.kind = 17}, 2, 1));
}

// --- the scheduler's queue

TEST(ChareQueue, GoesByPriorityAndThenByComing) {
  MessagePool pool;
  MessageQueue queue;
  std::uint64_t number = 0;
  for (const int priority : {0, 5, -1, 0, -9, 5, 0, -1}) {
    Message* const message = pool.take(0);
    message->priority = priority;
    message->collection = number++;
    queue.push(message);
  }
  std::vector<std::uint64_t> order;
  while (Message* const message = queue.pop()) {
    order.push_back(message->collection);
    pool.give_back(message);
  }
  EXPECT_EQ(order, (std::vector<std::uint64_t>{4, 2, 7, 0, 3, 6, 1, 5}));
  EXPECT_TRUE(queue.empty());
}

// --- quiescence

class ChareQuiescence : public testing::Test {
 protected:
  /// One wave: what the two processes count.
  bool wave(const WorkCount& one, const WorkCount& other) {
    EXPECT_TRUE(quiescence_.begin_wave());
    EXPECT_FALSE(quiescence_.answer(one, "why"));
    EXPECT_TRUE(quiescence_.answer(other, ""));
    return quiescence_.is_quiet();
  }
  void SetUp() override { quiescence_.ask({}); }
  Quiescence quiescence_{2};
};

TEST_F(ChareQuiescence, TakesTwoWaves) {
  EXPECT_FALSE(wave({.sent = 5, .done = 2}, {.sent = 0, .done = 3}));
  EXPECT_TRUE(wave({.sent = 5, .done = 2}, {.sent = 0, .done = 3}));
}

TEST_F(ChareQuiescence, IsNotFooledByAMessageThatCrossesTheWave) {
  // The first has answered, and is then woken by a message of the second, and answers it: the sums are equal,
  // and something is under way.
  EXPECT_FALSE(wave({.sent = 0, .done = 0}, {.sent = 1, .done = 1}));
  EXPECT_FALSE(wave({.sent = 1, .done = 1}, {.sent = 1, .done = 1}));
  EXPECT_TRUE(wave({.sent = 1, .done = 1}, {.sent = 1, .done = 1}));
}

TEST_F(ChareQuiescence, WaitsWhileAMessageIsLate) {
  for (int i = 0; i < 5; ++i)
    EXPECT_FALSE(wave({.sent = 3, .done = 1}, {.sent = 0, .done = 1}));
}

TEST_F(ChareQuiescence, TellsWhatWaitsForWhatIsNotThere) {
  EXPECT_FALSE(wave({.sent = 3, .done = 1, .kept = 1}, {.sent = 0, .done = 1}));
  EXPECT_TRUE(wave({.sent = 3, .done = 1, .kept = 1}, {.sent = 0, .done = 1}));
  EXPECT_EQ(quiescence_.stuck(), "why");
}

TEST_F(ChareQuiescence, BeginsAnewForTheNextQuestion) {
  EXPECT_FALSE(wave({.sent = 1, .done = 1}, {}));
  EXPECT_TRUE(wave({.sent = 1, .done = 1}, {}));
  EXPECT_EQ(quiescence_.take().size(), 1);
  EXPECT_FALSE(quiescence_.begin_wave());
  quiescence_.ask({});
  EXPECT_FALSE(wave({.sent = 1, .done = 1}, {}));
}

TEST_F(ChareQuiescence, IgnoresAnswersThatNobodyAskedFor) {
  EXPECT_FALSE(quiescence_.answer({}, ""));
}

// --- archives

template <class T>
std::vector<unsigned char> packed(const T& value) {
  Sizer sizer;
  sizer(value);
  std::vector<unsigned char> bytes(sizer.size());
  Writer writer(bytes.data());
  writer(value);
  return bytes;
}
template <class T>
T unpacked(const std::vector<unsigned char>& bytes) {
  T value{};
  Reader reader(bytes.data(), bytes.size());
  reader(value);
  reader.finish();
  return value;
}

struct Own {
  int number = 0;
  std::vector<std::string> names;
  std::map<int, std::optional<double>> table;
  bool operator==(const Own&) const = default;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(number, names, table);
  }
};

TEST(ChareArchive, GivesBackWhatItWasGiven) {
  const Own own{.number = 3, .names = {"a", "", "ccc"}, .table = {{1, 2.5}, {2, std::nullopt}}};
  EXPECT_EQ(unpacked<Own>(packed(own)), own);
  const std::tuple<> nothing;
  EXPECT_EQ(packed(nothing).size(), 0);
  const std::vector<bool> bits{true, false, true};
  EXPECT_EQ(unpacked<std::vector<bool>>(packed(bits)), bits);
}

TEST(ChareArchive, EveryCutIsRefused) {
  const auto bytes =
      packed(Own{.number = 3, .names = {"a", "", "ccc"}, .table = {{1, 2.5}, {2, std::nullopt}}});
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_THROW(unpacked<Own>({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)}),
                 ArchiveError);
  auto longer = bytes;
  longer.push_back(0);
  EXPECT_THROW(unpacked<Own>(longer), ArchiveError);
}

TEST(ChareArchive, LengthsThatDoNotFitTakeNoMemory) {
  for (const std::uint64_t length :
       {std::uint64_t{1}, std::uint64_t{1} << 40, ~std::uint64_t{0}, ~std::uint64_t{0} / 8}) {
    EXPECT_THROW(unpacked<std::vector<double>>(packed(length)), ArchiveError);
    EXPECT_THROW(unpacked<std::string>(packed(length)), ArchiveError);
    EXPECT_THROW(unpacked<std::vector<std::string>>(packed(length)), ArchiveError);
    EXPECT_THROW((unpacked<std::map<int, int>>(packed(length))), ArchiveError);
  }
}

TEST(ChareArchive, ATruthValueIsOneOfTwo) {
  EXPECT_THROW(unpacked<bool>({2}), ArchiveError);
  EXPECT_THROW(unpacked<std::optional<int>>({7, 0, 0, 0, 0}), ArchiveError);
}

}  // namespace
}  // namespace isthmus::chare::chare_test
