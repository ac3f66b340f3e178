#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "coll/call/call.hpp"
#include "coll/flow/flow.hpp"

/// ISTHMUS_CHECK: before a collective, the members of an intracommunicator tell rank 0 what they call. It
/// compares, and tells all what does not fit; the collective is carried out where all fits.
///
/// Blocking, nonblocking and persistent calls are counted together, each as it is made (MPI 5.0,
/// sections 6.12 and 6.13): so the n-th of one member is held against the n-th of the others, whatever their
/// forms. What a persistent one is initialised with holds for all its starts, and is compared once.
namespace isthmus::coll {

enum class CallForm : std::uint8_t { blocking, nonblocking, persistent };

/// What a member says of its call. The same number of bytes from all members of a communicator.
class CallRecord {
 public:
  template <class Call>
  CallRecord(const Call& call, CallForm form, const Communicator& comm)
      : words_(head_words + pair_words * static_cast<unsigned>(comm.size())) {
    words_[form_word] = static_cast<std::uint64_t>(form);
    describe(call, comm);
  }
  /// For what another member says.
  explicit CallRecord(const Communicator& comm)
      : words_(head_words + pair_words * static_cast<unsigned>(comm.size())) {}

  [[nodiscard]] Payload payload() const {
    return Payload::of(words_.data(), words_.size() * sizeof(std::uint64_t));
  }

  /// Some data: bytes, and the signature of their types.
  struct Part {
    std::uint64_t bytes;
    std::uint64_t signature;
  };
  enum Word : std::uint8_t { function_word, form_word, root_word, op_word, bytes_word, signature_word };
  [[nodiscard]] std::uint64_t word(Word which) const { return words_[which]; }
  [[nodiscard]] Part sent(int to) const;
  [[nodiscard]] Part expected(int from) const;

 private:
  static constexpr std::size_t head_words = 6;
  /// What goes to a member, and what is to come from it.
  static constexpr std::size_t pair_words = 4;

  void describe(const call::Barrier& c, const Communicator& comm);
  void describe(const call::Bcast& c, const Communicator& comm);
  void describe(const call::Gather& c, const Communicator& comm);
  void describe(const call::Gatherv& c, const Communicator& comm);
  void describe(const call::Scatter& c, const Communicator& comm);
  void describe(const call::Scatterv& c, const Communicator& comm);
  void describe(const call::Allgather& c, const Communicator& comm);
  void describe(const call::Allgatherv& c, const Communicator& comm);
  void describe(const call::Alltoall& c, const Communicator& comm);
  void describe(const call::Alltoallv& c, const Communicator& comm);
  void describe(const call::Alltoallw& c, const Communicator& comm);
  void describe(const call::Reduce& c, const Communicator& comm);
  void describe(const call::Allreduce& c, const Communicator& comm);
  void describe(const call::ReduceScatter& c, const Communicator& comm);
  void describe(const call::ReduceScatterBlock& c, const Communicator& comm);
  void describe(const call::Scan& c, const Communicator& comm);
  void describe(const call::Exscan& c, const Communicator& comm);
  // Of these only that all members call the same: who is whose neighbour, others do not know.
  void describe(const call::NeighborAllgather& c, const Communicator& comm);
  void describe(const call::NeighborAllgatherv& c, const Communicator& comm);
  void describe(const call::NeighborAlltoall& c, const Communicator& comm);
  void describe(const call::NeighborAlltoallv& c, const Communicator& comm);
  void describe(const call::NeighborAlltoallw& c, const Communicator& comm);

  template <class Move>
  void describe_gather(const Move& c, const Communicator& comm);
  template <class Move>
  void describe_scatter(const Move& c, const Communicator& comm);
  template <class Move>
  void describe_allgather(const Move& c, const Communicator& comm);
  template <class Move>
  void describe_alltoall(const Move& c, const Communicator& comm);
  void describe_reduction(const Reduction& what);
  static Part part_of(const Datatype& type, std::int64_t count);
  void set_data(const Part& part);
  void set_sent(int to, const Part& part);
  void set_expected(int from, const Part& part);

  std::vector<std::uint64_t> words_;
};

/// Whether the calls fit, alike at all members.
class Verdict {
 public:
  Verdict() = default;
  Verdict(ErrorClass error_class, const std::string& text);
  [[nodiscard]] bool fits() const noexcept { return error_class_ == 0; }
  [[nodiscard]] Result<> result() const;
  [[nodiscard]] Payload payload() { return Payload::of(this, sizeof *this); }

 private:
  std::uint32_t error_class_ = 0;
  std::array<char, 252> text_{};
};

/// The exchange; `ranks` on a lane of `Lane::checking`.
Flow compare_calls(Ranks ranks, const CallRecord& mine, Verdict& verdict);

/// Whether there is anybody to compare with.
[[nodiscard]] inline bool compares(const Communicator& comm) {
  return comm.checks && !comm.is_inter() && comm.size() > 1;
}

/// For a form that waits: the error where the calls do not fit.
template <class Call>
Result<> check_call(const Call& call, CallForm form, Communicator& comm) {
  // Not before: of an intercommunicator's group those who have no part in a call do not come here, and
  // numbers of lanes must be the same at all.
  if (!compares(comm)) return {};
  const std::uint32_t number = comm.nonblocking_lanes++;
  const CallRecord mine(call, form, comm);
  Verdict verdict;
  ISTHMUS_TRY(compare_calls({comm, Lane::checking(number, nullptr)}, mine, verdict).result());
  return verdict.result();
}

/// `start` on a nonblocking lane, once the calls have been compared.
template <class Call>
Flow checked_start(Ranks ranks, Call call, Flow (*start)(const Ranks&, const Call&)) {
  const CallRecord mine(call, CallForm::nonblocking, ranks.comm());
  Verdict verdict;
  co_await compare_calls({ranks.comm(), Lane::checking(ranks.lane().number, ranks.driver())}, mine, verdict);
  if (verdict.fits())
    co_await start(ranks, call);
  else
    co_await verdict.result();
}

}  // namespace isthmus::coll
