// The kernels, as text that the driver compiles: building the suite needs no nvcc.
#pragma once

namespace isthmus::bench {

// isthmus_bench_touch(buffer, bytes): a thread a page of 4096 bytes reads one word of it, which is what makes
// managed memory move (the paper's data-migration kernel). isthmus_bench_nothing(): launching it is all that
// it does.
inline constexpr const char* kernels = R"(
.version 6.0
.target sm_50
.address_size 64

.visible .entry isthmus_bench_touch(.param .u64 buffer, .param .u64 bytes)
{
  .reg .b32 %index, %count, %thread, %value;
  .reg .b64 %address, %length, %offset;
  .reg .pred %beyond;
  ld.param.u64 %address, [buffer];
  ld.param.u64 %length, [bytes];
  mov.u32 %index, %ctaid.x;
  mov.u32 %count, %ntid.x;
  mov.u32 %thread, %tid.x;
  mad.lo.u32 %index, %index, %count, %thread;
  mul.wide.u32 %offset, %index, 4096;
  setp.ge.u64 %beyond, %offset, %length;
  @%beyond bra done;
  cvta.to.global.u64 %address, %address;
  add.u64 %address, %address, %offset;
  ld.volatile.global.u8 %value, [%address];
done:
  ret;
}

.visible .entry isthmus_bench_nothing()
{
  ret;
}
)";

inline constexpr unsigned threads_a_block = 128;
inline constexpr unsigned page_bytes = 4096;

}  // namespace isthmus::bench
