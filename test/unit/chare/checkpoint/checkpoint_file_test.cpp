// Files of checkpoints: what was written is read, and nothing else is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "chare/checkpoint/checkpoint_file.hpp"

namespace {

/// Which call of fsync fails, counted from 1; 0: none.
int failing_sync = 0;

}  // namespace

/// In place of the C library's.
extern "C" int fsync(int __fd) {  // NOLINT(bugprone-reserved-identifier): as it is declared
  const bool fails = failing_sync == 1;
  failing_sync = failing_sync > 0 ? failing_sync - 1 : 0;
  if (fails) {
    errno = EIO;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_fsync, __fd));
}

namespace isthmus::chare::checkpoint_file_test {
namespace {

using testing::HasSubstr;

class CheckpointFile : public testing::Test {
 protected:
  CheckpointFile() {
    std::string pattern = (std::filesystem::temp_directory_path() / "checkpoint.XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    name_ = folder_ / "file";
  }
  ~CheckpointFile() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string bytes() const {
    std::ifstream file(name_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  /// ext4 brings a file that is cut to nothing and written again to disk when it is closed, which takes 10
  /// ms: a new one is left in memory.
  void put(const std::string& bytes) const {
    std::filesystem::remove(name_);
    std::ofstream file(name_, std::ios::binary | std::ios::trunc);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  /// A part with chares of 0 to 4 bytes.
  [[nodiscard]] SavedPart write_part() const {
    Result<PartWriter> part = PartWriter::open(name_);
    for (std::uint64_t i = 0; i < 5; ++i) {
      const SavedChare chare{
          .checksum = 0, .bytes = 0, .collection = 9, .index = {i, 0}, .load = 0.5, .has_own_load = 1};
      EXPECT_TRUE(part->add(chare, i, [&](std::byte* to) { std::memset(to, static_cast<int>(i), i); }));
    }
    return *part->finish();
  }
  [[nodiscard]] Result<> read(const SavedPart& expected) {
    taken_.clear();
    return read_part(name_, expected,
                     [&](const SavedChare& chare, std::span<const std::byte> data) -> Result<> {
                       taken_.emplace_back(chare.index.low, data.size());
                       for (const std::byte each : data)
                         EXPECT_EQ(std::to_integer<std::uint64_t>(each), chare.index.low);
                       return {};
                     });
  }
  [[nodiscard]] static CheckpointHead head() {
    CheckpointHead head;
    head.generation = 5;
    head.roots = 3;
    head.next_collection = 7;
    head.restarted_item = "main";
    head.collections.push_back(
        {.id = 1, .shape = {.count = 4, .kind = 2}, .type = "Cell", .population = 4, .is_closed = 0});
    head.parts.resize(2);
    return head;
  }

  /// Files that stand for the parts of a head.
  void put_parts(const CheckpointHead& head) const {
    for (std::uint32_t part = 0; part < head.parts.size(); ++part)
      std::ofstream(part_name(name_, head.generation, part)) << part;
  }
  [[nodiscard]] bool has_parts(const CheckpointHead& head) const {
    bool all = true;
    for (std::uint32_t part = 0; part < head.parts.size(); ++part)
      all = all && std::filesystem::exists(part_name(name_, head.generation, part));
    return all;
  }

  std::filesystem::path folder_;
  std::filesystem::path name_;
  std::vector<std::pair<std::uint64_t, std::size_t>> taken_;
};

TEST_F(CheckpointFile, APartIsReadAsItWasWritten) {
  const SavedPart part = write_part();
  EXPECT_EQ(part.chares, 5);
  EXPECT_EQ(part.bytes, bytes().size());
  ASSERT_TRUE(read(part));
  ASSERT_EQ(taken_.size(), 5);
  for (std::uint64_t i = 0; i < 5; ++i)
    EXPECT_EQ(taken_[i], std::pair(i, std::size_t{i}));
}

TEST_F(CheckpointFile, NothingIsOverwritten) {
  static_cast<void>(write_part());
  const Result<PartWriter> second = PartWriter::open(name_);
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().text(), HasSubstr("File exists"));
}

TEST_F(CheckpointFile, EveryCutOfAPartIsRefusedEvenIfTheHeadAgreesWithIt) {
  const SavedPart part = write_part();
  const std::string whole = bytes();
  for (std::size_t size = 1; size < whole.size(); ++size) {
    put(whole.substr(0, size));
    EXPECT_FALSE(read(part)) << size;
    EXPECT_FALSE(read({.bytes = size, .chares = part.chares})) << size;
  }
}

TEST_F(CheckpointFile, EveryChangedBitOfAPartIsFound) {
  const SavedPart part = write_part();
  const std::string whole = bytes();
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string changed = whole;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    put(changed);
    EXPECT_FALSE(read(part)) << bit;
  }
}

TEST_F(CheckpointFile, AHeadIsReadAsItWasWrittenAndReplacesAnother) {
  CheckpointHead written = head();
  ASSERT_TRUE(commit_checkpoint(name_, written));
  written.generation = 6;
  ASSERT_TRUE(commit_checkpoint(name_, written));
  const Result<CheckpointHead> read = read_head(name_);
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->generation, 6);
  EXPECT_EQ(read->restarted_item, "main");
  ASSERT_EQ(read->collections.size(), 1);
  EXPECT_EQ(read->collections[0].type, "Cell");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(CheckpointFile, EveryCutAndEveryChangedBitOfAHeadIsRefused) {
  ASSERT_TRUE(commit_checkpoint(name_, head()));
  const std::string whole = bytes();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    put(whole.substr(0, size));
    EXPECT_FALSE(read_head(name_)) << size;
  }
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string changed = whole;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    put(changed);
    EXPECT_FALSE(read_head(name_)) << bit;
  }
}

TEST_F(CheckpointFile, AHeadThatCannotTakeItsPlaceLeavesNothing) {
  std::filesystem::create_directory(name_);
  const Result<> written = commit_checkpoint(name_, head());
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().text(), HasSubstr("cannot be replaced"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

/// Of three synchronisations, the last is that of the name that has been replaced.
TEST_F(CheckpointFile, WhatTheHeadNamesIsThereWhicheverSynchronisationFails) {
  for (int failing = 0; failing <= 3; ++failing) {
    CheckpointHead older = head();
    older.generation = 10 + 2 * static_cast<std::uint64_t>(failing);
    put_parts(older);
    ASSERT_TRUE(commit_checkpoint(name_, older));
    CheckpointHead newer = head();
    newer.generation = older.generation + 1;
    put_parts(newer);
    failing_sync = failing;
    const Result<> committed = commit_checkpoint(name_, newer);
    EXPECT_EQ(failing_sync, 0);
    EXPECT_EQ(committed.has_value(), failing == 0);
    const Result<CheckpointHead> found = read_head(name_);
    ASSERT_TRUE(found) << found.error().text();
    EXPECT_TRUE(has_parts(*found)) << failing;
    EXPECT_EQ(has_parts(older), failing != 0) << failing;
    EXPECT_EQ(has_parts(newer), failing == 0 || failing == 3) << failing;
    if (failing == 3)
      EXPECT_THAT(committed.error().text(), HasSubstr("a crash may bring the older one back"));
  }
}

}  // namespace
}  // namespace isthmus::chare::checkpoint_file_test
