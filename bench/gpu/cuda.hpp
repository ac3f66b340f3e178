// The CUDA driver, loaded by the program itself, and memory of its kinds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "gpu/driver.hpp"

namespace isthmus::bench {

// The driver with the primary context of one device current, as the CUDA runtime has it. Ends the job where
// there is none.
class Cuda {
 public:
  // The device with number `rank` modulo those that there are.
  explicit Cuda(int rank);
  Cuda(const Cuda&) = delete;
  Cuda& operator=(const Cuda&) = delete;
  ~Cuda();

  const driver::Functions* operator->() const { return &functions_; }
  // Ends the job with the driver's words where a call has failed.
  void demand(int status, const char* what) const;
  std::string name() const;
  int device() const { return device_; }
  int devices() const { return devices_; }
  driver::Stream stream() const { return stream_; }
  // Waits for the stream as one does who cannot sleep: an event, asked for until it has passed.
  void poll() const;

 private:
  driver::Functions functions_{};
  int devices_ = 0;
  int device_ = 0;
  driver::Stream stream_ = nullptr;
  driver::Event event_ = nullptr;
};

enum class Kind { device, pinned, pageable, virtual_memory };

// Memory of a kind, whose bytes can be set and checked from the host.
class Memory {
 public:
  Memory(const Cuda& cuda, Kind kind, std::size_t bytes);
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory();

  std::byte* data() const { return reinterpret_cast<std::byte*>(address_); }
  driver::Address address() const { return address_; }
  template <class T>
  void write(const std::vector<T>& values) const {
    put(values.data(), values.size() * sizeof(T));
  }
  template <class T>
  std::vector<T> read(std::size_t count) const {
    std::vector<T> values(count);
    get(values.data(), count * sizeof(T));
    return values;
  }

 private:
  void put(const void* from, std::size_t bytes) const;
  void get(void* to, std::size_t bytes) const;
  void allocate_virtual(std::size_t bytes);

  const Cuda& cuda_;
  Kind kind_;
  driver::Address address_ = 0;
  std::size_t room_ = 0;  // of virtual memory
};

// Memory of the other rank's GPU, by a handle that MPI has carried; null where the driver refuses.
class PeerMemory {
 public:
  // Collective among two ranks: each opens what the other one has.
  PeerMemory(const Cuda& cuda, const Memory& mine, int peer);
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;
  ~PeerMemory();
  explicit operator bool() const { return address_ != 0; }
  driver::Address address() const { return address_; }

 private:
  const Cuda& cuda_;
  driver::Address address_ = 0;
};

}  // namespace isthmus::bench
