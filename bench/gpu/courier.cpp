#include "gpu/courier.hpp"

#include <array>
#include <cstring>

namespace isthmus::bench {
namespace {

// isthmus_bench_courier(board, last): `last` is the number of the last errand that is done. 200 us without
// one, and it writes that it has left.
constexpr const char* kernel_text = R"(
.version 6.0
.target sm_70
.address_size 64

.visible .entry isthmus_bench_courier(.param .u64 board, .param .u64 last)
{
  .reg .b64 %board, %last, %to, %number, %begin, %now;
  .reg .pred %has_come, %waits;
  ld.param.u64 %board, [board];
  ld.param.u64 %last, [last];
  cvta.to.global.u64 %board, %board;
  mov.u64 %begin, %globaltimer;
look:
  ld.relaxed.sys.global.v2.u64 {%to, %number}, [%board];
  setp.ne.u64 %has_come, %number, %last;
  @%has_come bra work;
  mov.u64 %now, %globaltimer;
  sub.u64 %now, %now, %begin;
  setp.lt.u64 %waits, %now, 200000;
  @%waits bra look;
  mov.u64 %now, 1;
  st.relaxed.sys.global.u64 [%board+72], %now;
  ret;
work:
  st.relaxed.sys.global.u64 [%to], %number;
  fence.acq_rel.sys;
  st.relaxed.sys.global.u64 [%board+64], %number;
  mov.u64 %last, %number;
  mov.u64 %begin, %globaltimer;
  bra look;
}
)";

std::uint64_t read(const std::uint64_t& word) {
  return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
}

}  // namespace

BareCourier::BareCourier(const Cuda& cuda) : cuda_(cuda) {
  void* memory = nullptr;
  cuda->host_allocate(&memory, sizeof(Board), 0);
  if (!memory) return;
  std::memset(memory, 0, sizeof(Board));
  board_ = static_cast<Board*>(memory);
  board_->left = 1;
  driver::Function found = nullptr;
  if (cuda->module_load(&module_, kernel_text) == driver::success &&
      cuda->module_function(&found, module_, "isthmus_bench_courier") == driver::success)
    function_ = found;
}

BareCourier::~BareCourier() {
  cuda_->stream_synchronize(cuda_.stream());
  if (module_) cuda_->module_unload(module_);
  if (board_) cuda_->host_free(board_);
}

void BareCourier::send_out() {
  board_->left = 0;
  auto board = reinterpret_cast<driver::Address>(board_);
  std::array<void*, 2> parameters{&board, &number_};
  cuda_.demand(cuda_->launch(function_, 1, 1, 1, 1, 1, 1, 0, cuda_.stream(), parameters.data(), nullptr),
               "cuLaunchKernel");
}

void BareCourier::deliver(driver::Address to) {
  using Errand = std::uint64_t __attribute__((vector_size(16)));
  if (read(board_->left) != 0) send_out();
  // In one store, as the kernel reads it in one load.
  *reinterpret_cast<volatile Errand*>(board_->errand) = Errand{to, number_ + 1};
  while (read(board_->delivered) != number_ + 1)
    if (read(board_->left) != 0 && read(board_->delivered) != number_ + 1) send_out();
  ++number_;
}

}  // namespace isthmus::bench
