#include "p2p/progress/wait_telling.hpp"

#include <algorithm>
#include <cstring>

#include "p2p/link/peer.hpp"
#include "p2p/message/matcher.hpp"
#include "p2p/message/request.hpp"

namespace isthmus {
namespace {

using wire::WaitItem;

WaitItem item_of(const Request& request, std::uint32_t flags) {
  const bool receives = request.kind == Request::Kind::receive;
  WaitItem item{.kind = receives ? WaitItem::Kind::receive : WaitItem::Kind::send,
                .peer = wire::wait_any_peer,
                .tag = request.tag,
                .flags = flags | (request.matched ? WaitItem::matched : 0),
                .context = receives && request.context ? request.context->id() : request.context_id,
                .bytes = request.payload.bytes};
  if (request.peer)
    item.peer = static_cast<std::int32_t>(request.peer->id);
  else if (receives && request.context && request.source != any_source)
    item.peer = request.context->process_of(request.source);
  if (receives && request.matched) item.tag = request.status.tag;
  return item;
}

}  // namespace

void WaitItems::add(const WaitItem& item) noexcept {
  if (report_.items < report_.item.size())
    report_.item[report_.items++] = item;
  else
    ++report_.left_out;
}

void WaitItems::add(const Request& request, std::uint32_t flags) noexcept {
  if (request.complete) return;
  const auto end = requests_.begin() + static_cast<std::ptrdiff_t>(count_);
  if (std::find(requests_.begin(), end, &request) != end) return;
  if (count_ < requests_.size()) requests_[count_++] = &request;
  add(item_of(request, flags));
}

void WaitSubject::say_request(const void* what, WaitItems& items) noexcept {
  items.add(*static_cast<const Request*>(what), WaitItem::awaited);
}

void WaitTelling::tell(const Idle& wait, const WaitSubject& subject, const char* call, std::int64_t began,
                       std::int64_t now) noexcept {
  if (!speaker_) speaker_ = &wait;
  if (speaker_ != &wait) return;
  wire::WaitReport report{};
  report.waits = 1;
  report.began = began;
  report.others = waits_ - 1;
  report.collective_root = report.root_process = -1;
  if (call) std::strncpy(report.call.data(), call, report.call.size() - 1);
  WaitItems items(report);
  subject.say(subject.what, items);
  messages_.say_wait(report, items);
  if (program_) program_->say_wait(report, items);
  report.told = last_.told;
  if (std::memcmp(&report, &last_, sizeof report) == 0) return;
  report.told = now;
  last_ = report;
  board_.write(report);
}

void WaitTelling::end(const Idle& wait) noexcept {
  --waits_;
  if (speaker_ != &wait) return;
  speaker_ = nullptr;
  last_ = {};
  board_.clear();
}

}  // namespace isthmus
