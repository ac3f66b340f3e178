#include "gpu/driver/cuda_error.hpp"

namespace isthmus::cuda {

std::string text_of(const Functions& functions, Status status) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (functions.error_name(status, &name) != Status::success || !name ||
      functions.error_string(status, &text) != Status::success || !text)
    return "CUresult " + std::to_string(static_cast<int>(status));
  return std::string(name) + ", " + text;
}

bool is_sticky(Status status) noexcept {
  // Illegal address, launch out of resources is not one; assertion; hardware stack error to launch failure
  // (illegal instruction, misaligned address, invalid address space, invalid PC); launch timeout; ECC.
  const int value = static_cast<int>(status);
  return value == 700 || value == 702 || value == 710 || (value >= 714 && value <= 719) || value == 214 ||
         value == 220;
}

std::unexpected<Error> fail(const Functions& functions, Status status, std::string_view what) {
  const ErrorClass error_class = status == Status::out_of_memory ? ErrorClass::no_mem : ErrorClass::other;
  if (is_sticky(status))
    return isthmus::fail(error_class,
                         "GPU work of the program has failed before (" + text_of(functions, status) +
                             "): nothing can be done in its CUDA context any more, not even to " +
                             std::string(what));
  return isthmus::fail(error_class,
                       "the CUDA driver refuses to " + std::string(what) + ": " + text_of(functions, status));
}

std::unexpected<Error> fail_after_reset(Device device, std::string_view rest) {
  return isthmus::fail(ErrorClass::other,
                       "the program has reset GPU " + std::to_string(device) + " " + std::string(rest));
}

}  // namespace isthmus::cuda
