#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "codec.hpp"
#include "python.hpp"

/// Arrays of GPUs among the arguments of an entry. They go apart from the others, from memory to memory;
/// packed arguments that have some begin with a *section* that says what they are,
///
///     SectionHead | of each array: ArrayHead, PositionHead, extents | zeros up to a multiple of 16
///
/// and go on with the frame of the others, which has None in the place of each array.
namespace isthmus::python {

struct SectionHead {
  std::uint32_t arrays;
  std::uint32_t bytes;  ///< of the section
};
/// Which argument it is: a positional one, or, numbered behind those, a keyword's in the order of the dict.
struct PositionHead {
  std::uint32_t position;
  std::uint32_t unused;
};

/// An array that an entry gets.
struct ArrayArgument {
  ArrayShape shape;
  std::uint32_t position = 0;
  // Of one that is sent:
  void* address = nullptr;
  std::size_t bytes = 0;
  nb::object owner;
};

/// Which types have arrays of GPUs, as far as has been asked. A type lives as long as this.
class ArrayTypes {
 public:
  /// Whether an object of this type may be an array of a GPU; the object itself says whether it is.
  [[nodiscard]] bool may_be(nb::handle object);

 private:
  std::unordered_map<PyObject*, std::pair<nb::object, bool>> known_;
};

/// Arguments of one invocation.
struct SplitArguments {
  nb::object positional;
  nb::object keywords;                ///< or null
  std::vector<ArrayArgument> arrays;  ///< None stands for them above, if there are any
};
/// `array_of`: isthmus._arrays.of_gpu. Throws what it throws, and ValueError where there are more than
/// ISTHMUS_CHARE_BUFFERS.
SplitArguments split(nb::handle positional, nb::handle keywords, ArrayTypes& types, nb::handle array_of);
/// The arguments with `values` in the places of the arrays. Throws ValueError where there is no such place.
Arguments join(const Arguments& others, const std::vector<ArrayArgument>& arrays,
               const std::vector<nb::object>& values);

/// A section, or nothing where there are no arrays.
std::vector<std::byte> make_section(const std::vector<ArrayArgument>& arrays);
/// Reads and checks one; `sizes` are what comes. An empty text if it is one, and `front` are its bytes; else
/// why it is not.
std::string read_section(const std::byte* data, std::size_t bytes, std::span<const std::uint64_t> sizes,
                         std::vector<ArrayArgument>& arrays, std::size_t& front);

/// Arguments as they are packed: a section, if there are arrays, and the frame of the others.
class EncodedArguments {
 public:
  EncodedArguments(const SplitArguments& arguments, const Reply& reply);
  [[nodiscard]] std::size_t size() const noexcept { return section_.size() + others_.size(); }
  void write(void* to) const noexcept;

 private:
  std::vector<std::byte> section_;
  Encoded others_;
};

}  // namespace isthmus::python
