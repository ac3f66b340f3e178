#include "suite/job/message_type.hpp"

#include <cstdint>
#include <vector>

#include "common/pages.hpp"
#include "suite/job/call.hpp"

namespace isthmus::bench {
namespace {

// Takes the place of `type`, which is freed.
void replace(MPI_Datatype& type, MPI_Datatype next) {
  call(MPI_Type_free(&type), "MPI_Type_free");
  type = next;
}

MPI_Datatype vector_type(const Layout& layout, int repetitions, MPI_Datatype element) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  call(MPI_Type_vector(repetitions, static_cast<int>(layout.blocks[0].count), static_cast<int>(layout.span),
                       element, &type),
       "MPI_Type_vector");
  return type;
}

MPI_Datatype indexed_type(const Layout& layout, int repetitions, MPI_Datatype element, std::size_t bytes) {
  std::vector<int> counts, offsets;
  for (const Stretch& block : layout.blocks) {
    counts.push_back(static_cast<int>(block.count));
    offsets.push_back(static_cast<int>(block.offset));
  }
  MPI_Datatype type = MPI_DATATYPE_NULL, next = MPI_DATATYPE_NULL;
  call(MPI_Type_indexed(static_cast<int>(counts.size()), counts.data(), offsets.data(), element, &type),
       "MPI_Type_indexed");
  call(MPI_Type_create_resized(type, 0, static_cast<MPI_Aint>(layout.span * bytes), &next),
       "MPI_Type_create_resized");
  replace(type, next);
  call(MPI_Type_contiguous(repetitions, type, &next), "MPI_Type_contiguous");
  replace(type, next);
  return type;
}

}  // namespace

MPI_Datatype datatype_of(Element element, bool is_added_up) {
  switch (element) {
    case Element::byte:
      return MPI_BYTE;
    case Element::character:
      return is_added_up ? MPI_SIGNED_CHAR : MPI_CHAR;
    case Element::integer:
      return MPI_INT;
    case Element::real:
      return MPI_FLOAT;
  }
  return MPI_DATATYPE_NULL;
}

MessageType::MessageType(const Layout& layout, Element element, std::size_t bytes)
    : layout_(layout), element_(element), bytes_(bytes), type_(datatype_of(element, false)) {
  const std::size_t elements = bytes / bytes_of(element);
  if (layout.kind == Layout::Kind::plain) {
    count_ = static_cast<int>(elements);
    return;
  }
  MPI_Datatype of = type_;
  const int repetitions = static_cast<int>(layout.repetitions(elements));
  MPI_Datatype made = MPI_DATATYPE_NULL;
  if (layout.kind == Layout::Kind::contiguous) {
    call(MPI_Type_contiguous(static_cast<int>(elements), of, &made), "MPI_Type_contiguous");
  } else {
    made = layout.kind == Layout::Kind::vector ? vector_type(layout, repetitions, of)
                                               : indexed_type(layout, repetitions, of, bytes_of(element));
    MPI_Datatype resized = MPI_DATATYPE_NULL;
    call(MPI_Type_create_resized(made, 0, static_cast<MPI_Aint>(bytes), &resized), "MPI_Type_create_resized");
    replace(made, resized);
  }
  call(MPI_Type_commit(&made), "MPI_Type_commit");
  type_ = made;
}

MessageType::~MessageType() {
  if (layout_.kind != Layout::Kind::plain) MPI_Type_free(&type_);
}

std::size_t MessageType::carried() const {
  return layout_.carried(bytes_ / bytes_of(element_)) * bytes_of(element_);
}

std::string MessageType::fault(const Buffer& buffer, std::size_t offset, unsigned writer,
                               unsigned round) const {
  if (!layout_.has_gaps()) return buffer.fault(offset, bytes_, writer, round);
  std::vector<std::uint8_t> all(bytes_);
  buffer.read(offset, all);
  const std::size_t element = bytes_of(element_);
  for (std::size_t i = 0; i < bytes_; ++i) {
    const bool is_carried = layout_.carries(i / element, bytes_ / element);
    if (all[i] != (is_carried ? Pages::expected(i, writer, round) : 0))
      return "byte " + std::to_string(offset + i) + (is_carried ? " is wrong" : ", of a gap, is written");
  }
  return "";
}

}  // namespace isthmus::bench
