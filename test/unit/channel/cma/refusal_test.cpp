#include "channel/cma/refusal.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "channel/cma/cma.hpp"

namespace isthmus::cma::refusal_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const Error not_permitted{ErrorClass::other, "process_vm_readv of process 7: Operation not permitted"};

wire::PlaceRecord place() {
  wire::PlaceRecord record{};
  record.pid = 7;
  record.uid = 1000;
  record.namespaces = {11, 12, 13, 14, 15, 16};
  return record;
}

TEST(CmaRefusal, NamesTheDifferenceThatExplainsItAndWhatTheKernelSaid) {
  wire::PlaceRecord other = place();
  EXPECT_THAT(explain_refusal(not_permitted, place(), other).text,
              AllOf(HasSubstr("capability"), HasSubstr(not_permitted.text())));
  other.uid = 1001;
  EXPECT_THAT(explain_refusal(not_permitted, place(), other).text,
              AllOf(HasSubstr("user 1001"), HasSubstr("user 1000"), HasSubstr(not_permitted.text())));
  other.namespaces[4] = 25;
  EXPECT_THAT(explain_refusal(not_permitted, place(), other).text, HasSubstr("another user namespace"));
  other.namespaces[3] = 24;
  EXPECT_THAT(explain_refusal(not_permitted, place(), other).text,
              AllOf(HasSubstr("another pid namespace"), HasSubstr("its pid there, 7")));
}

TEST(CmaRefusal, TakesNoNamespaceForAnotherThatIsUnknown) {
  wire::PlaceRecord other = place();
  other.namespaces = {};
  EXPECT_THAT(explain_refusal(not_permitted, place(), other).text, HasSubstr("capability"));
}

TEST(CmaRefusal, BlamesNoUserWhereTheProcessIsGone) {
  wire::PlaceRecord other = place();
  other.uid = 1001;
  const Error gone{ErrorClass::proc_aborted, "process_vm_readv of process 7: No such process"};
  EXPECT_EQ(explain_refusal(gone, place(), other).text, gone.text());
}

TEST(CmaRefusal, OfAProcessThatKnowsNoNonceIsThatThePidIsNotIts) {
  const Probe probe{.nonce = 1, .scratch = 0};
  const auto tried = try_read(::getpid(), reinterpret_cast<std::uint64_t>(&probe), 2);
  ASSERT_FALSE(tried);
  EXPECT_EQ(tried.error().error_class(), ErrorClass::proc_aborted);
}

}  // namespace
}  // namespace isthmus::cma::refusal_test
