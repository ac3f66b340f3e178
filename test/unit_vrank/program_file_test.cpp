#include "vrank/program_file.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

namespace isthmus::vrank {
namespace {

constexpr std::size_t room = 16384;

/// A file with that content, for as long as this lives.
class File {
 public:
  explicit File(const std::string& content) {
    std::string name = (std::filesystem::temp_directory_path() / "program_XXXXXX").string();
    const int fd = ::mkstemp(name.data());
    path_ = name;
    EXPECT_EQ(::write(fd, content.data(), content.size()), static_cast<ssize_t>(content.size()));
    ::close(fd);
  }
  ~File() { std::filesystem::remove(path_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string own_program() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string refusal(const std::string& content) {
  const File file(content);
  const auto opened = ProgramFile::open(file.path(), room);
  return opened ? "" : opened.error().text();
}

TEST(ProgramFile, ReadsThisProgram) {
  const auto file = ProgramFile::open("/proc/self/exe", room);
  ASSERT_TRUE(file) << file.error().text();
  EXPECT_TRUE(file->is_executable());
  const auto is_start = [](const ProgramFile::Import& import) { return import.name == "__libc_start_main"; };
  EXPECT_TRUE(std::ranges::any_of(file->functions(), is_start));
  EXPECT_GT(file->endings().count, 0U);
  EXPECT_FALSE(file->needed().empty());
}

TEST(ProgramFile, RefusesWhatIsNoProgram) {
  EXPECT_NE(refusal("#!/bin/sh\nexit 0\n").find("it is a script"), std::string::npos);
  EXPECT_NE(refusal("").find("it is no compiled program"), std::string::npos);
  EXPECT_NE(refusal(std::string(5000, 'x')).find("it is no compiled program"), std::string::npos);
  const auto missing = ProgramFile::open("/nowhere/program", room);
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().text().find("No such file"), std::string::npos);
}

TEST(ProgramFile, RefusesAFileThatIsCutOff) {
  const std::string whole = own_program();
  for (const std::size_t bytes : {64UL, 200UL, 4096UL})
    EXPECT_FALSE(refusal(whole.substr(0, bytes)).empty()) << bytes;
}

/// A damaged file is refused or read, and nothing outside of it is touched.
TEST(ProgramFile, SurvivesDamage) {
  const std::string sound = own_program();
  std::mt19937_64 random(7);
  for (int i = 0; i < 60; ++i) {
    std::string bytes = sound;
    for (int j = 0; j < 20; ++j)
      bytes[random() % (j < 10 ? 4096 : bytes.size())] = static_cast<char>(random());
    static_cast<void>(refusal(bytes));
  }
}

}  // namespace
}  // namespace isthmus::vrank
