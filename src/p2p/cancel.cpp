// MPI_Cancel (MPI 5.0, section 3.8.4).
#include "p2p/engine.hpp"
#include "p2p/message/held_up.hpp"

namespace isthmus {

void Engine::cancel(Request& request) {
  resume(request);
  if (request.complete) return;
  const auto end_cancelled = [&] {
    request.status.cancelled = request.cancelled = true;
    completion_.finish(request);
  };
  if (request.kind == Request::Kind::receive && !request.matched) {
    request.context->withdraw(&request);
    request.status = {};
    return end_cancelled();
  }
  if (request.kind != Request::Kind::send) return;
  if (request.unsent) {
    request.peer->waiting.remove(&request);
    return end_cancelled();
  }
  if (!request.peer->is_local()) return network_->cancel(request);
  // What is under way has been asked for, whether its receiver has claimed it (as each that is honest does)
  // or not.
  const bool is_under_way = request.transfer != Request::Transfer::none;
  const bool to_self = request.peer->id == links_.rank();
  if (to_self ? self_.take_back(request) : !is_under_way && claims_.take_back(request.cookie()))
    return end_cancelled();
  request.released = true;
  if (request.transfer == Request::Transfer::stream) streams_.buffer_rest(request);
}

void Engine::withdraw(Request* request) {
  cancel(*request);
  wait(*request);
  completion_.pool().give_back(request);
}

}  // namespace isthmus
