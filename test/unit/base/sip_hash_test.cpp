#include "base/sip_hash.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace isthmus::sip_hash_test {
namespace {

// The paper's appendix A, and its authors' table for other lengths (key 00 01 .. 0f, input 00 01 ..).
TEST(SipHash, GivesWhatItsAuthorsPublish) {
  std::array<std::uint8_t, 16> key{};
  std::iota(key.begin(), key.end(), std::uint8_t{0});
  std::vector<std::byte> input;
  const auto of_length = [&](std::size_t length) {
    input.clear();
    for (std::size_t i = 0; i < length; ++i)
      input.push_back(static_cast<std::byte>(i));
    return sip_hash(key, input);
  };
  EXPECT_EQ(of_length(15), 0xa129'ca61'49be'45e5);
  EXPECT_EQ(of_length(0), 0x726f'db47'dd0e'0e31);
  EXPECT_EQ(of_length(1), 0x74f8'39c5'93dc'67fd);
  EXPECT_EQ(of_length(8), 0x93f5'f579'9a93'2462);
}

}  // namespace
}  // namespace isthmus::sip_hash_test
