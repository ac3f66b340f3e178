#include "channel/network/ucx/prefix.hpp"

#include <algorithm>
#include <cstring>

namespace isthmus::network {
namespace {

void* start_pack(void* context, const void* /*buffer*/, std::size_t /*count*/) {
  return context;
}
void* start_unpack(void* context, void* /*buffer*/, std::size_t /*count*/) {
  return context;
}
std::size_t packed_size(void* state) {
  return static_cast<PrefixType*>(state)->bytes();
}
std::size_t pack(void* /*state*/, std::size_t /*offset*/, void* /*to*/, std::size_t /*limit*/) {
  return 0;
}
void finish(void* /*state*/) {}

ucs_status_t unpack(void* state, std::size_t offset, const void* from, std::size_t bytes) {
  static_cast<PrefixType*>(state)->store(offset, {static_cast<const std::byte*>(from), bytes});
  return UCS_OK;
}

constexpr ucp_generic_dt_ops_t operations{.start_pack = start_pack,
                                          .start_unpack = start_unpack,
                                          .packed_size = packed_size,
                                          .pack = pack,
                                          .unpack = unpack,
                                          .finish = finish};

}  // namespace

std::unique_ptr<PrefixType> PrefixType::make(std::span<std::byte> to, std::size_t bytes) {
  std::unique_ptr<PrefixType> prefix(new PrefixType(to, bytes));
  if (ucp_dt_create_generic(&operations, prefix.get(), &prefix->type_) != UCS_OK) {
    prefix->type_ = ucp_dt_make_contig(1);
    return nullptr;
  }
  return prefix;
}

void PrefixType::store(std::size_t offset, std::span<const std::byte> from) const {
  if (offset >= to_.size()) return;
  std::memcpy(to_.data() + offset, from.data(), std::min(from.size(), to_.size() - offset));
}

}  // namespace isthmus::network
