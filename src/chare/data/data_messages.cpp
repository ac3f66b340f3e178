#include "chare/data/data_messages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/system/readable.hpp"

namespace isthmus::chare {
namespace {

constexpr std::uint64_t looked_at_from = 4096;

std::uint32_t number_of(std::uint64_t mailbox) noexcept {
  return static_cast<std::uint32_t>(mailbox);
}
std::uint32_t rank_of(std::uint64_t mailbox) noexcept {
  return static_cast<std::uint32_t>(mailbox >> 32);
}

}  // namespace

DataMessages::DataMessages(Ref<Communicator> comm, const Tags& tags, Listener& listener)
    : comm_(std::move(comm)), engine_(comm_->engine()), tags_(tags), listener_(listener) {}

/// Of memory of the host that has been freed, the first or last byte is often gone. Less than a page mostly
/// lies among other memory, and looking would take as long as the message (0.1 us). What CUDA knows, the
/// engine looks at itself.
void DataMessages::need_memory(const void* address, std::uint64_t bytes, const Incoming* incoming) {
  if (bytes == 0) return;
  const auto* const first = static_cast<const std::byte*>(address);
  if (!address) listener_.failed(incoming, fmt::format("a buffer of {} bytes is at no address", bytes));
  if (bytes < looked_at_from || engine_.uses_cuda() ||
      (is_readable(first) && is_readable(first + (bytes - 1))))
    return;
  listener_.failed(incoming, fmt::format("a buffer of {} bytes at {} is not there: it has been freed, or is "
                                         "shorter",
                                         bytes, address));
}

void DataMessages::send(std::uint32_t to, std::uint64_t tag, const Buffer& buffer) {
  need_memory(buffer.address, buffer.bytes, nullptr);
  const Result<TagParts> parts = tags_.parts(tag);
  if (!parts) listener_.failed(nullptr, parts.error().text());
  Sending sending{.request = nullptr, .buffer = buffer, .sent = buffer.sent ? *buffer.sent : Callback{}};
  if (buffer.bytes != 0) {
    const std::lock_guard guard(engine_.lock());
    sending.request = engine_.start_send(comm_->collective_target(static_cast<int>(to), Tags::key(*parts)),
                                         Payload::of(buffer.address, buffer.bytes));
  }
  if (sending.request)
    sending_.push_back(sending);
  else
    sent(sending);
}

void DataMessages::receive(const TagParts& tag, Incoming& incoming, std::size_t number) {
  const Buffer& to = incoming.buffers[number];
  if (to.bytes == 0) return;  // nothing is sent either
  need_memory(to.address, to.bytes, &incoming);
  ++incoming.missing;
  const std::lock_guard guard(engine_.lock());
  receiving_.push_back(
      {.request = engine_.start_receive(comm_->collective_context(), static_cast<int>(tag.source),
                                        Tags::key(tag), Payload::of(to.address, to.bytes)),
       .incoming = &incoming,
       .bytes = to.bytes,
       .source = tag.source});
}

// --- mailboxes

std::uint64_t DataMessages::open_mailbox() {
  if (mailboxes_ + 1 >= tags_.counters() || mailboxes_ + 1 >= std::uint64_t{1} << 28)
    listener_.failed(
        nullptr,
        fmt::format("{} mailboxes have been opened, and there are no more numbers for them", mailboxes_));
  return (std::uint64_t{rank()} << 32) | ++mailboxes_;
}

void DataMessages::close_mailbox(std::uint64_t mailbox) {
  const std::lock_guard guard(engine_.lock());
  std::erase_if(receiving_, [&](const Receiving& each) {
    if (each.incoming || each.mailbox != number_of(mailbox)) return false;
    engine_.withdraw(each.request);
    return true;
  });
}

void DataMessages::post(std::uint64_t mailbox, void* address, std::uint64_t bytes, std::uint32_t item_bytes,
                        const Callback& came) {
  if (rank_of(mailbox) != rank() || number_of(mailbox) == 0 || number_of(mailbox) > mailboxes_)
    listener_.failed(nullptr, "memory is posted to a mailbox of another process");
  need_memory(address, bytes, nullptr);
  const TagParts tag{TagType::mailbox, rank(), number_of(mailbox)};
  const std::lock_guard guard(engine_.lock());
  receiving_.push_back({.request = engine_.start_receive(comm_->collective_context(), any_source,
                                                         Tags::key(tag), Payload::of(address, bytes)),
                        .incoming = nullptr,
                        .mailbox = number_of(mailbox),
                        .item_bytes = item_bytes,
                        .bytes = bytes,
                        .came = came});
}

void DataMessages::send_to(std::uint64_t mailbox, const Buffer& buffer) {
  if (rank_of(mailbox) >= static_cast<std::uint32_t>(comm_->size()) || number_of(mailbox) == 0 ||
      number_of(mailbox) >= tags_.counters())
    listener_.failed(nullptr, "a mailbox that names none was used");
  need_memory(buffer.address, buffer.bytes, nullptr);
  Sending sending{.request = nullptr,
                  .buffer = buffer,
                  .sent = buffer.sent ? *buffer.sent : Callback{},
                  .to_mailbox = true};
  {
    const std::uint64_t tag = tags_.tag(TagType::mailbox, rank(), number_of(mailbox));
    const std::lock_guard guard(engine_.lock());
    sending.request = engine_.start_send(
        comm_->collective_target(static_cast<int>(rank_of(mailbox)), Tags::key(*tags_.parts(tag))),
        Payload::of(buffer.address, buffer.bytes));
  }
  if (sending.request)
    sending_.push_back(sending);
  else
    sent(sending);
}

// --- what has happened

/// The memory is the program's again, or ends.
void DataMessages::sent(Sending& each) {
  let_go(each.buffer);
  if (each.buffer.sent) over_.push_back({.callback = each.sent});
}

void DataMessages::received(const Receiving& each, const Status& status) {
  const bool is_longer = status.error == static_cast<int>(ErrorClass::truncate);
  if (status.error != 0 && !is_longer)
    listener_.failed(each.incoming,
                     fmt::format("data cannot come to {} bytes (error class {}): the memory is none of this "
                                 "process, or its sender is no more",
                                 each.bytes, status.error));
  if (Incoming* const incoming = each.incoming) {
    if (is_longer || status.bytes != each.bytes)
      listener_.failed(incoming,
                       fmt::format("rank {} has announced data of {} bytes, and sent {}", each.source,
                                   each.bytes, is_longer ? "more" : std::to_string(status.bytes)));
    if (--incoming->missing == 0) over_.push_back({.incoming = incoming});
    return;
  }
  if (is_longer)
    listener_.failed(nullptr,
                     fmt::format("rank {} has sent more to mailbox {} than the {} bytes that are posted",
                                 status.source, each.mailbox, each.bytes));
  if (status.bytes % each.item_bytes != 0)
    listener_.failed(nullptr, fmt::format("rank {} has sent {} bytes to mailbox {}, whose items have {}",
                                          status.source, status.bytes, each.mailbox, each.item_bytes));
  over_.push_back({.callback = each.came, .value = status.bytes / each.item_bytes, .has_value = true});
}

/// In the order in which they were started: mailboxes are told so.
bool DataMessages::settle() {
  bool any = false;
  std::erase_if(receiving_, [&](const Receiving& each) {
    if (!each.request->complete) return false;
    const Status status = each.request->status;
    engine_.free(each.request);
    if (tells_of_loss(status.error))
      is_broken_ = true;
    else
      received(each, status);
    return any = true;
  });
  std::erase_if(sending_, [&](Sending& each) {
    if (!each.request->complete) return false;
    if (const int error = each.request->error(); error != 0 && !tells_of_loss(error))
      listener_.failed(nullptr,
                       fmt::format("{} bytes at {} cannot be sent (error class {}): the memory is none of "
                                   "this process any more, or the receiver is no more",
                                   each.buffer.bytes, each.buffer.address, error));
    const bool is_lost = tells_of_loss(each.request->error());
    engine_.free(each.request);
    if (is_lost) {
      is_broken_ = true;
      let_go(each.buffer);
    } else {
      sent(each);
    }
    return any = true;
  });
  return any;
}

bool DataMessages::poll(bool progresses) {
  if (is_idle()) [[likely]]
    return false;
  if (!sending_.empty() || !receiving_.empty()) {
    const std::lock_guard guard(engine_.lock());
    if (progresses) engine_.progress();
    settle();
  }
  if (over_.empty()) return false;
  std::swap(over_, told_);
  for (const Over& each : told_)
    if (each.incoming)
      listener_.arrived(*each.incoming);
    else
      listener_.invoke(each.callback, each.has_value ? &each.value : nullptr);
  told_.clear();
  return true;
}

bool DataMessages::has_news() const noexcept {
  const auto is_complete = [](const auto& each) { return each.request->complete; };
  return !over_.empty() || std::ranges::any_of(receiving_, is_complete) ||
         std::ranges::any_of(sending_, is_complete);
}

std::string DataMessages::under_way() {
  if (const auto posted =
          std::ranges::find_if(receiving_, [](const Receiving& each) { return !each.incoming; });
      posted != receiving_.end())
    return fmt::format("memory is posted to mailbox {}", posted->mailbox);
  if (std::ranges::any_of(sending_, &Sending::to_mailbox)) return "data is on its way to a mailbox";
  const std::lock_guard guard(engine_.lock());
  for (const UnexpectedMessage* each = comm_->collective_context().first_unexpected(); each;
       each = MatchContext::next_unexpected(*each))
    if (Tags::type_of_key(each->tag) == TagType::mailbox)
      return "data has come to a mailbox to which nothing is posted";
  return {};
}

void DataMessages::cancel() {
  const std::lock_guard guard(engine_.lock());
  for (const Receiving& each : receiving_)
    engine_.withdraw(each.request);
  for (Sending& each : sending_) {
    engine_.withdraw(each.request);
    let_go(each.buffer);
  }
  receiving_.clear();
  sending_.clear();
  over_.clear();
}

void DataMessages::open(Ref<Communicator> comm, const Tags& tags) {
  comm_ = std::move(comm);
  tags_ = tags;
  is_broken_ = false;
}

}  // namespace isthmus::chare
