#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "../gpu_memory.hpp"

/// What all groups of gpu_check are made of: memory wherever a program may have it, with bytes that can be
/// told.
namespace isthmus::gpu_check {

using namespace testing_gpu;
using Bytes = std::vector<unsigned char>;

/// Where a program has its data.
enum class Place : std::uint8_t {
  device,
  device_odd,  ///< not at the beginning of its allocation, and not aligned
  other_gpu,
  pinned,
  registered,
  pageable,
  managed,       ///< the GPU had it last
  managed_host,  ///< the processor had it last
  default_pool,  ///< cudaMallocAsync, which no other process can open
  shared_pool,
  vmm,
  private_vmm,  ///< which no other process can open
};
inline constexpr std::size_t place_count = 12;
std::string_view name_of(Place place);
/// Whether the program itself writes and reads there by its processor.
bool is_host(Place place);

/// A pseudo-random number (splitmix64).
std::uint64_t mix(std::uint64_t value);
/// `bytes` bytes that follow from the seed.
Bytes pattern(std::uint64_t seed, std::size_t bytes);
/// What stands where nothing has been written.
inline constexpr unsigned char untouched = 0xEE;

/// The process, as all groups see it.
struct Setting {
  const Gpu& gpu;
  int rank;
  int size;
  /// Fewer, shorter messages: for an emulated driver, whose copies are the processor's.
  bool quick;
};

/// Memory at a place, with room for what must not be written behind the data.
class Region {
 public:
  static constexpr std::size_t guard = 16;

  Region(const Setting& setting, Place place, std::size_t bytes);
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  ~Region();

  [[nodiscard]] void* data() const { return reinterpret_cast<void*>(data_); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] Place place() const { return place_; }

  void write(const Bytes& values);
  /// The first bytes of a pattern.
  void fill(std::uint64_t seed, std::size_t bytes) { write(pattern(seed, bytes)); }
  /// Nothing has been written, guard included.
  void clear();
  [[nodiscard]] Bytes read(std::size_t bytes) const;
  /// The region has the pattern, `bytes` of it, and is untouched behind; else the program ends and says where
  /// not.
  void expect(std::uint64_t seed, std::size_t bytes, std::string_view what) const;
  /// It has these, and is untouched behind.
  void expect(const Bytes& wanted, std::string_view what) const;

 private:
  void allocate();
  void allocate_vmm(cuda::HandleType handles);
  void prefetch();

  const Setting& setting_;
  const Place place_;
  const std::size_t bytes_;
  std::size_t room_ = 0;  ///< of the allocation
  cuda::Address base_ = 0, data_ = 0;
  cuda::Pool pool_ = nullptr;
};

/// Ends the program with what is wrong.
[[noreturn]] void wrong(const std::string& what);
void expect(bool holds, const std::string& what);
/// An MPI call has succeeded.
void expect_success(int error, std::string_view call);

// The groups. Each ends the program where something is wrong.
void check_matrix(const Setting& setting);
void check_types(const Setting& setting);
void check_flight(const Setting& setting);
void check_calls(const Setting& setting);
void check_coll(const Setting& setting);
void check_again(const Setting& setting);
void check_span(const Setting& setting);
void check_threads(const Setting& setting);
void check_streams(const Setting& setting);
void check_bounce(const Setting& setting);
void measure_times(const Setting& setting);

}  // namespace isthmus::gpu_check
