#include "places.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <optional>

namespace isthmus::gpu_check {
namespace {

constexpr std::size_t page = 4096;
/// Of `Place::device_odd`.
constexpr std::size_t odd_offset = 1237;

/// A function of the driver that the library does not use.
template <class Function>
Function symbol(const char* name) {
  auto* const found =
      reinterpret_cast<Function>(::dlsym(::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD), name));
  CHECK(found != nullptr);
  return found;
}

/// The primary context of another device, for as long as this lives.
class OtherDevice {
 public:
  OtherDevice(const Gpu& gpu, cuda::Device device) : gpu_(gpu), device_(device) {
    cuda::Context context = nullptr;
    CHECK_CUDA(gpu_.functions().primary_retain(&context, device_));
    CHECK_CUDA(gpu_.functions().context_push(context));
  }
  OtherDevice(const OtherDevice&) = delete;
  OtherDevice& operator=(const OtherDevice&) = delete;
  ~OtherDevice() {
    cuda::Context popped = nullptr;
    gpu_.functions().context_pop(&popped);
  }
  /// Its memory is gone.
  void release() const { gpu_.functions().primary_release(device_); }

 private:
  const Gpu& gpu_;
  const cuda::Device device_;
};

cuda::Device other_device(const Gpu& gpu) {
  int count = 0;
  CHECK_CUDA(gpu.functions().device_count(&count));
  return (gpu.device() + 1) % count;
}

}  // namespace

std::string_view name_of(Place place) {
  constexpr std::array<std::string_view, place_count> names{
      "device",  "device at an odd address", "another GPU",  "pinned",      "registered", "pageable",
      "managed", "managed on the host",      "default pool", "shared pool", "vmm",        "private vmm"};
  return names[static_cast<std::size_t>(place)];
}

bool is_host(Place place) {
  return place == Place::pinned || place == Place::registered || place == Place::pageable ||
         place == Place::managed_host;
}

std::uint64_t mix(std::uint64_t value) {
  value += 0x9e37'79b9'7f4a'7c15;
  value = (value ^ (value >> 30U)) * 0xbf58'476d'1ce4'e5b9;
  value = (value ^ (value >> 27U)) * 0x94d0'49bb'1331'11eb;
  return value ^ (value >> 31U);
}

Bytes pattern(std::uint64_t seed, std::size_t bytes) {
  Bytes values((bytes + 7) / 8 * 8);
  for (std::size_t i = 0; i < values.size(); i += 8) {
    const std::uint64_t word = (seed + i) * 0x9e37'79b9'7f4a'7c15;
    std::memcpy(&values[i], &word, sizeof word);
  }
  values.resize(bytes);
  return values;
}

void wrong(const std::string& what) {
  check_failed(__FILE__, __LINE__, what.c_str(), "");
  std::abort();
}

void expect(bool holds, const std::string& what) {
  if (!holds) wrong(what);
}

void expect_success(int error, std::string_view call) {
  if (error == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(error, text.data(), &length);
  wrong(std::string(call) + ": " + text.data());
}

Region::Region(const Setting& setting, Place place, std::size_t bytes)
    : setting_(setting), place_(place), bytes_(bytes), room_(bytes + guard) {
  allocate();
  CHECK(base_ != 0);
  data_ = base_ + (place == Place::device_odd ? odd_offset : 0);
}

void Region::allocate() {
  const cuda::Functions& cuda = setting_.gpu.functions();
  void* host = nullptr;
  switch (place_) {
    case Place::device_odd:
      room_ += odd_offset;
      [[fallthrough]];
    case Place::device:
      CHECK_CUDA(cuda.allocate(&base_, room_));
      return;
    case Place::other_gpu: {
      const OtherDevice other(setting_.gpu, other_device(setting_.gpu));
      CHECK_CUDA(cuda.allocate(&base_, room_));
      return;
    }
    case Place::pinned:
      CHECK_CUDA(cuda.host_allocate(&host, room_, 0));
      break;
    case Place::registered:
      room_ = (room_ + page - 1) / page * page;
      host = std::aligned_alloc(page, room_);
      CHECK_CUDA(cuda.host_register(host, room_, 0));
      break;
    case Place::pageable:
      host = std::malloc(room_);
      break;
    case Place::managed:
    case Place::managed_host:
      CHECK_CUDA(cuda.managed_allocate(&base_, room_, cuda::attach_global));
      return;
    case Place::default_pool: {
      using Allocate = cuda::Status (*)(cuda::Address*, std::size_t, cuda::Stream);
      CHECK_CUDA(symbol<Allocate>("cuMemAllocAsync")(&base_, room_, default_stream));
      CHECK_CUDA(cuda.stream_synchronize(default_stream));
      return;
    }
    case Place::shared_pool: {
      const cuda::PoolProperties properties{.handle_types = cuda::HandleType::posix_descriptor,
                                            .location = {cuda::LocationType::device, setting_.gpu.device()}};
      CHECK_CUDA(cuda.pool_create(&pool_, &properties));
      CHECK_CUDA(cuda.pool_allocate(&base_, room_, pool_, default_stream));
      CHECK_CUDA(cuda.stream_synchronize(default_stream));
      return;
    }
    case Place::vmm:
      return allocate_vmm(cuda::HandleType::posix_descriptor);
    case Place::private_vmm:
      return allocate_vmm(cuda::HandleType::none);
  }
  base_ = reinterpret_cast<cuda::Address>(host);
}

void Region::allocate_vmm(cuda::HandleType handles) {
  const cuda::Functions& cuda = setting_.gpu.functions();
  const cuda::AllocationProperties properties{
      .handle_types = handles, .location = {cuda::LocationType::device, setting_.gpu.device()}};
  std::size_t grain = 0;
  CHECK_CUDA(cuda.granularity(&grain, &properties, cuda::GranularityKind::recommended));
  room_ = (room_ + grain - 1) / grain * grain;
  cuda::Physical physical = 0;
  CHECK_CUDA(cuda.physical_create(&physical, room_, &properties, 0));
  CHECK_CUDA(cuda.address_reserve(&base_, room_, 0, 0, 0));
  CHECK_CUDA(cuda.map(base_, room_, 0, physical, 0));
  CHECK_CUDA(cuda.physical_release(physical));
  const cuda::Access access{.location = properties.location, .flags = cuda::AccessFlags::read_write};
  CHECK_CUDA(cuda.set_access(base_, room_, &access, 1));
}

Region::~Region() {
  const cuda::Functions& cuda = setting_.gpu.functions();
  void* const host = reinterpret_cast<void*>(base_);
  switch (place_) {
    case Place::other_gpu: {
      const cuda::Device device = other_device(setting_.gpu);
      const OtherDevice other(setting_.gpu, device);
      CHECK_CUDA(cuda.free(base_));
      other.release();  // of the allocation
      other.release();
      return;
    }
    case Place::device:
    case Place::device_odd:
    case Place::managed:
    case Place::managed_host:
      CHECK_CUDA(cuda.free(base_));
      return;
    case Place::pinned:
      CHECK_CUDA(cuda.host_free(host));
      return;
    case Place::registered:
      CHECK_CUDA(cuda.host_unregister(host));
      std::free(host);
      return;
    case Place::pageable:
      std::free(host);
      return;
    case Place::default_pool:
    case Place::shared_pool:
      CHECK_CUDA(cuda.pool_free(base_, default_stream));
      CHECK_CUDA(cuda.stream_synchronize(default_stream));
      if (pool_) CHECK_CUDA(cuda.pool_destroy(pool_));
      return;
    case Place::vmm:
    case Place::private_vmm:
      CHECK_CUDA(cuda.unmap(base_, room_));
      CHECK_CUDA(cuda.address_free(base_, room_));
      return;
  }
}

void Region::write(const Bytes& values) {
  CHECK(values.size() <= bytes_ + guard);
  if (values.empty()) return;
  if (is_host(place_)) {
    std::memcpy(data(), values.data(), values.size());
    return;
  }
  if (place_ == Place::managed) prefetch();
  const cuda::Functions& cuda = setting_.gpu.functions();
  CHECK_CUDA(cuda.copy(data_, reinterpret_cast<cuda::Address>(values.data()), values.size()));
  CHECK_CUDA(cuda.stream_synchronize(default_stream));
}

void Region::prefetch() {
  const cuda::Functions& cuda = setting_.gpu.functions();
  const cuda::Location device{.type = cuda::LocationType::device, .id = setting_.gpu.device()};
  CHECK_CUDA(cuda.managed_prefetch(base_, room_, device, 0, default_stream));
  CHECK_CUDA(cuda.stream_synchronize(default_stream));
}

void Region::clear() {
  if (is_host(place_)) {
    std::memset(data(), untouched, bytes_ + guard);
    return;
  }
  // On a real GPU managed memory is there then, and CUDA does not say so: nobody has asked for it to go.
  const cuda::Functions& cuda = setting_.gpu.functions();
  // A driver fills memory of the current context's GPU alone.
  std::optional<OtherDevice> other;
  if (place_ == Place::other_gpu) other.emplace(setting_.gpu, other_device(setting_.gpu));
  CHECK_CUDA(cuda.fill(data_, untouched, bytes_ + guard));
  CHECK_CUDA(cuda.stream_synchronize(default_stream));
  if (other) other->release();  // the memory itself retains it
}

Bytes Region::read(std::size_t bytes) const {
  Bytes values(bytes);
  if (bytes == 0) return values;
  if (is_host(place_)) {
    std::memcpy(values.data(), data(), bytes);
    return values;
  }
  const cuda::Functions& cuda = setting_.gpu.functions();
  CHECK_CUDA(cuda.copy(reinterpret_cast<cuda::Address>(values.data()), data_, bytes));
  CHECK_CUDA(cuda.stream_synchronize(default_stream));
  return values;
}

void Region::expect(std::uint64_t seed, std::size_t bytes, std::string_view what) const {
  expect(pattern(seed, bytes), what);
}

void Region::expect(const Bytes& wanted, std::string_view what) const {
  const Bytes got = read(bytes_ + guard);
  const auto differs = std::mismatch(wanted.begin(), wanted.end(), got.begin());
  const std::string where = std::string(what) + ", " + std::string(name_of(place_)) + ", " +
                            std::to_string(wanted.size()) + " bytes";
  if (differs.first != wanted.end())
    wrong(where + ": byte " + std::to_string(differs.first - wanted.begin()) + " is " +
          std::to_string(*differs.second) + ", not " + std::to_string(*differs.first));
  const auto written = std::find_if(got.begin() + static_cast<std::ptrdiff_t>(wanted.size()), got.end(),
                                    [](unsigned char byte) { return byte != untouched; });
  if (written != got.end())
    wrong(where + ": byte " + std::to_string(written - got.begin()) + ", behind the end, was written");
}

}  // namespace isthmus::gpu_check
