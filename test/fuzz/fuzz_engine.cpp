// An engine whose only peer writes whatever the input says into the memory that they share, while the
// engine's own side sends, receives, probes, cancels and waits.
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "channel/shm/ring_reader.hpp"
#include "channel/shm/ring_writer.hpp"
#include "datatype/make/construct.hpp"
#include "input.hpp"
#include "launch/job.hpp"
#include "p2p/engine.hpp"
#include "wire/gpu.hpp"
#include "wire/mapping.hpp"

namespace isthmus {
namespace {

/// A process whose memory the engine may read and write, so that no other is at risk: a child that waits to
/// be killed.
struct Victim {
  std::array<std::uint64_t, 2> probe{0x1357'9bdf'0246'8ace, 0};
  std::array<std::byte, 512 * 1024> memory{};
  pid_t pid = 0;
} victim;

void start_victim() {
  victim.pid = ::fork();
  if (victim.pid != 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (int fd = 0; fd < 64; ++fd)
    ::close(fd);
  for (;;)
    ::pause();
}

const Datatype& gaps() {
  static const Ref<Datatype> type = [] {
    auto made = hvector_type(2, 5, 9, Datatype::basic(Basic::byte), Form::small);
    if (!made || !(*made)->commit()) std::abort();
    return *made;
  }();
  return *type;
}

class Session {
 public:
  explicit Session(fuzz::Input& input) : input_(input) {
    const unsigned options = input_.below(256);
    const wire::RingGeometry geometry{16, (options & 1U) != 0 ? 16'384U : 4096U};
    auto region =
        launch::make_region(wire::RegionShape::of(2, geometry),
                            {.idle = (options & 2U) != 0 ? wire::IdlePolicy::sleep : wire::IdlePolicy::spin});
    if (!region) std::abort();
    job_ = std::make_unique<launch::Job>(launch::Job{.rank = 0,
                                                     .size = 2,
                                                     .singleton = false,
                                                     .members = {0, 1},
                                                     .name = "fuzz",
                                                     .host = "here",
                                                     .region = region->view,
                                                     .mapping = region->mapping,
                                                     .region_fd = {}});
    Settings settings;
    settings.warn = false;
    settings.cma = (options & 4U) != 0 ? CmaSetting::off : CmaSetting::automatic;
    settings.eager_limit = (options & 8U) != 0 ? 100 : 0;
    if ((options & 16U) == 0) name_victim();
    auto engine = Engine::make(*job_, settings);
    if (!engine) std::abort();
    engine_ = std::move(*engine);
    engine_->open_context(Engine::world_context, 2);
  }
  ~Session() {
    for (UnexpectedMessage* message : taken_)
      keep(engine_->start_matched_receive(message, payload(16)));
    if (engine_->requests().living() > started_) std::abort();
  }

  void step() {
    switch (input_.below(16)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return write_cell();
      case 4:
        return poke();
      case 5:
        return receive();
      case 6:
        return send();
      case 7:
        return probe();
      case 8:
        return change_request();
      case 9:
        return read_ring();
      case 10:
        return change_context();
      case 11:
        if (input_.below(8) == 0)
          static_cast<void>(
              engine_->explain(input_.below(2) == 0 ? ExplainSetting::full : ExplainSetting::summary));
        static_cast<void>(engine_->pull_reach(1));
        return;
      case 12:
        return name_victim();
      case 13:
        return open_ring();
      default:
        for (unsigned turns = 1 + input_.below(40); turns > 0; --turns)
          engine_->progress();
        if (input_.below(2) != 0) finish_complete();
    }
  }

 private:
  struct Pending {
    Request* request;
    std::unique_ptr<std::byte[]> memory;
  };

  const wire::RegionView& region() { return job_->region; }
  const wire::RingGeometry& geometry() { return region().geometry(); }

  void name_victim() {
    wire::PlaceRecord& place = region().block(1).place;
    place.pid = victim.pid;
    place.probe_nonce = victim.probe[0];
    place.probe_address = reinterpret_cast<std::uint64_t>(victim.probe.data());
  }

  void open_ring() {
    if (out_.open()) return;
    const std::uint32_t number = region().header().rings_used.fetch_add(1);
    if (number >= region().ring_capacity()) return;
    out_ = RingWriter(region().ring(number), geometry());
    region().directory(0)[1].store(number + 1);
    region().block(0).connections.fetch_add(1);
  }

  std::uint64_t some_size() {
    const std::uint64_t eager = engine_->settings().eager_limit != 0 ? 100 : wire::maximum_piece(geometry());
    const std::uint64_t sizes[]{0,     1,         8,    32,   33,   100,    101,
                                eager, eager + 1, 2048, 2049, 6000, 70'000, 200'000};
    const std::uint64_t bytes = input_.pick(sizes);
    return bytes;
  }
  /// Memory of that size, and no byte more, for the next request that is kept.
  Payload payload(std::uint64_t bytes) {
    allocated_ += bytes;
    if (allocated_ > (32U << 20)) bytes = 0;
    fresh_ = std::make_unique<std::byte[]>(bytes);
    return Payload::of(fresh_.get(), bytes);
  }
  Payload some_payload() {
    const std::uint64_t bytes = some_size();
    if (input_.below(3) != 0) return payload(bytes);
    const auto count = static_cast<std::int64_t>(std::max<std::uint64_t>(bytes / 10, 1));
    return Payload::of(payload(static_cast<std::uint64_t>(count) * 14).data, count, gaps());
  }
  ContextId some_context() {
    const ContextId contexts[]{0, 0, 0, 1, 100, 101};
    return input_.pick(contexts);
  }
  wire::Cookie some_cookie() {
    const unsigned choice = input_.below(32);
    if (choice < 24 && !requests_.empty()) return requests_[choice % requests_.size()].request->cookie();
    return choice < 28 ? std::uint64_t{input_.below(4)} << 32 | input_.below(16)
                       : input_.take<std::uint64_t>();
  }
  std::uint64_t some_address() {
    return input_.below(8) != 0 ? reinterpret_cast<std::uint64_t>(victim.memory.data()) + input_.below(256)
                                : input_.take<std::uint64_t>();
  }
  std::uint64_t some_length() { return input_.below(8) != 0 ? some_size() : input_.take<std::uint64_t>(); }

  std::array<std::byte, wire::inline_capacity> some_part(wire::CellKind kind) {
    std::array<std::byte, wire::inline_capacity> part{};
    const auto put = [&](const auto& value) { std::memcpy(part.data(), &value, sizeof value); };
    switch (kind) {
      case wire::CellKind::eager:
      case wire::CellKind::eager_placed:
        put(wire::EagerHeader{some_length(), some_cookie(), in_.cells_read()});
        break;
      case wire::CellKind::ready_to_send:
        put(wire::SendOffer{some_cookie(), some_length(), input_.below(2) != 0 ? some_address() : 0,
                            wire::SendMemory::plain, static_cast<std::uint16_t>(input_.below(2)),
                            input_.below(4)});
        break;
      case wire::CellKind::clear_to_send:
        put(wire::ReceiveOffer{some_cookie(), some_cookie(), some_length(), some_length()});
        break;
      case wire::CellKind::fragment:
      case wire::CellKind::fragment_over:
        put(wire::FragmentHeader{some_cookie(), some_length(), some_length()});
        break;
      case wire::CellKind::acknowledge:
      case wire::CellKind::share_done:
        put(some_cookie());
        break;
      case wire::CellKind::split_start: {
        const std::uint32_t chunks[]{16'384, 20'480, 0, 1};
        put(wire::SplitOffer{some_cookie(), some_address(), some_length(), input_.below(10),
                             input_.pick(chunks)});
        break;
      }
      case wire::CellKind::gpu_offer:
        put(wire::GpuOffer{some_cookie(), some_length(), some_address(), input_.below(40), 0});
        break;
      case wire::CellKind::gpu_target:
        put(wire::GpuTarget{some_cookie(), some_cookie(), some_length(), some_length()});
        break;
      case wire::CellKind::gpu_end:
        put(wire::GpuEnd{some_cookie(), static_cast<wire::GpuOutcome>(input_.below(7)), 0});
        break;
      case wire::CellKind::gpu_loop:
        put(wire::LoopRequest{some_cookie(), some_cookie(), some_length()});
        break;
      case wire::CellKind::stage:
        put(wire::StageRequest{
            some_cookie(), some_cookie(), some_length(), static_cast<std::uint16_t>(input_.below(2)),
            static_cast<std::uint8_t>(input_.below(2)), static_cast<wire::StageChunks>(input_.below(4)),
            static_cast<wire::StageWindow>(input_.below(5)), static_cast<std::uint16_t>(input_.below(70))});
        break;
      case wire::CellKind::gpu_window:
        put(wire::GpuWindow{some_cookie()});
        break;
      case wire::CellKind::memory_told:
        put(wire::MemoryTold{input_.below(4), 0, some_address(), {input_.below(2), input_.below(4)}});
        break;
      case wire::CellKind::memory_freed:
      case wire::CellKind::memory_missed:
        put(wire::MemoryNumber{input_.below(4), 0});
        break;
      default:
        input_.fill(part);
    }
    return part;
  }

  /// What an offer in GPU memory has in the byte ring: a shape that may be one, or anything.
  void write_piece(wire::CellKind kind, std::span<std::byte> to) {
    std::memset(to.data(), static_cast<int>(to.size() % 251), to.size());
    if (kind != wire::CellKind::gpu_offer || to.size() < sizeof(wire::GpuShape)) return;
    wire::GpuShape shape{};
    shape.level_count = input_.below(8);
    for (auto& level : shape.levels)
      level = {.stride = input_.take<std::int16_t>(), .bytes = some_length()};
    if (input_.below(8) == 0) input_.fill(std::as_writable_bytes(std::span(&shape, 1)));
    std::memcpy(to.last(sizeof shape).data(), &shape, sizeof shape);
  }

  void write_cell() {
    open_ring();
    if (!out_.open() || !out_.has_cell()) return;
    const unsigned number = input_.below(64);
    const auto kind = static_cast<wire::CellKind>(number < 60 ? 1 + number % 23 : number);
    const auto part = some_part(kind);
    const std::uint32_t sizes[]{0, 8, 32, 64, 100, 1000, 1536, 2048, 6144, input_.below(256) << 24};
    const std::uint32_t offered[]{0, sizeof(wire::GpuShape), sizeof(wire::GpuExport),
                                  sizeof(wire::GpuExport) + sizeof(wire::GpuShape)};
    const bool is_of_gpu = kind == wire::CellKind::gpu_offer || kind == wire::CellKind::gpu_target ||
                           kind == wire::CellKind::gpu_window;
    wire::CellHeader header{
        .context = some_context(),
        .source = input_.below(16) != 0 ? 1 : static_cast<std::int8_t>(input_.below(256)),
        .tag = static_cast<int>(input_.below(4)) - (input_.below(16) == 0 ? 3 : 0),
        .size = is_of_gpu && input_.below(8) != 0 ? input_.pick(offered) : input_.pick(sizes),
        .kind = kind,
        .flag = static_cast<wire::CellFlag>(input_.below(9) / 4),
        .mark = 0};
    if (wire::has_piece(kind) && header.size <= wire::maximum_piece(geometry())) {
      const bool may_start_over = kind == wire::CellKind::eager || kind == wire::CellKind::fragment;
      std::byte* to = may_start_over ? out_.reserve_first(header.size) : out_.reserve(header.size);
      if (!to) return;
      if (out_.starts_over())
        header.kind =
            kind == wire::CellKind::eager ? wire::CellKind::eager_over : wire::CellKind::fragment_over;
      write_piece(kind, {to, header.size});
      out_.publish_reserved(header, part.data(), part.size());
    } else {
      out_.publish(header, part.data(), part.size());
    }
    region().doorbells(0)[0].fetch_or(input_.below(8) != 0 ? 2 : 0xff);
  }

  template <class T>
  static std::span<std::byte> bytes_of(T& thing) {
    return std::as_writable_bytes(std::span(&thing, 1));
  }
  std::span<std::byte> some_memory() {
    wire::RegionHeader& header = region().header();
    switch (input_.below(10)) {
      case 0:
        return bytes_of(header.rings_used);
      case 1:
        return bytes_of(header);
      case 2:
        return bytes_of(region().block(1));
      case 3:
        return bytes_of(region().block(0));
      case 4:
        return std::as_writable_bytes(region().doorbells(0));
      case 5:
        return std::as_writable_bytes(region().directory(input_.below(2)));
      case 6:
        return bytes_of(region().roster(input_.below(2)));
      case 7:
        return region().ring(input_.below(2)).first(sizeof(wire::RingHeader));
      default:
        return region().ring(input_.below(2));
    }
  }
  void poke() {
    const std::span<std::byte> memory = some_memory();
    const std::size_t offset = input_.take<std::uint16_t>() % memory.size();
    input_.fill(
        memory.subspan(offset).first(std::min<std::size_t>(1 + input_.below(16), memory.size() - offset)));
    // Only processes that this one may do harm to.
    std::int32_t& pid = region().block(1).place.pid;
    const std::int32_t allowed[]{victim.pid, ::getpid(), 0, -1, INT32_MAX, INT32_MIN};
    if (std::ranges::find(allowed, pid) == std::end(allowed))
      pid = allowed[static_cast<std::uint32_t>(pid) % std::size(allowed)];
    // A peer that keeps the heap's lock costs its patience, which is known.
    auto held = wire::HeapHeader::held;
    region().header().heap.lock.compare_exchange_strong(held, wire::HeapHeader::given_up);
  }

  void receive() {
    const int sources[]{1, 1, 0, any_source};
    const int tags[]{0, 1, 2, any_tag};
    MatchContext& context = engine_->open_context(some_context(), 2);
    const int source = input_.pick(sources), tag = input_.pick(tags);
    keep(engine_->start_receive(context, source, tag, some_payload()));
  }
  void send() {
    const PeerId to = input_.below(8) != 0 ? 1 : 0;
    const auto mode = input_.below(3) == 0 ? SendMode::synchronous : SendMode::standard;
    const int tag = static_cast<int>(input_.below(3));
    keep(engine_->start_send({to, some_context(), 0, tag}, some_payload(), mode));
  }
  /// The memory of what is complete goes at once: the engine has no business there any more.
  void keep(Request* request) {
    std::unique_ptr<std::byte[]> memory = std::move(fresh_);
    if (!request) return;
    ++started_;
    requests_.push_back({request, std::move(memory)});
  }

  void probe() {
    MatchContext& context = engine_->open_context(some_context(), 2);
    const int source = input_.below(2) != 0 ? any_source : 1;
    const int tag = input_.below(2) != 0 ? any_tag : static_cast<int>(input_.below(3));
    if (input_.below(2) != 0) {
      static_cast<void>(engine_->probe(context, source, tag));
    } else if (UnexpectedMessage* message = engine_->matched_probe(context, source, tag)) {
      taken_.push_back(message);
    }
    if (!taken_.empty() && input_.below(2) != 0) {
      UnexpectedMessage* message = taken_.front();
      taken_.erase(taken_.begin());
      keep(engine_->start_matched_receive(message, some_payload()));
    }
  }

  void change_request() {
    if (requests_.empty()) return;
    const auto at = requests_.begin() + static_cast<std::ptrdiff_t>(input_.below(256) % requests_.size());
    if (input_.below(4) == 0) {
      // The rest of a send that is on its way is copied, and goes by a request of the engine's own.
      if (at->request->transfer == Request::Transfer::stream && !at->request->complete) ++started_;
      return engine_->cancel(*at->request);
    }
    finish(*at);
    requests_.erase(at);
  }
  void finish(Pending& pending) {
    const Request& request = *pending.request;
    if (!request.complete)
      orphaned_.push_back(std::move(pending.memory));
    else if (request.kind == Request::Kind::receive && request.status.bytes > request.payload.bytes)
      std::abort();
    engine_->free(pending.request);
  }
  /// As a program that waits for its requests.
  void finish_complete() {
    std::erase_if(requests_, [this](Pending& pending) {
      const bool complete = pending.request->complete;
      if (complete) finish(pending);
      return complete;
    });
  }

  /// As an honest peer reads, so that the engine's ring has room again.
  void read_ring() {
    if (!in_.open()) {
      const std::uint32_t entry = region().directory(1)[0].load();
      if (entry == 0 || entry > region().ring_capacity()) return;
      in_ = RingReader(region().ring(entry - 1), geometry());
    }
    for (unsigned cells = input_.below(32); cells > 0; --cells) {
      const wire::Cell* cell = in_.front();
      if (!cell) return;
      const wire::CellHeader header = cell->header;
      if (wire::starts_over(header.kind)) in_.start_over();
      if (header.kind == wire::CellKind::eager || header.kind == wire::CellKind::eager_over ||
          header.kind == wire::CellKind::eager_placed)
        out_.heard(wire::copy_out<wire::EagerHeader>(cell->payload.data()).cells_read);
      if (wire::has_piece(header.kind))
        in_.pop_piece(std::min(header.size, wire::maximum_piece(geometry())));
      else
        in_.pop();
    }
  }

  /// Contexts may go when no receive is pending in them and no message of theirs is in the program's hands.
  void change_context() {
    const ContextId id = 100 + input_.below(2);
    MatchContext& context = engine_->open_context(id, 2);
    if (!taken_.empty() || freed_receives_in(id)) return;
    engine_->close_context(context);
  }
  bool freed_receives_in(ContextId id) {
    for (std::uint32_t index = 0; index < started_ + taken_.size() + 1; ++index)
      if (const Request* request = engine_->requests().at(index))
        if (!request->complete && request->kind == Request::Kind::receive && request->context &&
            request->context->id() == id)
          return true;
    return false;
  }

  fuzz::Input& input_;
  std::unique_ptr<std::byte[]> fresh_;
  std::vector<std::unique_ptr<std::byte[]>> orphaned_;  // of requests freed early; outlives the engine
  std::vector<Pending> requests_;
  std::uint64_t allocated_ = 0;
  std::unique_ptr<launch::Job> job_;
  std::unique_ptr<Engine> engine_;
  RingWriter out_;
  RingReader in_;
  std::vector<UnexpectedMessage*> taken_;
  std::size_t started_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  start_victim();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  Session session(input);
  for (int steps = 0; steps < 300 && !input.empty(); ++steps)
    session.step();
  return 0;
}

}  // namespace isthmus
