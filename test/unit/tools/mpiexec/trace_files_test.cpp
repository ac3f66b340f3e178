#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "base/trace_file.hpp"
#include "node/trace_files.hpp"
#include "trace/file.hpp"
#include "trace/record.hpp"
#include "trace/writer.hpp"

namespace isthmus::mpiexec::trace_files_test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class TraceFilesTest : public testing::Test {
 protected:
  TraceFilesTest() { ::mkdtemp(folder_.data()); }
  ~TraceFilesTest() override {
    ::unsetenv(trace_file_variable);
    std::filesystem::remove_all(folder_);
  }
  [[nodiscard]] std::ptrdiff_t entries() const {
    return std::distance(std::filesystem::directory_iterator(folder_), {});
  }
  /// All that is collected, by rank.
  static std::map<std::uint32_t, std::string> all_of(const TraceFiles& files) {
    std::map<std::uint32_t, std::string> result;
    files.collect([&](std::uint32_t rank, std::string_view bytes) {
      EXPECT_LE(bytes.size(), std::size_t{64} << 10);
      result[rank] += bytes;
      return true;
    });
    return result;
  }

  std::string folder_ = "/tmp/isthmus-unit.XXXXXX";
};

TEST_F(TraceFilesTest, WhatRanksHaveWrittenComesBackAndNotTheRoomBehindIt) {
  TraceFiles files("");
  const auto first = files.make(3), second = files.make(4), silent = files.make(5);
  ASSERT_TRUE(first && second && silent);
  EXPECT_THAT(first->path, IsEmpty());
  // A record may end in zeros.
  const std::string header(trace::header_bytes, 'h'),
      record = "r" + std::string(sizeof(trace::Record) - 1, '\0');
  ASSERT_EQ(::write(first->file, (header + record).data(), header.size() + record.size()),
            static_cast<ssize_t>(header.size() + record.size()));
  ASSERT_EQ(::ftruncate(first->file, 1 << 20), 0);
  const std::string whole(300'000, 'w');
  ASSERT_EQ(::write(second->file, whole.data(), whole.size()), static_cast<ssize_t>(whole.size()));
  const auto all = all_of(files);
  EXPECT_EQ(all.size(), 2U) << "rank 5 has written nothing";
  EXPECT_EQ(all.at(3), header + record);
  EXPECT_THAT(all.at(4), HasSubstr(whole));
}

TEST_F(TraceFilesTest, NothingIsTakenOnceNothingIsWantedAnyMore) {
  TraceFiles files("");
  for (const std::uint32_t rank : {0, 1})
    ASSERT_EQ(::write(files.make(rank)->file, "some", 4), 4);
  int taken = 0;
  files.collect([&](std::uint32_t, std::string_view) { return ++taken < 0; });
  EXPECT_EQ(taken, 1);
}

TEST_F(TraceFilesTest, AFileInASharedFolderCanBeOpenedByAnybodyWhoIsToldItsNameAndGoes) {
  {
    TraceFiles files(folder_);
    const auto made = files.make(0);
    ASSERT_TRUE(made);
    struct stat status{};
    ASSERT_EQ(::stat(made->path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, 0666U);
    EXPECT_NE(files.make(1)->path, made->path);
    ::setenv(trace_file_variable, made->path.c_str(), 1);
    const auto writer = trace::Writer::make("/nowhere", 1 << 20, {0, 1});
    ASSERT_TRUE(writer) << writer.error().text();
    EXPECT_EQ(std::getenv(trace_file_variable), nullptr);
    EXPECT_EQ(all_of(files).at(0).substr(0, trace::magic.size()),
              std::string(trace::magic.data(), trace::magic.size()));
  }
  EXPECT_EQ(entries(), 0);
}

TEST_F(TraceFilesTest, ARankTakesAnEmptyFileOnly) {
  TraceFiles files("");
  const int file = files.make(0)->file;
  const auto take = [](const std::string& text) {
    ::setenv(trace_file_variable, text.c_str(), 1);
    return trace::take_file_of_launcher();
  };
  for (const char* text : {"", "x", "99999999999", "1000000", "/nowhere/at/all", "/tmp", "/dev/null"})
    EXPECT_FALSE(take(text)) << text;
  auto taken = take(std::to_string(::dup(file)));
  EXPECT_TRUE(taken);
  EXPECT_NE(::fcntl(taken.get(), F_GETFD) & FD_CLOEXEC, 0);
  ASSERT_EQ(::write(file, "some", 4), 4);
  const int written = ::dup(file);
  EXPECT_FALSE(take(std::to_string(written)));
  ::close(written);
}

TEST_F(TraceFilesTest, AFolderThatCannotBeWrittenToIsNamedOnceForARank) {
  TraceFolders folders;
  EXPECT_THAT(folders.add(folder_, 7, "ab"), IsEmpty());
  EXPECT_THAT(folders.add(folder_, 7, "cd"), IsEmpty());
  std::ifstream file(folder_ + "/rank-7.trace");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "abcd");
  TraceFolders others;
  EXPECT_THAT(others.add(folder_, 7, "ef"), HasSubstr("rank 7 is not traced: cannot make"));
  EXPECT_THAT(others.add(folder_, 7, "gh"), IsEmpty());
  EXPECT_THAT(others.add("/nowhere", 8, "ef"), HasSubstr("/nowhere/rank-8.trace: No such file or directory"));
}

}  // namespace
}  // namespace isthmus::mpiexec::trace_files_test
