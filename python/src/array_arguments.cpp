#include "array_arguments.hpp"

#include <isthmus/chare_runtime.h>

#include <cstring>

#include "channel.hpp"

namespace isthmus::python {
namespace {

bool has_attribute(nb::handle object, const char* name) {
  return PyObject_HasAttrString(object.ptr(), name) != 0;
}

/// What Python says of an array: (Memory, extents, family, owner).
ArrayArgument argument_of(nb::handle said, std::uint32_t position) {
  const auto& memory = nb::cast<const Memory&>(said[0]);
  ArrayArgument made;
  made.position = position;
  if (memory.element.size() >= sizeof made.shape.head.element || item_size(memory.element.c_str()) == 0)
    throw nb::type_error(("an array of a GPU with elements that do not travel: " + memory.element).c_str());
  std::memcpy(made.shape.head.element, memory.element.c_str(), memory.element.size());
  made.shape.extents = nb::cast<std::vector<std::uint64_t>>(said[1]);
  if (made.shape.extents.size() > largest_dimensions)
    throw nb::value_error("an array of a GPU with more than 32 dimensions");
  made.shape.head.family = nb::cast<std::uint8_t>(said[2]);
  made.shape.head.dimensions = static_cast<std::uint8_t>(made.shape.extents.size());
  made.address = reinterpret_cast<void*>(memory.address);
  made.bytes = memory.bytes;
  made.owner = nb::borrow(said[3]);
  return made;
}

nb::object changeable_copy(nb::handle tuple) {
  const Py_ssize_t count = PyTuple_Size(tuple.ptr());
  nb::object copy = own(PyTuple_New(count));
  for (Py_ssize_t i = 0; i < count; ++i)
    PyTuple_SetItem(copy.ptr(), i, nb::borrow(PyTuple_GetItem(tuple.ptr(), i)).release().ptr());
  return copy;
}

}  // namespace

bool ArrayTypes::may_be(nb::handle object) {
  PyObject* const it = object.ptr();
  if (it == Py_None || PyLong_CheckExact(it) || PyFloat_CheckExact(it) || PyUnicode_CheckExact(it) ||
      PyBytes_CheckExact(it) || PyTuple_CheckExact(it) || PyList_CheckExact(it) || PyDict_CheckExact(it))
    return false;
  PyObject* const type = reinterpret_cast<PyObject*>(Py_TYPE(it));
  const auto found = known_.find(type);
  if (found != known_.end()) return found->second.second;
  // NumPy's have DLPack, and are never of a GPU.
  const bool may = has_attribute(type, "__cuda_array_interface__") ||
                   (has_attribute(type, "__dlpack_device__") && !has_attribute(type, "__array_finalize__"));
  known_.emplace(type, std::pair{nb::borrow(type), may});
  return may;
}

SplitArguments split(nb::handle positional, nb::handle keywords, ArrayTypes& types, nb::handle array_of) {
  SplitArguments made{nb::borrow(positional), {}, {}};
  const bool has_keywords = keywords.is_valid() && !keywords.is_none() && PyDict_Size(keywords.ptr()) != 0;
  if (has_keywords) made.keywords = nb::borrow(keywords);
  const Py_ssize_t count = PyTuple_Size(positional.ptr());
  std::uint32_t place = 0;
  const auto take = [&](nb::handle value) {
    const std::uint32_t position = place++;
    if (!types.may_be(value)) return false;
    const nb::object said = array_of(value);
    if (said.is_none()) return false;
    if (made.arrays.size() == ISTHMUS_CHARE_BUFFERS)
      throw nb::value_error("an invocation takes no more than 64 arrays of GPUs");
    made.arrays.push_back(argument_of(said, position));
    return true;
  };
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!take(PyTuple_GetItem(positional.ptr(), i))) continue;
    if (made.arrays.size() == 1) made.positional = changeable_copy(positional);
    PyTuple_SetItem(made.positional.ptr(), i, nb::none().release().ptr());
  }
  if (!has_keywords) return made;
  const std::size_t before = made.arrays.size();
  nb::object copy;
  PyObject* key = nullptr;
  PyObject* value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(keywords.ptr(), &at, &key, &value) != 0;) {
    if (!take(value)) continue;
    if (made.arrays.size() == before + 1) copy = own(PyDict_Copy(keywords.ptr()));
    if (PyDict_SetItem(copy.ptr(), key, Py_None) != 0) raise_set();
  }
  if (copy.is_valid()) made.keywords = copy;
  return made;
}

Arguments join(const Arguments& others, const std::vector<ArrayArgument>& arrays,
               const std::vector<nb::object>& values) {
  const auto count = static_cast<std::uint32_t>(PyTuple_Size(others.positional.ptr()));
  std::vector<nb::object> keys;
  if (others.keywords.is_valid())
    for (const nb::handle key : nb::borrow<nb::dict>(others.keywords).keys())
      keys.push_back(nb::borrow(key));
  Arguments all{changeable_copy(others.positional),
                keys.empty() ? nb::object() : own(PyDict_Copy(others.keywords.ptr()))};
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const std::uint32_t place = arrays[i].position;
    if (place < count) {
      PyTuple_SetItem(all.positional.ptr(), place, nb::object(values[i]).release().ptr());
      continue;
    }
    if (place - count >= keys.size()) throw nb::value_error("an array is said to be an argument that is not");
    if (PyDict_SetItem(all.keywords.ptr(), keys[place - count].ptr(), values[i].ptr()) != 0) raise_set();
  }
  return all;
}

std::vector<std::byte> make_section(const std::vector<ArrayArgument>& arrays) {
  if (arrays.empty()) return {};
  std::size_t bytes = sizeof(SectionHead);
  for (const ArrayArgument& each : arrays)
    bytes += sizeof(ArrayHead) + sizeof(PositionHead) + 8 * each.shape.extents.size();
  std::vector<std::byte> section(aligned(bytes));
  std::byte* at = section.data();
  const auto put = [&](const void* from, std::size_t size) {
    if (size != 0) std::memcpy(at, from, size);
    at += size;
  };
  const SectionHead head{static_cast<std::uint32_t>(arrays.size()),
                         static_cast<std::uint32_t>(section.size())};
  put(&head, sizeof head);
  for (const ArrayArgument& each : arrays) {
    const PositionHead position{each.position, 0};
    put(&each.shape.head, sizeof(ArrayHead));
    put(&position, sizeof position);
    put(each.shape.extents.data(), 8 * each.shape.extents.size());
  }
  return section;
}

std::string read_section(const std::byte* data, std::size_t bytes, std::span<const std::uint64_t> sizes,
                         std::vector<ArrayArgument>& arrays, std::size_t& front) {
  SectionHead head;
  if (bytes < sizeof head) return "it ends before its arrays are described";
  std::memcpy(&head, data, sizeof head);
  if (head.arrays != sizes.size())
    return "it describes " + std::to_string(head.arrays) + " arrays, and has " + std::to_string(sizes.size());
  if (head.bytes < sizeof head || head.bytes > bytes || head.bytes % 16 != 0) return "its description of arrays does not fit into it";
  std::size_t at = sizeof head;
  for (const std::uint64_t size : sizes) {
    ArrayHead array;
    PositionHead position;
    if (head.bytes - at < sizeof array + sizeof position) return "its description of arrays is cut off";
    std::memcpy(&array, data + at, sizeof array);
    std::memcpy(&position, data + at + sizeof array, sizeof position);
    const std::size_t extents = std::size_t{8} * array.dimensions;
    if (array.dimensions > largest_dimensions || head.bytes - at - sizeof array - sizeof position < extents)
      return "its description of arrays is cut off";
    if (!arrays.empty() && position.position <= arrays.back().position)
      return "its arrays are not in the order of its arguments";
    // As one piece, which is what `read_array` reads.
    std::vector<std::byte> body(sizeof array + extents);
    std::memcpy(body.data(), &array, sizeof array);
    at += sizeof array + sizeof position;
    if (extents != 0) std::memcpy(body.data() + sizeof array, data + at, extents);
    at += extents;
    ArrayArgument made;
    made.position = position.position;
    made.bytes = size;
    if (std::string why = read_array(body.data(), body.size(), size, made.shape); !why.empty()) return why;
    arrays.push_back(std::move(made));
  }
  if (aligned(at) != head.bytes) return "bytes follow its description of arrays";
  front = head.bytes;
  return {};
}

EncodedArguments::EncodedArguments(const SplitArguments& arguments, const Reply& reply)
    : section_(make_section(arguments.arrays)),
      others_(Encoded::of(arguments.positional, arguments.keywords)) {
  others_.set_reply(reply);
}

void EncodedArguments::write(void* to) const noexcept {
  if (!section_.empty()) std::memcpy(to, section_.data(), section_.size());
  others_.write(static_cast<std::byte*>(to) + section_.size());
}

}  // namespace isthmus::python
