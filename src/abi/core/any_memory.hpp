#pragma once

#include "abi/core/runtime.hpp"
#include "coll/entry/stand_ins.hpp"
#include "p2p/protocol/gpu/messages.hpp"

/// For the local calls whose buffers may lie in GPU memory.
namespace isthmus::abi {

/// Null where the program does not use CUDA: 1 ns.
inline GpuMessages* gpu_in_use() {
  Engine* const engine = Runtime::get().engine.get();
  return engine && engine->uses_cuda() ? engine->gpu() : nullptr;
}

/// Calls `work(in, out)`, which knows host memory only, with stand-ins for what lies in GPU memory. Of what
/// `out` has before, `work` sees the bytes if `use` says that it reads them.
template <class Work>
Result<> with_stand_ins(GpuMessages& gpu, const coll::In& in, const coll::Out& out, coll::Use use,
                        Work&& work) {
  coll::StandIns stand_ins(gpu);
  const coll::In from = stand_ins.of(in, 1);
  const coll::Out to = stand_ins.of(out, 1, use);
  stand_ins.fetch();
  if (!stand_ins.is_well()) return stand_ins.finish({});
  return stand_ins.finish(work(from.buffer, to.buffer));
}

}  // namespace isthmus::abi
