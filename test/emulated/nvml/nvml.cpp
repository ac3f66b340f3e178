// A stand-in for libnvidia-ml.so.1, for tests: a library that finds no driver, for those that will not load
// without one (UCX's CUDA module).

namespace {

constexpr int library_not_found = 12;  // NVML_ERROR_LIBRARY_NOT_FOUND

}  // namespace

extern "C" {

int nvmlInit_v2() {
  return library_not_found;
}

const char* nvmlErrorString(int /*status*/) {
  return "the emulated NVML finds no driver";
}
}
