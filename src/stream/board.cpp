#include "stream/board.hpp"

#include <string>

namespace isthmus::stream {

kernel::MeetArguments Board::arguments() const noexcept {
  kernel::MeetArguments made{};
  made.members = static_cast<std::uint32_t>(port_->ids.size());
  made.rank = static_cast<std::uint32_t>(port_->rank);
  made.ended = reinterpret_cast<const device::u64*>(port_->ended_word());
  for (std::uint32_t i = 0; i < made.members; ++i)
    made.rooms[i] = reinterpret_cast<kernel::Byte*>(port_->room(i));
  return made;
}

kernel::MailArguments Board::mail(int peer, int tag) const noexcept {
  const auto members = static_cast<std::uint32_t>(port_->ids.size());
  const auto room = [&](int rank) {
    return reinterpret_cast<kernel::Byte*>(port_->room(static_cast<std::size_t>(rank))) +
           kernel::meet_room_bytes(members);
  };
  kernel::MailArguments made{};
  made.port = port_->view(0);
  made.own = room(port_->rank);
  made.theirs = room(peer);
  made.rank = static_cast<std::uint32_t>(port_->rank);
  made.peer = static_cast<std::uint32_t>(peer);
  made.members = members;
  made.tag = static_cast<std::uint32_t>(tag);
  return made;
}

Result<> Board::check() const {
  const isthmus_device_control noted = port_->control();
  const bool is_truncated =
      std::atomic_ref(port_->control().why).load(std::memory_order_acquire) == ISTHMUS_DEVICE_TRUNCATED;
  Result<> refused = port_->take_refusal();
  if (!refused && is_truncated)
    return fail(ErrorClass::truncate, "a receive, operation " + std::to_string(noted.number) +
                                          " of its stream, failed: the message from rank " +
                                          std::to_string(static_cast<long long>(noted.rank)) + " has " +
                                          std::to_string(noted.bytes) + " bytes, the receive has room for " +
                                          std::to_string(noted.offset));
  ISTHMUS_TRY(std::move(refused));
  return port_->check();
}

}  // namespace isthmus::stream
