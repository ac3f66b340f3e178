#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "launch/launcher/key_values.hpp"
#include "pmi_server.hpp"

namespace isthmus::launch::key_values_test {
namespace {

using testing::HasSubstr;

/// Each test begins and ends without a launcher's variables.
class FindKeyValues : public testing::Test {
 protected:
  FindKeyValues() { clear(); }
  ~FindKeyValues() override { clear(); }

  static void clear() {
    for (const char* name :
         {"PMI_FD", "PMI_RANK", "PMI_SIZE", "PMI_JOBID", "PMI_SPAWNED", "PMIX_RANK", "PMIX_NAMESPACE",
          "MPI_LOCALNRANKS", "MPI_LOCALRANKID", "OMPI_COMM_WORLD_RANK", "SLURM_JOB_ID", "SLURM_PROCID"})
      ::unsetenv(name);
  }

  static void set(const char* fd, const char* rank, const char* size) {
    ::setenv("PMI_FD", fd, 1);
    ::setenv("PMI_RANK", rank, 1);
    ::setenv("PMI_SIZE", size, 1);
  }

  static std::string error() {
    const auto found = find_key_values();
    return found ? "no error" : found.error().text();
  }
};

/// The first line tells the protocol; then the launcher is gone.
struct FirstLine {
  std::string text;
  PmiServer server{[](const std::string& received) { return received.find('\n') + 1; },
                   [this](const std::string& line) {
                     text = line;
                     return std::string();
                   }};
  UniqueFd fd = server.place().fd;
};

TEST_F(FindKeyValues, NothingWithoutALauncherAlsoInAnAllocationOfSlurm) {
  ::setenv("SLURM_JOB_ID", "12", 1);
  ::setenv("SLURM_PROCID", "0", 1);
  const auto found = find_key_values();
  ASSERT_TRUE(found);
  EXPECT_EQ(*found, nullptr);
}

TEST_F(FindKeyValues, DescriptorsThatAreNoLaunchersAreErrors) {
  set("seven", "0", "1");
  EXPECT_THAT(error(), HasSubstr("PMI_FD='seven' is not the number of a file descriptor"));
  set("-1", "0", "1");
  EXPECT_THAT(error(), HasSubstr("PMI_FD='-1' is not the number"));
  set("987", "0", "1");
  EXPECT_THAT(error(), HasSubstr("PMI_FD='987' is not open"));
  const UniqueFd file(::open("/dev/null", O_RDWR));
  set(std::to_string(file.get()).c_str(), "0", "1");
  EXPECT_THAT(error(), HasSubstr("is not a socket of a launcher"));
  EXPECT_NE(::fcntl(file.get(), F_GETFD), -1) << "a descriptor that is not ours was closed";
}

TEST_F(FindKeyValues, RanksAndSizesThatMakeNoSenseAreErrors) {
  set("3", "first", "4");
  EXPECT_THAT(error(), HasSubstr("PMI_RANK='first' is not a rank"));
  set("3", "-1", "4");
  EXPECT_THAT(error(), HasSubstr("PMI_RANK='-1' is not a rank"));
  set("3", "4", "4");
  EXPECT_THAT(error(), HasSubstr("PMI_RANK='4' is not a rank of a job of 4 ranks"));
  set("3", "0", "0");
  EXPECT_THAT(error(), HasSubstr("PMI_SIZE='0' is not a number of ranks"));
  set("3", "0", "");
  EXPECT_THAT(error(), HasSubstr("PMI_SIZE='' is not a number of ranks"));
}

TEST_F(FindKeyValues, KeepsVariablesAndDescriptorFromChildren) {
  FirstLine launcher;
  const int fd = launcher.fd.get();
  set(std::to_string(fd).c_str(), "0", "1");
  ::setenv("PMIX_NAMESPACE", "outer", 1);
  ::setenv("PMI_SPAWNED", "1", 1);
  const int lent = launcher.fd.leak();  // find_key_values closes it
  EXPECT_EQ(lent, fd);
  EXPECT_THAT(error(), HasSubstr("the launcher has closed the connection"));
  for (const char* name : {"PMI_FD", "PMI_SPAWNED", "PMIX_NAMESPACE"})
    EXPECT_EQ(std::getenv(name), nullptr) << name;
  for (const char* name : {"PMI_RANK", "PMI_SIZE"})  // for programs that choose their GPU after MPI_Init
    EXPECT_NE(std::getenv(name), nullptr) << name;
  const auto again = find_key_values();
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, nullptr);
}

TEST_F(FindKeyValues, TakesARankWithoutADescriptorForNoLauncher) {
  clear();
  ::setenv("PMI_RANK", "1", 1);
  ::setenv("PMI_SIZE", "2", 1);
  ::setenv("MPI_LOCALRANKID", "1", 1);
  ::setenv("MPI_LOCALNRANKS", "2", 1);
  ::setenv("OMPI_COMM_WORLD_RANK", "1", 1);
  const auto found = find_key_values();
  ASSERT_TRUE(found);
  EXPECT_EQ(*found, nullptr);
  clear();
}

TEST_F(FindKeyValues, SpeaksPmi2WithSlurmAndPmi1WithHydraAlsoBelowSlurm) {
  const auto first_line = [](bool slurm, bool hydra) {
    FirstLine launcher;
    set(std::to_string(launcher.fd.leak()).c_str(), "0", "1");
    if (slurm) ::setenv("PMI_JOBID", "7.0", 1);
    if (hydra) {
      ::setenv("MPI_LOCALNRANKS", "1", 1);
      ::setenv("PMIX_NAMESPACE", "slurm.pmix.7.0", 1);  // of the step that Hydra's proxy runs in
      ::setenv("PMIX_RANK", "0", 1);
    }
    EXPECT_FALSE(find_key_values());
    clear();
    launcher.server.wait();
    return launcher.text;
  };
  EXPECT_EQ(first_line(false, false), "cmd=init pmi_version=1 pmi_subversion=1\n");
  EXPECT_EQ(first_line(true, false), "cmd=init pmi_version=2 pmi_subversion=0\n");
  EXPECT_EQ(first_line(false, true), "cmd=init pmi_version=1 pmi_subversion=1\n");
  EXPECT_EQ(first_line(true, true), "cmd=init pmi_version=1 pmi_subversion=1\n");
}

}  // namespace
}  // namespace isthmus::launch::key_values_test
