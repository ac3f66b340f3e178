#include "coll/flow/checked.hpp"

#include <algorithm>
#include <string>
#include <string_view>

#include "coll/call/local.hpp"
#include "datatype/signature.hpp"

namespace isthmus::coll {
namespace {

constexpr auto functions = std::to_array<std::string_view>({"Barrier",
                                                            "Bcast",
                                                            "Gather",
                                                            "Gatherv",
                                                            "Scatter",
                                                            "Scatterv",
                                                            "Allgather",
                                                            "Allgatherv",
                                                            "Alltoall",
                                                            "Alltoallv",
                                                            "Alltoallw",
                                                            "Reduce",
                                                            "Allreduce",
                                                            "Reduce_scatter",
                                                            "Reduce_scatter_block",
                                                            "Scan",
                                                            "Exscan",
                                                            "Neighbor_allgather",
                                                            "Neighbor_allgatherv",
                                                            "Neighbor_alltoall",
                                                            "Neighbor_alltoallv",
                                                            "Neighbor_alltoallw"});

/// The number of a function, by its name.
consteval std::uint64_t function(std::string_view name) {
  return static_cast<std::uint64_t>(std::ranges::find(functions, name) - functions.begin());
}

/// As programs call it. The words may be anything.
std::string name_of_call(std::uint64_t function, std::uint64_t form) {
  if (function >= functions.size()) return "an unknown collective";
  std::string name(functions[function]);
  if (form == static_cast<std::uint64_t>(CallForm::nonblocking)) {
    name[0] = static_cast<char>(name[0] - 'A' + 'a');
    name.insert(0, "I");
  }
  if (form == static_cast<std::uint64_t>(CallForm::persistent)) name += "_init";
  return "MPI_" + name;
}

std::string rank_and(int rank) {
  return "rank " + std::to_string(rank) + " ";
}

/// Counts and types of one block, whatever form its arguments have.
std::int64_t count_at(const In& in, int) {
  return in.count;
}
std::int64_t count_at(const Out& out, int) {
  return out.count;
}
template <class Blocks>
std::int64_t count_at(const Blocks& blocks, int i) {
  return blocks.counts[i];
}
template <class Blocks>
const Datatype& type_at(const Blocks& blocks, int i) {
  if constexpr (requires { blocks.types; })
    return *blocks.types[static_cast<std::size_t>(i)];
  else
    return *blocks.type;
}

constexpr std::uint64_t own_op = ~std::uint64_t{0};

std::string op_named(std::uint64_t op) {
  if (op == own_op) return "an operation of its own";
  return std::string(Op::predefined(static_cast<OpCode>(op)).name());
}

}  // namespace

CallRecord::Part CallRecord::part_of(const Datatype& type, std::int64_t count) {
  // MPI_PACKED matches any type (MPI 5.0, section 5.2).
  const bool is_packed = type.only_basic() == Basic::packed;
  return {bytes_of(count, type), is_packed ? 0 : Signature::of(type, count).value()};
}

void CallRecord::set_data(const Part& part) {
  words_[bytes_word] = part.bytes;
  words_[signature_word] = part.signature;
}
void CallRecord::set_sent(int to, const Part& part) {
  const std::size_t first = head_words + pair_words * static_cast<std::size_t>(to);
  words_[first] = part.bytes;
  words_[first + 1] = part.signature;
}
void CallRecord::set_expected(int from, const Part& part) {
  const std::size_t first = head_words + pair_words * static_cast<std::size_t>(from) + 2;
  words_[first] = part.bytes;
  words_[first + 1] = part.signature;
}
CallRecord::Part CallRecord::sent(int to) const {
  const std::size_t first = head_words + pair_words * static_cast<std::size_t>(to);
  return {words_[first], words_[first + 1]};
}
CallRecord::Part CallRecord::expected(int from) const {
  const std::size_t first = head_words + pair_words * static_cast<std::size_t>(from) + 2;
  return {words_[first], words_[first + 1]};
}

template <class Move>
void CallRecord::describe_gather(const Move& c, const Communicator& comm) {
  words_[root_word] = static_cast<std::uint64_t>(c.root);
  if (comm.rank() != c.root) return set_sent(c.root, part_of(*c.send.type, c.send.count));
  for (int i = 0; i < comm.size(); ++i)
    set_expected(i, part_of(type_at(c.receive, i), count_at(c.receive, i)));
}
template <class Move>
void CallRecord::describe_scatter(const Move& c, const Communicator& comm) {
  words_[root_word] = static_cast<std::uint64_t>(c.root);
  if (comm.rank() != c.root) return set_expected(c.root, part_of(*c.receive.type, c.receive.count));
  for (int i = 0; i < comm.size(); ++i)
    set_sent(i, part_of(type_at(c.send, i), count_at(c.send, i)));
}
template <class Move>
void CallRecord::describe_allgather(const Move& c, const Communicator& comm) {
  const int own = comm.rank();
  const Part mine = c.send.buffer == in_place ? part_of(*c.receive.type, count_at(c.receive, own))
                                              : part_of(*c.send.type, c.send.count);
  for (int i = 0; i < comm.size(); ++i) {
    set_sent(i, mine);
    set_expected(i, part_of(*c.receive.type, count_at(c.receive, i)));
  }
}
template <class Move>
void CallRecord::describe_alltoall(const Move& c, const Communicator& comm) {
  for (int i = 0; i < comm.size(); ++i) {
    const Part part = part_of(type_at(c.receive, i), count_at(c.receive, i));
    set_expected(i, part);
    set_sent(i, c.send.buffer == in_place ? part : part_of(type_at(c.send, i), count_at(c.send, i)));
  }
}
void CallRecord::describe_reduction(const Reduction& what) {
  set_data(part_of(*what.type, what.count));
  words_[op_word] = what.op->code() ? static_cast<std::uint64_t>(*what.op->code()) : own_op;
}

void CallRecord::describe(const call::Barrier&, const Communicator&) {
  words_[function_word] = function("Barrier");
}
void CallRecord::describe(const call::Bcast& c, const Communicator&) {
  words_[function_word] = function("Bcast");
  words_[root_word] = static_cast<std::uint64_t>(c.root);
  set_data(part_of(*c.type, c.count));
}
void CallRecord::describe(const call::Gather& c, const Communicator& comm) {
  words_[function_word] = function("Gather");
  describe_gather(c, comm);
}
void CallRecord::describe(const call::Gatherv& c, const Communicator& comm) {
  words_[function_word] = function("Gatherv");
  describe_gather(c, comm);
}
void CallRecord::describe(const call::Scatter& c, const Communicator& comm) {
  words_[function_word] = function("Scatter");
  describe_scatter(c, comm);
}
void CallRecord::describe(const call::Scatterv& c, const Communicator& comm) {
  words_[function_word] = function("Scatterv");
  describe_scatter(c, comm);
}
void CallRecord::describe(const call::Allgather& c, const Communicator& comm) {
  words_[function_word] = function("Allgather");
  describe_allgather(c, comm);
}
void CallRecord::describe(const call::Allgatherv& c, const Communicator& comm) {
  words_[function_word] = function("Allgatherv");
  describe_allgather(c, comm);
}
void CallRecord::describe(const call::Alltoall& c, const Communicator& comm) {
  words_[function_word] = function("Alltoall");
  describe_alltoall(c, comm);
}
void CallRecord::describe(const call::Alltoallv& c, const Communicator& comm) {
  words_[function_word] = function("Alltoallv");
  describe_alltoall(c, comm);
}
void CallRecord::describe(const call::Alltoallw& c, const Communicator& comm) {
  words_[function_word] = function("Alltoallw");
  describe_alltoall(c, comm);
}
void CallRecord::describe(const call::Reduce& c, const Communicator&) {
  words_[function_word] = function("Reduce");
  words_[root_word] = static_cast<std::uint64_t>(c.root);
  describe_reduction(c.what);
}
void CallRecord::describe(const call::Allreduce& c, const Communicator&) {
  words_[function_word] = function("Allreduce");
  describe_reduction(c.what);
}
void CallRecord::describe(const call::ReduceScatter& c, const Communicator& comm) {
  words_[function_word] = function("Reduce_scatter");
  describe_reduction({0, c.what.type, c.what.op});
  // Rank i gets counts[i] elements, and all must say so.
  for (int i = 0; i < comm.size(); ++i) {
    set_sent(i, part_of(*c.what.type, c.counts[i]));
    set_expected(i, part_of(*c.what.type, c.counts[comm.rank()]));
  }
}
void CallRecord::describe(const call::ReduceScatterBlock& c, const Communicator&) {
  words_[function_word] = function("Reduce_scatter_block");
  describe_reduction(c.what);
}
void CallRecord::describe(const call::Scan& c, const Communicator&) {
  words_[function_word] = function("Scan");
  describe_reduction(c.what);
}
void CallRecord::describe(const call::Exscan& c, const Communicator&) {
  words_[function_word] = function("Exscan");
  describe_reduction(c.what);
}
void CallRecord::describe(const call::NeighborAllgather&, const Communicator&) {
  words_[function_word] = function("Neighbor_allgather");
}
void CallRecord::describe(const call::NeighborAllgatherv&, const Communicator&) {
  words_[function_word] = function("Neighbor_allgatherv");
}
void CallRecord::describe(const call::NeighborAlltoall&, const Communicator&) {
  words_[function_word] = function("Neighbor_alltoall");
}
void CallRecord::describe(const call::NeighborAlltoallv&, const Communicator&) {
  words_[function_word] = function("Neighbor_alltoallv");
}
void CallRecord::describe(const call::NeighborAlltoallw&, const Communicator&) {
  words_[function_word] = function("Neighbor_alltoallw");
}

/// Rank 0's comparison of what all have said.
class Judge {
 public:
  explicit Judge(const std::vector<CallRecord>& records) : records_(records) {}

  [[nodiscard]] Verdict verdict() const {
    const int n = static_cast<int>(records_.size());
    for (int i = 1; i < n; ++i)
      if (Verdict found = heads(i); !found.fits()) return found;
    for (int i = 0; i < n; ++i)
      for (int k = 0; k < n; ++k)
        if (i != k)
          if (Verdict found = pair(i, k); !found.fits()) return found;
    return {};
  }

 private:
  using Part = CallRecord::Part;

  [[nodiscard]] std::uint64_t word(int rank, CallRecord::Word which) const {
    return records_[static_cast<std::size_t>(rank)].word(which);
  }
  [[nodiscard]] std::string call(int rank) const {
    return name_of_call(word(rank, CallRecord::function_word), word(rank, CallRecord::form_word));
  }
  [[nodiscard]] bool differ(int rank, CallRecord::Word which) const {
    return word(rank, which) != word(0, which);
  }

  /// What all members must say alike, held against rank 0.
  [[nodiscard]] Verdict heads(int i) const {
    using enum CallRecord::Word;
    if (differ(i, function_word) || differ(i, form_word))
      return {ErrorClass::other, rank_and(i) + "calls " + call(i) + ", rank 0 " + call(0)};
    const std::string in_call = call(0) + ": " + rank_and(i);
    if (differ(i, root_word))
      return {ErrorClass::root, in_call + "names root " + std::to_string(word(i, root_word)) +
                                    ", rank 0 root " + std::to_string(word(0, root_word))};
    if (differ(i, op_word))
      return {ErrorClass::op,
              in_call + "names " + op_named(word(i, op_word)) + ", rank 0 " + op_named(word(0, op_word))};
    const Part mine{word(i, bytes_word), word(i, signature_word)};
    const Part theirs{word(0, bytes_word), word(0, signature_word)};
    return compare(in_call + "passes ", mine, ", rank 0 ", theirs);
  }

  [[nodiscard]] Verdict pair(int from, int to) const {
    const Part sent = records_[static_cast<std::size_t>(from)].sent(to);
    const Part expected = records_[static_cast<std::size_t>(to)].expected(from);
    return compare(call(0) + ": " + rank_and(from) + "passes ", sent,
                   " for rank " + std::to_string(to) + ", which expects ", expected);
  }

  static Verdict compare(const std::string& who, const Part& one, const std::string& other_one,
                         const Part& other) {
    if (one.bytes != other.bytes)
      return {one.bytes > other.bytes ? ErrorClass::truncate : ErrorClass::count,
              who + std::to_string(one.bytes) + " bytes" + other_one + std::to_string(other.bytes)};
    if (one.signature != other.signature && one.signature != 0 && other.signature != 0)
      return {ErrorClass::type, who + std::to_string(one.bytes) + " bytes" + other_one +
                                    "as many, but of other basic types: their datatypes' signatures differ"};
    return {};
  }

  const std::vector<CallRecord>& records_;
};

Verdict::Verdict(ErrorClass error_class, const std::string& text)
    : error_class_(static_cast<std::uint32_t>(error_class)) {
  text.copy(text_.data(), text_.size() - 1);
}

Result<> Verdict::result() const {
  if (fits()) return {};
  const std::string_view text(text_.data(), text_.size());
  return fail(static_cast<ErrorClass>(error_class_), std::string(text.substr(0, text.find('\0'))));
}

Flow compare_calls(Ranks ranks, const CallRecord& mine, Verdict& verdict) {
  if (ranks.rank() != 0) {
    co_await ranks.send(0, mine.payload());
    co_await ranks.receive(0, verdict.payload());
    co_return;
  }
  std::vector<CallRecord> records(static_cast<std::size_t>(ranks.size()), CallRecord(ranks.comm()));
  records[0] = mine;
  Batch heard(ranks);
  for (int i = 1; i < ranks.size(); ++i)
    heard.receive(i, records[static_cast<std::size_t>(i)].payload());
  co_await heard;
  verdict = Judge(records).verdict();
  Batch told(ranks);
  for (int i = 1; i < ranks.size(); ++i)
    told.send(i, verdict.payload());
  co_await told;
}

}  // namespace isthmus::coll
