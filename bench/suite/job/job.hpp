// What a benchmark works with: its ranks, its options, how operations are timed, and where results go.
#pragma once

#include <mpi.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/measure.hpp"
#include "suite/core/options.hpp"
#include "suite/job/buffer.hpp"
#include "suite/job/call.hpp"
#include "suite/job/output.hpp"

namespace isthmus::bench {

// Whose times make a sample: rank 0's (the others take part in what it times), or the mean of all ranks', or
// the last one's.
enum class Whose : std::uint8_t { leader, mean, last };

class Job {
 public:
  Job(const Options& options, Output& output);

  // Chooses this rank's placement among the two of the options, and finds its GPU where that needs one.
  void place(int side);
  [[nodiscard]] std::unique_ptr<Grid> grid(const Shape& shape) const { return memory_->make_grid(shape); }
  [[nodiscard]] std::unique_ptr<Buffer> buffer(std::size_t bytes) const { return memory_->make(bytes); }
  // Whether this rank's, or any rank's, buffers are managed memory.
  [[nodiscard]] bool managed() const;
  // What `kernels` data-migration kernels, launched and waited for by each rank where its placement needs
  // them, cost in all ranks together: the sum of the medians, on every rank. Reports it, and its spread, once
  // for each number.
  [[nodiscard]] double launch_overhead(int kernels) const;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] const Options& options() const { return options_; }
  // What messages are made of from now on.
  void use(Element element) { element_ = element; }
  [[nodiscard]] Element element() const { return element_; }
  [[nodiscard]] Output& output() const { return output_; }

  // Does so many operations as this rank takes part in them, and returns the seconds that count of them,
  // together.
  using Run = std::function<double(long operations)>;

  // Warms up and measures; collective. The series is complete on rank 0.
  Series measure(const Run& run, Whose whose = Whose::leader) const;

  // `once()` back to back. The loop is compiled with it: nothing stands between two operations.
  template <class Once>
  Series measure_loop(Once once, Whose whose = Whose::leader) const {
    return measure(repeat(once), whose);
  }

  // Columns with the page faults and migrations of one operation of `run`, of all ranks together, where the
  // user asked for them; collective. Counted apart from the times, because counting costs time.
  [[nodiscard]] std::vector<Extra> faults(const Run& run) const;

  // Ends the job on all ranks where any of them found a fault, wrong contents for example; collective.
  // `fault` is empty where all was right.
  void demand(const std::string& fault, int status = status_wrong_contents) const;

  // Rank 0's number, on every rank.
  static long agree(long number);

  // Prints the row of a size, on rank 0.
  void report(std::size_t bytes, const Series& series, const Meaning& meaning) const;

 private:
  struct Warmed {
    Block block;
    bool settled = true;
  };
  Warmed warm_up(const Run& run, Whose whose) const;
  void run_block(const Run& run, Whose whose, const Block& block, Series& series) const;
  void combine(Whose whose, std::vector<double>& mine, Series& series) const;

  const Options& options_;
  Output& output_;
  Element element_ = Element::byte;
  int rank_ = 0;
  int ranks_ = 1;
  std::unique_ptr<Memory> memory_;
  mutable std::map<int, double> overheads_;  // by number of kernels
};

}  // namespace isthmus::bench
