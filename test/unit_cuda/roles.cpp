#include "roles.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string_view>

namespace isthmus::testing_cuda {
namespace {

constexpr std::string_view role_argument = "--role";
constexpr int patience_seconds = 20;

std::map<std::string, std::function<int(const Line&)>>& roles() {
  static std::map<std::string, std::function<int(const Line&)>> all;
  return all;
}

/// Everything is made before the fork: this process has threads.
struct Command {
  Command(const char* role, int socket, const std::vector<std::string>& more)
      : number(std::to_string(socket)) {
    arguments = {const_cast<char*>("isthmus_unit_cuda"), const_cast<char*>(role_argument.data()),
                 const_cast<char*>(role), number.data(), nullptr};
    for (char** setting = environ; *setting; ++setting)
      settings.emplace_back(*setting);
    for (const std::string& setting : more) {
      const std::string name = setting.substr(0, setting.find('=') + 1);
      std::erase_if(settings, [&](const std::string& known) { return known.starts_with(name); });
      settings.push_back(setting);
    }
    for (std::string& setting : settings)
      environment.push_back(setting.data());
    environment.push_back(nullptr);
  }
  std::string number;
  std::vector<char*> arguments;
  std::vector<std::string> settings;
  std::vector<char*> environment;
};

[[noreturn]] void become(Command& command, bool as_process_1) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (as_process_1) {
    if (::unshare(CLONE_NEWPID | CLONE_NEWUSER | CLONE_NEWNS) != 0) ::_exit(77);
    if (const pid_t child = ::fork(); child != 0) {
      ::close_range(3, ~0U, 0);  // or the child would not see its line end
      int status = 0;
      ::waitpid(child, &status, 0);
      ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    }
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    // A real CUDA driver starts only where /proc is of its own pid namespace, and will say so.
    ::mount("proc", "/proc", "proc", 0, nullptr);
  }
  ::execve("/proc/self/exe", command.arguments.data(), command.environment.data());
  ::_exit(76);
}

}  // namespace

Line::Line(UniqueFd socket) : socket_(std::move(socket)) {
  const timeval patience{.tv_sec = patience_seconds, .tv_usec = 0};
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
}

bool Line::send(const Letter& letter, int descriptor) const {
  iovec data{.iov_base = const_cast<Letter*>(&letter), .iov_len = sizeof letter};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> space{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (descriptor >= 0) {
    message.msg_control = space.data();
    message.msg_controllen = space.size();
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(part), &descriptor, sizeof descriptor);
  }
  return ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL) == sizeof letter;
}

std::optional<Letter> Line::receive(UniqueFd* descriptor) const {
  Letter letter;
  iovec data{.iov_base = &letter, .iov_len = sizeof letter};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> space{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = space.data();
  message.msg_controllen = space.size();
  if (::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC) != sizeof letter) return std::nullopt;
  if (const cmsghdr* part = CMSG_FIRSTHDR(&message)) {
    int received = -1;
    std::memcpy(&received, CMSG_DATA(part), sizeof received);
    UniqueFd owned(received);
    if (descriptor) *descriptor = std::move(owned);
  }
  return letter;
}

Role::Role(const char* name, std::function<int(const Line&)> play) {
  roles()[name] = std::move(play);
}

std::optional<int> play_role(int argc, char** argv) {
  if (argc != 4 || argv[1] != role_argument) return std::nullopt;
  const auto found = roles().find(argv[2]);
  if (found == roles().end()) return 75;
  return found->second(Line(UniqueFd(std::atoi(argv[3]))));
}

Player::Player(const char* role, const How& how) {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
    throw std::runtime_error("socketpair");
  line_.emplace(UniqueFd(pair[0]));
  const UniqueFd theirs(pair[1]);
  Command command(role, theirs.get(), how.settings);
  child_ = ::fork();
  if (child_ == 0) {
    ::fcntl(theirs.get(), F_SETFD, 0);
    become(command, how.as_process_1);
  }
}

Player::~Player() {
  if (child_ > 0) end();
}

Letter Player::ask(const Letter& letter, UniqueFd* answer_descriptor, int descriptor) {
  if (!line_->send(letter, descriptor)) throw std::runtime_error("the other process is gone");
  auto answer = line_->receive(answer_descriptor);
  if (!answer) throw std::runtime_error("the other process does not answer");
  return *answer;
}

int Player::end() {
  line_.reset();
  int status = 0;
  ::waitpid(child_, &status, 0);
  child_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void Player::kill() const {
  ::kill(child_, SIGKILL);
}

bool may_have_namespaces() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(::unshare(CLONE_NEWPID | CLONE_NEWUSER | CLONE_NEWNS) == 0 ? 0 : 1);
  int status = 1;
  ::waitpid(child, &status, 0);
  return status == 0;
}

}  // namespace isthmus::testing_cuda
