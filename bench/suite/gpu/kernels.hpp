// The kernels, as text that the driver compiles: building the suite needs no nvcc.
#pragma once

namespace isthmus::bench {

// isthmus_bench_touch(buffer, bytes): a thread a page of 4096 bytes reads one word of it, which is what makes
// managed memory move (the paper's data-migration kernel). isthmus_bench_nothing(): launching it is all that
// it does. isthmus_bench_copy(to, from, count) copies floats; isthmus_bench_stencil(to, from, columns, rows)
// is a step of job/grid.hpp.
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

.visible .entry isthmus_bench_copy(.param .u64 to, .param .u64 from, .param .u64 count)
{
  .reg .b32 %block, %width, %thread;
  .reg .b64 %index, %numbers, %source, %target;
  .reg .f32 %number;
  .reg .pred %beyond;
  ld.param.u64 %target, [to];
  ld.param.u64 %source, [from];
  ld.param.u64 %numbers, [count];
  mov.u32 %block, %ctaid.x;
  mov.u32 %width, %ntid.x;
  mov.u32 %thread, %tid.x;
  mad.lo.u32 %block, %block, %width, %thread;
  cvt.u64.u32 %index, %block;
  setp.ge.u64 %beyond, %index, %numbers;
  @%beyond bra done;
  cvta.to.global.u64 %source, %source;
  cvta.to.global.u64 %target, %target;
  shl.b64 %index, %index, 2;
  add.u64 %source, %source, %index;
  add.u64 %target, %target, %index;
  ld.global.f32 %number, [%source];
  st.global.f32 [%target], %number;
done:
  ret;
}

.visible .entry isthmus_bench_stencil(.param .u64 to, .param .u64 from, .param .u64 columns, .param .u64 rows)
{
  .reg .b32 %block, %size, %thread;
  .reg .b64 %index, %width, %height, %all, %row, %column, %pitch, %at, %source, %target, %above, %below;
  .reg .f32 %up, %down, %left, %right, %sum, %side;
  .reg .pred %beyond;
  ld.param.u64 %target, [to];
  ld.param.u64 %source, [from];
  ld.param.u64 %width, [columns];
  ld.param.u64 %height, [rows];
  mov.u32 %block, %ctaid.x;
  mov.u32 %size, %ntid.x;
  mov.u32 %thread, %tid.x;
  mad.lo.u32 %block, %block, %size, %thread;
  cvt.u64.u32 %index, %block;
  mul.lo.u64 %all, %width, %height;
  setp.ge.u64 %beyond, %index, %all;
  @%beyond bra done;
  div.u64 %row, %index, %width;
  rem.u64 %column, %index, %width;
  add.u64 %pitch, %width, 2;
  add.u64 %row, %row, 1;
  mad.lo.u64 %at, %row, %pitch, %column;
  add.u64 %at, %at, 1;
  shl.b64 %at, %at, 2;
  shl.b64 %pitch, %pitch, 2;
  cvta.to.global.u64 %source, %source;
  cvta.to.global.u64 %target, %target;
  add.u64 %source, %source, %at;
  add.u64 %target, %target, %at;
  sub.u64 %above, %source, %pitch;
  add.u64 %below, %source, %pitch;
  ld.global.f32 %up, [%above];
  ld.global.f32 %down, [%below];
  ld.global.f32 %left, [%source+-4];
  ld.global.f32 %right, [%source+4];
  add.rn.f32 %sum, %up, %down;
  add.rn.f32 %side, %left, %right;
  add.rn.f32 %sum, %sum, %side;
  mul.rn.f32 %sum, %sum, 0f3E800000;
  st.global.f32 [%target], %sum;
done:
  ret;
}
)";

inline constexpr unsigned threads_a_block = 128;
inline constexpr unsigned page_bytes = 4096;

}  // namespace isthmus::bench
