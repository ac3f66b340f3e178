#include "p2p/active/way_times.hpp"

#include <utility>

namespace isthmus {

void WayTimes::begins(Request& receive) noexcept {
  if (std::exchange(receive.is_timed, true)) return;
  receive.way.reset();
  clock_.attend(1);
  if (under_way_++ == 0) since_ = clock_.present();
}

void WayTimes::ends(Request& request) noexcept {
  if (!std::exchange(request.is_timed, false)) return;
  --under_way_;
  const std::uint64_t since = std::exchange(since_, clock_.present());
  clock_.attend(-1);
  if (!request.way || since_ <= since) return;
  Traffic& traffic = (request.peer ? *request.peer : links_.peer(links_.rank())).traffic;
  traffic.ticks[static_cast<std::size_t>(*request.way)] += since_ - since;
}

}  // namespace isthmus
