#include "gpu/copy/batch.hpp"

#include <array>
#include <string>

#include "gpu/driver/cuda_error.hpp"

namespace isthmus {

Result<> copy_batch(const cuda::Functions& functions, cuda::Stream stream,
                    std::span<const CopyPiece> pieces) {
  std::array<cuda::Address, most_in_batch> to;
  std::array<cuda::Address, most_in_batch> from;
  std::array<std::size_t, most_in_batch> lengths;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    to[i] = reinterpret_cast<cuda::Address>(pieces[i].to);
    from[i] = reinterpret_cast<cuda::Address>(pieces[i].from);
    lengths[i] = pieces[i].bytes;
    bytes += pieces[i].bytes;
  }
  cuda::Status status = cuda::Status::success;
  if (functions.copy_batch && pieces.size() > 1) {
    cuda::CopyAttributes attributes;
    std::size_t first = 0;
    status = functions.copy_batch(to.data(), from.data(), lengths.data(), pieces.size(), &attributes, &first,
                                  1, stream);
  } else {
    for (std::size_t i = 0; i < pieces.size() && status == cuda::Status::success; ++i)
      status = functions.copy_async(to[i], from[i], lengths[i], stream);
  }
  if (status == cuda::Status::success) return {};
  return cuda::fail(functions, status, "copy " + std::to_string(bytes) + " bytes between GPUs");
}

}  // namespace isthmus
