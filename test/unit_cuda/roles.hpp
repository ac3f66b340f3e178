#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "gpu/memory/export.hpp"

namespace isthmus::testing_cuda {

/// What the processes of a test say to each other. A descriptor travels beside it.
struct Letter {
  int code = 0;
  std::uint64_t number = 0;
  Export offer;
  cuda::IpcEvent event;
  std::array<char, 400> text{};

  [[nodiscard]] std::string words() const { return text.data(); }
  void say(const std::string& words) { words.copy(text.data(), text.size() - 1); }
};

/// A socket on which letters are sent and awaited, for at most 20 s.
class Line {
 public:
  explicit Line(UniqueFd socket);
  bool send(const Letter& letter, int descriptor = -1) const;
  /// Nothing if the other side is gone.
  [[nodiscard]] std::optional<Letter> receive(UniqueFd* descriptor = nullptr) const;

 private:
  UniqueFd socket_;
};

/// A part that this program plays when it is started as another process. Returns its exit status.
struct Role {
  Role(const char* name, std::function<int(const Line&)> play);
};
/// The role named on the command line, or nothing.
std::optional<int> play_role(int argc, char** argv);

/// The program again, as another process that plays a role. Its environment gains `settings` ("A=b").
class Player {
 public:
  struct How {
    std::vector<std::string> settings = {};
    bool as_process_1 = false;  ///< in a pid namespace of its own
  };
  explicit Player(const char* role) : Player(role, How{}) {}
  Player(const char* role, const How& how);
  Player(const Player&) = delete;
  Player& operator=(const Player&) = delete;
  ~Player();

  /// Sends a letter and waits for the answer.
  Letter ask(const Letter& letter, UniqueFd* answer_descriptor = nullptr, int descriptor = -1);
  [[nodiscard]] const Line& line() const noexcept { return *line_; }
  /// Closes the line and waits: the exit status, 128 and the signal if it was killed.
  int end();
  void kill() const;
  [[nodiscard]] pid_t pid() const noexcept { return child_; }

 private:
  std::optional<Line> line_;
  pid_t child_ = -1;
};

/// Whether this user may make pid namespaces.
bool may_have_namespaces();

}  // namespace isthmus::testing_cuda
