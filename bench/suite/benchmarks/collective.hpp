// One collective on the memory of one size: what is called, and the check of what came.
#pragma once

#include <memory>
#include <string>

#include "suite/benchmarks/collective_table.hpp"
#include "suite/job/job.hpp"
#include "suite/job/message_type.hpp"

namespace isthmus::bench {

class Collection {
 public:
  Collection(const Job& job, const Collective& collective, std::size_t bytes);

  [[nodiscard]] const Arguments& arguments() const { return arguments_; }
  // "MPI_Allreduce"
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const MessageType& block() const { return block_; }
  [[nodiscard]] bool has_layout() const { return !adds_up(collective_) && receive_ != nullptr; }
  void blocking() const { call(collective_.blocking(arguments_), name_.c_str()); }
  // Puts managed memory where the placement says: what is sent before the call, what was received after it.
  void touch_sent() const;
  void touch_received() const;

  // Calls it once with fresh contents and checks them; `call_it` is one of the forms.
  template <class CallIt>
  std::string fault(unsigned round, CallIt call_it) {
    prepare(round);
    call_it();
    return wrong(round);
  }

  // Bytes that a rank needs for it.
  static std::size_t memory(const Collective& collective, int ranks, std::size_t bytes);

 private:
  void prepare(unsigned round);
  [[nodiscard]] std::string wrong(unsigned round) const;
  template <class Number>
  void add_numbers(Buffer& sent, std::size_t block, unsigned round) const;
  template <class Number>
  [[nodiscard]] std::string wrong_sums(unsigned round) const;
  [[nodiscard]] std::size_t sent_blocks() const;
  [[nodiscard]] std::size_t received_blocks() const;
  [[nodiscard]] bool sends() const;
  [[nodiscard]] bool receives() const;

  const Job& job_;
  const Collective& collective_;
  std::size_t bytes_;
  MessageType block_;  // of what is not added up
  std::string name_;
  std::unique_ptr<Buffer> send_;
  std::unique_ptr<Buffer> receive_;
  Arguments arguments_;
};

}  // namespace isthmus::bench
