// The extension module isthmus._core: what the Python part of the package is made of.

#include <mpi.h>

#include <array>

#include "channel.hpp"
#include "gpu.hpp"
#include "job.hpp"

namespace isthmus::python {
namespace {

// --- the memory of a kept message, for memoryview

int kept_get_buffer(PyObject* self, Py_buffer* view, int flags) {
  auto& kept = *nb::inst_ptr<KeptMessage>(self);
  return PyBuffer_FillInfo(view, self, kept.data, static_cast<Py_ssize_t>(kept.bytes), 0, flags);
}
PyType_Slot kept_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(kept_get_buffer)}, {0, nullptr}};

// --- MPI, which mpi4py may have started, or may start later

/// Whether this has started it.
bool begin_mpi() {
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized != 0) return false;
  int provided = 0;
  const nb::gil_scoped_release released;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  return true;
}
void end_mpi() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0) return;
  const nb::gil_scoped_release released;
  MPI_Finalize();
}

// --- chares

isthmus_chare_element* element_of(const Element& element) {
  if (!element.element) throw std::runtime_error("the chare has ended here, or has moved");
  return element.element;
}

void need_turn(const Element& element, const char* what) {
  if (isthmus_chare_self(Job::get().runtime()) != element_of(element))
    throw std::runtime_error(
        std::string(what) +
        " is called in a plain entry of the chare itself: not by others, and not in a coroutine");
}

isthmus_chare_callback callback_of(nb::handle target) {
  // (number, rank) of a future, or (proxy, item) of an entry.
  Job& job = Job::get();
  if (nb::isinstance<Proxy>(target[0]))
    return job.callback_to(nb::cast<const Proxy&>(target[0]), job.item(nb::cast<std::uint32_t>(target[1])));
  return job.callback_to_future(nb::cast<std::uint64_t>(target[0]), nb::cast<std::uint32_t>(target[1]));
}

std::uint64_t create(std::uint32_t kind, const std::vector<std::uint64_t>& extents, std::uint32_t type,
                     std::int64_t constructor, nb::handle arguments, nb::handle keywords) {
  Job& job = Job::get();
  isthmus_chare_shape shape{};
  shape.kind = kind;
  shape.dimensions = static_cast<std::uint32_t>(extents.size());
  if (extents.size() > 3) throw nb::value_error("arrays have 1 to 3 dimensions");
  if (kind != ISTHMUS_CHARE_SPARSE) shape.count = 1;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    shape.extent[i] = extents[i];
    if (__builtin_mul_overflow(shape.count, extents[i], &shape.count)) shape.count = ~std::uint64_t{0};
    if (extents[i] == 0 || shape.count > (std::uint64_t{1} << 48))
      throw nb::value_error("an array's extent is not possible");
  }
  const Item* const maker = constructor >= 0 ? &job.item(static_cast<std::uint32_t>(constructor)) : nullptr;
  const Encoded encoded = Encoded::of(arguments, keywords);
  std::vector<std::byte> bytes(maker ? encoded.size() : 0);
  if (maker) encoded.write(bytes.data());
  return isthmus_chare_create(job.runtime(), &shape, &job.item(type).base, maker ? &maker->base : nullptr,
                              bytes.data(), bytes.size());
}

void insert(std::uint64_t collection, std::uint64_t low, std::uint64_t high, std::int64_t rank,
            std::uint32_t constructor, nb::handle arguments, nb::handle keywords) {
  Job& job = Job::get();
  const Encoded encoded = Encoded::of(arguments, keywords);
  std::vector<std::byte> bytes(encoded.size());
  encoded.write(bytes.data());
  isthmus_chare_insert(job.runtime(), collection, {low, high},
                       rank < 0 ? ISTHMUS_CHARE_HOME : static_cast<std::uint32_t>(rank),
                       &job.item(constructor).base, bytes.data(), bytes.size());
}

void contribute(const Element& element, std::uint32_t reducer, nb::object value, nb::handle target) {
  Job& job = Job::get();
  const Item& item = job.item(reducer);
  if (item.base.kind != ISTHMUS_CHARE_REDUCER) throw nb::type_error("no reducer");
  const Partial partial{&item, std::move(value), {}};
  const isthmus_chare_callback callback = callback_of(target);
  isthmus_chare_contribute(job.runtime(), element_of(element), &item.base, &partial, &callback);
}

void bind_chares(nb::module_& m) {
  nb::class_<Proxy>(m, "Proxy")
      .def(
          "__init__",
          [](Proxy* self, std::uint64_t collection, std::uint64_t low, std::uint64_t high, std::uint32_t kind,
             std::uint32_t rank,
             std::int32_t priority) { new (self) Proxy{{collection, {low, high}, kind, rank}, priority}; },
          nb::arg("collection"), nb::arg("low") = 0, nb::arg("high") = 0,
          nb::arg("kind") = ISTHMUS_CHARE_TO_ELEMENT, nb::arg("rank") = 0, nb::arg("priority") = 0)
      .def_prop_ro("collection", [](const Proxy& self) { return self.target.collection; })
      .def_prop_ro("low", [](const Proxy& self) { return self.target.index.low; })
      .def_prop_ro("high", [](const Proxy& self) { return self.target.index.high; })
      .def_prop_ro("priority", [](const Proxy& self) { return self.priority; });
  nb::class_<Element>(m, "Element")
      .def_prop_ro("low", [](const Element& self) { return isthmus_chare_index_of(element_of(self)).low; })
      .def_prop_ro("high", [](const Element& self) { return isthmus_chare_index_of(element_of(self)).high; })
      .def_prop_ro("collection",
                   [](const Element& self) { return isthmus_chare_collection_of(element_of(self)); })
      .def_prop_ro("extents",
                   [](const Element& self) {
                     isthmus_chare_shape shape{};
                     isthmus_chare_shape_of(element_of(self), &shape);
                     return std::vector<std::uint64_t>(shape.extent, shape.extent + shape.dimensions);
                   })
      .def_prop_ro("is_there", [](const Element& self) { return self.element != nullptr; })
      .def("contribute", contribute, nb::arg("reducer"), nb::arg("value").none(), nb::arg("target"))
      .def("migrate",
           [](const Element& self, std::uint32_t rank) {
             need_turn(self, "migrate");
             if (rank >= isthmus_chare_size(Job::get().runtime()))
               throw nb::index_error("there is no such process");
             isthmus_chare_migrate(Job::get().runtime(), self.element, rank);
           })
      .def("destroy",
           [](const Element& self) {
             need_turn(self, "destroy");
             isthmus_chare_destroy(Job::get().runtime(), self.element);
           })
      .def("hold",
           [](const Element& self, int change) {
             if (self.element) isthmus_chare_hold(Job::get().runtime(), self.element, change);
           })
      .def("at_sync",
           [](const Element& self, std::uint32_t next, std::uint32_t balancer) {
             Job& job = Job::get();
             isthmus_chare_at_sync(job.runtime(), element_of(self), &job.item(next).base,
                                   &job.item(balancer).base);
           })
      .def("set_load", [](const Element& self, double seconds) {
        if (!(seconds >= 0)) throw nb::value_error("a load is 0 or more");
        isthmus_chare_set_load(Job::get().runtime(), element_of(self), seconds);
      });
  m.def(
      "invoke",
      [](const Proxy& proxy, std::uint32_t item, nb::handle arguments, nb::handle keywords) {
        Job& job = Job::get();
        job.invoke(proxy, job.item(item), arguments, keywords, {}, nb::none());
      },
      nb::arg("proxy"), nb::arg("item"), nb::arg("arguments"), nb::arg("keywords").none());
  m.def(
      "invoke_for",
      [](const Proxy& proxy, std::uint32_t item, nb::handle arguments, nb::handle keywords,
         std::uint64_t number, bool wants_index, nb::handle sent) {
        Job& job = Job::get();
        job.invoke(proxy, job.item(item), arguments, keywords,
                   {number, isthmus_chare_rank(job.runtime()), wants_index ? 1U : 0U}, sent);
      },
      nb::arg("proxy"), nb::arg("item"), nb::arg("arguments"), nb::arg("keywords").none(), nb::arg("number"),
      nb::arg("wants_index"), nb::arg("sent").none() = nb::none());
  m.def(
      "reply",
      [](std::uint64_t number, std::uint32_t rank, nb::handle arguments, nb::object index) {
        Job::get().reply({number, rank, index.is_none() ? 0U : 1U}, arguments, false,
                         index.is_none() ? 0 : nb::cast<std::uint64_t>(index));
      },
      nb::arg("number"), nb::arg("rank"), nb::arg("arguments"), nb::arg("index").none());
  m.def(
      "reply_error",
      [](std::uint64_t number, std::uint32_t rank, nb::handle exception, nb::object index) {
        Job::get().reply_error({number, rank, index.is_none() ? 0U : 1U}, exception,
                               index.is_none() ? 0 : nb::cast<std::uint64_t>(index));
      },
      nb::arg("number"), nb::arg("rank"), nb::arg("exception"), nb::arg("index").none());
  m.def("create", create);
  m.def("insert", insert);
  m.def("done_inserting",
        [](std::uint64_t collection) { isthmus_chare_done_inserting(Job::get().runtime(), collection); });
  m.def("instance_of", [](std::uint64_t collection, std::uint64_t low, std::uint64_t high) -> nb::object {
    isthmus_chare_element* const found = isthmus_chare_find(Job::get().runtime(), collection, {low, high});
    auto* const chare = found ? static_cast<Chare*>(isthmus_chare_object_of(found)) : nullptr;
    return chare ? chare->instance : nb::none();
  });
  m.def("balance", [](std::uint64_t collection, std::uint32_t balancer, nb::handle target) {
    Job& job = Job::get();
    const isthmus_chare_callback callback = callback_of(target);
    isthmus_chare_balance_now(job.runtime(), collection, &job.item(balancer).base, &callback);
  });
  m.def("quiescence", [](nb::handle target) {
    const isthmus_chare_callback callback = callback_of(target);
    isthmus_chare_quiescence(Job::get().runtime(), &callback);
  });
}

void bind_job(nb::module_& m) {
  m.def("begin_mpi", begin_mpi);
  m.def("end_mpi", end_mpi);
  m.def("open", [](nb::list items, nb::object start_task, nb::object resolve, nb::object hold,
                   nb::object array_of, nb::object new_array, nb::object coming) {
    Job::open(std::move(items), {std::move(start_task), std::move(resolve), std::move(hold),
                                 std::move(array_of), std::move(new_array), std::move(coming)});
  });
  m.def("close", [] { Job::close(); });
  m.def("is_open", [] { return Job::now() != nullptr; });
  m.def("drive", [](nb::handle ready, double seconds, int fd, bool naps) {
    return Job::get().drive(ready, seconds, fd, naps);
  });
  m.def("has_ended", [] { return Job::get().has_ended(); });
  m.def("finish", [] { return Job::get().finish(); });
  m.def("exit", [](int code) { isthmus_chare_exit(Job::get().runtime(), code); });
  m.def("fail", [](const std::string& text, const std::string& entry) {
    isthmus_chare_fail(Job::get().runtime(), text.c_str(), entry.empty() ? nullptr : entry.c_str());
  });
  m.def("flush", [] { isthmus_chare_flush(Job::get().runtime()); });
  m.def("rank", [] { return isthmus_chare_rank(Job::get().runtime()); });
  m.def("size", [] { return isthmus_chare_size(Job::get().runtime()); });
  m.def("is_busy", [] {
    Job& job = Job::get();
    return isthmus_chare_work(job.runtime(), 0, 0) != ISTHMUS_CHARE_IDLE;
  });
}

void bind_channels(nb::module_& m) {
  nb::class_<Memory>(m, "Memory")
      .def("__init__", [](Memory* self, std::uintptr_t address, std::size_t bytes, std::string element,
                          bool is_gpu) { new (self) Memory{address, bytes, std::move(element), is_gpu}; })
      .def_ro("bytes", &Memory::bytes)
      .def_ro("element", &Memory::element)
      .def_ro("is_gpu", &Memory::is_gpu);
  nb::class_<Endpoint>(m, "Endpoint")
      .def(nb::init<>())
      .def_prop_ro("tag", &Endpoint::tag)
      .def_prop_ro("is_connected", &Endpoint::is_connected)
      .def("connect", &Endpoint::connect)
      .def("send", &Endpoint::send)
      .def("send_array", &Endpoint::send_array)
      .def("look", &Endpoint::look)
      .def("wait", &Endpoint::wait)
      .def("stop_waiting", &Endpoint::stop_waiting)
      .def("take", &Endpoint::take, nb::arg("into").none(), nb::arg("new_array"), nb::arg("new_future"))
      .def("close", &Endpoint::close);
}

void bind_gpu(nb::module_& m) {
  nb::class_<GpuMemory>(m, "GpuMemory")
      .def(nb::init<std::size_t>())
      .def_prop_ro("address", &GpuMemory::address)
      .def_prop_ro("device", &GpuMemory::device);
  m.def("need_gpu_memory", need_gpu_memory);
  m.def("synchronize_stream", synchronize_stream);
  m.def("copy_of_gpu", copy_of_gpu);
  m.def("take_dlpack", [](nb::object capsule) {
    DlpackView view = take_dlpack(std::move(capsule));
    return nb::make_tuple(view.address, view.extents, view.strides, view.type, view.owner);
  });
  m.def("make_dlpack", make_dlpack);
}

void bind_codec(nb::module_& m) {
  // For tests: what one process writes, and what another makes of it.
  m.def(
      "encode",
      [](nb::tuple arguments, nb::object keywords) {
        const Encoded encoded = Encoded::of(arguments, keywords);
        std::vector<char> bytes(encoded.size());
        encoded.write(bytes.data());
        return nb::bytes(bytes.data(), bytes.size());
      },
      nb::arg("arguments"), nb::arg("keywords") = nb::none());
  m.def("section", [](nb::tuple arguments, nb::object keywords, nb::object array_of) {
    ArrayTypes types;
    const std::vector<std::byte> bytes = make_section(split(arguments, keywords, types, array_of).arrays);
    return nb::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  });
  m.def("read_section", [](nb::bytes text, const std::vector<std::uint64_t>& sizes) {
    std::vector<ArrayArgument> arrays;
    std::size_t front = 0;
    const std::string why = read_section(reinterpret_cast<const std::byte*>(text.c_str()), text.size(), sizes,
                                         arrays, front);
    if (!why.empty()) throw nb::value_error(why.c_str());
    nb::list found;
    for (const ArrayArgument& each : arrays)
      found.append(nb::make_tuple(each.position, std::string(each.shape.head.element), each.shape.extents));
    return found;
  });
  m.def("decode", [](nb::bytes text) {
    Frame frame;
    const Arguments made =
        decode(reinterpret_cast<const std::byte*>(text.c_str()), text.size(), frame, nb::handle());
    return nb::make_tuple(made.positional, made.keywords.is_valid() ? made.keywords : nb::none());
  });
}

}  // namespace
}  // namespace isthmus::python

NB_MODULE(_core, m) {
  using namespace isthmus::python;
  nb::class_<KeptMessage>(m, "KeptMessage", nb::type_slots(kept_slots));
  bind_codec(m);
  bind_gpu(m);
  bind_chares(m);
  bind_job(m);
  bind_channels(m);
}
