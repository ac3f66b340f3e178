#include "stream/board.hpp"

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

}  // namespace isthmus::stream
