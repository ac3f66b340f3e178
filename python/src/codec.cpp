#include "codec.hpp"

#include <array>
#include <cstring>
#include <utility>

namespace isthmus::python {
namespace {

/// What Python modules give, looked up once. Never freed: modules are not unloaded before the process ends.
struct Names {
  PyObject* dumps;
  PyObject* loads;
  PyObject* ndarray;
  PyObject* dtypes;  ///< a dict: format to dtype
  PyObject* dtype;
  PyObject* buffer_callback;
  PyObject* buffers;
  PyObject* protocol;
};

const Names& names() {
  static const Names all = [] {
    const nb::module_ pickle = nb::module_::import_("pickle");
    const nb::module_ numpy = nb::module_::import_("numpy");
    return Names{
        .dumps = nb::object(pickle.attr("dumps")).release().ptr(),
        .loads = nb::object(pickle.attr("loads")).release().ptr(),
        .ndarray = nb::object(numpy.attr("ndarray")).release().ptr(),
        .dtypes = PyDict_New(),
        .dtype = nb::object(numpy.attr("dtype")).release().ptr(),
        .buffer_callback = PyUnicode_InternFromString("buffer_callback"),
        .buffers = PyUnicode_InternFromString("buffers"),
        .protocol = PyLong_FromLong(5),
    };
  }();
  return all;
}

nb::object dtype_of(const char* format) {
  const nb::object key = own(PyUnicode_FromString(format));
  if (PyObject* const known = PyDict_GetItemWithError(names().dtypes, key.ptr())) return nb::borrow(known);
  if (PyErr_Occurred()) raise_set();
  // NumPy's characters for complex numbers are others than the buffer protocol's.
  const char* const of_numpy = std::strcmp(format, "Zf") == 0   ? "F"
                               : std::strcmp(format, "Zd") == 0 ? "D"
                                                                : format;
  nb::object made = own(PyObject_CallFunction(names().dtype, "s", of_numpy));
  if (PyDict_SetItem(names().dtypes, key.ptr(), made.ptr()) != 0) raise_set();
  return made;
}

bool is_array_of_numpy(nb::handle object) {
  return reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())) == names().ndarray;
}

/// As `pickle.dumps(..., protocol=5, buffer_callback=found.append)`.
nb::object pickle(nb::handle value, nb::handle found) {
  const nb::object append = found.attr("append");
  const std::array<PyObject*, 3> arguments{value.ptr(), names().protocol, append.ptr()};
  const nb::object keywords = own(PyTuple_Pack(1, names().buffer_callback));
  return own(PyObject_Vectorcall(names().dumps, arguments.data(), 2, keywords.ptr()));
}

}  // namespace

BufferView::BufferView(nb::handle object, int flags) : view_(std::make_unique<Py_buffer>()) {
  if (PyObject_GetBuffer(object.ptr(), view_.get(), flags) != 0) {
    view_.reset();
    raise_set();
  }
  data_ = view_->buf;
  bytes_ = static_cast<std::size_t>(view_->len);
}
BufferView::BufferView(BufferView&& other) noexcept
    : view_(std::move(other.view_)),
      owner_(std::move(other.owner_)),
      data_(other.data_),
      bytes_(other.bytes_) {}
BufferView& BufferView::operator=(BufferView&& other) noexcept {
  if (view_) PyBuffer_Release(view_.get());
  view_ = std::move(other.view_);
  owner_ = std::move(other.owner_);
  data_ = other.data_;
  bytes_ = other.bytes_;
  return *this;
}
BufferView::~BufferView() {
  if (view_) PyBuffer_Release(view_.get());
}

std::size_t item_size(const char* format) noexcept {
  if (std::strcmp(format, "Zf") == 0) return 8;
  if (std::strcmp(format, "Zd") == 0) return 16;
  if (format[0] == '\0' || format[1] != '\0') return 0;
  switch (format[0]) {
    case '?':
    case 'b':
    case 'B':
      return 1;
    case 'h':
    case 'H':
    case 'e':
      return 2;
    case 'i':
    case 'I':
    case 'f':
      return 4;
    case 'l':
    case 'L':
    case 'q':
    case 'Q':
    case 'd':
      return 8;
    default:
      return 0;
  }
}

Encoded Encoded::of_array(const ArrayHead& head, const std::vector<std::uint64_t>& extents, BufferView view) {
  Encoded made;
  made.format_ = Format::array;
  made.own_body_.resize(sizeof head + 8 * extents.size());
  std::memcpy(made.own_body_.data(), &head, sizeof head);
  if (!extents.empty()) std::memcpy(made.own_body_.data() + sizeof head, extents.data(), 8 * extents.size());
  made.body_bytes_ = made.own_body_.size();
  made.buffers_.push_back(std::move(view));
  made.is_apart_.push_back(false);
  return made;
}

Encoded Encoded::of(nb::handle arguments, nb::handle keywords) {
  const bool has_keywords =
      keywords.is_valid() && PyDict_Check(keywords.ptr()) && PyDict_Size(keywords.ptr()) != 0;
  const Py_ssize_t count = PyTuple_Size(arguments.ptr());
  if (count < 0) raise_set();
  if (count == 0 && !has_keywords) return {};
  if (count == 1 && !has_keywords) {
    const nb::handle only = PyTuple_GetItem(arguments.ptr(), 0);
    if (PyBytes_CheckExact(only.ptr())) {
      Encoded made;
      made.format_ = Format::bytes;
      made.owner_ = nb::borrow(only);
      char* data = nullptr;
      Py_ssize_t bytes = 0;
      if (PyBytes_AsStringAndSize(only.ptr(), &data, &bytes) != 0) raise_set();
      made.body_ = data;
      made.body_bytes_ = static_cast<std::size_t>(bytes);
      if (made.body_bytes_ <= 0xffff'ffff) return made;
    } else if (is_array_of_numpy(only)) {
      BufferView view;
      try {
        view = BufferView(only, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS);
      } catch (nb::python_error&) {
        view = {};  // not contiguous, or of elements without a format: a pickle serves
      }
      const char* const format = view.data() && view.bytes() != 0 ? view.view().format : nullptr;
      const std::size_t item = format && std::strlen(format) < 4 ? item_size(format) : 0;
      if (item != 0 && item == static_cast<std::size_t>(view.view().itemsize)) {
        ArrayHead head{};
        std::strncpy(head.element, format, sizeof head.element - 1);
        head.dimensions = static_cast<std::uint8_t>(view.view().ndim);
        std::vector<std::uint64_t> extents(view.view().shape, view.view().shape + view.view().ndim);
        if (head.dimensions <= largest_dimensions) return of_array(head, extents, std::move(view));
      }
    }
  }
  Encoded made;
  made.format_ = Format::pickled;
  const nb::object pair = own(PyTuple_Pack(2, arguments.ptr(), has_keywords ? keywords.ptr() : Py_None));
  nb::list found;
  made.owner_ = pickle(pair, found);
  if (nb::len(found) > most_buffers) {
    found = nb::list();
    made.owner_ = own(PyObject_CallFunctionObjArgs(names().dumps, pair.ptr(), names().protocol, nullptr));
  }
  char* data = nullptr;
  Py_ssize_t bytes = 0;
  if (PyBytes_AsStringAndSize(made.owner_.ptr(), &data, &bytes) != 0) raise_set();
  if (bytes > 0xffff'ffff)
    throw nb::value_error(
        "arguments are pickled to more than 4 GiB; arrays alone may be longer, by a channel");
  made.body_ = data;
  made.body_bytes_ = static_cast<std::size_t>(bytes);
  for (const nb::handle each : found) {
    made.buffers_.emplace_back(each, PyBUF_SIMPLE);
    made.is_apart_.push_back(false);
  }
  return made;
}

void Encoded::put_apart(std::size_t limit, bool always) {
  for (std::size_t i = 0; i < buffers_.size(); ++i)
    is_apart_[i] = always || buffers_[i].bytes() > limit;
  if (body_bytes_ > limit) flags_ |= body_apart;
  // Many that are short, each: together they are long.
  if (size() > 2 * limit + 8 * buffers_.size()) is_apart_.assign(buffers_.size(), true);
}

std::size_t Encoded::front() const noexcept {
  return sizeof(FrameHead) + (reply_.number != 0 ? sizeof(Reply) : 0) + 8 * buffers_.size();
}

std::size_t Encoded::size() const noexcept {
  std::size_t at = front() + ((flags_ & body_apart) != 0 ? 0 : body_bytes_);
  for (std::size_t i = 0; i < buffers_.size(); ++i)
    if (!is_apart_[i]) at = aligned(at) + buffers_[i].bytes();
  return at;
}

void Encoded::write(void* to) const noexcept {
  auto* const begin = static_cast<std::byte*>(to);
  const bool replies = reply_.number != 0;
  const FrameHead head{.format = static_cast<std::uint8_t>(format_),
                       .flags = static_cast<std::uint8_t>(flags_ | (replies ? has_reply : 0)),
                       .buffers = static_cast<std::uint16_t>(buffers_.size()),
                       .body = static_cast<std::uint32_t>(body_bytes_)};
  std::memcpy(begin, &head, sizeof head);
  std::size_t at = sizeof head;
  if (replies) {
    std::memcpy(begin + at, &reply_, sizeof reply_);
    at += sizeof reply_;
  }
  for (std::size_t i = 0; i < buffers_.size(); ++i, at += 8) {
    const std::uint64_t size = buffers_[i].bytes() | (is_apart_[i] ? apart_bit : 0);
    std::memcpy(begin + at, &size, sizeof size);
  }
  const void* const body = own_body_.empty() ? body_ : own_body_.data();
  if ((flags_ & body_apart) == 0 && body_bytes_ != 0) {
    std::memcpy(begin + at, body, body_bytes_);
    at += body_bytes_;
  }
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    if (is_apart_[i]) continue;
    std::memset(begin + at, 0, aligned(at) - at);
    at = aligned(at);
    if (buffers_[i].bytes() != 0) std::memcpy(begin + at, buffers_[i].data(), buffers_[i].bytes());
    at += buffers_[i].bytes();
  }
}

std::vector<Encoded::Piece> Encoded::apart() const {
  std::vector<Piece> pieces;
  if ((flags_ & body_apart) != 0)
    pieces.push_back({own_body_.empty() ? body_ : own_body_.data(), body_bytes_});
  for (std::size_t i = 0; i < buffers_.size(); ++i)
    if (is_apart_[i]) pieces.push_back({buffers_[i].data(), buffers_[i].bytes()});
  return pieces;
}

std::string read_frame(const std::byte* data, std::size_t bytes, Frame& frame) {
  frame = {};
  if (bytes == 0) return {};  // a callback without a value
  FrameHead head;
  if (bytes < sizeof head) return "it has " + std::to_string(bytes) + " bytes";
  std::memcpy(&head, data, sizeof head);
  if (head.format > static_cast<std::uint8_t>(last_format))
    return "there is no format " + std::to_string(head.format);
  if ((head.flags & ~known_flags) != 0) return "it has unknown flags " + std::to_string(head.flags);
  frame.format = static_cast<Format>(head.format);
  frame.flags = head.flags;
  const std::size_t wanted = frame.format == Format::array ? 1 : 0;
  if (head.buffers > most_buffers || (frame.format != Format::pickled && head.buffers != wanted))
    return "it has " + std::to_string(head.buffers) + " buffers";
  std::size_t at = sizeof head;
  if ((head.flags & has_reply) != 0) {
    if (bytes - at < sizeof(Reply)) return "it ends before the one who waits for a reply is named";
    std::memcpy(&frame.reply, data + at, sizeof(Reply));
    if (frame.reply.number == 0 || frame.reply.wants_index > 1) return "its reply goes nowhere";
    at += sizeof(Reply);
  }
  if ((bytes - at) / 8 < head.buffers) return "it ends before the sizes of its buffers";
  const std::size_t sizes = at;
  at += std::size_t{8} * head.buffers;
  frame.body = {.offset = at, .bytes = head.body, .is_apart = (head.flags & body_apart) != 0};
  if (!frame.body.is_apart) {
    if (bytes - at < head.body) return "it ends before its body";
    at += head.body;
  }
  for (std::size_t i = 0; i < head.buffers; ++i) {
    std::uint64_t size = 0;
    std::memcpy(&size, data + sizes + 8 * i, sizeof size);
    Frame::Part part{.bytes = size & ~apart_bit, .is_apart = (size & apart_bit) != 0};
    if (!part.is_apart) {
      if (aligned(at) > bytes || bytes - aligned(at) < part.bytes) return "it ends before its buffers";
      part.offset = at = aligned(at);
      at += part.bytes;
    }
    frame.buffers.push_back(part);
  }
  if (at != bytes) return "bytes follow it";
  return {};
}

std::string read_array(const std::byte* body, std::size_t bytes, std::size_t buffer_bytes,
                       ArrayShape& shape) {
  if (bytes < sizeof shape.head) return "an array without a description";
  std::memcpy(&shape.head, body, sizeof shape.head);
  if (shape.head.element[sizeof shape.head.element - 1] != '\0') return "an array of unknown elements";
  shape.item_bytes = item_size(shape.head.element);
  if (shape.item_bytes == 0) return "an array of unknown elements";
  if (shape.head.family > family_torch_gpu) return "an array of unknown family";
  if (shape.head.dimensions > largest_dimensions ||
      bytes != sizeof shape.head + std::size_t{8} * shape.head.dimensions)
    return "an array of " + std::to_string(shape.head.dimensions) + " dimensions";
  shape.extents.resize(shape.head.dimensions);
  if (!shape.extents.empty())
    std::memcpy(shape.extents.data(), body + sizeof shape.head, 8 * shape.extents.size());
  std::uint64_t total = shape.item_bytes;
  for (const std::uint64_t extent : shape.extents)
    if (__builtin_mul_overflow(total, extent, &total)) return "an array with extents that are too large";
  if (total != buffer_bytes) return "an array whose extents do not fit its bytes";
  return {};
}

nb::object make_array(const ArrayShape& shape, nb::handle owner) {
  const nb::object extents = own(PyTuple_New(static_cast<Py_ssize_t>(shape.extents.size())));
  for (std::size_t i = 0; i < shape.extents.size(); ++i)
    if (PyTuple_SetItem(extents.ptr(), static_cast<Py_ssize_t>(i),
                        PyLong_FromUnsignedLongLong(shape.extents[i])) != 0)
      raise_set();
  const nb::object dtype = dtype_of(shape.head.element);
  return own(PyObject_CallFunctionObjArgs(names().ndarray, extents.ptr(), dtype.ptr(), owner.ptr(), nullptr));
}

Arguments make_arguments(const Frame& frame, const std::byte* body, std::vector<nb::object> parts) {
  switch (frame.format) {
    case Format::nothing:
      return {own(PyTuple_New(0)), {}};
    case Format::bytes: {
      const nb::object text = own(PyBytes_FromStringAndSize(reinterpret_cast<const char*>(body),
                                                            static_cast<Py_ssize_t>(frame.body.bytes)));
      return {own(PyTuple_Pack(1, text.ptr())), {}};
    }
    case Format::array: {
      ArrayShape shape;
      if (const std::string why = read_array(body, frame.body.bytes, frame.buffers[0].bytes, shape);
          !why.empty())
        throw nb::value_error(why.c_str());
      const nb::object array = make_array(shape, parts[0]);
      return {own(PyTuple_Pack(1, array.ptr())), {}};
    }
    default:
      break;
  }
  const nb::object text = own(PyMemoryView_FromMemory(const_cast<char*>(reinterpret_cast<const char*>(body)),
                                                      static_cast<Py_ssize_t>(frame.body.bytes), PyBUF_READ));
  nb::object pair;
  if (parts.empty()) {
    pair = own(PyObject_CallFunctionObjArgs(names().loads, text.ptr(), nullptr));
  } else {
    nb::list buffers;
    for (const nb::object& part : parts)
      buffers.append(part);
    const std::array<PyObject*, 2> arguments{text.ptr(), buffers.ptr()};
    const nb::object keywords = own(PyTuple_Pack(1, names().buffers));
    pair = own(PyObject_Vectorcall(names().loads, arguments.data(), 1, keywords.ptr()));
  }
  if (!PyTuple_Check(pair.ptr()) || PyTuple_Size(pair.ptr()) != 2)
    throw nb::value_error("a frame whose pickle holds no arguments");
  Arguments made{nb::borrow(PyTuple_GetItem(pair.ptr(), 0)), nb::borrow(PyTuple_GetItem(pair.ptr(), 1))};
  if (!PyTuple_Check(made.positional.ptr()) ||
      !(made.keywords.is_none() || PyDict_Check(made.keywords.ptr())))
    throw nb::value_error("a frame whose pickle holds no arguments");
  if (made.keywords.is_none()) made.keywords = nb::object();
  return made;
}

Arguments decode(const std::byte* data, std::size_t bytes, Frame& frame, nb::handle keeper) {
  if (const std::string why = read_frame(data, bytes, frame); !why.empty())
    throw nb::value_error(("a message is no frame: " + why).c_str());
  std::vector<nb::object> parts;
  for (const Frame::Part& part : frame.buffers) {
    if (part.is_apart) throw nb::value_error("a message is no frame: it leaves a buffer to another message");
    const char* const at = reinterpret_cast<const char*>(data) + part.offset;
    if (keeper.is_valid()) {
      const nb::object all = own(PyMemoryView_FromObject(keeper.ptr()));
      parts.push_back(
          nb::object(all[nb::slice(nb::int_(part.offset), nb::int_(part.offset + part.bytes), nb::int_(1))]));
    } else {
      parts.push_back(own(PyByteArray_FromStringAndSize(at, static_cast<Py_ssize_t>(part.bytes))));
    }
  }
  if (frame.body.is_apart)
    throw nb::value_error("a message is no frame: it leaves its body to another message");
  return make_arguments(frame, data + frame.body.offset, std::move(parts));
}

}  // namespace isthmus::python
