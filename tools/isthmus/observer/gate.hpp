#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

struct CUstream_st;
struct CUevent_st;
struct CUctx_st;
struct CUgraph_st;
struct CUgraphExec_st;

/// What the observer itself does with the CUDA driver.
namespace isthmus::observer {

inline constexpr unsigned equal = 1;  // CU_STREAM_WAIT_VALUE_EQ

using Stream = CUstream_st*;
using Event = CUevent_st*;
using Context = CUctx_st*;
using Address = unsigned long long;

/// The driver's functions, as the program's libcuda has them.
struct Driver {
  /// Null where the program has not loaded it, or it has not all of them; why, in words.
  static const Driver* find(std::string& why_not);

  int (*context_get)(Context*);
  int (*context_set)(Context);
  int (*retain)(Context*, int);
  int (*release)(int);
  int (*device_of_context)(int*);
  int (*pointer_attribute)(void*, int, Address);
  int (*capturing)(Stream, int*);
  int (*stream_create)(Stream*, unsigned);
  int (*stream_destroy)(Stream);
  int (*stream_wait)(Stream);
  int (*wait_value)(Stream, Address, std::uint32_t, unsigned);
  int (*event_create)(Event*, unsigned);
  int (*event_destroy)(Event);
  int (*event_record)(Event, Stream);
  int (*event_wait)(Event);
  int (*elapsed)(float*, Event, Event);
  int (*host_allocate)(void**, std::size_t, unsigned);
  int (*host_free)(void*);
  int (*capture)(Stream, int);
  int (*capture_end)(Stream, CUgraph_st**);
  int (*instantiate)(CUgraphExec_st**, CUgraph_st*, unsigned long long);
  int (*graph_destroy)(CUgraph_st*);
  int (*graph_launch)(CUgraphExec_st*, Stream);
  int (*executable_destroy)(CUgraphExec_st*);
  int (*fill)(Address, unsigned, std::size_t, Stream);
  int (*allocate)(Address*, std::size_t);
  int (*free)(Address);
};

/// Times what a stream does, from the first piece of work to the last, by a gate before it that stays closed
/// until all of it is enqueued: so nothing of the host's time is in it. Of one context. Not more than some
/// 400 pieces of work at a time: a stream has room for 510, and a full one makes the host wait for the gate.
class Gate {
 public:
  /// Its context is the current one.
  explicit Gate(const Driver& driver);
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  /// Its context is current, or gone with the process.
  ~Gate();
  /// What must not be lost is what was made.
  [[nodiscard]] bool works() const { return works_; }

  /// Enqueues by `call`, and waits; the seconds that the stream had with it, without those of two marks with
  /// nothing between them. `result`: what `call` returns. Negative: the driver failed.
  template <class Call>
  double time(Stream stream, Call call) {
    if (!close(stream)) {
      call();
      return -1;
    }
    call();
    return open(stream);
  }

 private:
  bool close(Stream stream);
  double open(Stream stream);

  const Driver& driver_;
  volatile std::uint32_t* word_ = nullptr;
  Event begin_ = nullptr, end_ = nullptr;
  bool works_ = false;
  double nothing_ = 0;  // seconds between two marks
};

/// What `call` enqueues, as a graph.
class Captured {
 public:
  template <class Call>
  Captured(const Driver& driver, Stream stream, Call call) : driver_(driver) {
    if (driver_.capture(stream, relaxed) != 0) return;
    call();
    CUgraph_st* graph = nullptr;
    if (driver_.capture_end(stream, &graph) != 0) return;
    if (driver_.instantiate(&executable_, graph, 0) != 0) executable_ = nullptr;
    driver_.graph_destroy(graph);
  }
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;
  ~Captured() {
    if (executable_) driver_.executable_destroy(executable_);
  }
  [[nodiscard]] bool works() const { return executable_ != nullptr; }
  void launch(Stream stream) const { driver_.graph_launch(executable_, stream); }

 private:
  static constexpr int relaxed = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED
  const Driver& driver_;
  CUgraphExec_st* executable_ = nullptr;
};

/// A gate for each context that there is.
class Gates {
 public:
  /// Of the current context; null where there can be none.
  Gate* here(const Driver& driver);
  /// Before a context goes.
  void end(const Driver& driver);

 private:
  std::map<Context, std::unique_ptr<Gate>> known_;
};

}  // namespace isthmus::observer
