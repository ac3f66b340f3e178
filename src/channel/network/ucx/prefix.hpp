#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <memory>
#include <span>

namespace isthmus::network {

/// A UCX datatype of messages of which the first bytes alone are wanted: UCX itself refuses to receive a
/// message into less room than it has bytes.
class PrefixType {
 public:
  /// `bytes`: of the whole message. Null where UCX makes no datatype.
  static std::unique_ptr<PrefixType> make(std::span<std::byte> to, std::size_t bytes);
  ~PrefixType() { ucp_dt_destroy(type_); }
  PrefixType(const PrefixType&) = delete;
  PrefixType& operator=(const PrefixType&) = delete;

  [[nodiscard]] ucp_datatype_t get() const { return type_; }
  /// Keeps what arrives at `offset` of the message, as far as it is wanted.
  void store(std::size_t offset, std::span<const std::byte> from) const;
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  PrefixType(std::span<std::byte> to, std::size_t bytes) : to_(to), bytes_(bytes) {}

  std::span<std::byte> to_;
  std::size_t bytes_;
  ucp_datatype_t type_ = 0;
};

}  // namespace isthmus::network
