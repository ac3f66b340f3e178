#include "base/system/unix_address.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "base/unique_fd.hpp"

namespace isthmus::unix_address_test {
namespace {

TEST(UnixAddress, WhoIsAtTheOtherEnd) {
  const UnixAddress address =
      UnixAddress::abstract("isthmus/test/" + std::to_string(::getpid()) + std::string(2, '\0'));
  const UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(listener.get(), address.get(), address.size()), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  const UniqueFd client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(client.get(), address.get(), address.size()), 0);
  const Credentials peer = credentials_of(client.get());
  EXPECT_EQ(peer.pid, ::getpid());
  EXPECT_EQ(peer.uid, ::geteuid());
}

TEST(UnixAddress, TheLongestNameFits) {
  const std::string name(UnixAddress::longest, 'x');
  EXPECT_EQ(UnixAddress::abstract(name).size(), sizeof(sockaddr_un));
  EXPECT_EQ(UnixAddress::of_file(name).size(), sizeof(sockaddr_un));
  EXPECT_EQ(std::string(UnixAddress::of_file(name).path()), name);
}

TEST(Credentials, NobodyWhereTheKernelDoesNotTell) {
  EXPECT_EQ(credentials_of(-1).uid, Credentials::nobody);
  EXPECT_EQ(credentials_of(-1).pid, 0);
}

}  // namespace
}  // namespace isthmus::unix_address_test
