// One block of the cube as a chare.
#pragma once

#include <array>
#include <isthmus/chare.hpp>
#include <memory>
#include <optional>

#include "common/gpu/device.hpp"
#include "decomposition.hpp"
#include "field.hpp"
#include "options.hpp"
#include "problem.hpp"
#include "solver.hpp"

namespace jacobi {

// How chares hand each other their faces.
enum class Carrier {
  entry,    // as arguments of an entry, whose post entry says where they go
  mailbox,  // to memory that is posted before they are sent
};

// What all parts of a process know. It outlives them.
struct Setting {
  Options options;
  Problem problem;
  Triple grid;  // of parts
  Carrier carrier;
  const apps::gpu::Device* device;  // null: the host's memory
  Solution solution;                // of the process's first part, when all is over
};
extern Setting* setting;

// A block, wherever it is, with two sets of buffers for its faces: a neighbour may be an iteration ahead.
class Cells {
 public:
  Cells(const Cells&) = delete;
  Cells& operator=(const Cells&) = delete;
  virtual ~Cells() = default;

  virtual void pack(int set) = 0;
  virtual void unpack(int set) = 0;
  // What is sent by a face, and where it is received.
  virtual double* outgoing(int face, int set) = 0;
  virtual double* incoming(int face, int set) = 0;
  // As `Stepper::sweep`.
  virtual double sweep(double weight, bool measure) = 0;
  virtual void swap() = 0;
  virtual const Field& values() = 0;

 protected:
  Cells() = default;
};

class Part : public isthmus::chare::Chare {
 public:
  Part();

  // With mailboxes: the neighbours' addresses, by the face that they lie beyond; `ready` when all are known.
  void open(const isthmus::chare::Array<Part>& all, const isthmus::chare::Callback<>& ready);
  void know(int face, int set, isthmus::chare::MailboxAddress<double> address);

  // Iterates, and contributes to `done`.
  isthmus::chare::Task run(isthmus::chare::Array<Part> all, isthmus::chare::Callback<> done);

  // A face that has come: which one of ours it is, and of which iteration. Its post entry names our buffer.
  isthmus::chare::Inbox<isthmus::chare::DeviceBuffer<double>, int, int> face;
  void post(isthmus::chare::Post<&Part::face>, isthmus::chare::DeviceBuffer<double>& data, int number,
            int iteration);
  // The same by a mailbox: that of face `slot` / 2 and set `slot` % 2.
  template <std::size_t slot>
  void came(std::uint64_t points);
  // The largest change of all parts, and the largest error.
  isthmus::chare::Inbox<double> largest;

 private:
  [[nodiscard]] int neighbour(int face) const;
  [[nodiscard]] std::size_t length(int face) const;
  void look_at_addresses();
  void post_ahead(int face, int set);
  void send(const isthmus::chare::Array<Part>& all, int iteration);

  static constexpr int faces = 6;
  using Addresses = std::array<isthmus::chare::MailboxAddress<double>, 2>;

  const Block block_;
  int neighbours_ = 0;
  std::unique_ptr<Cells> cells_;
  std::array<std::array<isthmus::chare::Mailbox<double>, 2>, faces> boxes_;
  std::array<Addresses, faces> addresses_{};
  int unknown_ = 0;  // addresses
  std::optional<isthmus::chare::Callback<>> ready_;
  std::array<int, 2 * faces> taken_{};  // by mailbox: faces that have come
  isthmus::chare::Inbox<int> come_;     // the iteration of each
};

}  // namespace jacobi
