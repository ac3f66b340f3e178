#include "channel.hpp"

#include <algorithm>
#include <cstring>

#include "job.hpp"

namespace isthmus::python {
namespace {

/// Longer buffers are messages of their own, straight from memory to memory.
constexpr std::size_t longest_inline = 4096;
constexpr std::size_t frame_capacity = 2 * longest_inline + 8 * most_buffers + 64;
/// How long a receive waits by itself before it lets others run: a turn of asyncio's loop costs 3 us, and a
/// message that comes meanwhile needs none.
constexpr std::uint64_t microseconds_before_others = 20;

std::string error_text(int code) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  return text;
}
void need(int code, const char* what) {
  if (code != MPI_SUCCESS) throw std::runtime_error(std::string(what) + ": " + error_text(code));
}

/// Gives a future its result, if it still waits.
void resolve(nb::handle future, nb::handle value) {
  if (!nb::cast<bool>(future.attr("done")())) future.attr("set_result")(value);
}
void fail(nb::handle future, nb::handle exception) {
  if (!nb::cast<bool>(future.attr("done")())) future.attr("set_exception")(exception);
}

nb::object runtime_error(const std::string& text) {
  return own(PyObject_CallFunction(PyExc_RuntimeError, "s", text.c_str()));
}
nb::object value_error(const std::string& text) {
  return own(PyObject_CallFunction(PyExc_ValueError, "s", text.c_str()));
}

/// What a receive that is complete has brought. Throws what unpickling throws.
nb::object value_of(Transfer& transfer) {
  if (transfer.result.is_valid()) return transfer.result;
  const Frame& frame = transfer.frame;
  const std::byte* const body =
      frame.body.is_apart ? transfer.body.data() : transfer.bytes.data() + frame.body.offset;
  const Arguments arguments = make_arguments(frame, body, std::move(transfer.parts));
  if (PyTuple_Size(arguments.positional.ptr()) == 1)
    return nb::borrow(PyTuple_GetItem(arguments.positional.ptr(), 0));
  return arguments.positional;
}

void end(Transfer& transfer) {
  if (!transfer.future.is_valid()) return;
  const nb::object future = std::move(transfer.future);
  try {
    if (!transfer.failure.empty())
      fail(future, value_error(transfer.failure));
    else
      resolve(future, value_of(transfer));
  } catch (nb::python_error& error) {
    error.restore();
    fail(future, take_error());
  }
}

nb::object new_bytearray(std::size_t bytes) {
  return own(PyByteArray_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(bytes)));
}

}  // namespace

// --- all channels of the process

Channels::Channels() {
  need(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "channels");
  need(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "channels");
}
Channels::~Channels() {
  close_all();
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized == 0) MPI_Comm_free(&comm_);
}

void Channels::watch(MPI_Request request, std::shared_ptr<Transfer> transfer) {
  requests_.push_back(request);
  watched_.push_back({.transfer = std::move(transfer)});
}
void Channels::watch(MPI_Request request, Endpoint& endpoint) {
  requests_.push_back(request);
  watched_.push_back({.endpoint = &endpoint});
}
void Channels::forget(const Endpoint& endpoint) {
  for (std::size_t i = watched_.size(); i-- > 0;)
    if (watched_[i].endpoint == &endpoint) {
      requests_.erase(requests_.begin() + static_cast<std::ptrdiff_t>(i));
      watched_.erase(watched_.begin() + static_cast<std::ptrdiff_t>(i));
    }
}

int Channels::new_tag() {
  if (!free_tags_.empty()) {
    const int tag = free_tags_.back();
    free_tags_.pop_back();
    return tag;
  }
  return next_tag_++;
}

void Channels::poll() {
  if (requests_.empty()) return;
  indices_.resize(requests_.size());
  statuses_.resize(requests_.size());
  int count = 0;
  const int code = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, indices_.data(),
                                statuses_.data());
  if (count == MPI_UNDEFINED || count == 0) return;
  std::vector<Watched> done;
  std::vector<MPI_Status> how(statuses_.begin(), statuses_.begin() + count);
  for (int i = 0; i < count; ++i) {
    if (code != MPI_ERR_IN_STATUS) how[static_cast<std::size_t>(i)].MPI_ERROR = code;
    const auto place = static_cast<std::size_t>(indices_[static_cast<std::size_t>(i)]);
    done.push_back(std::exchange(watched_[place], {}));
  }
  std::erase_if(watched_, [](const Watched& each) { return !each.transfer && !each.endpoint; });
  std::erase(requests_, MPI_REQUEST_NULL);
  for (std::size_t i = 0; i < done.size(); ++i) {
    if (done[i].endpoint) {
      done[i].endpoint->arrived(how[i]);
      continue;
    }
    Transfer& transfer = *done[i].transfer;
    if (how[i].MPI_ERROR != MPI_SUCCESS && transfer.failure.empty())
      transfer.failure = "a message of a channel failed: " + error_text(how[i].MPI_ERROR);
    if (--transfer.missing == 0) end(transfer);
  }
}

void Channels::close_all() {
  for (Endpoint* const each : std::vector<Endpoint*>(endpoints_))
    each->close();
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    MPI_Cancel(&requests_[i]);
    MPI_Request_free(&requests_[i]);
    // MPI may still read the memory of a send: it is nobody's from now on.
    new std::shared_ptr<Transfer>(std::move(watched_[i].transfer));
  }
  requests_.clear();
  watched_.clear();
}

// --- one end

Endpoint::Endpoint() : frame_(frame_capacity) {
  Channels& all = Job::get().channels();
  tag_ = all.new_tag();
  all.endpoints_.push_back(this);
}
Endpoint::~Endpoint() {
  close();
}

void Endpoint::close() {
  if (is_closed_) return;
  is_closed_ = true;
  Job* const job = Job::now();
  if (!job) return;
  Channels& all = job->channels();
  all.forget(*this);
  std::erase(all.endpoints_, this);
  if (next_ != MPI_REQUEST_NULL) {
    MPI_Cancel(&next_);
    MPI_Wait(&next_, MPI_STATUS_IGNORE);
  }
  // Messages that still come for this tag must meet no other channel: the tag is not given back.
  if (peer_ < 0) all.give_back(tag_);
  if (waiting_.is_valid()) fail(waiting_, runtime_error("the channel has been closed"));
  waiting_ = nb::object();
  for (const auto& each : backlog_) {
    each->failure = "the channel has been closed";
    end(*each);
  }
  backlog_.clear();
}

void Endpoint::connect(int rank, int tag) {
  Job& job = Job::get();
  if (rank < 0 || static_cast<std::uint32_t>(rank) >= isthmus_chare_size(job.runtime()) || tag < 1)
    throw nb::value_error("the other end of a channel is nowhere");
  if (peer_ >= 0) throw nb::value_error("a channel is connected a second time");
  peer_ = rank;
  peer_tag_ = tag;
  post();
  for (const auto& each : std::exchange(backlog_, {})) {
    start_now(each);
    if (each->missing == 0) end(*each);
  }
}

void Endpoint::post() {
  need(MPI_Irecv(frame_.data(), static_cast<int>(frame_.size()), MPI_BYTE, peer_, tag_,
                 Job::get().channels().comm(), &next_),
       "a channel");
  if (waiting_.is_valid()) wait(waiting_);
}

void Endpoint::start_now(const std::shared_ptr<Transfer>& transfer) {
  Channels& all = Job::get().channels();
  std::vector<MPI_Request> requests;
  const auto add = [&](const void* data, std::size_t bytes) {
    MPI_Request request = MPI_REQUEST_NULL;
    need(MPI_Isend_c(data, static_cast<MPI_Count>(bytes), MPI_BYTE, peer_, peer_tag_, all.comm(), &request),
         "a channel's send");
    requests.push_back(request);
  };
  add(transfer->bytes.data(), transfer->bytes.size());
  for (const Encoded::Piece& piece : transfer->encoded.apart())
    add(piece.data, piece.bytes);
  transfer->missing = 0;
  for (MPI_Request& request : requests) {
    int done = 0;
    need(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "a channel's send");
    if (done != 0) continue;
    ++transfer->missing;
    all.watch(request, transfer);
  }
}

nb::object Endpoint::start(Encoded encoded, bool always_apart, nb::handle new_future) {
  if (is_closed_) throw std::runtime_error("the channel has been closed");
  encoded.put_apart(longest_inline, always_apart);
  auto transfer = std::make_shared<Transfer>();
  transfer->bytes.resize(encoded.size());
  encoded.write(transfer->bytes.data());
  transfer->encoded = std::move(encoded);
  transfer->result = nb::none();
  if (peer_ >= 0) {
    start_now(transfer);
    if (transfer->missing == 0) return nb::none();
  } else {
    backlog_.push_back(transfer);
  }
  transfer->future = new_future();
  return transfer->future;
}

nb::object Endpoint::send(nb::handle arguments, nb::handle new_future) {
  return start(Encoded::of(arguments, {}), false, new_future);
}

nb::object Endpoint::send_array(const Memory& memory, const std::vector<std::uint64_t>& extents, int family,
                                nb::object owner, nb::handle new_future) {
  ArrayHead head{};
  if (memory.element.size() >= sizeof head.element || item_size(memory.element.c_str()) == 0)
    throw nb::value_error(("an array with elements that no channel knows: " + memory.element).c_str());
  std::memcpy(head.element, memory.element.c_str(), memory.element.size());
  head.family = static_cast<std::uint8_t>(family);
  head.dimensions = static_cast<std::uint8_t>(extents.size());
  BufferView view(std::move(owner), reinterpret_cast<void*>(memory.address), memory.bytes);
  return start(Encoded::of_array(head, extents, std::move(view)), memory.is_gpu, new_future);
}

bool Endpoint::look(nb::handle ready) {
  if (!failure_.empty()) throw std::runtime_error(failure_);
  if (has_frame_) return true;
  if (is_closed_) throw std::runtime_error("the channel has been closed");
  if (next_ == MPI_REQUEST_NULL || is_watched_) return false;
  isthmus_chare_runtime* const runtime = Job::get().runtime();
  int done = 0;
  MPI_Status status;
  int code = MPI_Test(&next_, &done, &status);
  // What comes from this process itself can only be sent by others of it.
  const bool may_come = static_cast<std::uint32_t>(peer_) != isthmus_chare_rank(runtime);
  if (done == 0 && code == MPI_SUCCESS && may_come && PyObject_Size(ready.ptr()) == 0 &&
      isthmus_chare_sleeps(runtime) == 0 && isthmus_chare_work(runtime, 0, 0) == ISTHMUS_CHARE_IDLE) {
    {
      const nb::gil_scoped_release released;
      isthmus_chare_flush(runtime);
      isthmus_chare_wait(runtime, microseconds_before_others, &next_, 1);
    }
    code = MPI_Test(&next_, &done, &status);
  }
  if (done == 0 && code == MPI_SUCCESS) return false;
  status.MPI_ERROR = code;
  arrived(status);
  if (!failure_.empty()) throw std::runtime_error(failure_);
  return true;
}

void Endpoint::wait(nb::object future) {
  waiting_ = std::move(future);
  if (next_ == MPI_REQUEST_NULL || is_watched_) return;
  is_watched_ = true;
  Job::get().channels().watch(next_, *this);
}

void Endpoint::arrived(const MPI_Status& status) {
  is_watched_ = false;
  next_ = MPI_REQUEST_NULL;
  has_frame_ = true;
  MPI_Count bytes = 0;
  if (status.MPI_ERROR != MPI_SUCCESS)
    failure_ = "a channel's message failed: " + error_text(status.MPI_ERROR);
  else
    MPI_Get_elements_c(&status, MPI_BYTE, &bytes);
  frame_bytes_ = static_cast<std::size_t>(bytes);
  if (!waiting_.is_valid()) return;
  const nb::object future = std::move(waiting_);
  waiting_ = nb::object();
  resolve(future, nb::none());
}

nb::object Endpoint::take(nb::handle into, nb::handle new_array, nb::handle new_future) {
  if (!has_frame_) throw std::runtime_error("there is no message to take");
  auto transfer = std::make_shared<Transfer>();
  Frame& frame = transfer->frame;
  std::string why = read_frame(frame_.data(), frame_bytes_, frame);
  ArrayShape shape;
  if (why.empty() && frame.format == Format::array) {
    if (frame.body.is_apart) why = "an array whose description is long";
    if (why.empty())
      why = read_array(frame_.data() + frame.body.offset, frame.body.bytes, frame.buffers[0].bytes, shape);
  }
  if (!why.empty()) {
    failure_ =
        "a channel cannot go on: rank " + std::to_string(peer_) + " has sent what is no message: " + why;
    throw std::runtime_error(failure_);
  }
  has_frame_ = false;
  transfer->bytes = std::exchange(frame_, std::vector<std::byte>(frame_capacity));

  // Where the data goes.
  const bool is_array = frame.format == Format::array;
  nb::object target;  // (array, Memory)
  if (!into.is_none()) {
    const auto& memory = nb::cast<const Memory&>(into[1]);
    if (!is_array)
      transfer->failure = "what has come is no array: nothing was received into it";
    else if (memory.bytes != frame.buffers[0].bytes || memory.element != shape.head.element)
      transfer->failure = "an array of " + std::to_string(frame.buffers[0].bytes) + " bytes of '" +
                          shape.head.element + "' has come, and was to be received into " +
                          std::to_string(memory.bytes) + " bytes of '" + memory.element + "'";
    else
      target = nb::borrow(into);
  } else if (is_array && shape.head.family != family_numpy) {
    try {
      target = new_array(shape.head.family, std::string(shape.head.element), shape.extents);
    } catch (nb::python_error& error) {
      transfer->failure = error.what();
    }
  }

  Channels& all = Job::get().channels();
  std::vector<MPI_Request> requests;
  const auto receive = [&](void* to, std::size_t bytes) {
    MPI_Request request = MPI_REQUEST_NULL;
    need(MPI_Irecv_c(to, static_cast<MPI_Count>(bytes), MPI_BYTE, peer_, tag_, all.comm(), &request),
         "a channel's receive");
    requests.push_back(request);
  };
  if (frame.body.is_apart) {
    transfer->body.resize(frame.body.bytes);
    receive(transfer->body.data(), frame.body.bytes);
  }
  for (const Frame::Part& part : frame.buffers) {
    const std::byte* const inside = transfer->bytes.data() + part.offset;
    if (target.is_valid()) {
      const auto& memory = nb::cast<const Memory&>(target[1]);
      auto* const to = reinterpret_cast<void*>(memory.address);
      if (part.is_apart)
        receive(to, part.bytes);
      else if (!memory.is_gpu)
        std::memcpy(to, inside, part.bytes);
      else  // the library knows how bytes come into memory of a GPU
        need(MPI_Sendrecv(inside, static_cast<int>(part.bytes), MPI_BYTE, 0, 0, to,
                          static_cast<int>(part.bytes), MPI_BYTE, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE),
             "a channel's receive");
      transfer->result = nb::object(target[0]);
      continue;
    }
    nb::object memory = new_bytearray(part.bytes);
    char* const to = PyByteArray_AsString(memory.ptr());
    if (part.is_apart)
      receive(to, part.bytes);
    else if (part.bytes != 0)
      std::memcpy(to, inside, part.bytes);
    transfer->parts.push_back(std::move(memory));
  }
  post();

  for (MPI_Request& request : requests) {
    int done = 0;
    if (const int code = MPI_Test(&request, &done, MPI_STATUS_IGNORE); code != MPI_SUCCESS)
      transfer->failure = "a message of a channel failed: " + error_text(code);
    if (done != 0 || request == MPI_REQUEST_NULL) continue;
    ++transfer->missing;
    all.watch(request, transfer);
  }
  if (transfer->missing == 0) {
    if (!transfer->failure.empty()) throw nb::value_error(transfer->failure.c_str());
    return nb::make_tuple(true, value_of(*transfer));
  }
  transfer->future = new_future();
  return nb::make_tuple(false, transfer->future);
}

}  // namespace isthmus::python
