// What FFTW is asked for, owned.
#pragma once

#include <fftw3.h>

#include <algorithm>
#include <complex>
#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>

namespace fft {

// Memory aligned as FFTW likes it best; not initialised.
template <class T>
class Array {
 public:
  explicit Array(std::size_t size)
      : data_(static_cast<T*>(fftw_malloc(std::max<std::size_t>(size, 1) * sizeof(T)))), size_(size) {
    if (!data_) throw std::bad_alloc();
  }

  [[nodiscard]] T* data() { return data_.get(); }
  [[nodiscard]] const T* data() const { return data_.get(); }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] T& operator[](std::size_t i) { return data_.get()[i]; }
  [[nodiscard]] const T& operator[](std::size_t i) const { return data_.get()[i]; }

 private:
  struct Free {
    void operator()(T* data) const { fftw_free(data); }
  };

  std::unique_ptr<T, Free> data_;
  std::size_t size_;
};

// None does nothing.
class Plan {
 public:
  Plan() = default;
  explicit Plan(fftw_plan plan) : plan_(plan) {
    if (plan == nullptr) throw std::bad_alloc();
  }
  void execute() const {
    if (plan_) fftw_execute(plan_.get());
  }

 private:
  struct Destroy {
    void operator()(fftw_plan plan) const { fftw_destroy_plan(plan); }
  };

  std::unique_ptr<std::remove_pointer_t<fftw_plan>, Destroy> plan_;
};

[[nodiscard]] inline fftw_complex* for_fftw(std::complex<double>* data) {
  return reinterpret_cast<fftw_complex*>(data);
}

}  // namespace fft
