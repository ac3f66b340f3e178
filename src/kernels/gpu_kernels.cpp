#include "kernels/gpu_kernels.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "gpu/driver/cuda_error.hpp"
#include "kernels/body/copy.hpp"
#include "kernels/body/courier.hpp"
#include "kernels/body/move.hpp"
#include "kernels/body/reduce.hpp"
#include "kernels/reduce_choice.hpp"
#include "kernels/run_lists.hpp"
#include "kernels/shape.hpp"

namespace isthmus {

namespace {

constexpr unsigned block_threads = 256;
/// Blocks for each multiprocessor: with 64 registers a thread four of them run at once; twice that evens out
/// those that take longer.
constexpr std::uint64_t blocks_each = 8;

std::uint64_t address_of(const void* pointer) {
  return reinterpret_cast<std::uint64_t>(pointer);
}

constexpr const char* copy_name = "isthmus_copy";
constexpr const char* courier_name = "isthmus_courier";
constexpr const char* order_name = "isthmus_order";
constexpr const char* meet_name = "isthmus_meet";
constexpr const char* pieces_name = "isthmus_meet_in_pieces";
constexpr const char* put_name = "isthmus_put";
constexpr const char* wait_name = "isthmus_wait";
constexpr const char* send_name = "isthmus_send_mail";
constexpr const char* receive_name = "isthmus_receive_mail";
constexpr std::array few_names{"isthmus_move_1", "isthmus_move_2", "isthmus_move_4", "isthmus_move_8",
                               "isthmus_move_16"};
constexpr std::array many_names{"isthmus_move_many_1", "isthmus_move_many_2", "isthmus_move_many_4",
                                "isthmus_move_many_8", "isthmus_move_many_16"};

/// The largest of 1, 2, 4, 8 and 16 that divides it.
std::uint64_t unit_of(std::uint64_t factors) {
  constexpr std::uint64_t most = 16;
  return std::uint64_t{1} << static_cast<unsigned>(std::countr_zero(factors | most));
}

}  // namespace

/// The library of kernels, and what is known of each device.
class GpuKernels::Loaded {
 public:
  struct OnDevice {
    cuda::Context context = nullptr;
    cuda::ContextLife life = 0;  ///< what is known holds until a reset
    std::uint64_t multiprocessors = 1;
    std::string trouble;
    bool has_all = false;
    std::unordered_map<const char*, cuda::Function> functions;  ///< by the names' own addresses
  };

  Loaded(cuda::PrimaryContexts& contexts, std::span<const std::byte> image) : contexts_(contexts) {
    if (image.empty()) {
      trouble_ = "this library was built without nvcc and so without kernels for GPUs";
      return;
    }
    const cuda::Status status =
        contexts.functions().library_load(&library_, image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
    if (status == cuda::Status::success) return;
    library_ = nullptr;
    trouble_ = cuda::fail(contexts.functions(), status, "load the kernels of Isthmus").error().text();
  }
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;
  ~Loaded() {
    if (library_) contexts_.functions().library_unload(library_);
  }

  OnDevice& on(cuda::Device device) {
    const auto [found, is_new] = devices_.try_emplace(device);
    OnDevice& known = found->second;
    if (is_new || known.life != contexts_.life(device)) {
      known = {};
      known.trouble = prepare(device, known);
      known.life = contexts_.life(device);
    }
    return known;
  }

  OnDevice& with_all(cuda::Device device) {
    OnDevice& known = on(device);
    if (known.has_all || !known.trouble.empty()) return known;
    const cuda::Functions& functions = contexts_.functions();
    const cuda::ContextScope scope(functions, known.context);
    cuda::Status status = cuda::Status::success;
    const auto load = [&](const char* name) {
      if (status != cuda::Status::success) return;
      cuda::Function function = nullptr;
      status = find(known, name, function);
      // To ask for the function is enough by the guide. This is for the letter of it.
      if (status == cuda::Status::success && functions.function_load)
        status = functions.function_load(function);
    };
    for (const char* name : {copy_name, courier_name, order_name, meet_name, pieces_name, put_name, wait_name,
                             send_name, receive_name})
      load(name);
    for (const auto* names : {&few_names, &many_names})
      for (const char* name : *names)
        load(name);
    for (std::size_t i = 0; i < reduction_count(); ++i)
      load(reduction_name(i));
    for (std::size_t i = 0; i < reduction_count(); ++i)
      load(meeting_name(i));
    known.has_all = status == cuda::Status::success;
    if (!known.has_all) known.trouble = not_loaded(status, device);
    return known;
  }

  Result<cuda::Function> function(cuda::Device device, const char* name) {
    OnDevice& known = on(device);
    if (!known.trouble.empty()) return fail(ErrorClass::unsupported_operation, known.trouble);
    const cuda::ContextScope scope(contexts_.functions(), known.context);
    cuda::Function found = nullptr;
    const cuda::Status status = find(known, name, found);
    if (status == cuda::Status::success) return found;
    return fail(ErrorClass::other, not_loaded(status, device));
  }

  Result<> launch(GpuStream where, const char* name, std::uint64_t blocks, void* arguments,
                  unsigned threads = block_threads) {
    OnDevice& device = on(where.device);
    if (!device.trouble.empty()) return fail(ErrorClass::unsupported_operation, device.trouble);
    const cuda::Functions& functions = contexts_.functions();
    // Whoever starts kernels between copies is in that context already.
    cuda::Context current = nullptr;
    std::optional<cuda::ContextScope> scope;
    if (functions.context_current(&current) != cuda::Status::success || current != device.context)
      scope.emplace(functions, device.context);
    cuda::Function function = nullptr;
    cuda::Status status = find(device, name, function);
    const auto grid =
        static_cast<unsigned>(std::clamp<std::uint64_t>(blocks, 1, device.multiprocessors * blocks_each));
    if (status == cuda::Status::success)
      status = functions.launch(function, grid, 1, 1, threads, 1, 1, 0, where.stream, &arguments, nullptr);
    if (status == cuda::Status::success) return {};
    return cuda::fail(functions, status,
                      std::string("run ") + name + " on GPU " + std::to_string(where.device));
  }

 private:
  /// The trouble with that device.
  std::string prepare(cuda::Device device, OnDevice& made) {
    if (!trouble_.empty()) return trouble_;
    auto context = contexts_.of(device);
    if (!context) return context.error().text();
    made.context = *context;
    const cuda::Functions& functions = contexts_.functions();
    int multiprocessors = 0;
    cuda::Status status =
        functions.device_attribute(&multiprocessors, cuda::DeviceAttribute::multiprocessor_count, device);
    const cuda::ContextScope scope(functions, made.context);
    // What messages and collectives come to use later, when a stream of the program's may wait for them.
    for (const char* name : {copy_name, order_name, courier_name}) {
      cuda::Function function = nullptr;
      if (status == cuda::Status::success) status = find(made, name, function);
    }
    if (status != cuda::Status::success) return not_loaded(status, device);
    made.multiprocessors = static_cast<std::uint64_t>(std::max(multiprocessors, 1));
    return {};
  }

  [[nodiscard]] std::string not_loaded(cuda::Status status, cuda::Device device) const {
    return cuda::fail(contexts_.functions(), status,
                      "load the kernels of Isthmus on GPU " + std::to_string(device))
        .error()
        .text();
  }

  /// In the device's context, which is current.
  cuda::Status find(OnDevice& device, const char* name, cuda::Function& function) {
    cuda::Function& known = device.functions[name];
    cuda::Status status = cuda::Status::success;
    if (!known) {
      const cuda::Functions& functions = contexts_.functions();
      const cuda::RelaxedCapture relaxed(functions);
      cuda::Kernel kernel = nullptr;
      status = functions.library_kernel(&kernel, library_, name);
      if (status == cuda::Status::success) status = functions.kernel_function(&known, kernel);
    }
    function = known;
    return status;
  }

  cuda::PrimaryContexts& contexts_;
  cuda::Library library_ = nullptr;
  std::string trouble_;
  std::map<cuda::Device, OnDevice> devices_;
};

GpuKernels::GpuKernels(cuda::PrimaryContexts& contexts, std::span<const std::byte> image)
    : contexts_(contexts), image_(image) {}

GpuKernels::~GpuKernels() = default;

GpuKernels::Loaded& GpuKernels::load() {
  if (!loaded_) loaded_ = std::make_unique<Loaded>(contexts_, image_);
  return *loaded_;
}

const std::string& GpuKernels::trouble(cuda::Device device) {
  return load().on(device).trouble;
}

const std::string& GpuKernels::load_all(cuda::Device device) {
  return load().with_all(device).trouble;
}

Result<cuda::Function> GpuKernels::meeting(cuda::Device device, const Op* op, const Datatype* type) {
  if (!op) return load().function(device, meet_name);
  const auto choice = choose_reduction(*op, *type);
  if (!choice) return fail(ErrorClass::op, "there is no kernel for that operation on that type");
  return load().function(device, choice->meeting);
}

Result<cuda::Function> GpuKernels::meeting_in_pieces(cuda::Device device) {
  return load().function(device, pieces_name);
}

Result<cuda::Function> GpuKernels::putting(cuda::Device device) {
  return load().function(device, put_name);
}

Result<cuda::Function> GpuKernels::waiting(cuda::Device device) {
  return load().function(device, wait_name);
}

Result<cuda::Function> GpuKernels::mail(cuda::Device device, bool sends) {
  return load().function(device, sends ? send_name : receive_name);
}

// --- reductions

namespace {

static_assert(GpuKernels::most_sources == kernel::reduce_sources &&
              GpuKernels::most_results == kernel::reduce_results);

/// How a kernel that combines `sources` in `results` loads and stores elements, and how many threads have
/// something to do.
std::uint64_t arrange(const ReduceChoice& kernel, std::span<const std::byte* const> sources,
                      std::span<std::byte* const> results, kernel::ReduceArguments& work) {
  const std::uint64_t first = address_of(results.front());
  std::uint64_t low = 0;    // bits in which some address is not a multiple
  std::uint64_t apart = 0;  // bits in which two addresses differ
  const auto see = [&](const std::byte* place) {
    low |= address_of(place);
    apart |= address_of(place) ^ first;
  };
  for (std::size_t i = 0; i < sources.size(); ++i) {
    work.sources[i] = reinterpret_cast<const kernel::Byte*>(sources[i]);
    see(sources[i]);
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    work.results[i] = reinterpret_cast<kernel::Byte*>(results[i]);
    see(results[i]);
  }
  work.source_count = static_cast<std::uint32_t>(sources.size());
  work.result_count = static_cast<std::uint32_t>(results.size());
  constexpr std::uint64_t vector = sizeof(kernel::Vector);
  const std::uint64_t ahead = (vector - first % vector) % vector;
  work.access = low % kernel.alignment == 0 ? kernel::Access::elements : kernel::Access::bytes;
  if (!kernel.has_vectors || work.access != kernel::Access::elements || apart % vector != 0 ||
      ahead % kernel.bytes != 0)
    return work.count;
  work.access = kernel::Access::vectors;
  work.head = std::min(ahead / kernel.bytes, work.count);
  // A thread takes four vectors of up to two sources at a time, or one of more.
  return work.count * kernel.bytes / (sources.size() <= 2 ? 4 * vector : vector) + 1;
}

std::uint64_t blocks_for(std::uint64_t threads) {
  return (threads + block_threads - 1) / block_threads;
}

}  // namespace

bool GpuKernels::can_reduce(const Op& op, const Datatype& type) noexcept {
  return choose_reduction(op, type).has_value();
}

Result<> GpuKernels::reduce(GpuStream where, const Op& op, const Datatype& type,
                            std::span<const std::byte* const> sources, std::span<std::byte* const> results,
                            std::int64_t count) {
  const auto choice = choose_reduction(op, type);
  if (!choice || sources.empty() || sources.size() > most_sources || results.empty() ||
      results.size() > most_results)
    return fail(ErrorClass::intern, "a reduction that there is no kernel for");
  if (count <= 0) return {};
  kernel::ReduceArguments work{};
  work.count = static_cast<std::uint64_t>(count) * choice->factor;
  const std::uint64_t threads = arrange(*choice, sources, results, work);
  return load().launch(where, choice->name, blocks_for(threads), &work);
}

// --- copies

Result<> GpuKernels::copy(GpuStream where, std::span<const CopyPiece> pieces) {
  if (pieces.size() > most_pieces) return fail(ErrorClass::intern, "too many pieces for one kernel");
  kernel::CopyArguments work{};
  for (const CopyPiece& piece : pieces) {
    if (piece.bytes == 0) continue;
    work.pieces[work.count++] = {.to = reinterpret_cast<kernel::Byte*>(piece.to),
                                 .from = reinterpret_cast<const kernel::Byte*>(piece.from),
                                 .bytes = piece.bytes,
                                 .first_chunk = work.chunks};
    work.chunks += (piece.bytes + kernel::copy_chunk - 1) / kernel::copy_chunk;
  }
  if (work.count == 0) return {};
  return load().launch(where, copy_name, work.chunks, &work);
}

Result<> GpuKernels::deal(GpuStream where, const std::byte* from, std::span<std::byte* const> to,
                          std::uint64_t bytes) {
  if (to.empty() || to.size() > most_results)
    return fail(ErrorClass::intern, "too many copies for one kernel");
  if (bytes == 0) return {};
  std::uint64_t factors = address_of(from) | bytes;
  for (const std::byte* place : to)
    factors |= address_of(place);
  // Of one source no reduction computes anything.
  constexpr std::array units{Basic::uint8, Basic::uint16, Basic::uint32, Basic::uint64, Basic::uint64};
  const Datatype& unit = Datatype::basic(units[static_cast<std::size_t>(std::countr_zero(unit_of(factors)))]);
  const auto copy = choose_reduction(Op::predefined(OpCode::sum), unit);
  if (!copy) return fail(ErrorClass::intern, "no kernel for sums of integers");
  kernel::ReduceArguments work{};
  work.count = bytes / copy->bytes;
  const std::uint64_t threads = arrange(*copy, {&from, 1}, to, work);
  const std::uint64_t most = std::max<std::uint64_t>(load().on(where.device).multiprocessors / 2, 1);
  return load().launch(where, copy->name, std::min(blocks_for(threads), most), &work);
}

Result<> GpuKernels::send_out(GpuStream where, const kernel::CourierArguments& work) {
  kernel::CourierArguments arguments = work;
  return load().launch(where, courier_name, 1, &arguments, kernel::courier_threads);
}

Result<> GpuKernels::order(GpuStream where, const kernel::OrderArguments& work) {
  kernel::OrderArguments arguments = work;
  return load().launch(where, order_name, 1, &arguments, kernel::order_threads);
}

std::optional<std::uint16_t> GpuKernels::combiner(const Op& op, const Datatype& type) noexcept {
  const auto choice = choose_reduction(op, type);
  if (!choice) return std::nullopt;
  return static_cast<std::uint16_t>(choice->number + 1);
}

// --- layouts

bool GpuKernels::can_move(const LaidOut& side) noexcept {
  return shape_of(side).has_value();
}

Result<> GpuKernels::move(GpuStream where, const LaidOut& from, const LaidOut& to, std::uint64_t bytes) {
  if (bytes == 0) return {};
  auto source = shape_of(from);
  auto target = shape_of(to);
  if (!source || !target) return fail(ErrorClass::intern, "a layout that kernels cannot go through");
  if (!lists_) lists_ = std::make_unique<RunLists>(contexts_);
  if (source->irregular) ISTHMUS_TRY(lists_->place(where, *from.type, *source));
  if (target->irregular) ISTHMUS_TRY(lists_->place(where, *to.type, *target));
  return move_shaped(where, *source, *target, bytes);
}

Result<> GpuKernels::move(GpuStream where, const ShapedSide& from, const LaidOut& to, std::uint64_t bytes) {
  if (bytes == 0) return {};
  auto target = shape_of(to);
  if (!target) return fail(ErrorClass::intern, "a layout that kernels cannot go through");
  if (!lists_) lists_ = std::make_unique<RunLists>(contexts_);
  if (target->irregular) ISTHMUS_TRY(lists_->place(where, *to.type, *target));
  return move_shaped(where, from, *target, bytes);
}

Result<> GpuKernels::move_shaped(GpuStream where, const ShapedSide& from, const ShapedSide& to,
                                 std::uint64_t bytes) {
  const std::uint64_t unit =
      unit_of(from.factors | to.factors | address_of(from.shape.base) | address_of(to.shape.base) | bytes);
  kernel::MoveArguments work{.from = from.in_units(unit), .to = to.in_units(unit), .units = bytes / unit};
  constexpr std::uint64_t many = std::uint64_t{1} << 31U;
  const bool is_many = std::max(work.from.first, work.to.first) + work.units >= many;
  const auto& names = is_many ? many_names : few_names;
  // A thread takes four units at a time.
  constexpr std::uint64_t block_units = std::uint64_t{4} * block_threads;
  return load().launch(where, names[static_cast<std::size_t>(std::countr_zero(unit))],
                       (work.units + block_units - 1) / block_units, &work);
}

}  // namespace isthmus
