// Sockets in folders to which other users may write, who replace what is there at the worst moment.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>

#include "launch/visit/broker_socket.hpp"
#include "node/region_server.hpp"

namespace {

/// What happens right after this program's next `bind`.
std::function<void()>& after_bind() {
  static std::function<void()> action;
  return action;
}

}  // namespace

// In place of the C library's, for this whole program.
// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): the C library's names are reserved
extern "C" int bind(int socket, const sockaddr* address, socklen_t size) noexcept {
  const long result = ::syscall(SYS_bind, socket, address, size);
  if (auto action = std::exchange(after_bind(), nullptr)) action();
  return static_cast<int>(result);
}

namespace isthmus::launch::socket_file_test {
namespace {

namespace files = std::filesystem;
using testing::HasSubstr;

mode_t mode_of(const files::path& path) {
  struct stat status{};
  EXPECT_EQ(::lstat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777;
}

class SocketFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string made = (files::temp_directory_path() / "isthmus-test.XXXXXX").string();
    ASSERT_NE(::mkdtemp(made.data()), nullptr);
    folder = made;
    secret = folder / "secret";
    std::ofstream(secret) << "private";
    ASSERT_EQ(::chmod(secret.c_str(), 0600), 0);
  }
  void TearDown() override {
    after_bind() = nullptr;
    files::remove_all(folder);
  }

  files::path folder, secret;
};

TEST_F(SocketFile, IsOpenToAllUsersWhateverTheUmask) {
  const mode_t before = ::umask(077);
  const auto address = BrokerAddress::in_folder(folder, 1);
  ASSERT_TRUE(address);
  const auto listener = listen_at(*address);
  ::umask(before);
  ASSERT_TRUE(listener) << listener.error().text();
  EXPECT_EQ(mode_of(address->path()), 0666U);
  EXPECT_TRUE(connect_to(*address, 1));
}

TEST_F(SocketFile, ThatIsReplacedByALinkLeavesItsTargetAlone) {
  const auto address = BrokerAddress::in_folder(folder, 2);
  ASSERT_TRUE(address);
  after_bind() = [&] {
    files::remove(address->path());
    files::create_symlink(secret, address->path());
  };
  const auto listener = listen_at(*address);
  ASSERT_FALSE(listener);
  EXPECT_THAT(listener.error().text(), HasSubstr("somebody has replaced"));
  EXPECT_EQ(mode_of(secret), 0600U);
}

TEST_F(SocketFile, ThatIsReplacedByAFileOrAnotherSocketLeavesThemAlone) {
  const auto other = BrokerAddress::in_folder(folder, 3);
  const auto address = BrokerAddress::in_folder(folder, 4);
  ASSERT_TRUE(other && address);
  ASSERT_TRUE(listen_at(*other));
  ASSERT_EQ(::chmod(other->path().c_str(), 0600), 0);
  for (const files::path& owned : {secret, files::path(other->path())}) {
    after_bind() = [&] { files::rename(owned, address->path()); };
    EXPECT_FALSE(listen_at(*address)) << owned;
    EXPECT_EQ(mode_of(address->path()), 0600U) << owned;
    files::remove(address->path());
  }
}

TEST_F(SocketFile, OfARegionServerStaysInItsFolderWhereThatIsReplacedByALink) {
  const files::path owned = folder / "owned";
  const files::path moved = folder / "moved";
  files::create_directory(owned);
  ASSERT_EQ(::chmod(owned.c_str(), 0700), 0);
  std::ofstream(owned / "region") << "private";
  {
    after_bind() = [&] {
      for (const auto& entry : files::directory_iterator(folder))
        if (entry.path().filename().string().starts_with("isthmus.")) {
          const files::path made(entry.path().native());  // before the entry goes on
          files::rename(made, moved);
          files::create_directory_symlink(owned, made);
          return;
        }
    };
    const auto server = mpiexec::RegionServer::listen(folder);
    EXPECT_EQ(mode_of(owned), 0700U);
    ASSERT_TRUE(server) << server.error();
    EXPECT_EQ(mode_of(moved), 0711U);
    EXPECT_EQ(mode_of(moved / "region"), 0666U);
  }
  EXPECT_TRUE(files::exists(owned / "region")) << "the folder's end has removed what the link leads to";
  EXPECT_FALSE(files::exists(moved / "region"));
}

TEST_F(SocketFile, OfARegionServerIsReachedAndRemoved) {
  {
    const auto server = mpiexec::RegionServer::listen(folder);
    ASSERT_TRUE(server) << server.error();
    const auto address = BrokerAddress::at(server->socket_path());
    ASSERT_TRUE(address);
    EXPECT_TRUE(connect_to(*address, 1));
  }
  EXPECT_EQ(std::distance(files::directory_iterator(folder), files::directory_iterator()), 1);  // the secret
}

}  // namespace
}  // namespace isthmus::launch::socket_file_test
