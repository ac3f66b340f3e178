#include "p2p/active/message_trace.hpp"

#include <new>

#include "p2p/message/context_ids.hpp"
#include "wire/ring.hpp"

namespace isthmus {
namespace {

using trace::Kind;
using trace::Record;

Record record_of(Kind kind, std::int64_t time) noexcept {
  Record record{};
  record.kind = kind;
  record.time = time;
  record.of.peer = -1;
  record.of.way = trace::unknown_way;
  return record;
}

std::int32_t process_of(const MatchContext& context, int source) noexcept {
  const auto processes = context.processes();
  const auto index = static_cast<std::size_t>(source);
  return source >= 0 && index < processes.size() ? static_cast<std::int32_t>(processes[index]) : source;
}

}  // namespace

/// 0 where there is no memory for it: such a call is shown without its name.
std::uint16_t MessageTrace::name_of_function(const char* function) noexcept {
  if (const auto found = functions_.find(function); found != functions_.end()) return found->second;
  const auto name = static_cast<std::uint16_t>(functions_.size() + 1);
  try {
    functions_.emplace(function, name);
  } catch (const std::bad_alloc&) {
    return 0;
  }
  Record record = record_of(Kind::name, trace::now());
  record.is = {.context = 0, .bytes = 0, .name = name, .text = {}};
  trace::Writer::set_text(record, function);
  writer_->add(record);
  return name;
}

void MessageTrace::call_begins(const char* function, std::int64_t time) noexcept {
  Record record = record_of(Kind::call_begin, time);
  record.of.name = name_of_function(function);
  writer_->add(record);
}

void MessageTrace::call_ends() noexcept {
  writer_->add(record_of(Kind::call_end, trace::now()));
}

void MessageTrace::names_comm(ContextId context, std::string_view name, std::uint32_t size) noexcept {
  try {
    const auto [place, is_new] = comms_.try_emplace(context, name.size());
    if (!is_new && place->second == name.size()) return;
    place->second = name.size();
  } catch (const std::bad_alloc&) {
    return;  // told another time
  }
  Record record = record_of(Kind::comm, trace::now());
  record.is = {.context = context, .bytes = size, .name = 0, .text = {}};
  trace::Writer::set_text(record, name);
  writer_->add(record);
}

void MessageTrace::collective_begins(const trace::Collective& collective) noexcept {
  Record record = record_of(Kind::collective, trace::now());
  record.collective = collective;
  writer_->add(record);
}

void MessageTrace::collective_ends(const trace::Collective& collective) noexcept {
  Record record = record_of(Kind::collective_end, trace::now());
  record.collective = collective;
  writer_->add(record);
}

void MessageTrace::sent(const Target& target, std::uint64_t bytes, const Request* send,
                        std::int64_t time) noexcept {
  if (ContextIds::is_internal(target.context)) return;
  Record record = record_of(Kind::send, time);
  record.of.context = target.context;
  record.of.peer = static_cast<std::int32_t>(target.peer);
  record.of.tag = target.tag;
  record.of.bytes = bytes;
  if (send && !send->complete) record.of.number = send->cookie() + 1;
  writer_->add(record);
}

void MessageTrace::receives(Request& receive) noexcept {
  receive.way.reset();
  if (ContextIds::is_internal(receive.context->id())) return;
  Record record = record_of(Kind::receive, trace::now());
  record.of.number = receive.cookie() + 1;
  record.of.context = receive.context->id();
  record.of.peer = process_of(*receive.context, receive.source);
  record.of.tag = receive.tag;
  writer_->add(record);
}

void MessageTrace::takes(const UnexpectedMessage& message) noexcept {
  Record record = record_of(Kind::take, trace::now());
  record.of.number = reinterpret_cast<std::uintptr_t>(&message);
  writer_->add(record);
}

void MessageTrace::receives_taken(Request& receive, const UnexpectedMessage& message) noexcept {
  receive.way.reset();
  Record record = record_of(Kind::receive_taken, trace::now());
  record.of.number = receive.cookie() + 1;
  record.of.bytes = reinterpret_cast<std::uintptr_t>(&message);
  record.of.context = receive.context->id();
  record.of.peer = process_of(*receive.context, receive.source);
  record.of.tag = receive.tag;
  writer_->add(record);
}

void MessageTrace::carries(const Request& receive) noexcept {
  if (!receive.context || ContextIds::is_internal(receive.context->id())) return;
  Record record = record_of(Kind::carry, trace::now());
  record.of.number = receive.cookie() + 1;
  writer_->add(record);
}

void MessageTrace::completed(const Request& request) noexcept {
  const bool is_send = request.kind == Request::Kind::send;
  if (!is_send && request.kind != Request::Kind::receive) return;
  Record record = record_of(Kind::complete, trace::now());
  record.of.number = request.cookie() + 1;
  if (is_send) record.of.flags |= trace::is_send;
  if (request.cancelled || request.status.cancelled) record.of.flags |= trace::is_cancelled;
  if (!is_send && request.matched && request.context && request.status.source >= 0) {
    if (ContextIds::is_internal(request.context->id())) return;
    record.of.flags |= trace::is_matched;
    record.of.context = request.context->id();
    record.of.peer = process_of(*request.context, request.status.source);
    record.of.tag = request.status.tag;
    record.of.bytes = request.status.bytes;
    const Protocol with_envelope = record.of.peer == static_cast<std::int32_t>(rank_) ? Protocol::local
                                   : request.status.bytes <= wire::inline_capacity    ? Protocol::eager_inline
                                                                                      : Protocol::eager;
    record.of.way = static_cast<std::uint16_t>(request.way.value_or(with_envelope));
  }
  writer_->add(record);
}

}  // namespace isthmus
