#include "common/gpu/exchange.hpp"

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif
#if defined(MPIX_HAVE_STREAM) && __has_include(<isthmus/stream.hpp>)
#include <isthmus/stream.hpp>
#define APPLICATION_HAS_STREAMS 1
#endif

namespace apps::gpu {
namespace {

constexpr std::size_t alignment = 256;
constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

void demand(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw std::runtime_error(std::string(what) + ": " + text.data());
}

class SyncExchange final : public Exchange {
 public:
  SyncExchange(const Engine& engine, std::vector<Route> routes, MPI_Comm comm, int self)
      : Exchange(engine, std::move(routes), self, 1), comm_(comm), requests_(2 * routes_.size()) {}

  void post() override {
    engine_.wait();
    int count = 0;
    for (std::size_t i = 0; i < routes_.size(); ++i)
      if (!is_self(routes_[i]))
        MPI_Irecv(incoming(i), static_cast<int>(routes_[i].bytes_in), MPI_BYTE, routes_[i].rank,
                  routes_[i].tag_in, comm_, &requests_[static_cast<std::size_t>(count++)]);
    for (std::size_t i = 0; i < routes_.size(); ++i)
      if (!is_self(routes_[i]))
        MPI_Isend(outgoing(i), static_cast<int>(routes_[i].bytes_out), MPI_BYTE, routes_[i].rank,
                  routes_[i].tag_out, comm_, &requests_[static_cast<std::size_t>(count++)]);
    count_ = count;
    copy_to_self();
  }
  void finish() override { MPI_Waitall(count_, requests_.data(), MPI_STATUSES_IGNORE); }

 private:
  MPI_Comm comm_;
  std::vector<MPI_Request> requests_;
  int count_ = 0;
};

#ifdef APPLICATION_HAS_STREAMS
Stream stream_of(const Engine& engine) {
  return engine.device().stream();
}

// By calls of MPI that are enqueued.
class EnqueuedExchange final : public Exchange {
 public:
  EnqueuedExchange(const Engine& engine, std::vector<Route> routes, MPI_Comm comm, int self)
      : Exchange(engine, std::move(routes), self, 1), comm_(comm), requests_(2 * routes_.size()) {}

  void post() override {
    int count = 0;
    for (std::size_t i = 0; i < routes_.size(); ++i)
      if (!is_self(routes_[i]))
        demand(
            MPIX_Irecv_enqueue(incoming(i), static_cast<int>(routes_[i].bytes_in), MPI_BYTE, routes_[i].rank,
                               routes_[i].tag_in, comm_, &requests_[static_cast<std::size_t>(count++)]),
            "enqueue a receive");
    for (std::size_t i = 0; i < routes_.size(); ++i)
      if (!is_self(routes_[i]))
        demand(
            MPIX_Isend_enqueue(outgoing(i), static_cast<int>(routes_[i].bytes_out), MPI_BYTE, routes_[i].rank,
                               routes_[i].tag_out, comm_, &requests_[static_cast<std::size_t>(count++)]),
            "enqueue a send");
    count_ = count;
    copy_to_self();
  }
  void finish() override {
    if (count_ > 0)
      demand(MPIX_Waitall_enqueue(count_, requests_.data(), MPI_STATUSES_IGNORE), "enqueue a wait");
  }

 private:
  MPI_Comm comm_;
  std::vector<MPI_Request> requests_;
  int count_ = 0;
};

// By puts that are prepared. There are two places for what comes, in turn. So nobody has to say that one may
// be written to: the put of turn t + 2 comes after the other's message of turn t + 1, which it has sent after
// it has read that of turn t.
class PreparedExchange final : public Exchange {
 public:
  // `word`: the first of 2 for each route.
  PreparedExchange(const Engine& engine, std::vector<Route> routes, MPI_Comm comm, int self,
                   const isthmus::prepared::Port& port, std::uint32_t word)
      : Exchange(engine, std::move(routes), self, turn_count),
        port_(port),
        share_(port, memory_.data(), memory_.bytes()),
        word_(word) {
    struct Place {
      std::uint64_t offset, turn_bytes, word;
    };
    std::vector<Place> here(routes_.size()), there(routes_.size());
    std::vector<MPI_Request> requests;
    for (std::size_t i = 0; i < routes_.size(); ++i) {
      const Route& route = routes_[i];
      if (is_self(route)) continue;
      here[i] = {in_[i], inward_bytes_, word_ + turn_count * i};
      MPI_Irecv(&there[i], sizeof(Place), MPI_BYTE, route.rank, route.tag_out, comm,
                &requests.emplace_back());
      MPI_Isend(&here[i], sizeof(Place), MPI_BYTE, route.rank, route.tag_in, comm, &requests.emplace_back());
    }
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    for (std::size_t turn = 0; turn < turn_count; ++turn)
      for (std::size_t i = 0; i < routes_.size(); ++i) {
        if (is_self(routes_[i])) continue;
        const auto word_there = static_cast<std::uint32_t>(there[i].word + turn);
        puts_.push_back(isthmus::prepared::put(share_, out_[i], share_, routes_[i].rank,
                                               there[i].offset + turn * there[i].turn_bytes,
                                               routes_[i].bytes_out, {.word = word_there}));
        batches_.at(turn).push_back(puts_.back().get());
      }
  }
  ~PreparedExchange() override { engine_.wait(); }  // before the puts and the share go

  void post() override {
    ++turn_;
    const auto& batch = batches_.at(turn_ % turn_count);
    if (!batch.empty()) demand_prepared(isthmus_stream_post(batch.data(), batch.size(), stream()));
    copy_to_self();
  }
  void finish() override {
    arriving_.clear();
    for (std::size_t i = 0; i < routes_.size(); ++i)
      if (!is_self(routes_[i]))
        arriving_.push_back(static_cast<std::uint32_t>(word_ + turn_count * i + turn_ % turn_count));
    port_.take_all(arriving_, 1, stream());
  }

  static constexpr std::size_t turn_count = 2;

 private:
  [[nodiscard]] Stream stream() const { return stream_of(engine_); }
  static void demand_prepared(int code) { isthmus::prepared::detail::check(code); }

  const isthmus::prepared::Port& port_;
  isthmus::prepared::Share share_;
  std::uint32_t word_;
  std::vector<isthmus::prepared::Descriptor> puts_;
  std::array<std::vector<isthmus_stream_descriptor*>, turn_count> batches_;
  std::vector<std::uint32_t> arriving_;  // words
};
#endif

}  // namespace

Exchange::Exchange(const Engine& engine, std::vector<Route> routes, int self, std::size_t turns)
    : engine_(engine), routes_(std::move(routes)), self_(self), turns_(turns), memory_(engine, lay_out()) {}

Exchange::~Exchange() = default;

std::size_t Exchange::lay_out() {
  std::size_t at = 0;
  for (const Route& route : routes_) {
    out_.push_back(at);
    at += aligned(route.bytes_out);
  }
  const std::size_t inward = at;
  for (const Route& route : routes_) {
    in_.push_back(at);
    at += aligned(route.bytes_in);
  }
  inward_bytes_ = at - inward;
  return inward + turns_ * inward_bytes_;
}

void Exchange::copy_to_self() const {
  for (std::size_t from = 0; from < routes_.size(); ++from)
    for (std::size_t to = 0; to < routes_.size(); ++to)
      if (is_self(routes_[from]) && is_self(routes_[to]) && routes_[from].tag_out == routes_[to].tag_in)
        engine_.copy(incoming(to), outgoing(from), routes_[from].bytes_out);
}

#ifdef APPLICATION_HAS_STREAMS
// A stream's ways to other processes; one of the two is there.
struct Communication::OnStream {
  static constexpr std::uint32_t words = 4096;

  OnStream(const Engine& engine, StreamWay way, MPI_Comm parent) {
    if (way == StreamWay::prepared) {
      port = std::make_unique<isthmus::prepared::Port>(parent, words, isthmus::prepared::WordsOf::streams);
      return;
    }
    Stream cuda_stream = stream_of(engine);
    MPI_Info info = MPI_INFO_NULL;
    MPI_Info_create(&info);
    MPI_Info_set(info, "type", "cudaStream_t");
    MPIX_Info_set_hex(info, "value", &cuda_stream, static_cast<int>(sizeof(Stream)));
    const int code = MPIX_Stream_create(info, &stream);
    MPI_Info_free(&info);
    demand(code, "messages in the order of the GPU's stream");
    demand(MPIX_Stream_comm_create(parent, stream, &comm), "a communicator with the GPU's stream");
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  }
  OnStream(const OnStream&) = delete;
  OnStream& operator=(const OnStream&) = delete;
  ~OnStream() {
    if (comm != MPI_COMM_NULL) MPI_Comm_free(&comm);
    if (stream != MPIX_STREAM_NULL) MPIX_Stream_free(&stream);
  }

  std::unique_ptr<isthmus::prepared::Port> port;
  std::uint32_t next_word = 0;
  MPIX_Stream stream = MPIX_STREAM_NULL;
  MPI_Comm comm = MPI_COMM_NULL;
};
#else
struct Communication::OnStream {};
#endif

Communication::Communication(const Engine& engine, Form form, [[maybe_unused]] StreamWay way, MPI_Comm comm)
    : engine_(engine), form_(form), comm_(comm) {
  if (form == Form::sync) return;
  if (!engine.on_gpu())
    throw std::runtime_error("the form '" + name_of(form) + "' needs a GPU: use the form 'sync' on the host");
#ifdef APPLICATION_HAS_STREAMS
  on_stream_ = std::make_unique<OnStream>(engine, way, comm);
#else
  throw std::runtime_error("the form '" + name_of(form) +
                           "' needs an MPI with <mpi-ext.h> and <isthmus/stream.hpp>, as Isthmus has them");
#endif
}

Communication::~Communication() = default;

std::unique_ptr<Exchange> Communication::exchange(std::vector<Route> routes) {
  int self = 0;
  MPI_Comm_rank(comm_, &self);
  if (form_ == Form::sync) return std::make_unique<SyncExchange>(engine_, std::move(routes), comm_, self);
#ifdef APPLICATION_HAS_STREAMS
  if (on_stream_->port) {
    const std::uint32_t word = on_stream_->next_word;
    on_stream_->next_word += static_cast<std::uint32_t>(PreparedExchange::turn_count * routes.size());
    if (on_stream_->next_word > OnStream::words)
      throw std::runtime_error(
          "there are more messages than words to tell of them: use fewer levels or '--by mpi'");
    return std::make_unique<PreparedExchange>(engine_, std::move(routes), comm_, self, *on_stream_->port,
                                              word);
  }
  return std::make_unique<EnqueuedExchange>(engine_, std::move(routes), on_stream_->comm, self);
#else
  return nullptr;  // there is no such object: the constructor has thrown
#endif
}

void Communication::check() const {
#ifdef APPLICATION_HAS_STREAMS
  if (!on_stream_) return;
  if (on_stream_->port) return on_stream_->port->check();
  demand(MPIX_Stream_progress(on_stream_->stream), "a message in the order of the stream");
#endif
}

}  // namespace apps::gpu
