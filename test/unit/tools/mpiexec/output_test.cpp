#include "streams/output.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace isthmus::mpiexec::output_test {
namespace {

/// More than a sink takes at once, in pipes of 64 KiB each.
constexpr std::uint32_t ranks = 24;
constexpr std::size_t bytes_of_each = 60'000;

/// A pipe that mpiexec has as its stdout and stderr, and the test as their reader.
class Reader {
 public:
  Reader() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return;
    reader_ = UniqueFd(ends[0]);
    const UniqueFd writer(ends[1]);
    ::fcntl(reader_.get(), F_SETFL, O_NONBLOCK);
    for (const int fd : {STDOUT_FILENO, STDERR_FILENO})
      ::dup2(writer.get(), fd);
  }

  /// All that is there: how much that was.
  std::size_t read_all() {
    std::size_t all = 0;
    for (ssize_t count; (count = ::read(reader_.get(), buffer_.data(), buffer_.size())) > 0;)
      all += static_cast<std::size_t>(count);
    return all;
  }

 private:
  UniqueFd reader_;
  std::array<char, 65536> buffer_{};
};

/// The ranks print more than mpiexec keeps, and end. Then mpiexec waits for its reader as long as there is
/// anything left: what it keeps, and what is still in the ranks' pipes. Exits with 0 when all has come.
[[noreturn]] void hand_out_with_messages() {
  Reader reader;
  Output output(OutputMode::lines, ranks);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const auto ends = output.open(rank);
    const std::string text = std::string(bytes_of_each - 1, 'x') + "\n";
    if (!ends || ::write(ends->out.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
      ::_exit(2);
  }
  output.close_intake();
  std::size_t messages = 0;
  std::size_t got = 0;
  for (int round = 0; output.has_pending() && round < 1000; ++round) {
    got += reader.read_all();
    output.message("x");  // takes what is kept along, as far as the reader lets it
    ++messages;
    std::vector<pollfd> waited_for;
    output.prepare(waited_for);
    if (output.has_pending() && waited_for.empty()) ::_exit(3);  // it would wait for ever
    if (round % 40 == 39) output.react();
  }
  got += reader.read_all();
  ::_exit(got == ranks * bytes_of_each + messages * std::string("mpiexec: x\n").size() ? 0 : 4);
}

TEST(MpiexecOutput, WaitsForItsReaderWhileRanksPipesHoldMore) {
  EXPECT_EXIT(hand_out_with_messages(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace isthmus::mpiexec::output_test
