// An engine with peers behind a network whose UCX is an input: envelopes, pieces of long messages and words
// about them arrive where UCX hands them in, of any bytes, in any order, while the engine sends and receives
// in memory of the host and of emulated GPUs. At the end the peers are lost, and then every request has to
// end.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "channel/network/port.hpp"
#include "fake_ucx.hpp"
#include "gpu_program.hpp"
#include "input.hpp"
#include "launch/job.hpp"
#include "p2p/engine.hpp"
#include "wire/network.hpp"
#include "wire/port.hpp"

namespace isthmus {
namespace {

using fuzz::Gpus;
using fuzz::require;
using wire::NetworkKind;
using wire::PortKind;

unsigned handles_at_start = 0;

/// A launcher that has published the ports of the peers, and keeps what the engine publishes.
class Space final : public launch::KeyValues {
 public:
  Space() : KeyValues({.protocol = "fuzz", .rank = 0, .size = 3, .job = "fuzz"}) {}
  Result<> put(std::string_view, std::string_view value) override {
    own_ = value;
    return {};
  }
  Result<> fence() override { return {}; }
  Result<std::string> get(std::uint32_t rank, std::string_view) override {
    const wire::PortAddress address{.token = 100 + rank,
                                    .watch_port = 0,
                                    .hosts = {},
                                    .transport = {static_cast<std::byte>(rank), std::byte{0}}};
    const auto bytes = address.write();
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  [[noreturn]] void abort(int, std::string_view) noexcept override { std::abort(); }
  Result<> finalize() override { return {}; }

  [[nodiscard]] std::uint64_t token() const {
    const auto read = wire::PortAddress::read(std::as_bytes(std::span(own_)));
    require(read.has_value(), "the engine has published no port");
    return read->token;
  }

 private:
  std::string own_;
};

class Session {
 public:
  explicit Session(fuzz::Input& input) : input_(input) {
    fuzz::ucx::reset();
    fuzz::ucx::describe_as(input_.below(3) != 0 ? "tcp/eth0" : "rc_verbs/mlx5_0:1", input_.below(2) != 0);
    const wire::RingGeometry geometry{16, 16'384};
    auto region =
        launch::make_region(wire::RegionShape::of(2, 3, geometry), {.idle = wire::IdlePolicy::spin});
    require(region.has_value(), "no region");
    space_ = std::make_shared<Space>();
    job_ = std::make_unique<launch::Job>(launch::Job{.rank = 0,
                                                     .size = 3,
                                                     .singleton = false,
                                                     .members = {0, 1},
                                                     .name = "fuzz",
                                                     .host = "here",
                                                     .launcher = space_,
                                                     .region = region->view,
                                                     .mapping = region->mapping,
                                                     .region_fd = {}});
    // As who has joined: the engine waits half a second for who has not.
    for (const std::uint32_t rank : {0U, 1U}) {
      wire::PlaceRecord& place = job_->region.block(rank).place;
      place.rank = rank;
      place.pid = ::getpid();
      place.package = place.numa = place.core = -1;
      job_->region.roster(rank).store(wire::RosterState::joined);
    }
    const std::uint64_t chunks[]{0, 4096, 65'536};
    const std::uint64_t limits[]{0, 0, 512, 4096};
    Settings settings;
    settings.warn = false;
    settings.gpu_path = input_.below(3) == 0 ? GpuPathSetting::network : GpuPathSetting::automatic;
    settings.gpu_chunk = input_.pick(chunks);
    settings.network_eager_limit = input_.pick(limits);
    auto engine = Engine::make(*job_, settings);
    require(engine.has_value(), engine ? "" : engine.error().text().c_str());
    engine_ = std::move(*engine);
    engine_->open_context(Engine::world_context, 3);
  }

  void step() {
    switch (input_.below(16)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
        return say_message();
      case 5:
        return say_of_pieces();
      case 6:
        return say_anything();
      case 7:
      case 8:
        return receive();
      case 9:
      case 10:
        return send();
      case 11:
      case 12:
        return complete();
      case 13:
        return program_.change_request(*engine_);
      case 14:
        fuzz::ucx::leave_pending(input_.take<std::uint8_t>());
        if (input_.below(64) == 0) fuzz::ucx::break_off(some_peer());
        if (input_.below(16) == 0)
          static_cast<void>(
              engine_->explain(input_.below(2) == 0 ? ExplainSetting::full : ExplainSetting::summary));
        return;
      default:
        return progress(1 + input_.below(30));
    }
  }

  void finish() {
    progress(4);
    program_.cancel_what_needs_no_peer(*engine_);
    // What UCX has not ended when a peer is lost costs the port 100 ms: seldom.
    for (std::size_t left = input_.below(16) != 15 ? fuzz::ucx::pending() : 0; left > 0; --left)
      fuzz::ucx::complete(0, UCS_OK, false);
    progress(4);
    for (const PeerId peer : {1, 2})
      engine_->lose(peer, "it is gone", false);
    program_.end_all(*engine_);
    // The port hears that its peers are gone, and UCX does what it can still do: else the port waits for a
    // second.
    progress(4);
    for (std::size_t left = fuzz::ucx::pending(); left > 0; --left)
      fuzz::ucx::complete(0, UCS_OK, false);
    progress(4);
    engine_.reset();
    require(fuzz::ucx::is_clean(), "the port has not given back what UCX has lent");
    program_.check(handles_at_start);
  }

 private:
  // --- what the program does

  std::uint64_t some_size() {
    const std::uint64_t sizes[]{0,      1,      8,       100,     512,     513,     4096,    5000,
                                16'384, 70'000, 131'072, 262'144, 262'145, 300'000, 600'000, 1'100'000};
    return input_.pick(sizes);
  }
  PeerId some_peer() { return input_.below(4) == 0 ? 1 : 2; }
  void receive() {
    const int sources[]{2, 2, 2, 1, any_source};
    const int tags[]{0, 0, 1, any_tag};
    const int source = input_.pick(sources), tag = input_.pick(tags);
    MatchContext& context = engine_->open_context(Engine::world_context, 3);
    program_.keep(engine_->start_receive(context, source, tag, program_.payload(some_size(), false)), false);
  }
  void send() {
    const auto mode = input_.below(3) == 0 ? SendMode::synchronous : SendMode::standard;
    const int tag = static_cast<int>(input_.below(2));
    program_.keep(engine_->start_send({some_peer(), Engine::world_context, 0, tag},
                                      program_.payload(some_size(), true), mode),
                  true);
  }
  void progress(unsigned turns) {
    for (; turns > 0; --turns)
      engine_->progress();
  }

  // --- what arrives

  wire::Cookie some_cookie() {
    const unsigned choice = input_.below(32);
    if (choice < 26 && !program_.requests().empty())
      return program_.requests()[choice % program_.requests().size()].request->cookie();
    return choice < 31 ? std::uint64_t{input_.below(3)} << 32 | input_.below(16)
                       : input_.take<std::uint64_t>();
  }
  /// Of the peer's own sends, which it names.
  wire::Cookie some_name() { return input_.below(6); }

  void arrive(PeerId peer, PortKind kind, std::span<const std::byte> header,
              std::span<const std::byte> inlined, std::span<const std::byte> data, bool rendezvous) {
    wire::PortEnvelope envelope{.token = space_->token(),
                                .sequence = 0,
                                .sender = peer,
                                .header_bytes = static_cast<std::uint8_t>(header.size()),
                                .kind = kind,
                                .inlined = static_cast<std::uint16_t>(inlined.size())};
    if (kind == PortKind::message || kind == PortKind::offer) {
      std::uint64_t& next = next_[peer];
      const unsigned order = input_.below(32);
      // Most in their order; some ahead of it, which the next ones catch up with, some again.
      envelope.sequence = order < 28 ? next++ : order < 30 ? next + 1 : next - (order == 30 ? 1 : 0);
    }
    std::vector<std::byte> head(sizeof envelope + header.size() + inlined.size());
    std::memcpy(head.data(), &envelope, sizeof envelope);
    std::ranges::copy(header, head.data() + sizeof envelope);
    std::ranges::copy(inlined, head.data() + sizeof envelope + header.size());
    if (input_.below(64) == 0)
      head[input_.below(256) % head.size()] ^= static_cast<std::byte>(1 + input_.below(255));
    fuzz::ucx::arrive(head, data, rendezvous);
  }
  std::span<const std::byte> some_bytes(std::uint64_t bytes) {
    static const std::vector<std::byte> all(2U << 20U, std::byte{0x77});
    return std::span(all).first(std::min<std::uint64_t>(bytes, all.size()));
  }
  /// An envelope of the engine's own, with its bytes or with an offer of them.
  void say_message() {
    const NetworkKind kinds[]{NetworkKind::message, NetworkKind::message, NetworkKind::message,
                              NetworkKind::message, NetworkKind::chunked, NetworkKind::chunk,
                              NetworkKind::chunk,   NetworkKind::cut,     NetworkKind::acknowledge,
                              NetworkKind::cancel,  NetworkKind::loop,    NetworkKind::cancelled,
                              NetworkKind::leaving, NetworkKind::seen_off};
    const PeerId peer = some_peer();
    const NetworkKind kind = input_.pick(kinds);
    const bool names_ours = kind == NetworkKind::cut || kind == NetworkKind::acknowledge ||
                            kind == NetworkKind::cancelled || kind == NetworkKind::loop;
    std::uint64_t bytes = some_size();
    const bool has_bytes =
        kind == NetworkKind::message || kind == NetworkKind::chunk || kind == NetworkKind::loop;
    wire::NetworkHeader header{
        .context = input_.below(32) == 0 ? input_.below(8) : Engine::world_context,
        .source = input_.below(16) != 0 ? static_cast<int>(peer) : static_cast<int>(input_.below(4)),
        .tag = static_cast<int>(input_.below(2)),
        .bytes = bytes,
        .sender = names_ours ? some_cookie() : some_name(),
        .kind = kind,
        .flag = input_.below(4) == 0 ? wire::CellFlag::synchronous : wire::CellFlag::none,
        .reserved16 = 0,
        .reserved32 = 0};
    if (input_.below(16) == 0) header.bytes = input_.take<std::uint64_t>();
    const auto head = std::as_bytes(std::span(&header, 1));
    if (!has_bytes) return arrive(peer, PortKind::message, head, {}, {}, false);
    switch (input_.below(kind == NetworkKind::message ? 4 : 2) + (kind == NetworkKind::message ? 0 : 2)) {
      case 0:
        if (bytes > 512) header.bytes = bytes = input_.below(256);
        return arrive(peer, PortKind::message, head, some_bytes(bytes), {}, false);
      case 1:
        return arrive(peer, PortKind::message, head, {}, some_bytes(bytes), false);
      case 2:
        return arrive(peer, PortKind::message, head, {}, some_bytes(bytes), true);
      default: {
        const wire::PieceOffer what{.id = ++last_offer_, .bytes = bytes};
        return arrive(peer, PortKind::offer, head, std::as_bytes(std::span(&what, 1)), {}, false);
      }
    }
  }
  void say_of_pieces() {
    const PeerId peer = some_peer();
    const auto some_offset = [this] {
      const std::uint64_t offsets[]{0, 0, 16'384, 65'536, 131'072, 262'144};
      return input_.below(16) != 0 ? input_.pick(offsets) : input_.take<std::uint64_t>();
    };
    const std::uint64_t id = input_.below(16) != 0 ? 1 + input_.below(8) : input_.take<std::uint64_t>();
    switch (input_.below(4)) {
      case 0: {
        const wire::PieceWant want{
            .offer = id, .fetch = input_.below(4), .offset = some_offset(), .bytes = some_size()};
        return arrive(peer, PortKind::want, {}, std::as_bytes(std::span(&want, 1)), {}, false);
      }
      case 1: {
        const wire::PieceDone done{.offer = id};
        return arrive(peer, PortKind::done, {}, std::as_bytes(std::span(&done, 1)), {}, false);
      }
      default: {
        const wire::PieceHead head{.fetch = id, .offset = some_offset()};
        return arrive(peer, PortKind::piece, {}, std::as_bytes(std::span(&head, 1)), some_bytes(some_size()),
                      false);
      }
    }
  }
  void say_anything() {
    std::vector<std::byte> head(input_.below(110));
    input_.fill(head);
    const std::uint64_t token = space_->token();
    if (head.size() >= sizeof(wire::PortEnvelope) && input_.below(4) != 0) {
      std::memcpy(head.data(), &token, sizeof token);
      const std::uint32_t sender = some_peer();
      std::memcpy(head.data() + offsetof(wire::PortEnvelope, sender), &sender, sizeof sender);
    }
    fuzz::ucx::arrive(head, some_bytes(input_.below(200)), input_.below(2) != 0);
  }
  void complete() {
    const ucs_status_t statuses[]{UCS_OK, UCS_OK, UCS_OK, UCS_ERR_CANCELED, UCS_ERR_ENDPOINT_TIMEOUT};
    const unsigned index = input_.below(8);
    const ucs_status_t status = input_.pick(statuses);
    fuzz::ucx::complete(index, status, input_.below(8) == 0);
  }

  fuzz::Input& input_;
  fuzz::GpuProgram program_{input_, 8, fuzz::GpuProgram::WhenOver::kept};
  std::shared_ptr<Space> space_;
  std::unique_ptr<launch::Job> job_;
  std::unique_ptr<Engine> engine_;
  std::map<PeerId, std::uint64_t> next_;
  std::uint64_t last_offer_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  static_cast<void>(Gpus::get());
  static_cast<void>(Gpus::open_handles(handles_at_start));
  // Before the first input, so that libFuzzer knows of its branches.
  require(network::inventory({}).has_value(), "the network library is not there");
  fuzz::ucx::to_gpu = [](void* to, std::span<const std::byte> from) {
    const auto address = [](const void* data) { return reinterpret_cast<cuda::Address>(data); };
    require(
        Gpus::get().functions().copy(address(to), address(from.data()), from.size()) == cuda::Status::success,
        "a fetch to memory that no GPU has");
  };
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  Session session(input);
  for (int steps = 0; steps < 120 && !input.empty(); ++steps)
    session.step();
  session.finish();
  return 0;
}

}  // namespace isthmus
