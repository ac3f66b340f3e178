// Copies and fills.
#include "copies.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <tuple>
#include <utility>
#include <vector>

#include "streams/capture.hpp"

namespace isthmus::emulated {
namespace {

struct Rows {
  std::byte* target = nullptr;
  const std::byte* source = nullptr;
  std::size_t width = 0, height = 1, target_pitch = 0, source_pitch = 0;
};

void take_time(std::size_t bytes) {
  if (const unsigned rate = settings().megabytes_per_second; rate > 0)
    std::this_thread::sleep_for(std::chrono::microseconds(bytes / rate));
}

bool is_of_another_process(const Place& place) {
  return place.allocation &&
         (place.allocation->origin == Origin::ipc || place.allocation->origin == Origin::imported_pointer);
}

bool is_on_host(const Place& place) {
  return !place.allocation || place.allocation->origin == Origin::pinned ||
         place.allocation->origin == Origin::registered;
}

/// What copies of one kind take more (`Settings::writes_us` and the like).
void take_more_time(const Place& to, const Place& from) {
  unsigned more = 0;
  if (is_of_another_process(to)) more += settings().writes_us;
  if (is_of_another_process(from)) more += settings().reads_us;
  if (is_on_host(to) != is_on_host(from)) more += settings().host_us;
  if (more > 0) std::this_thread::sleep_for(std::chrono::microseconds(more));
}

void move(const Rows& rows) {
  take_time(rows.width * rows.height);
  for (std::size_t y = 0; y < rows.height; ++y)
    std::memmove(rows.target + y * rows.target_pitch, rows.source + y * rows.source_pitch, rows.width);
}

enum class Waits { no, yes };

/// A copy from or to pageable memory, and one without a stream, has been made when the call returns.
Status start(const Rows& rows, const Place& to, const Place& from, Stream stream, Waits waits) {
  Position position;
  ISTHMUS_PASS(submit(
      stream,
      [rows, to, from] {
        begin_computing();
        take_more_time(to, from);
        move(rows);
      },
      &position));
  if (waits == Waits::yes || !to.allocation || !from.allocation) position.wait();
  return enter();
}

Status copy(Address to, Address from, std::size_t bytes, Stream stream, Waits waits) {
  Context context = nullptr;
  ISTHMUS_PASS(enter_with_context(context));
  if (waits == Waits::yes) ISTHMUS_PASS(unsafe_in_capture());
  if (bytes == 0) return Status::success;
  Place target;
  Place source;
  ISTHMUS_PASS(locate(to, bytes, context->device, target));
  ISTHMUS_PASS(locate(from, bytes, context->device, source));
  return start({.target = target.view, .source = source.view, .width = bytes}, target, source, stream, waits);
}

/// The forms whose name says on which side the device is take no pageable memory there.
Status need_device(Address address) {
  ISTHMUS_PASS(enter());
  const std::scoped_lock lock(driver()->mutex);
  return driver()->addresses.find(address) ? Status::success : Status::invalid_value;
}

Address side(MemoryType type, const void* host, Address device) {
  return type == MemoryType::host ? reinterpret_cast<Address>(host) : device;
}

Status copy_rows(const Copy2D& copy, Stream stream, Waits waits) {
  Context context = nullptr;
  ISTHMUS_PASS(enter_with_context(context));
  if (waits == Waits::yes) ISTHMUS_PASS(unsafe_in_capture());
  if (copy.source_type == MemoryType::array || copy.target_type == MemoryType::array)
    return Status::not_supported;
  if (copy.width == 0 || copy.height == 0) return Status::success;
  const std::size_t from_pitch = copy.source_pitch ? copy.source_pitch : copy.width;
  const std::size_t to_pitch = copy.target_pitch ? copy.target_pitch : copy.width;
  if (from_pitch < copy.width + copy.source_x || to_pitch < copy.width + copy.target_x)
    return Status::invalid_value;
  const Address from =
      side(copy.source_type, copy.source_host, copy.source) + copy.source_y * from_pitch + copy.source_x;
  const Address to =
      side(copy.target_type, copy.target_host, copy.target) + copy.target_y * to_pitch + copy.target_x;
  Place source;
  Place target;
  ISTHMUS_PASS(locate(from, (copy.height - 1) * from_pitch + copy.width, context->device, source));
  ISTHMUS_PASS(locate(to, (copy.height - 1) * to_pitch + copy.width, context->device, target));
  return start({.target = target.view,
                .source = source.view,
                .width = copy.width,
                .height = copy.height,
                .target_pitch = to_pitch,
                .source_pitch = from_pitch},
               target, source, stream, waits);
}

template <class Element>
Status fill(Address to, Element value, std::size_t count, Stream stream, Waits waits) {
  Context context = nullptr;
  ISTHMUS_PASS(enter_with_context(context));
  if (waits == Waits::yes) ISTHMUS_PASS(unsafe_in_capture());
  if (count == 0) return Status::success;
  if (to % sizeof(Element) != 0) return Status::invalid_value;
  Place target;
  ISTHMUS_PASS(locate(to, count * sizeof(Element), context->device, target));
  if (!target.allocation) return Status::invalid_value;
  Position position;
  ISTHMUS_PASS(submit(
      stream,
      [target, value, count] {
        begin_computing();
        take_time(count * sizeof(Element));
        std::fill_n(reinterpret_cast<Element*>(target.view), count, value);
      },
      &position));
  if (waits == Waits::yes) position.wait();
  return enter();
}

}  // namespace

Status locate(Address address, std::size_t bytes, Device device, Place& place) {
  Driver& cuda = *driver();
  const std::scoped_lock lock(cuda.mutex);
  place.allocation = cuda.addresses.find(address);
  if (!place.allocation) {
    place.view = reinterpret_cast<std::byte*>(address);
    return address == 0 || cuda.addresses.is_ours(address) ? Status::invalid_value : Status::success;
  }
  place.view = place.allocation->view_of(address);
  for (auto memory = place.allocation; memory; memory = cuda.addresses.find(address)) {
    if (memory->origin == Origin::mapped &&
        std::ranges::find(memory->accessible, device) == memory->accessible.end())
      return Status::invalid_value;
    const std::size_t here = memory->bytes - (address - memory->base);
    if (bytes <= here) return Status::success;
    if (memory->origin != Origin::mapped) return Status::invalid_value;
    address += here;
    bytes -= here;
    // Another reservation may begin there, which the copy engine sees elsewhere.
    const auto next = cuda.addresses.find(address);
    if (next && next->view_of(address) != memory->view + memory->bytes) return Status::invalid_value;
  }
  return Status::invalid_value;
}

extern "C" {

Status cuMemcpy(Address to, Address from, std::size_t bytes) {
  return copy(to, from, bytes, nullptr, Waits::yes);
}

Status cuMemcpyAsync(Address to, Address from, std::size_t bytes, Stream stream) {
  return copy(to, from, bytes, stream, Waits::no);
}

Status cuMemcpyBatchAsync_v2(Address* to, Address* from, std::size_t* bytes, std::size_t count,
                             CopyAttributes* attributes, std::size_t* first_of_attributes,
                             std::size_t attribute_count, Stream stream) {
  if (count == 0 || !to || !from || !bytes || !stream) return Status::invalid_value;
  if (attribute_count == 0 || attribute_count > count || !attributes || first_of_attributes[0] != 0)
    return Status::invalid_value;
  Context context = nullptr;
  ISTHMUS_PASS(enter_with_context(context));
  // The places keep the memory until it has been copied.
  std::vector<std::tuple<Place, Place, std::size_t>> copies;
  for (std::size_t i = 0; i < count; ++i) {
    if (bytes[i] == 0) return Status::invalid_value;
    auto& [target, source, length] = copies.emplace_back(Place(), Place(), bytes[i]);
    ISTHMUS_PASS(locate(to[i], length, context->device, target));
    ISTHMUS_PASS(locate(from[i], length, context->device, source));
  }
  return submit(stream, [copies = std::move(copies)] {
    begin_computing();
    for (const auto& [target, source, length] : copies) {
      take_more_time(target, source);
      move({.target = target.view, .source = source.view, .width = length});
    }
  });
}

Status cuMemcpyHtoD_v2(Address to, const void* from, std::size_t bytes) {
  ISTHMUS_PASS(need_device(to));
  return copy(to, reinterpret_cast<Address>(from), bytes, nullptr, Waits::yes);
}

Status cuMemcpyHtoDAsync_v2(Address to, const void* from, std::size_t bytes, Stream stream) {
  ISTHMUS_PASS(need_device(to));
  return copy(to, reinterpret_cast<Address>(from), bytes, stream, Waits::no);
}

Status cuMemcpyDtoH_v2(void* to, Address from, std::size_t bytes) {
  ISTHMUS_PASS(need_device(from));
  return copy(reinterpret_cast<Address>(to), from, bytes, nullptr, Waits::yes);
}

Status cuMemcpyDtoHAsync_v2(void* to, Address from, std::size_t bytes, Stream stream) {
  ISTHMUS_PASS(need_device(from));
  return copy(reinterpret_cast<Address>(to), from, bytes, stream, Waits::no);
}

Status cuMemcpyDtoD_v2(Address to, Address from, std::size_t bytes) {
  ISTHMUS_PASS(need_device(to));
  ISTHMUS_PASS(need_device(from));
  return copy(to, from, bytes, nullptr, Waits::yes);
}

Status cuMemcpyDtoDAsync_v2(Address to, Address from, std::size_t bytes, Stream stream) {
  ISTHMUS_PASS(need_device(to));
  ISTHMUS_PASS(need_device(from));
  return copy(to, from, bytes, stream, Waits::no);
}

Status cuMemcpyPeerAsync(Address to, Context to_context, Address from, Context from_context,
                         std::size_t bytes, Stream stream) {
  if (!to_context || !from_context) return Status::invalid_context;
  return cuMemcpyDtoDAsync_v2(to, from, bytes, stream);
}

Status cuMemcpy2D_v2(const Copy2D* copy) {
  return copy ? copy_rows(*copy, nullptr, Waits::yes) : Status::invalid_value;
}

Status cuMemcpy2DAsync_v2(const Copy2D* copy, Stream stream) {
  return copy ? copy_rows(*copy, stream, Waits::no) : Status::invalid_value;
}

Status cuMemsetD8_v2(Address to, unsigned char value, std::size_t bytes) {
  return fill(to, value, bytes, nullptr, Waits::yes);
}

Status cuMemsetD8Async(Address to, unsigned char value, std::size_t bytes, Stream stream) {
  return fill(to, value, bytes, stream, Waits::no);
}

Status cuMemsetD32_v2(Address to, unsigned value, std::size_t count) {
  return fill(to, value, count, nullptr, Waits::yes);
}

Status cuMemsetD32Async(Address to, unsigned value, std::size_t count, Stream stream) {
  return fill(to, value, count, stream, Waits::no);
}
}

}  // namespace isthmus::emulated
