// What the library calls: entries, constructors, the writing of chares, reductions. No exception leaves
// these.
#include <array>
#include <cstring>
#include <new>
#include <optional>
#include <span>

#include "channel.hpp"
#include "job.hpp"

namespace isthmus::python {
namespace {

/// Arrays of GPUs of an invocation, and what is said when they have been sent.
struct Apart {
  SplitArguments parts;
  isthmus_chare_callback sent{};
  bool has_sent = false;
  /// Within a process the entry gets the arrays themselves. Else its post entry says where they are copied.
  bool is_given = true;

  /// The owners are the caller's.
  void fill(isthmus_chare_buffer* to) const {
    for (const ArrayArgument& each : parts.arrays) {
      *to = {.address = each.address, .bytes = each.bytes, .owner = nullptr, .release = nullptr, .sent = nullptr};
      if (has_sent) to->sent = &sent;
      if (is_given) {
        to->owner = nb::object(each.owner).release().ptr();
        to->release = [](void* owner) {
          const nb::gil_scoped_acquire held;
          Py_DECREF(static_cast<PyObject*>(owner));
        };
      }
      ++to;
    }
  }
};

/// Arguments within this process: the values themselves.
struct Value {
  PyObject* positional;
  PyObject* keywords;  ///< or null
  Reply reply;
  std::unique_ptr<EncodedArguments> encoded;  ///< between `measure` and `write`
  std::unique_ptr<Apart> apart;               ///< where there are arrays of GPUs
};

isthmus_chare_runtime* runtime() {
  return Job::get().runtime();
}

/// No Python exception passes through the library: it ends the job, with its traceback.
template <class Body>
auto guarded(Body&& body) noexcept {
  try {
    return body();
  } catch (nb::python_error& error) {
    error.restore();
    end_job(take_error_text());
  } catch (const std::exception& error) {
    end_job(error.what());
  }
}

/// Keeps the message that is being delivered, of which `bytes` bytes are at `data`; nothing where it cannot
/// be kept.
nb::object keeper_of(std::byte* data, std::size_t bytes) {
  void* const kept = isthmus_chare_keep(runtime());
  if (!kept) return {};
  return nb::cast(new KeptMessage(kept, data, bytes), nb::rv_policy::take_ownership);
}

/// Long arguments stay where they are, for as long as the arrays in them live.
constexpr std::size_t shortest_kept = 32768;

Arguments read(void* from, std::size_t bytes, Frame& frame) {
  auto* const data = static_cast<std::byte*>(from);
  nb::object keeper;
  if (bytes >= shortest_kept && read_frame(data, bytes, frame).empty() && !frame.buffers.empty())
    keeper = keeper_of(data, bytes);
  return decode(data, bytes, frame, keeper);
}

nb::object call(nb::handle function, nb::handle first, const Arguments& arguments) {
  const Py_ssize_t count = PyTuple_Size(arguments.positional.ptr());
  if (count <= 6 && !arguments.keywords.is_valid()) {
    PyObject* all[7];
    std::size_t at = 0;
    if (first.is_valid()) all[at++] = first.ptr();
    for (Py_ssize_t i = 0; i < count; ++i)
      all[at++] = PyTuple_GetItem(arguments.positional.ptr(), i);
    return own(PyObject_Vectorcall(function.ptr(), all, at, nullptr));
  }
  nb::object all = arguments.positional;
  if (first.is_valid()) {
    all = own(PyTuple_New(count + 1));
    PyTuple_SetItem(all.ptr(), 0, nb::borrow(first).release().ptr());
    for (Py_ssize_t i = 0; i < count; ++i)
      PyTuple_SetItem(all.ptr(), i + 1,
                      nb::borrow(PyTuple_GetItem(arguments.positional.ptr(), i)).release().ptr());
  }
  return own(PyObject_Call(function.ptr(), all.ptr(), arguments.keywords.ptr()));
}

bool is_coroutine(nb::handle object) {
  static PyObject* const type =
      nb::object(nb::module_::import_("types").attr("CoroutineType")).release().ptr();
  return reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())) == type;
}

std::uint64_t index_of(const Chare* chare) {
  if (!chare) return isthmus_chare_rank(runtime());
  const auto* const element = nb::inst_ptr<Element>(chare->element);
  return element->element ? isthmus_chare_index_of(element->element).low : 0;
}

/// Calls an entry or a function; what comes of it goes to who waits for it.
void run(const Item& item, const Chare* chare, const Arguments& arguments, const Reply& reply) {
  const nb::object instance = chare ? chare->instance : nb::object();
  try {
    const nb::object result = call(item.object, instance, arguments);
    if (is_coroutine(result)) {
      Job::get().hooks().start_task(
          result, instance.is_valid() ? instance : nb::none(), reply.number, reply.rank,
          reply.wants_index != 0 ? nb::object(nb::int_(index_of(chare))) : nb::none(), item.name);
    } else if (reply.number != 0) {
      Job::get().reply(reply, nb::make_tuple(result), false, index_of(chare));
    }
  } catch (nb::python_error& error) {
    error.restore();
    if (reply.number == 0) end_job(take_error_text());
    Job::get().reply_error(reply, take_error(), index_of(chare));
  }
}

void invoke(void* object, void* data, std::size_t bytes, int packed) {
  guarded([&] {
    const Item& item = *reinterpret_cast<const Item*>(isthmus_chare_current(runtime()));
    const auto* const chare = static_cast<const Chare*>(object);
    if (packed == 0) {
      auto& value = *static_cast<Value*>(data);
      const Arguments arguments{nb::borrow(value.positional),
                                value.keywords ? nb::borrow(value.keywords) : nb::object()};
      run(item, chare, arguments, value.reply);
      return;
    }
    Frame frame;
    Arguments arguments;
    try {
      arguments = read(data, bytes, frame);
    } catch (nb::python_error& error) {
      // Who waits is told what cannot be unpickled here.
      if (frame.reply.number == 0 || frame.reply.rank >= isthmus_chare_size(runtime())) throw;
      error.restore();
      return Job::get().reply_error(frame.reply, take_error(), index_of(chare));
    }
    if (frame.reply.rank >= isthmus_chare_size(runtime()))
      end_job("a message wants its reply in a process that does not exist");
    run(item, chare, arguments, frame.reply);
  });
}

// --- entries with arrays of GPUs

std::uint32_t sources(void* data, isthmus_chare_buffer* to) {
  const auto& value = *static_cast<const Value*>(data);
  if (!value.apart) return 0;
  if (to) value.apart->fill(to);
  return static_cast<std::uint32_t>(value.apart->parts.arrays.size());
}

/// Where the arrays go, as the post entry says, or to new ones: the arrays, which `buffers` name.
std::vector<nb::object> destinations(const Item& item, const Chare& chare, const Arguments& others,
                                     const std::vector<ArrayArgument>& arrays, isthmus_chare_buffer* buffers) {
  const Hooks& hooks = Job::get().hooks();
  const bool has_post = !item.post.is_none();
  std::vector<nb::object> coming;
  for (const ArrayArgument& each : arrays)
    coming.push_back((has_post ? hooks.coming : hooks.new_array)(
        each.shape.head.family, std::string(each.shape.head.element), each.shape.extents));
  if (has_post) {
    const nb::object result = call(item.post, chare.instance, join(others, arrays, coming));
    if (is_coroutine(result)) {
      result.attr("close")();
      throw nb::type_error("a post entry cannot be a coroutine: the data waits for it");
    }
  }
  std::vector<nb::object> values;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const nb::object said = has_post ? coming[i].attr("_destination")() : coming[i];
    const auto& memory = nb::cast<const Memory&>(said[1]);
    buffers[i].address = reinterpret_cast<void*>(memory.address);
    buffers[i].bytes = memory.bytes;
    values.push_back(nb::borrow(said[0]));
  }
  return values;
}

/// The data comes all the same, and is dropped.
void refuse(Arriving& arriving, nb::object error, std::span<const std::uint64_t> sizes,
            isthmus_chare_buffer* buffers) {
  arriving.error = std::move(error);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    arriving.unwanted.push_back(std::make_unique_for_overwrite<std::byte[]>(sizes[i] + 1));
    buffers[i].address = arriving.unwanted.back().get();
    buffers[i].bytes = sizes[i];
  }
}

void post(void* object, void* data, std::size_t bytes, int packed, isthmus_chare_buffer* buffers,
          std::uint32_t count) {
  guarded([&] {
    const Item& item = *reinterpret_cast<const Item*>(isthmus_chare_current(runtime()));
    const auto& chare = *static_cast<const Chare*>(object);
    std::vector<std::uint64_t> sizes;
    for (std::uint32_t i = 0; i < count; ++i)
      sizes.push_back(buffers[i].bytes);
    Arriving arriving;
    std::vector<ArrayArgument> read_arrays;
    const std::vector<ArrayArgument>* arrays = &read_arrays;
    Arguments others;
    Frame frame;
    try {
      if (packed != 0) {
        const auto* const begin = static_cast<const std::byte*>(data);
        std::size_t front = 0;
        if (const std::string why = read_section(begin, bytes, sizes, read_arrays, front); !why.empty())
          end_job("a message with arrays is not one: " + why);
        others = decode(begin + front, bytes - front, frame, {});
        arriving.reply = frame.reply;
      } else {
        const auto& value = *static_cast<const Value*>(data);
        arrays = &value.apart->parts.arrays;
        others = {value.apart->parts.positional, value.apart->parts.keywords};
        arriving.reply = value.reply;
      }
      const std::vector<nb::object> values = destinations(item, chare, others, *arrays, buffers);
      arriving.arguments = join(others, *arrays, values);
    } catch (nb::python_error& error) {
      arriving.reply = packed != 0 ? frame.reply : arriving.reply;
      error.restore();
      refuse(arriving, take_error(), sizes, buffers);
    } catch (const nb::builtin_exception& error) {
      // Of ours: a frame that is none, or an entry that is used wrongly.
      const bool is_type = error.type() == nb::exception_type::type_error;
      PyErr_SetString(is_type ? PyExc_TypeError : PyExc_ValueError, error.what());
      refuse(arriving, take_error(), sizes, buffers);
    }
    if (arriving.reply.rank >= isthmus_chare_size(runtime()))
      end_job("a message wants its reply in a process that does not exist");
    Job::get().arriving().insert_or_assign(data, std::move(arriving));
  });
}

void invoke_with(void* object, void* data, std::size_t, int, const isthmus_chare_buffer* buffers,
                 std::uint32_t count) {
  guarded([&] {
    const Item& item = *reinterpret_cast<const Item*>(isthmus_chare_current(runtime()));
    const auto* const chare = static_cast<const Chare*>(object);
    const auto waiting = Job::get().arriving().extract(data);
    if (waiting.empty()) {
      // Within this process, without a post entry: the arrays themselves.
      const auto& value = *static_cast<const Value*>(data);
      for (std::uint32_t i = 0; i < count; ++i)
        if (buffers[i].owner) buffers[i].release(buffers[i].owner);
      const Arguments arguments{nb::borrow(value.positional),
                                value.keywords ? nb::borrow(value.keywords) : nb::object()};
      return run(item, chare, arguments, value.reply);
    }
    const Arriving& arriving = waiting.mapped();
    if (!arriving.error.is_valid()) return run(item, chare, arriving.arguments, arriving.reply);
    if (arriving.reply.number == 0) end_job(text_of(arriving.error));
    Job::get().reply_error(arriving.reply, arriving.error, index_of(chare));
  });
}

void resolve(void*, void* data, std::size_t bytes, int) {
  guarded([&] {
    std::uint64_t number = 0;
    if (bytes < sizeof number) end_job("a reply has " + std::to_string(bytes) + " bytes");
    std::memcpy(&number, data, sizeof number);
    auto* const begin = static_cast<std::byte*>(data) + sizeof number;
    Frame frame;
    nb::object keeper;
    if (bytes >= shortest_kept) keeper = keeper_of(begin, bytes - sizeof number);
    nb::object result;
    bool failed = false;
    try {
      result = decode(begin, bytes - sizeof number, frame, keeper).positional;
      failed = (frame.flags & is_error) != 0;
    } catch (nb::python_error& error) {
      error.restore();
      const nb::object exception = take_error();
      result = nb::make_tuple(exception, text_of(exception), nb::none());
      failed = true;
    }
    Job::get().hooks().resolve(number, result, failed);
  });
}

// Objects are encoded once, when they are measured: a second time might give other bytes. The library writes
// what it has measured, at once.

template <class Object>
Object& changeable(const void* object) {
  return *static_cast<Object*>(const_cast<void*>(object));
}

template <class Object, auto encode>
std::size_t measure(const void* object) {
  return guarded([&] {
    auto& it = changeable<Object>(object);
    it.encoded = encode(it);
    return it.encoded->size();
  });
}
template <class Object>
void write(const void* object, void* to) {
  auto& it = changeable<Object>(object);
  it.encoded->write(to);
  it.encoded.reset();
}

std::unique_ptr<EncodedArguments> encode_value(const Value& value) {
  if (value.apart) return std::make_unique<EncodedArguments>(value.apart->parts, value.reply);
  const SplitArguments all{nb::borrow(value.positional),
                           value.keywords ? nb::borrow(value.keywords) : nb::object(),
                           {}};
  return std::make_unique<EncodedArguments>(all, value.reply);
}
void destroy_value(void* data) {
  auto& value = *static_cast<Value*>(data);
  Py_DECREF(value.positional);
  Py_XDECREF(value.keywords);
  value.~Value();
}

/// A chare's object, without its state.
std::unique_ptr<Chare> new_chare(const Item& type) {
  auto chare = std::make_unique<Chare>();
  chare->element = nb::cast(Element{isthmus_chare_self(runtime())});
  chare->instance = type.object.attr("__new__")(type.object);
  chare->instance.attr("_element") = chare->element;
  return chare;
}

void* construct(const void* from, std::size_t bytes) {
  return guarded([&]() -> void* {
    const auto& constructor = *reinterpret_cast<const Item*>(isthmus_chare_making(runtime()));
    Frame frame;
    const Arguments arguments = decode(static_cast<const std::byte*>(from), bytes, frame, {});
    auto chare = new_chare(*reinterpret_cast<const Item*>(constructor.base.type));
    call(constructor.object, chare->instance, arguments);
    return chare.release();
  });
}

void* come(const void* from, std::size_t bytes) {
  return guarded([&]() -> void* {
    const auto& type = *reinterpret_cast<const Item*>(isthmus_chare_making(runtime()));
    Frame frame;
    const Arguments arguments = decode(static_cast<const std::byte*>(from), bytes, frame, {});
    auto chare = new_chare(type);
    chare->instance.attr("_restore")(*nb::borrow<nb::tuple>(arguments.positional));
    return chare.release();
  });
}
std::unique_ptr<Encoded> encode_chare(const Chare& chare) {
  return std::make_unique<Encoded>(Encoded::of(nb::make_tuple(chare.instance.attr("_state")()), {}));
}
void destroy_chare(void* object) {
  guarded([&] {
    const std::unique_ptr<Chare> chare(static_cast<Chare*>(object));
    chare->instance.attr("_ended")();
    nb::inst_ptr<Element>(chare->element)->element = nullptr;
  });
}

void* make_partial(const void* from, std::size_t bytes) {
  return guarded([&]() -> void* {
    Frame frame;
    const Arguments arguments = decode(static_cast<const std::byte*>(from), bytes, frame, {});
    if (PyTuple_Size(arguments.positional.ptr()) != 1) end_job("a part of a reduction is not one value");
    const auto* const reducer = reinterpret_cast<const Item*>(isthmus_chare_current(runtime()));
    return new Partial{reducer, nb::borrow(PyTuple_GetItem(arguments.positional.ptr(), 0)), {}};
  });
}
void* copy_partial(const void* from) {
  const auto& partial = *static_cast<const Partial*>(from);
  return new Partial{partial.reducer, partial.value, {}};
}
void combine(void* into, const void* from) {
  guarded([&] {
    auto& sum = *static_cast<Partial*>(into);
    sum.value = sum.reducer->object(sum.value, static_cast<const Partial*>(from)->value);
  });
}
std::unique_ptr<Encoded> encode_partial(const Partial& partial) {
  return std::make_unique<Encoded>(Encoded::of(nb::make_tuple(partial.value), {}));
}
void destroy_partial(void* value) {
  delete static_cast<Partial*>(value);
}

}  // namespace

void end_job(const std::string& text) {
  isthmus_chare_fail(Job::get().runtime(), text.c_str(), nullptr);
  __builtin_unreachable();
}

KeptMessage::KeptMessage(void* message, std::byte* at, std::size_t size) noexcept
    : kept(message), data(at), bytes(size), serial(Job::now()->serial()) {}
KeptMessage::~KeptMessage() {
  const Job* const job = Job::now();
  isthmus_chare_release(job && job->serial() == serial ? job->runtime() : nullptr, kept);
}

void fill_item(Item& item) {
  isthmus_chare_item& base = item.base;
  switch (base.kind) {
    case ISTHMUS_CHARE_TYPE:
      base.make = come;
      base.measure = measure<Chare, encode_chare>;
      base.write = write<Chare>;
      base.destroy = destroy_chare;
      return;
    case ISTHMUS_CHARE_CONSTRUCTOR:
      base.make = construct;
      return;
    case ISTHMUS_CHARE_REDUCER:
      base.make = make_partial;
      base.copy = copy_partial;
      base.combine = combine;
      base.measure = measure<Partial, encode_partial>;
      base.write = write<Partial>;
      base.destroy = destroy_partial;
      return;
    case ISTHMUS_CHARE_BALANCER:
      if (item.name.ends_with("greedy"))
        base.invoke = [](void* object, void*, std::size_t, int) {
          isthmus_chare_place_greedily(static_cast<isthmus_chare_balance*>(object));
        };
      else
        base.invoke = [](void* object, void*, std::size_t, int) {
          isthmus_chare_refine(static_cast<isthmus_chare_balance*>(object));
        };
      return;
    default:
      base.invoke = item.object.is_none() ? resolve : invoke;
      base.measure = measure<Value, encode_value>;
      base.write = write<Value>;
      base.destroy = destroy_value;
      if (base.kind != ISTHMUS_CHARE_ENTRY) return;
      base.buffers = ISTHMUS_CHARE_ANY_BUFFERS;
      base.sources = sources;
      base.post = post;
      base.invoke_with = invoke_with;
      return;
  }
}

void Job::invoke(const Proxy& proxy, const Item& item, nb::handle arguments, nb::handle keywords,
                 const Reply& reply, nb::handle sent) {
  const isthmus_chare_target& target = proxy.target;
  const bool is_of_one = target.kind == ISTHMUS_CHARE_TO_ELEMENT;
  // Arrays go apart to one chare alone; elsewhere they are pickled as their class does it.
  SplitArguments parts = is_of_one ? split(arguments, keywords, array_types_, hooks_.array_of)
                                   : SplitArguments{nb::borrow(arguments), nb::borrow(keywords), {}};
  if (parts.keywords.is_valid() && (parts.keywords.is_none() || PyDict_Size(parts.keywords.ptr()) == 0))
    parts.keywords = nb::object();
  isthmus_chare_element* here = nullptr;
  if (is_of_one) here = isthmus_chare_find(runtime_, target.collection, target.index);
  const bool is_here =
      (here && isthmus_chare_object_of(here)) ||
      (target.kind == ISTHMUS_CHARE_TO_FUNCTION && target.rank == isthmus_chare_rank(runtime_));
  const bool has_arrays = !parts.arrays.empty();
  const auto count = static_cast<std::uint32_t>(parts.arrays.size());

  std::unique_ptr<Apart> apart;
  if (has_arrays) {
    apart = std::make_unique<Apart>();
    apart->is_given = !is_here || item.post.is_none();
  }
  std::optional<EncodedArguments> encoded;
  if (!is_here) encoded.emplace(parts, reply);
  if (!sent.is_none() || (apart && !apart->is_given)) {
    const nb::object number = hooks_.hold(sent, count, nb::make_tuple(arguments, keywords));
    if (apart) {
      apart->sent = callback_to_future(nb::cast<std::uint64_t>(number), isthmus_chare_rank(runtime_));
      apart->has_sent = true;
    }
  }
  if (is_here) {
    const nb::object own_keywords = has_arrays && parts.keywords.is_valid() ? nb::borrow(keywords) : parts.keywords;
    if (apart) apart->parts = std::move(parts);
    void* const memory = isthmus_chare_take(runtime_, sizeof(Value));
    new (memory) Value{nb::borrow(arguments).release().ptr(), nb::object(own_keywords).release().ptr(), reply,
                       nullptr, std::move(apart)};
    isthmus_chare_post(runtime_, here, &item.base, memory, proxy.priority);
    return;
  }
  void* to = nullptr;
  if (apart) {
    apart->parts = std::move(parts);
    std::array<isthmus_chare_buffer, ISTHMUS_CHARE_BUFFERS> buffers;
    apart->fill(buffers.data());
    to = isthmus_chare_begin_with(runtime_, &target, &item.base, encoded->size(), proxy.priority,
                                  buffers.data(), count);
  } else {
    to = isthmus_chare_begin(runtime_, &target, &item.base, encoded->size(), proxy.priority);
  }
  encoded->write(to);
  isthmus_chare_send(runtime_);
}

void Job::reply(const Reply& to, nb::handle arguments, bool failed, std::uint64_t index) {
  if (to.rank == isthmus_chare_rank(runtime_) && !failed && to.wants_index == 0)
    return void(hooks_.resolve(to.number, arguments, false));
  nb::object all = nb::borrow(arguments);
  if (to.wants_index != 0) all = nb::borrow(arguments) + nb::make_tuple(index);
  Encoded encoded = Encoded::of(all, {});
  if (failed) encoded.set_error();
  isthmus_chare_target target{};
  target.kind = ISTHMUS_CHARE_TO_FUNCTION;
  target.rank = to.rank;
  auto* const at = static_cast<std::byte*>(
      isthmus_chare_begin(runtime_, &target, &items_[0]->base, sizeof to.number + encoded.size(), 0));
  std::memcpy(at, &to.number, sizeof to.number);
  encoded.write(at + sizeof to.number);
  isthmus_chare_send(runtime_);
}

void Job::reply_error(const Reply& to, nb::handle exception, std::uint64_t index) {
  const std::string text = text_of(exception);
  // A traceback cannot be pickled; its text goes along.
  if (PyException_SetTraceback(exception.ptr(), Py_None) != 0) PyErr_Clear();
  try {
    reply(to, nb::make_tuple(exception, text), true, index);
  } catch (nb::python_error& error) {
    error.restore();
    PyErr_Clear();
    reply(to, nb::make_tuple(nb::none(), text), true, index);
  }
}

}  // namespace isthmus::python
