#include "launch/launcher/pmix/client.hpp"

#include <unistd.h>

#include <cstring>
#include <optional>
#include <utility>

#include "launch/launcher/pmix/descriptors.hpp"
#include "launch/launcher/pmix/quiet.hpp"

namespace isthmus::launch {
namespace {

std::unexpected<Error> failed(std::string_view what, pmix_status_t status) {
  return fail(ErrorClass::other, std::string(what) + " (PMIx): " + PMIx_Error_string(status));
}

/// A value that libpmix has allocated.
class OwnedValue {
 public:
  OwnedValue() = default;
  OwnedValue(const OwnedValue&) = delete;
  OwnedValue& operator=(const OwnedValue&) = delete;
  ~OwnedValue() {
    if (value_) PMIX_VALUE_RELEASE(value_);
  }
  [[nodiscard]] pmix_value_t** address() noexcept { return &value_; }
  [[nodiscard]] const pmix_value_t* get() const noexcept { return value_; }

 private:
  pmix_value_t* value_ = nullptr;
};

/// One flag in a request.
class Flag {
 public:
  explicit Flag(const char* name) noexcept {
    const bool yes = true;
    PMIX_INFO_LOAD(&info_, name, &yes, PMIX_BOOL);
  }
  Flag(const Flag&) = delete;
  Flag& operator=(const Flag&) = delete;
  ~Flag() { PMIX_INFO_DESTRUCT(&info_); }
  [[nodiscard]] const pmix_info_t* get() const noexcept { return &info_; }

 private:
  pmix_info_t info_{};
};

/// What the launcher tells `proc` of the job in numbers.
std::optional<std::uint32_t> number(const pmix_proc_t& proc, const char* name) {
  OwnedValue value;
  if (PMIx_Get(&proc, name, nullptr, 0, value.address()) != PMIX_SUCCESS || !value.get()) return std::nullopt;
  switch (value.get()->type) {
    case PMIX_UINT32:
      return value.get()->data.uint32;
    case PMIX_INT:
      return static_cast<std::uint32_t>(value.get()->data.integer);
    case PMIX_INT32:
      return static_cast<std::uint32_t>(value.get()->data.int32);
    default:
      return std::nullopt;
  }
}

std::int32_t number_or_none(std::optional<std::uint32_t> value) {
  return value && *value <= INT32_MAX ? static_cast<std::int32_t>(*value) : -1;
}

}  // namespace

Result<std::unique_ptr<KeyValues>> PmixClient::connect() {
  pmix_proc_t self{};
  const QuietStderr quiet;
  const auto descriptors = inheritable_descriptors();
  const pmix_status_t status = PMIx_Init(&self, nullptr, 0);
  keep_new_descriptors(descriptors);
  if (status != PMIX_SUCCESS)
    return failed("PMIX_RANK and PMIX_NAMESPACE name a launcher that cannot be reached", status);
  pmix_proc_t everybody = self;
  everybody.rank = PMIX_RANK_WILDCARD;
  const auto size = number(everybody, PMIX_JOB_SIZE);
  if (!size || *size == 0 || *size > INT32_MAX || self.rank >= *size)
    return fail(ErrorClass::other, "the launcher (PMIx) does not tell the number of ranks of this job");
  JobFacts facts{.protocol = "PMIx",
                 .rank = self.rank,
                 .size = *size,
                 .universe = number_or_none(number(everybody, PMIX_UNIV_SIZE)),
                 .appnum = number_or_none(number(self, PMIX_APPNUM)),
                 .job = std::string(self.nspace, ::strnlen(self.nspace, sizeof self.nspace))};
  return std::unique_ptr<KeyValues>(new PmixClient(self, std::move(facts)));
}

// A byte goes in front, because an empty value comes back as none.
Result<> PmixClient::put(std::string_view key, std::string_view value) {
  std::string bytes = "=" + std::string(value);
  pmix_value_t given{};
  given.type = PMIX_BYTE_OBJECT;
  given.data.bo = {.bytes = bytes.data(), .size = bytes.size()};
  const pmix_status_t status = PMIx_Put(PMIX_GLOBAL, std::string(key).c_str(), &given);
  if (status != PMIX_SUCCESS)
    return failed("the launcher refuses a value of " + std::to_string(value.size()) + " bytes", status);
  return {};
}

Result<> PmixClient::fence() {
  if (const pmix_status_t status = PMIx_Commit(); status != PMIX_SUCCESS)
    return failed("the launcher does not take the values of this rank", status);
  const Flag collect(PMIX_COLLECT_DATA);
  if (const pmix_status_t status = PMIx_Fence(nullptr, 0, collect.get(), 1); status != PMIX_SUCCESS)
    return failed("the ranks of the job do not meet", status);
  return {};
}

Result<std::string> PmixClient::get(std::uint32_t rank, std::string_view key) {
  pmix_proc_t owner = self_;
  owner.rank = rank;
  const Flag immediate(PMIX_IMMEDIATE);
  OwnedValue value;
  const pmix_status_t status =
      PMIx_Get(&owner, std::string(key).c_str(), immediate.get(), 1, value.address());
  const std::string what = "the launcher has no '" + std::string(key) + "' of rank " + std::to_string(rank);
  if (status != PMIX_SUCCESS) return failed(what, status);
  if (!value.get() || value.get()->type != PMIX_BYTE_OBJECT || value.get()->data.bo.size == 0)
    return fail(ErrorClass::other, what + " (PMIx)");
  return std::string(value.get()->data.bo.bytes + 1, value.get()->data.bo.size - 1);
}

void PmixClient::abort(int code, std::string_view line) noexcept {
  PMIx_Abort(code, std::string(line).c_str(), nullptr, 0);
  ::sleep(5);  // for the launcher to end this process
  ::_exit(code);
}

Result<> PmixClient::finalize() {
  const QuietStderr quiet;
  if (const pmix_status_t status = PMIx_Finalize(nullptr, 0); status != PMIX_SUCCESS)
    return failed("the launcher does not let this rank go", status);
  return {};
}

}  // namespace isthmus::launch
