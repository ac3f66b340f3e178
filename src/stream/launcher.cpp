#include "stream/launcher.hpp"

#include "kernels/image.hpp"

namespace isthmus::stream {

Launcher::Launcher(const cuda::Functions& functions, cuda::Device device) : functions_(&functions) {
  int major = 0;
  functions.device_attribute(&major, cuda::DeviceAttribute::compute_capability_major, device);
  follows_ = functions.launch_with != nullptr && kernels_follow(major);
}

cuda::Status Launcher::launch(cuda::Stream stream, cuda::Function kernel, unsigned blocks, unsigned threads,
                              void* arguments) const {
  if (!follows_ || blocks > 1)
    return functions_->launch(kernel, blocks, 1, 1, threads, 1, 1, 0, stream, &arguments, nullptr);
  cuda::LaunchAttribute follows{.id = cuda::LaunchAttributeId::programmatic_stream_serialization,
                                .allowed = 1};
  const cuda::LaunchConfig config{.grid = {blocks, 1, 1},
                                  .block = {threads, 1, 1},
                                  .shared_bytes = 0,
                                  .stream = stream,
                                  .attributes = &follows,
                                  .attribute_count = 1};
  return functions_->launch_with(&config, kernel, &arguments, nullptr);
}

}  // namespace isthmus::stream
