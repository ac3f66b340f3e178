#include "channel/network/ucx/port.hpp"

#include <sys/epoll.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/log.hpp"
#include "base/system/open_files.hpp"
#include "channel/network/ucx/active_message.hpp"
#include "channel/network/ucx/describe.hpp"
#include "channel/network/ucx/status.hpp"

namespace isthmus::network {
namespace {

/// One in so many polls looks at the watch, and whether a peer connects: system calls of 0.3 us each.
constexpr unsigned polls_per_look = 256;

/// What UCX opens for a peer over TCP, and a watch line: 4 to 7 were too few.
constexpr unsigned files_to_connect = 8;
/// For a few connections, of which others begin some: UCX ends the process where it cannot take one up.
constexpr unsigned files_in_reserve = 2 * files_to_connect;

/// Says that a poll is under way, as long as it lives.
class Polling {
 public:
  explicit Polling(bool& flag) noexcept : flag_(flag) { flag_ = true; }
  ~Polling() { flag_ = false; }
  Polling(const Polling&) = delete;
  Polling& operator=(const Polling&) = delete;

 private:
  bool& flag_;
};

}  // namespace

UcxPort::UcxPort(UcxWorker worker, const Settings& settings, Identity self, Events& events)
    : self_(self),
      events_(&events),
      warn_(settings.warn),
      eager_limit_(settings.network_eager_limit),
      peers_(self.ranks),
      worker_(std::move(worker)) {
  // What `doom` puts there must not need memory.
  doomed_.reserve(self_.ranks);
}

Result<std::unique_ptr<Port>> UcxPort::open(const Settings& settings, Identity self, Events& events) {
  auto worker = UcxWorker::open(settings, self);
  if (!worker) return std::unexpected(std::move(worker).error());
  std::unique_ptr<UcxPort> port(new UcxPort(std::move(*worker), settings, self, events));
  ISTHMUS_TRY(port->start());
  return port;
}

Result<> UcxPort::start() {
  if (getrandom(&token_, sizeof token_, 0) != sizeof token_)
    return fail(ErrorClass::other, std::string("getrandom: ") + std::strerror(errno));
  wire::PortAddress address{.token = token_, .watch_port = 0, .hosts = {}, .transport = {}};
  auto transport = worker_.address();
  if (!transport) return std::unexpected(std::move(transport).error());
  address.transport = std::move(*transport);
  auto watch = Watch::open(self_, token_);
  if (watch) {
    watch_ = std::move(*watch);
    watch_->describe(address);
  } else if (warn_) {
    warn("a peer whose host falls silent may be noticed late: " + watch.error().text());
  }
  address_ = address.write();

  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                       UCP_AM_HANDLER_PARAM_FIELD_ARG | UCP_AM_HANDLER_PARAM_FIELD_FLAGS;
  handler.id = active_message_id;
  handler.cb = on_message;
  handler.arg = this;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG;
  const ucs_status_t status = ucp_worker_set_am_recv_handler(worker_.get(), &handler);
  if (status != UCS_OK)
    return std::unexpected(ucx_error(ErrorClass::other, "the network has no messages", status));
  ISTHMUS_TRY(make_wake_descriptor());
  files_ = FileReserve(files_in_reserve);
  return {};
}

Result<> UcxPort::make_wake_descriptor() {
  int worker = -1;
  const ucs_status_t status = ucp_worker_get_efd(worker_.get(), &worker);
  if (status != UCS_OK)
    return std::unexpected(ucx_error(ErrorClass::other, "the network wakes nobody", status));
  wake_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  std::vector<int> descriptors = worker_.doors().sockets();
  descriptors.insert(descriptors.end(), {worker, watch_ ? watch_->descriptor() : -1});
  for (const int descriptor : descriptors) {
    if (descriptor < 0) continue;
    epoll_event event{.events = EPOLLIN, .data = {.fd = descriptor}};
    if (!wake_ || epoll_ctl(wake_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0)
      return fail(ErrorClass::other, std::string("epoll: ") + std::strerror(errno));
  }
  return {};
}

UcxPort::Peer& UcxPort::peer(PeerId rank) {
  auto& slot = peers_[rank];
  if (!slot) {
    slot = std::make_unique<Peer>();
    slot->rank = rank;
    slot->port = this;
  }
  return *slot;
}

Result<> UcxPort::connect(PeerId rank, std::span<const std::byte> published) {
  if (rank >= self_.ranks) return fail(ErrorClass::rank, "there is no rank " + std::to_string(rank));
  Peer& peer = this->peer(rank);
  if (peer.lost) return std::unexpected(gone(peer));
  if (peer.connected) return {};
  auto address = wire::PortAddress::read(published);
  if (!address)
    return fail(ErrorClass::other, "rank " + std::to_string(rank) + ": " + address.error().text());
  peer.token = address->token;
  if (!peer.endpoint && !files_.make_room(files_to_connect))
    return std::unexpected(
        too_few_files(files_to_connect, "a connection to rank " + std::to_string(rank) + " may need"));

  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address->transport.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {.cb = on_failure, .arg = &peer};
  const ucs_status_t status = peer.endpoint ? UCS_OK : ucp_ep_create(worker_.get(), &params, &peer.endpoint);
  if (status != UCS_OK) {
    peer.endpoint = nullptr;
    return std::unexpected(ucx_error(
        ErrorClass::other,
        "no transport reaches rank " + std::to_string(rank) + " (UCX_LOG_LEVEL=info tells what was tried)",
        status));
  }
  // Where there is no memory from here on, the endpoint is used the next time.
  const bool over_tcp = describe(rank).starts_with("tcp");
  peer.eager_limit = eager_limit_ ? eager_limit_ : over_tcp ? eager_limit_tcp : eager_limit_rdma;
  peer.in_pieces = over_tcp;
  if (watch_) watch_->begin(rank, *address);
  peer.connected = true;
  return {};
}

unsigned UcxPort::poll() {
  if (polling_) return 0;
  const Polling polling(polling_);
  delivered_ = 0;
  if (!declined_.empty()) release_declined();
  if (!ready_.empty()) tell_ready();
  const bool looks = armed_ || ++polls_ % polls_per_look == 0;
  if (looks) look_at_doors();
  ucp_worker_progress(worker_.get());
  if (watch_ && looks) look_at_watch();
  armed_ = false;
  if (!doomed_.empty()) bury_the_dead();
  return delivered_;
}

void UcxPort::look_at_doors() {
  Doors& doors = worker_.doors();
  if (!doors.somebody_knocks()) return doors.shut();
  if (files_.make_room(files_to_connect)) return doors.open();
  doors.shut();
  if (warn_ && !complained_of_files_)
    warn("a connection from another host waits: " + too_few_files(files_to_connect, "it may need").text());
  complained_of_files_ = true;
}

void UcxPort::release_declined() {
  // It keeps its memory, which `offer` has reserved.
  for (auto* const declined : declined_)
    ucp_am_data_release(worker_.get(), declined);
  declined_.clear();
}

void UcxPort::tell_ready() {
  while (!ready_.empty()) {
    // Who hears of it may begin another, which moves the others.
    Ready ready = std::move(ready_.front());
    try {
      events_->fetched(ready.token, ready.error ? &*ready.error : nullptr);
    } catch (...) {
      ready_.front() = std::move(ready);  // told with a later poll
      throw;
    }
    ready_.erase(ready_.begin());
    ++delivered_;
  }
}

bool UcxPort::arm() {
  if (!ready_.empty() || !declined_.empty() || !doomed_.empty()) return false;
  if (ucp_worker_arm(worker_.get()) != UCS_OK) return false;
  armed_ = true;
  return true;
}

std::string UcxPort::describe(PeerId rank) const {
  if (rank >= self_.ranks || !peers_[rank] || !peers_[rank]->endpoint) return "not connected";
  return describe_endpoint(peers_[rank]->endpoint);
}

}  // namespace isthmus::network
