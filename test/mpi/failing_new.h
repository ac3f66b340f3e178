/* Memory that runs out at the n-th allocation that a program and its libraries make by `operator new`. To be
 * included by one file of a program: it replaces the operators. */
#ifndef ISTHMUS_TEST_FAILING_NEW_H
#define ISTHMUS_TEST_FAILING_NEW_H

#include <cstdlib>
#include <new>

namespace {

/// Counts down to the allocation of this thread that fails; 0: none does.
thread_local long countdown = 0;
thread_local bool has_failed = false;

/// Whether this allocation is the one.
bool fails_now() noexcept {
  if (countdown == 0) return false;
  --countdown;
  if (countdown != 0) return false;
  has_failed = true;
  return true;
}

void* allocate(std::size_t bytes) noexcept {
  if (fails_now()) return nullptr;
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void* allocate_or_throw(std::size_t bytes) {
  if (void* const memory = allocate(bytes)) return memory;
  throw std::bad_alloc();
}
void* allocate_aligned(std::size_t bytes, std::align_val_t alignment) {
  const auto step = static_cast<std::size_t>(alignment);
  if (fails_now()) throw std::bad_alloc();
  if (void* const memory = std::aligned_alloc(step, (bytes + step - 1) / step * step)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t bytes) {
  return allocate_or_throw(bytes);
}
void* operator new[](std::size_t bytes) {
  return allocate_or_throw(bytes);
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate_aligned(bytes, alignment);
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return allocate_aligned(bytes, alignment);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

#endif
