// The datatype of a message.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <string>

#include "suite/core/layout.hpp"
#include "suite/job/buffer.hpp"

namespace isthmus::bench {

// MPI's name of it. Sums of characters need the signed ones (MPI 4.1, section 6.9.2).
MPI_Datatype datatype_of(Element element, bool is_added_up);

// What is given to a call that sends or receives a message whose buffer has `bytes` bytes, a multiple of the
// element.
class MessageType {
 public:
  MessageType(const Layout& layout, Element element, std::size_t bytes);
  ~MessageType();
  MessageType(const MessageType&) = delete;
  MessageType& operator=(const MessageType&) = delete;

  // Its extent times `count` is the buffer's size.
  [[nodiscard]] MPI_Datatype type() const { return type_; }
  [[nodiscard]] int count() const { return count_; }
  // Of the buffer's bytes, those that travel.
  [[nodiscard]] std::size_t carried() const;
  [[nodiscard]] bool has_gaps() const { return layout_.has_gaps(); }

  // What is wrong in the part of a buffer that was all zeros before such a message of `writer` came: what it
  // carries, and what lies between.
  [[nodiscard]] std::string fault(const Buffer& buffer, std::size_t offset, unsigned writer,
                                  unsigned round) const;

 private:
  const Layout& layout_;
  Element element_;
  std::size_t bytes_;
  MPI_Datatype type_;
  int count_ = 1;
};

}  // namespace isthmus::bench
