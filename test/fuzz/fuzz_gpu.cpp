// An engine with messages in the memory of emulated GPUs, whose only peer writes whatever the input says:
// cells of the protocols for GPUs above all, packets in the box of descriptors, counters of what goes by
// chunks. At the end the peer is lost, and then every request has to end.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "channel/shm/ring_reader.hpp"
#include "channel/shm/ring_writer.hpp"
#include "gpu_program.hpp"
#include "input.hpp"
#include "launch/job.hpp"
#include "p2p/engine.hpp"

namespace isthmus {
namespace {

using fuzz::Gpus;
using fuzz::require;
using wire::CellKind;

unsigned handles_at_start = 0;

/// A process with the descriptors of what is lent, for an engine that fetches them itself, and a word that
/// proves who it is.
struct Victim {
  std::uint64_t probe = 0x1357'9bdf'0246'8ace;
  pid_t pid = 0;
} victim;

void start_victim() {
  victim.pid = ::fork();
  if (victim.pid != 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (;;)
    ::pause();
}

class Session {
 public:
  explicit Session(fuzz::Input& input) : input_(input) {
    auto jobs = launch::local_jobs(2, geometry, wire::IdlePolicy::spin);
    require(jobs.has_value(), "no job");
    job_ = std::make_unique<launch::Job>(std::move((*jobs)[0]));
    job_->in_process = false;  // as if the other were a process of its own
    auto box = launch::DescriptorBox::make();
    require(box.has_value(), "no box");
    box_.emplace(UniqueFd(::fcntl(box->get(), F_DUPFD_CLOEXEC, 100)), 1);
    job_->box = std::make_shared<launch::DescriptorBox>(std::move(*box), 0);
    wire::PlaceRecord& place = region().block(1).place;
    place.pid = victim.pid;
    place.probe_nonce = victim.probe;
    place.probe_address = reinterpret_cast<std::uint64_t>(&victim.probe);
    make_engine();
    const std::uint32_t number = region().header().rings_used.fetch_add(1);
    out_ = RingWriter(region().ring(number), geometry);
    region().directory(0)[1].store(number + 1);
    region().block(0).connections.fetch_add(1);
    if (const auto area = region().heap().allocate(area_bytes)) area_ = *area;
  }

  void step() {
    switch (input_.below(16)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return write_cell(some_kind());
      case 4:
      case 5:
        return answer();
      case 6:
      case 7:
        return receive();
      case 8:
      case 9:
        return send();
      case 10:
        return leave();
      case 11:
        return count();
      case 12:
        return program_.change_request(*engine_);
      case 13:
        if (input_.below(16) == 0)
          static_cast<void>(
              engine_->explain(input_.below(2) == 0 ? ExplainSetting::full : ExplainSetting::summary));
        return progress(60);
      default:
        return progress(1 + input_.below(40));
    }
  }

  /// The peer is no more. Whatever it has said, all that waits for it ends.
  void finish() {
    progress(4);
    program_.cancel_what_needs_no_peer(*engine_);
    region().header().heap.lock.store(wire::HeapHeader::open);
    engine_->lose(1, "it is gone", false);
    program_.end_all(*engine_);
    engine_.reset();
    program_.check(handles_at_start);
  }

 private:
  static constexpr wire::RingGeometry geometry{16, 16'384};
  static constexpr std::uint32_t area_bytes = 256 * 1024;
  static constexpr std::uint64_t exporters[]{0x7001, 0x7001, 0x7001, 0x7003, 0};

  const wire::RegionView& region() { return job_->region; }
  void make_engine() {
    const GpuPathSetting paths[]{GpuPathSetting::automatic, GpuPathSetting::automatic, GpuPathSetting::push,
                                 GpuPathSetting::pull, GpuPathSetting::staged};
    const GpuCourierSetting couriers[]{GpuCourierSetting::off, GpuCourierSetting::off, GpuCourierSetting::on};
    const std::uint64_t bounces[]{64U << 20U, 64U << 20U, 4U << 20U, 0};
    Settings settings;
    settings.warn = false;
    settings.gpu_path = input_.pick(paths);
    settings.gpu_courier = input_.pick(couriers);
    settings.gpu_bounce = input_.pick(bounces);
    settings.gpu_eager_limit = input_.below(4) == 0 ? 100 : 0;
    settings.gpu_push_from = input_.below(2);
    settings.gpu_direct_limit = input_.below(4) == 0 ? 1 : 0;
    auto engine = Engine::make(*job_, settings);
    require(engine.has_value(), "no engine");
    engine_ = std::move(*engine);
    engine_->open_context(Engine::world_context, 2);
  }

  // --- what the program does

  std::uint64_t some_size() {
    const std::uint64_t sizes[]{1,      8,      100,    256,     257,     4096,    16'384, 16'385,
                                65'536, 70'000, 70'016, 131'072, 200'000, 300'000, 0,      1'048'576};
    return input_.pick(sizes);
  }
  void receive() {
    const int sources[]{1, 1, 1, any_source, 0};
    const int tags[]{0, 0, 1, any_tag};
    const int source = input_.pick(sources), tag = input_.pick(tags);
    MatchContext& context = engine_->open_context(Engine::world_context, 2);
    program_.keep(engine_->start_receive(context, source, tag, program_.payload(some_size(), false)), false);
  }
  void send() {
    const PeerId to = input_.below(8) != 0 ? 1 : 0;
    const auto mode = input_.below(4) == 0 ? SendMode::synchronous : SendMode::standard;
    const int tag = static_cast<int>(input_.below(2));
    program_.keep(
        engine_->start_send({to, Engine::world_context, 0, tag}, program_.payload(some_size(), true), mode),
        to == 1);
  }
  void progress(unsigned turns) {
    for (; turns > 0; --turns)
      engine_->progress();
  }

  // --- what the peer says

  wire::Cookie some_cookie() {
    const unsigned choice = input_.below(32);
    if (choice < 29 && !program_.requests().empty())
      return program_.requests()[choice % program_.requests().size()].request->cookie();
    return choice < 31 ? std::uint64_t{input_.below(4)} << 32 | input_.below(16)
                       : input_.take<std::uint64_t>();
  }
  std::uint64_t some_length() { return input_.below(8) != 0 ? some_size() : input_.take<std::uint64_t>(); }
  std::uint64_t some_offset() {
    const std::uint64_t offsets[]{0, 0, 64, 4096, Gpus::lent_bytes - 64, Gpus::arena_bytes - 8};
    return input_.below(16) != 0 ? input_.pick(offsets) : input_.take<std::uint64_t>();
  }
  CellKind some_kind() {
    const CellKind kinds[]{
        CellKind::gpu_offer,  CellKind::gpu_offer,  CellKind::gpu_offer,     CellKind::gpu_target,
        CellKind::gpu_target, CellKind::gpu_end,    CellKind::gpu_freed,     CellKind::stage,
        CellKind::stage,      CellKind::staged,     CellKind::staged,        CellKind::gpu_loop,
        CellKind::gpu_window, CellKind::gpu_window, CellKind::ready_to_send, CellKind::clear_to_send,
        CellKind::fragment,   CellKind::share_done, CellKind::eager,         CellKind::split_start};
    return input_.pick(kinds);
  }

  /// Most are what an honest peer could hand over, and their descriptors are in the box.
  wire::GpuExport some_export() {
    const auto& lent = Gpus::get().lent();
    const unsigned which = input_.below(256) % static_cast<unsigned>(lent.size());
    wire::GpuExport what{.memory = lent[which].memory, .descriptor = -1, .ticket = 0};
    what.memory.exporter = input_.pick(exporters);
    what.memory.allocation = 1 + which + (input_.below(8) == 0 ? 16 : 0);
    what.memory.base = std::uint64_t{1} << 40U | std::uint64_t{which} << 30U;
    switch (input_.below(8)) {
      case 0:
        what.descriptor =
            input_.below(2) != 0 ? lent[which].descriptor.get() : static_cast<int>(input_.below(64));
        break;
      case 1:
        break;
      default:
        what.ticket = ++last_ticket_;
        if (input_.below(16) != 0) [[maybe_unused]]
          const auto left = box_->leave(0, what.left(), lent[which].descriptor.get());
    }
    if (input_.below(8) == 0) {
      auto bytes = std::as_writable_bytes(std::span(&what, 1));
      const std::size_t at = input_.below(256) % bytes.size();
      input_.fill(bytes.subspan(at, std::min<std::size_t>(1 + input_.below(8), bytes.size() - at)));
    }
    return what;
  }
  wire::GpuShape some_shape() {
    const std::int64_t strides[]{64, 96, 128, 4096, -64, 0};
    const std::uint64_t lengths[]{1, 8, 16, 32, 64};
    wire::GpuShape shape{};
    shape.level_count = 1 + input_.below(3);
    for (auto& level : shape.levels)
      level = {.stride = input_.pick(strides), .bytes = input_.pick(lengths)};
    if (input_.below(8) == 0) input_.fill(std::as_writable_bytes(std::span(&shape, 1)));
    return shape;
  }

  /// A cell with what goes into it and behind it.
  struct Message {
    CellKind kind;
    int tag = 0;
    std::array<std::byte, wire::inline_capacity> part{};
    std::vector<std::byte> piece{};

    template <class T>
    void put(const T& value) {
      std::memcpy(part.data(), &value, sizeof value);
    }
    template <class T>
    void add(const T& value) {
      const auto bytes = std::as_bytes(std::span(&value, 1));
      piece.insert(piece.end(), bytes.begin(), bytes.end());
    }
  };
  void put_stage(Message& message, wire::Cookie sender) {
    message.put(wire::StageRequest{
        sender, some_cookie(), some_length(), static_cast<std::uint16_t>(input_.below(2)),
        static_cast<std::uint8_t>(input_.below(2)), static_cast<wire::StageChunks>(input_.below(4)),
        static_cast<wire::StageWindow>(input_.below(5)), static_cast<std::uint16_t>(input_.below(3))});
  }
  void put_start(Message& message, wire::Cookie receiver) {
    const std::uint32_t windows[]{65'536, 131'072, area_bytes - 4096, Gpus::arena_bytes, 0};
    message.tag = static_cast<int>(input_.below(4));
    const std::uint32_t bytes = message.tag != 0 && input_.below(8) != 0 ? 4096 : area_bytes;
    message.put(
        wire::StageStart{receiver, input_.below(16) != 0 ? area_ : input_.take<std::uint64_t>(),
                         input_.below(4) != 0 ? position_ : input_.take<std::uint64_t>(), bytes,
                         input_.below(16) != 0 ? input_.pick(windows) : input_.take<std::uint32_t>()});
  }
  void put_target(Message& message, wire::Cookie sender) {
    message.tag = static_cast<int>(input_.below(34));
    message.put(wire::GpuTarget{sender, some_cookie(), some_length(), some_offset()});
    if (input_.below(4) != 0) message.add(some_export());
  }
  Message some_message(CellKind kind, wire::Cookie about) {
    Message message{.kind = kind, .tag = static_cast<int>(input_.below(2))};
    switch (kind) {
      case CellKind::gpu_offer:
        message.put(wire::GpuOffer{about, some_length(), some_offset(),
                                   input_.below(64) == 0 ? wire::failed_send : input_.below(34),
                                   input_.below(2)});
        if (input_.below(4) != 0) message.add(some_export());
        if (input_.below(4) == 0) message.add(some_shape());
        break;
      case CellKind::gpu_target:
        put_target(message, about);
        break;
      case CellKind::gpu_end:
        message.put(wire::GpuEnd{about, static_cast<wire::GpuOutcome>(input_.below(7)), 0});
        break;
      case CellKind::gpu_freed:
        message.put(wire::GpuFreed{input_.below(24)});
        break;
      case CellKind::stage:
        put_stage(message, about);
        break;
      case CellKind::staged:
        put_start(message, about);
        break;
      case CellKind::gpu_loop:
        message.put(wire::LoopRequest{about, some_cookie(), some_length()});
        break;
      case CellKind::gpu_window:
        message.tag = static_cast<int>(input_.below(4));
        message.put(wire::GpuWindow{about});
        message.add(some_export());
        break;
      case CellKind::ready_to_send:
        message.put(wire::SendOffer{about, some_length(), reinterpret_cast<std::uint64_t>(&victim.probe),
                                    static_cast<wire::SendMemory>(input_.below(3)),
                                    static_cast<std::uint16_t>(input_.below(2)), 0});
        break;
      case CellKind::clear_to_send:
        message.put(wire::ReceiveOffer{about, some_cookie(), some_length()});
        break;
      case CellKind::fragment:
        message.put(wire::FragmentHeader{about, some_length()});
        message.piece.resize(input_.below(256));
        break;
      case CellKind::eager: {
        const std::uint64_t bytes = input_.below(256);
        message.put(wire::EagerHeader{bytes, about, 0});
        message.piece.resize(bytes);
        break;
      }
      case CellKind::split_start:
        message.put(wire::SplitOffer{about, reinterpret_cast<std::uint64_t>(&victim.probe), some_length(),
                                     input_.below(4), 16'384});
        break;
      default:
        message.put(about);
    }
    return message;
  }
  void write_cell(CellKind kind) { write(some_message(kind, some_cookie())); }
  void write(const Message& message) {
    if (!out_.has_cell()) return progress(2);
    const wire::CellHeader header{.context = 0,
                                  .source = 1,
                                  .tag = message.tag,
                                  .size = static_cast<std::uint32_t>(message.piece.size()),
                                  .kind = message.kind,
                                  .flag = wire::CellFlag::none,
                                  .mark = 0};
    if (message.piece.empty() || !wire::has_piece(message.kind)) {
      out_.publish(header, message.part.data(), message.part.size());
    } else if (std::byte* to = out_.reserve(header.size)) {
      std::ranges::copy(message.piece, to);
      out_.publish_reserved(header, message.part.data(), message.part.size());
    }
  }

  /// Reads cells of the engine, and answers the last of them as it wants to be, or nearly so.
  void answer() {
    if (!in_.open()) {
      const std::uint32_t entry = region().directory(1)[0].load();
      if (entry == 0 || entry > region().ring_capacity()) return;
      in_ = RingReader(region().ring(entry - 1), geometry);
    }
    for (unsigned cells = 1 + input_.below(4); cells > 0; --cells) {
      const wire::Cell* const cell = in_.front();
      if (!cell) return;
      const wire::CellHeader header = cell->header;
      const auto part = cell->payload;
      if (wire::has_piece(header.kind))
        in_.pop_piece(std::min(header.size, wire::maximum_piece(geometry)));
      else
        in_.pop();
      if (cells == 1) answer(header, part);
    }
  }
  template <class T>
  static T read(const std::array<std::byte, wire::inline_capacity>& part) {
    T value;
    std::memcpy(&value, part.data(), sizeof value);
    return value;
  }
  void answer(const wire::CellHeader& header, const std::array<std::byte, wire::inline_capacity>& part) {
    switch (header.kind) {
      case CellKind::gpu_offer: {
        const CellKind answers[]{CellKind::gpu_target, CellKind::stage, CellKind::share_done,
                                 CellKind::gpu_loop};
        return write(some_message(input_.pick(answers), read<wire::GpuOffer>(part).sender));
      }
      case CellKind::ready_to_send: {
        const CellKind answers[]{CellKind::gpu_target, CellKind::stage, CellKind::clear_to_send,
                                 CellKind::share_done};
        return write(some_message(input_.pick(answers), read<wire::SendOffer>(part).sender));
      }
      case CellKind::gpu_target:
        return write(some_message(CellKind::gpu_end, read<wire::GpuTarget>(part).receiver));
      case CellKind::stage: {
        const CellKind answers[]{CellKind::staged, CellKind::staged, CellKind::gpu_window, CellKind::gpu_end};
        const auto wanted = read<wire::StageRequest>(part);
        return write(some_message(input_.pick(answers), wanted.receiver));
      }
      case CellKind::gpu_window: {
        Message message{.kind = CellKind::stage};
        put_stage(message, some_cookie());
        return write(message);
      }
      case CellKind::staged:
        engines_area_ = read<wire::StageStart>(part).area;
        return;
      default:
        return;
    }
  }

  /// Something in the box that no cell has promised, or will promise.
  void leave() {
    const auto& lent = Gpus::get().lent();
    const int descriptor =
        input_.below(4) != 0 ? lent[input_.below(256) % lent.size()].descriptor.get() : STDIN_FILENO;
    const wire::DescriptorTicket ticket{input_.pick(exporters), last_ticket_ + input_.below(3)};
    [[maybe_unused]] const auto left = box_->leave(input_.below(3), ticket, descriptor);
  }
  /// A counter of a stream of chunks: the peer's own, or that of a stream of the engine's.
  void count() {
    const std::uint64_t offset = input_.below(2) != 0 ? area_ : engines_area_;
    const auto memory = region().heap().at(offset, sizeof(wire::StagingHeader));
    if (memory.empty() || offset % 4096 != 0) return;
    auto& header = *reinterpret_cast<wire::StagingHeader*>(memory.data());
    const std::uint64_t positions[]{0, 65'536, 262'144, 1U << 20U, position_ + 300'000, ~std::uint64_t{0}};
    const std::uint64_t value = input_.below(8) != 0 ? input_.pick(positions) : input_.take<std::uint64_t>();
    (input_.below(2) != 0 ? header.filled : header.emptied).store(value);
  }

  fuzz::Input& input_;
  fuzz::GpuProgram program_{input_, 2, fuzz::GpuProgram::WhenOver::freed};
  std::unique_ptr<launch::Job> job_;
  std::optional<launch::DescriptorBox> box_;
  std::unique_ptr<Engine> engine_;
  RingWriter out_;
  RingReader in_;
  std::uint64_t area_ = 0, engines_area_ = 0, position_ = 0;
  std::uint32_t last_ticket_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  static_cast<void>(Gpus::get());
  static_cast<void>(Gpus::open_handles(handles_at_start));
  start_victim();
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
