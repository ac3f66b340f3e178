#include "p2p/waits.hpp"

#include "p2p/message/context_ids.hpp"

namespace isthmus {
namespace {

using wire::WaitItem;

/// Of what has come and matches nothing: programs that wait may have thousands.
constexpr unsigned most_unmatched = 8;

}  // namespace

void MessageWitness::say_wait(wire::WaitReport& report, WaitItems& items) noexcept {
  unsigned named = 0;
  matcher_.for_each([&](MatchContext& context) {
    if (ContextIds::is_internal(context.id())) return;
    for (const UnexpectedMessage* message = context.first_unexpected(); message;
         message = MatchContext::next_unexpected(*message)) {
      if (named == most_unmatched) {
        ++report.left_out;
        continue;
      }
      ++named;
      items.add({.kind = WaitItem::Kind::unmatched,
                 .peer = context.process_of(message->source),
                 .tag = message->tag,
                 .flags = 0,
                 .context = context.id(),
                 .bytes = message->bytes});
    }
  });
  completion_.pool().for_each([&](Request& request) {
    const bool is_message = request.kind == Request::Kind::send || request.kind == Request::Kind::receive;
    if (is_message) items.add(request, 0);
  });
}

}  // namespace isthmus
