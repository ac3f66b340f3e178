#include "vrank/program_file.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <span>
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
    const File file(bytes);
    const auto opened = ProgramFile::open(file.path(), room);
    if (!opened) continue;
    const auto copy = opened->copy(std::uint64_t{1} << 44);
    EXPECT_TRUE(copy || copy.error().text().ends_with("its file is damaged")) << copy.error().text();
  }
}

/// What is loaded at the address that it has been made for runs as the file itself does: this test's own
/// functions and constants, without the linker's help.
TEST(ProgramFile, ACopyIsForItsAddress) {
  const auto file = ProgramFile::open("/proc/self/exe", room);
  ASSERT_TRUE(file) << file.error().text();
  constexpr std::uint64_t address = (std::uint64_t{1} << 44) + (std::uint64_t{3} << 30);
  const std::string sound = own_program();
  const auto copy = file->copy(address);
  ASSERT_TRUE(copy) << copy.error().text();
  std::string moved(sound.size(), '\0');
  const ssize_t bytes = ::pread(copy->get(), moved.data(), moved.size(), 0);
  ASSERT_GT(bytes, 0);
  moved.resize(static_cast<std::size_t>(bytes));
  std::string before = sound;
  const ElfImage was(std::as_writable_bytes(std::span(before))), is(std::as_writable_bytes(std::span(moved)));
  const std::uint64_t distance = address - was.lowest();
  EXPECT_EQ(is.lowest(), address);
  EXPECT_EQ(is.header().e_entry, was.header().e_entry + distance);
  ASSERT_EQ(is.segments().size(), was.segments().size());
  // What is called before anything else: the linker writes each address there from one relocation.
  const auto entry_of = [](const ElfImage& image, Elf64_Sxword tag) {
    for (const Elf64_Phdr& segment : image.segments()) {
      if (segment.p_type != PT_DYNAMIC) continue;
      const std::uint64_t count = segment.p_filesz / sizeof(Elf64_Dyn);
      const auto* const first = image.at<Elf64_Dyn>(segment.p_vaddr, count);
      for (std::uint64_t i = 0; first && i < count; ++i)
        if (first[i].d_tag == tag) return first[i].d_un.d_val;
    }
    return std::uint64_t{0};
  };
  for (const Elf64_Sxword tag : {DT_INIT_ARRAY, DT_FINI_ARRAY, DT_STRTAB, DT_SYMTAB})
    EXPECT_EQ(entry_of(is, tag), entry_of(was, tag) + distance) << tag;
  for (const Elf64_Sxword tag : {DT_STRSZ, DT_SYMENT, DT_INIT_ARRAYSZ, DT_NEEDED, DT_RELACOUNT})
    EXPECT_EQ(entry_of(is, tag), entry_of(was, tag)) << tag;
}

}  // namespace
}  // namespace isthmus::vrank
