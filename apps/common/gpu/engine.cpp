#include "common/gpu/engine.hpp"

#include <cstring>
#include <new>

namespace apps::gpu {
namespace {

// This process's number on its host.
int number_on_host(MPI_Comm comm) {
  MPI_Comm host = MPI_COMM_NULL;
  int number = 0;
  MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  MPI_Comm_rank(host, &number);
  MPI_Comm_free(&host);
  return number;
}

}  // namespace

Engine::Engine(Place place, MPI_Comm comm) {
  if (place == Place::gpu) device_ = std::make_unique<Device>(number_on_host(comm));
}

Kernel Engine::find(const char* name) const {
  const auto [at, is_new] = kernels_.try_emplace(name, nullptr);
  if (is_new) at->second = device_->kernel(name);
  return at->second;
}

void Engine::copy(void* to, const void* from, std::size_t bytes) const {
  if (device_)
    device_->copy(to, from, bytes);
  else
    std::memcpy(to, from, bytes);
}

void Engine::clear(void* to, std::size_t bytes) const {
  if (device_)
    device_->clear(to, bytes);
  else
    std::memset(to, 0, bytes);
}

void Engine::wait() const {
  if (device_) device_->wait();
}

void* Engine::allocate(std::size_t bytes) const {
  const std::size_t some = bytes > 0 ? bytes : 1;
  return device_ ? device_->allocate(some) : ::operator new(some);
}

void Engine::free(void* memory) const noexcept {
  if (device_)
    device_->free(memory);
  else
    ::operator delete(memory);
}

}  // namespace apps::gpu
