#include "suite/benchmarks/collective.hpp"

#include <concepts>
#include <cstdint>
#include <span>
#include <vector>

namespace isthmus::bench {
namespace {

// What rank `writer` adds at `index`: whole numbers that are small enough to be added up without rounding, in
// any order; 0 and 1 where there is room for little more.
template <class Number>
Number addend(int writer, std::size_t index, unsigned round) {
  const int number = (writer + 1) * static_cast<int>(index % 97 + 1) % 64 + static_cast<int>(round);
  return static_cast<Number>(sizeof(Number) == 1 ? number % 2 : number);
}

template <class Number>
std::span<std::uint8_t> span_of(std::vector<Number>& numbers) {
  return {reinterpret_cast<std::uint8_t*>(numbers.data()), numbers.size() * sizeof(Number)};
}

// Calls `call` with a number of the C type of an element.
template <class Call>
auto with_number(Element element, Call call) {
  if (element == Element::integer) return call(std::int32_t{});
  if (element == Element::real) return call(float{});
  return call(std::int8_t{});
}

// The writer of a block that is sent to one rank among many.
unsigned pattern_of(int writer, std::size_t block) {
  return static_cast<unsigned>(writer) * 13 + static_cast<unsigned>(block) * 5;
}

}  // namespace

Collection::Collection(const Job& job, const Collective& collective, std::size_t bytes)
    : job_(job),
      collective_(collective),
      bytes_(bytes),
      block_(job.options().layout, job.element(), bytes),
      name_("MPI_" + std::string(collective.name)) {
  name_[4] = static_cast<char>(name_[4] - 'a' + 'A');
  if (collective.arrives == Arrives::nothing) return;
  if (!collective.in_place) send_ = job.buffer(bytes * sent_blocks());
  receive_ = job.buffer(bytes * received_blocks());
  const bool adding = adds_up(collective);
  arguments_.send = send_ ? send_->data() : nullptr;
  arguments_.receive = receive_->data();
  arguments_.count = adding ? static_cast<int>(bytes / bytes_of(job.element())) : block_.count();
  arguments_.type = adding ? datatype_of(job.element(), true) : block_.type();
  for (int rank = 0; rank < job.ranks(); ++rank) {
    arguments_.counts.push_back(arguments_.count);
    arguments_.offsets.push_back(arguments_.count * rank);
    arguments_.byte_offsets.push_back(static_cast<int>(bytes) * rank);
    arguments_.types.push_back(arguments_.type);
  }
}

std::size_t Collection::sent_blocks() const {
  return collective_.sends_one ? 1 : static_cast<std::size_t>(job_.ranks());
}

std::size_t Collection::received_blocks() const {
  return collective_.receives_one ? 1 : static_cast<std::size_t>(job_.ranks());
}

bool Collection::sends() const {
  const bool from_root =
      collective_.arrives == Arrives::roots_block || collective_.arrives == Arrives::roots_own_block;
  return collective_.arrives != Arrives::nothing && (!from_root || job_.rank() == arguments_.root);
}

bool Collection::receives() const {
  if (collective_.arrives == Arrives::nothing) return false;
  if (collective_.in_place && job_.rank() == arguments_.root) return false;
  return !collective_.at_root_only || job_.rank() == arguments_.root;
}

std::size_t Collection::memory(const Collective& collective, int ranks, std::size_t bytes) {
  const auto all = static_cast<std::size_t>(ranks);
  return bytes * ((collective.sends_one ? 1 : all) + (collective.receives_one ? 1 : all));
}

void Collection::touch_sent() const {
  if (Buffer* const sent = collective_.in_place ? receive_.get() : send_.get(); sent != nullptr && sends())
    sent->touch(0, sent->size(), true);
}

void Collection::touch_received() const {
  if (receives()) receive_->touch(0, receive_->size(), true);
}

void Collection::prepare(unsigned round) {
  if (receive_) receive_->clear();
  if (!sends()) return;
  Buffer& sent = collective_.in_place ? *receive_ : *send_;
  for (std::size_t block = 0; block < sent_blocks(); ++block) {
    if (!adds_up(collective_)) {
      sent.fill(block * bytes_, bytes_, pattern_of(job_.rank(), block), round);
      continue;
    }
    with_number(job_.element(), [&]<class Number>(Number) { add_numbers<Number>(sent, block, round); });
  }
}

template <class Number>
void Collection::add_numbers(Buffer& sent, std::size_t block, unsigned round) const {
  std::vector<Number> numbers(bytes_ / sizeof(Number));
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = addend<Number>(job_.rank(), i + block, round);
  sent.write(block * bytes_, span_of(numbers));
}

std::string Collection::wrong(unsigned round) const {
  if (!receives()) return "";
  if (adds_up(collective_))
    return with_number(job_.element(), [&]<class Number>(Number) { return wrong_sums<Number>(round); });
  const auto own = static_cast<std::size_t>(job_.rank());
  std::string found;
  for (std::size_t block = 0; found.empty() && block < received_blocks(); ++block) {
    const bool from_root =
        collective_.arrives == Arrives::roots_block || collective_.arrives == Arrives::roots_own_block;
    const bool addressed =
        collective_.arrives == Arrives::roots_own_block || collective_.arrives == Arrives::own_block_of_each;
    const int writer = from_root ? arguments_.root : static_cast<int>(block);
    found = block_.fault(*receive_, block * bytes_, pattern_of(writer, addressed ? own : 0), round);
  }
  return found;
}

template <class Number>
std::string Collection::wrong_sums(unsigned round) const {
  const std::size_t block =
      collective_.arrives == Arrives::sum_of_own_blocks ? static_cast<std::size_t>(job_.rank()) : 0;
  std::vector<Number> numbers(bytes_ / sizeof(Number));
  receive_->read(0, span_of(numbers));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    Number sum = 0;
    for (int writer = 0; writer < job_.ranks(); ++writer)
      sum = static_cast<Number>(sum + addend<Number>(writer, i + block, round));
    if (numbers[i] != sum) return "number " + std::to_string(i) + " is wrong";
  }
  return "";
}

}  // namespace isthmus::bench
