// Processes with namespaces of their own, as in containers: whether and how they meet.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <map>

#include "launch/meeting/meeting.hpp"
#include "launch/visit/broker_socket.hpp"

namespace isthmus::launch::namespaces_test {
namespace {

using testing::ElementsAre;

constexpr std::uint32_t ranks = 3;

/// What a rank asks of the test's own process, which is their launcher; what it needs no answer for gets one
/// too.
struct Message {
  enum class Kind : std::uint32_t { put, fence, get, result } kind = Kind::put;
  std::uint32_t rank = 0;  ///< get: whose; result: how many members
  std::uint32_t size = 0;
  std::array<char, 32> key{};
  std::array<char, 1024> value{};
};

class PipedKeyValues final : public KeyValues {
 public:
  PipedKeyValues(int socket, std::uint32_t rank)
      : KeyValues({.protocol = "piped", .rank = rank, .size = ranks, .job = "piped-job"}), socket_(socket) {}

  Result<> put(std::string_view key, std::string_view value) override {
    Message message{.kind = Message::Kind::put, .size = static_cast<std::uint32_t>(value.size())};
    key.copy(message.key.data(), message.key.size() - 1);
    value.copy(message.value.data(), message.value.size());
    ask(message);
    return {};
  }
  Result<> fence() override {
    ask({.kind = Message::Kind::fence});
    return {};
  }
  Result<std::string> get(std::uint32_t rank, std::string_view key) override {
    Message message{.kind = Message::Kind::get, .rank = rank};
    key.copy(message.key.data(), message.key.size() - 1);
    const Message answer = ask(message);
    if (answer.size == 0) return fail(ErrorClass::other, "no such key");
    return std::string(answer.value.data(), answer.size);
  }
  [[noreturn]] void abort(int code, std::string_view /*line*/) noexcept override { ::_exit(code); }
  Result<> finalize() override { return {}; }

  Message ask(const Message& message) const {
    Message answer;
    if (::send(socket_, &message, sizeof message, MSG_NOSIGNAL) != sizeof message ||
        ::recv(socket_, &answer, sizeof answer, 0) != sizeof answer)
      ::_exit(9);
    return answer;
  }

 private:
  int socket_;
};

/// What each rank has to itself.
struct Walls {
  bool ipc = false, shm = false, net = false, pid = false, user = false, uts = false;
  std::string folder = {};  ///< ISTHMUS_RENDEZVOUS_DIR
};

bool write_file(const char* path, std::string_view text) {
  const UniqueFd file(::open(path, O_WRONLY | O_CLOEXEC));
  return file && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

/// Puts this process behind its walls. False where that is not allowed.
bool build(const Walls& walls) {
  const int flags = CLONE_NEWNS | (walls.ipc ? CLONE_NEWIPC : 0) | (walls.net ? CLONE_NEWNET : 0) |
                    (walls.pid ? CLONE_NEWPID : 0) | (walls.user ? CLONE_NEWUSER : 0) |
                    (walls.uts ? CLONE_NEWUTS : 0);
  if (::unshare(flags) != 0) return false;
  if (walls.user &&
      !(write_file("/proc/self/uid_map", "0 0 1") && write_file("/proc/self/setgroups", "deny") &&
        write_file("/proc/self/gid_map", "0 0 1")))
    return false;
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
  if (walls.shm && ::mount("shm", "/dev/shm", "tmpfs", 0, "mode=1777,size=64k") != 0) return false;
  return true;
}

/// Meets the others, and checks that what each writes is what the others read. Returns the number of members.
std::uint32_t live(PipedKeyValues& launcher, const Walls& walls) {
  Settings settings;
  settings.warn = false;
  settings.rendezvous_dir = walls.folder;
  auto place = Place::here();
  if (!place || (walls.pid && place->pid != 1)) return 100;
  auto met = meet(launcher, settings, std::move(*place), std::nullopt);
  if (!met) {
    std::fprintf(stderr, "rank %u: %s\n", launcher.rank(), met.error().text().c_str());
    return 101;
  }
  const auto ring = [&](std::uint32_t slot) {
    return met->region.view.ring_capacity() == 0 ? std::span<std::byte>() : met->region.view.ring(slot);
  };
  const auto pattern = [](std::uint32_t rank, std::size_t i) {
    return static_cast<std::byte>(rank * 31 + i * 7 + 1);
  };
  // More than a /dev/shm of 64 KB could hold.
  const auto mine = ring(met->slot);
  for (std::size_t i = 0; i < mine.size(); ++i)
    mine[i] = pattern(launcher.rank(), i);
  if (!launcher.fence()) return 102;
  for (std::uint32_t slot = 0; slot < met->members.size(); ++slot) {
    const auto theirs = ring(slot);
    for (std::size_t i = 0; i < theirs.size(); ++i)
      if (theirs[i] != pattern(met->members[slot], i)) return 103;
  }
  if (!launcher.fence()) return 104;
  return static_cast<std::uint32_t>(met->members.size());
}

class MeetingBehindWalls : public testing::Test {
 protected:
  void SetUp() override {
    const pid_t child = ::fork();
    if (child == 0)
      ::_exit(build({.ipc = true, .net = true, .pid = true, .user = true, .uts = true}) ? 0 : 1);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    if (status != 0) GTEST_SKIP() << "this user may not make namespaces";
    ASSERT_NE(::mkdtemp(folder.data()), nullptr);
    ASSERT_EQ(::chmod(folder.c_str(), 01777), 0);
  }
  void TearDown() override {
    if (folder.ends_with("XXXXXX")) return;  // none was made
    EXPECT_EQ(::rmdir(folder.c_str()), 0) << "something is left in " << folder;
  }

  /// Runs all ranks behind such walls each; how many members each has met, itself among them.
  std::vector<std::uint32_t> meet_behind(const Walls& walls) {
    std::array<UniqueFd, ranks> sockets;
    std::array<pid_t, ranks> children{};
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      int pair[2];
      EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
      sockets[rank] = UniqueFd(pair[0]);
      children[rank] = ::fork();
      if (children[rank] == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        ::alarm(30);
        run_rank(pair[1], rank, walls);
      }
      ::close(pair[1]);
    }
    const auto results = serve(sockets);
    for (const pid_t child : children) {
      int status = 0;
      EXPECT_EQ(::waitpid(child, &status, 0), child);
      EXPECT_EQ(status, 0);
    }
    return results;
  }

  std::string folder = testing::TempDir() + "isthmus-walls-XXXXXX";

 private:
  [[noreturn]] static void run_rank(int socket, std::uint32_t rank, const Walls& walls) {
    if (!build(walls)) ::_exit(8);
    if (walls.pid)  // unshare(2): the next child is pid 1
      if (const pid_t child = ::fork(); child != 0) {
        int status = 0;
        ::waitpid(child, &status, 0);
        ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 7);
      }
    if (walls.pid && ::mount("proc", "/proc", "proc", 0, nullptr) != 0) ::_exit(6);
    PipedKeyValues launcher(socket, rank);
    launcher.ask({.kind = Message::Kind::result, .rank = live(launcher, walls)});
    ::_exit(0);
  }

  static std::vector<std::uint32_t> serve(const std::array<UniqueFd, ranks>& sockets) {
    std::map<std::pair<std::uint32_t, std::string>, std::string> values;
    std::vector<std::uint32_t> results(ranks, 99);
    std::array<pollfd, ranks> watched{};
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
      watched[rank] = {sockets[rank].get(), POLLIN, 0};
    std::uint32_t waiting = 0;
    for (std::uint32_t present = ranks; present > 0;) {
      if (::poll(watched.data(), watched.size(), 30'000) <= 0) break;
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        if (watched[rank].fd < 0 || watched[rank].revents == 0) continue;
        Message message;
        if (::recv(watched[rank].fd, &message, sizeof message, 0) != sizeof message) {
          watched[rank].fd = -1;
          --present;
          continue;
        }
        const std::string key = message.key.data();
        if (message.kind == Message::Kind::fence) {
          if (++waiting < present) continue;
          waiting = 0;
          for (const UniqueFd& socket : sockets)
            ::send(socket.get(), &message, sizeof message, MSG_NOSIGNAL);
          continue;
        }
        if (message.kind == Message::Kind::put) values[{rank, key}] = {message.value.data(), message.size};
        if (message.kind == Message::Kind::result) results[rank] = message.rank;
        if (message.kind == Message::Kind::get) {
          const std::string& value = values[{message.rank, key}];
          message.size = static_cast<std::uint32_t>(value.size());
          value.copy(message.value.data(), message.value.size());
        }
        ::send(watched[rank].fd, &message, sizeof message, MSG_NOSIGNAL);
      }
    }
    return results;
  }
};

TEST_F(MeetingBehindWalls, WorksWhereAnyOneNamespaceIsPrivate) {
  EXPECT_THAT(meet_behind({.ipc = true}), ElementsAre(3, 3, 3)) << "ipc";
  EXPECT_THAT(meet_behind({.shm = true}), ElementsAre(3, 3, 3)) << "/dev/shm";
  EXPECT_THAT(meet_behind({.net = true}), ElementsAre(3, 3, 3)) << "net";
  EXPECT_THAT(meet_behind({.pid = true}), ElementsAre(3, 3, 3)) << "pid";
  EXPECT_THAT(meet_behind({.user = true}), ElementsAre(3, 3, 3)) << "user";
  EXPECT_THAT(meet_behind({.uts = true}), ElementsAre(3, 3, 3)) << "uts";
}

TEST_F(MeetingBehindWalls, NeedsASharedNetworkNamespaceAlone) {
  EXPECT_THAT(meet_behind({.ipc = true, .shm = true, .pid = true, .user = true, .uts = true}),
              ElementsAre(3, 3, 3));
}

TEST_F(MeetingBehindWalls, NeedsASharedDevShmAlone) {
  EXPECT_THAT(meet_behind({.ipc = true, .net = true, .pid = true, .uts = true}), ElementsAre(3, 3, 3));
  EXPECT_THAT(meet_behind({.ipc = true, .net = true, .pid = true, .user = true, .uts = true}),
              ElementsAre(3, 3, 3));
}

TEST_F(MeetingBehindWalls, NeedsASharedIpcNamespaceAloneAndLeavesNoSegment) {
  const auto segments = [] {
    shm_info info{};
    ::shmctl(0, SHM_INFO, reinterpret_cast<shmid_ds*>(&info));
    return info.used_ids;
  };
  const int before = segments();
  EXPECT_THAT(meet_behind({.shm = true, .net = true, .pid = true, .uts = true}), ElementsAre(3, 3, 3));
  EXPECT_THAT(meet_behind({.shm = true, .net = true, .pid = true, .user = true, .uts = true}),
              ElementsAre(3, 3, 3));
  EXPECT_EQ(segments(), before);
}

TEST_F(MeetingBehindWalls, NeedsASharedFolderAlone) {
  EXPECT_THAT(
      meet_behind({.ipc = true, .shm = true, .net = true, .pid = true, .uts = true, .folder = folder}),
      ElementsAre(3, 3, 3));
  EXPECT_THAT(
      meet_behind(
          {.ipc = true, .shm = true, .net = true, .pid = true, .user = true, .uts = true, .folder = folder}),
      ElementsAre(3, 3, 3));
}

TEST_F(MeetingBehindWalls, LeavesThoseApartWhoShareNothing) {
  EXPECT_THAT(meet_behind({.ipc = true, .shm = true, .net = true, .pid = true, .user = true, .uts = true}),
              ElementsAre(1, 1, 1));
}

}  // namespace
}  // namespace isthmus::launch::namespaces_test
