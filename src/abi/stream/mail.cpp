#include "abi/stream/mail.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "abi/request/request.hpp"
#include "abi/stream/enqueue.hpp"
#include "abi/stream/meet.hpp"
#include "gpu/memory/pinned_pool.hpp"
#include "p2p/protocol/gpu/messages.hpp"
#include "stream/board.hpp"

namespace isthmus::abi {
namespace {

using ToldLength = std::shared_ptr<const PinnedBuffer>;

stream::Board& board_of(const Communicator& comm) {
  return static_cast<stream::Board&>(*comm.board);
}

/// A message of which kernels do all. The stream's thread never hears of it.
class Mail final : public stream::Operation {
 public:
  Mail(bool sends, const Incoming& in, bool is_recorded)
      : sends_(sends), in_(in), is_recorded_(is_recorded) {}

  Result<> start() override { return fail(ErrorClass::intern, "a short message that a thread is to send"); }
  [[nodiscard]] bool is_complete() const noexcept override { return true; }
  Result<> finish() override { return {}; }

  [[nodiscard]] bool sends() const noexcept { return sends_; }
  [[nodiscard]] bool is_recorded() const noexcept { return is_recorded_; }
  [[nodiscard]] const Incoming& incoming() const noexcept { return in_; }
  /// Whether one of both has to be received before the other, the earlier.
  [[nodiscard]] bool is_like(const Mail& other) const noexcept {
    return in_.source == other.in_.source && in_.tag == other.in_.tag;
  }

  bool is_launched = false;
  ToldLength told;  ///< of a receive that was launched before its wait: where its length is

 private:
  const bool sends_;
  const Incoming in_;
  const bool is_recorded_;
};

/// What a receive has got, for the program, by the stream's thread.
class MailReport final : public stream::Operation {
 public:
  MailReport(const Incoming& in, ToldLength told, MailStatus to) : in_(in), told_(std::move(told)), to_(to) {}

  Result<> start() override {
    Status got{.source = in_.source, .tag = in_.tag};
    got.bytes = *reinterpret_cast<const std::uint64_t*>(told_->data());
    if (got.bytes > in_.payload.bytes) {
      got.bytes = in_.payload.bytes;
      got.error = static_cast<int>(ErrorClass::truncate);
    }
    store_status(to_.status, got);
    if (to_.with_error) to_.status->MPI_ERROR = got.error;
    return {};
  }
  [[nodiscard]] bool is_complete() const noexcept override { return true; }
  Result<> finish() override { return {}; }

 private:
  const Incoming in_;
  const ToldLength told_;
  const MailStatus to_;
};

Result<stream::Stream*> open_mail_of(Communicator& comm) {
  Result<stream::Stream*> stream = open_stream_of(comm);
  if (!stream) return stream;
  if (comm.is_broken()) return std::unexpected(comm.why_broken());
  ISTHMUS_TRY(board_of(comm).check());
  return stream;
}

Result<> check_mail(Communicator& comm, const stream::Stream& stream, const Payload& payload, bool sends) {
  if (sends && payload.bytes > kernel::mail_most_bytes)
    return fail(ErrorClass::count,
                fmt::format("the message has {} bytes, and comm asserts that none has more than {} "
                            "(isthmus_assert_short_enqueued)",
                            payload.bytes, kernel::mail_most_bytes));
  if (payload.bytes == 0) return {};
  auto reached = kernels_reach(comm, stream, payload);
  if (!reached) return std::unexpected(std::move(reached).error());
  if (*reached) return {};
  return fail(ErrorClass::buffer,
              "buf has gaps, or no kernel on the stream's GPU reaches it, and comm asserts that all do "
              "(isthmus_assert_short_enqueued): use GPU or pinned memory");
}

/// `length`: where a receive is to tell it; null: nowhere.
Result<> launch_mail(Communicator& comm, stream::Stream& stream, bool sends, int peer, int tag,
                     const Payload& payload, const ToldLength& length) {
  auto kernel = comm.engine().gpu()->copies().kernels().mail(stream.device(), sends);
  if (!kernel) return std::unexpected(std::move(kernel).error());
  kernel::MailArguments work = board_of(comm).mail(peer, tag);
  work.data = {reinterpret_cast<kernel::Byte*>(payload.data), payload.bytes};
  if (length) work.told = reinterpret_cast<device::u64*>(length->data());
  return stream.launch(*kernel, 1, kernel::mail_threads, &work, comm.board, &work.operation);
}

Mail& mail_of(const stream::Enqueued& what) {
  return static_cast<Mail&>(*what.operation);
}

/// Gives a receive a place for its length.
Result<> tell_length(stream::Stream& stream, Mail& mail) {
  auto told = stream.stage(sizeof(std::uint64_t));
  if (!told) return std::unexpected(std::move(told).error());
  mail.told = std::move(*told);
  return {};
}

Result<> launch_receive(Communicator& comm, stream::Stream& stream, Mail& mail) {
  mail.is_launched = true;
  const Incoming& in = mail.incoming();
  return launch_mail(comm, stream, false, in.source, in.tag, in.payload, mail.told);
}

/// Those that the program has a request for, and that come before it: the same messages, which match in the
/// order of the receives. They come before it, too, so to wait for them makes nobody wait who would not.
Result<> launch_earlier(Communicator& comm, stream::Stream& stream, const Mail& before) {
  std::vector<Ref<stream::Enqueued>>& posted = board_of(comm).posted;
  for (const Ref<stream::Enqueued>& each : std::vector(posted)) {
    Mail& mail = mail_of(*each);
    if (&mail == &before) break;
    if (!mail.is_like(before)) continue;
    ISTHMUS_TRY(tell_length(stream, mail));
    ISTHMUS_TRY(launch_receive(comm, stream, mail));
    std::erase(posted, each);
  }
  return {};
}

MPI_Request give_request(const char* function, Communicator& comm, std::unique_ptr<Mail> mail,
                         Ref<stream::Enqueued>& what) {
  what = make_ref<stream::Enqueued>(function, comm, std::move(mail));
  return Runtime::get().enqueued.add(what);
}

Result<> check_source(const Incoming& in) {
  if (in.source == any_source)
    return fail(ErrorClass::rank,
                "source is MPI_ANY_SOURCE, and comm asserts that none is (isthmus_assert_short_enqueued)");
  if (in.tag == any_tag)
    return fail(ErrorClass::tag,
                "tag is MPI_ANY_TAG, and comm asserts that none is (isthmus_assert_short_enqueued)");
  return {};
}

}  // namespace

bool has_mail(const Communicator& comm) {
  return comm.board && board_of(comm).has_mail();
}

bool is_mail(const stream::Enqueued& what) {
  return dynamic_cast<const Mail*>(what.operation.get()) != nullptr;
}

Result<> send_mail(const char* function, Communicator& comm, const Outgoing& out, MPI_Request* request) {
  Result<stream::Stream*> stream = open_mail_of(comm);
  if (!stream) return std::unexpected(std::move(stream).error());
  ISTHMUS_TRY(check_mail(comm, **stream, out.payload, true));
  auto recorded = (*stream)->is_capturing();
  if (!recorded) return std::unexpected(std::move(recorded).error());
  int peer = 0;
  while (comm.peer(peer) != out.target.peer)
    ++peer;
  ISTHMUS_TRY(launch_mail(comm, **stream, true, peer, out.target.tag, out.payload, nullptr));
  Ref<stream::Enqueued> what;
  if (request)
    *request = give_request(function, comm, std::make_unique<Mail>(true, Incoming{}, *recorded), what);
  return {};
}

Result<> receive_mail(const char* function, Communicator& comm, const Incoming& in, MailStatus status) {
  Result<stream::Stream*> stream = open_mail_of(comm);
  if (!stream) return std::unexpected(std::move(stream).error());
  ISTHMUS_TRY(check_source(in));
  ISTHMUS_TRY(check_mail(comm, **stream, in.payload, false));
  Mail mail(false, in, false);
  ISTHMUS_TRY(launch_earlier(comm, **stream, mail));
  if (status.status == MPI_STATUS_IGNORE) return launch_receive(comm, **stream, mail);
  ISTHMUS_TRY(tell_length(**stream, mail));
  ISTHMUS_TRY(launch_receive(comm, **stream, mail));
  return enqueue(function, comm, std::make_unique<MailReport>(in, mail.told, status), stream::Then::waits);
}

Result<> post_mail(const char* function, Communicator& comm, const Incoming& in, MPI_Request* request) {
  Result<stream::Stream*> stream = open_mail_of(comm);
  if (!stream) return std::unexpected(std::move(stream).error());
  ISTHMUS_TRY(check_source(in));
  ISTHMUS_TRY(check_mail(comm, **stream, in.payload, false));
  auto recorded = (*stream)->is_capturing();
  if (!recorded) return std::unexpected(std::move(recorded).error());
  Ref<stream::Enqueued> what;
  *request = give_request(function, comm, std::make_unique<Mail>(false, in, *recorded), what);
  board_of(comm).posted.push_back(std::move(what));
  return {};
}

Result<> wait_for_mail(stream::Enqueued& what, MailStatus status) {
  Communicator& comm = *what.communicator;
  Mail& mail = mail_of(what);
  Result<stream::Stream*> found = find_stream_of(comm);
  if (!found) return std::unexpected(std::move(found).error());
  stream::Stream& stream = **found;
  auto capturing = stream.is_capturing();
  if (!capturing) return std::unexpected(std::move(capturing).error());
  if (*capturing != mail.is_recorded())
    return fail(ErrorClass::request, *capturing
                                         ? "request is of an operation that was enqueued before the capture"
                                         : "request is of an operation of a capture: the wait belongs into "
                                           "the same capture");
  if (mail.sends()) {
    store_empty_status(status.status);
    return {};
  }
  if (!mail.is_launched) {
    ISTHMUS_TRY(launch_earlier(comm, stream, mail));
    if (status.status != MPI_STATUS_IGNORE) ISTHMUS_TRY(tell_length(stream, mail));
    ISTHMUS_TRY(launch_receive(comm, stream, mail));
    std::erase_if(board_of(comm).posted,
                  [&](const Ref<stream::Enqueued>& each) { return each.get() == &what; });
  }
  if (status.status == MPI_STATUS_IGNORE) return {};
  return enqueue(what.function, comm, std::make_unique<MailReport>(mail.incoming(), mail.told, status),
                 stream::Then::waits);
}

}  // namespace isthmus::abi
