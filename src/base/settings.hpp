#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace isthmus {

/// How a rank waits for messages.
enum class IdleSetting : std::uint8_t {
  automatic,  ///< spin when every rank of the job has a hardware thread of its own, sleep when not
  spin,
  sleep,
};

/// Whether large messages may be copied straight between processes (process_vm_readv and process_vm_writev).
enum class CmaSetting : std::uint8_t {
  automatic,  ///< where trying it on the pair has worked
  off,
};

/// Whether a rank that has read what lies in shared memory writes to its lines, so that their writer gets
/// them back faster.
enum class LinesSetting : std::uint8_t {
  automatic,  ///< as `hands_on_written_lines` says of the processor
  keep,
  hand_back,
};

/// Whether processes map each other's memory of MPI_Alloc_mem.
enum class MappingSetting : std::uint8_t {
  automatic,  ///< where the ranks of a host can hand each other descriptors
  off,
};

/// How messages go where both sides are in GPU memory.
enum class GpuPathSetting : std::uint8_t {
  automatic,  ///< the fastest that works
  push,       ///< the sender's GPU writes to the receiver's memory
  pull,       ///< the receiver's GPU reads from the sender's
  staged,     ///< through memory of the host
  network,    ///< by the network's adapter, which is handed GPU memory: between ranks of one host as well
};

/// Whether short messages between GPUs of one host are copied by a kernel that waits for them.
enum class GpuCourierSetting : std::uint8_t {
  automatic,  ///< towards ranks whose sends are latency-bound
  off,
  on,  ///< always, as far as it works
};

/// Which transports may carry messages between hosts.
enum class TransportSetting : std::uint8_t {
  automatic,  ///< the fastest that the two hosts have in common
  rc,         ///< InfiniBand or RoCE, reliable connections
  ud,         ///< InfiniBand or RoCE, unreliable datagrams
  tcp,
};
[[nodiscard]] std::string_view name_of(TransportSetting transport) noexcept;
[[nodiscard]] std::optional<TransportSetting> transport_named(std::string_view name) noexcept;

/// How processes of several hosts find out who is on the same one.
enum class LocalitySetting : std::uint8_t {
  dynamic_locality,  ///< by meeting: whoever can share memory does (SR-IOV paper, section III-B)
  static_locality,   ///< as the launcher says: who inherited a region shares it, all else is the network
};

/// Who moves what is under way.
enum class ProgressSetting : std::uint8_t {
  calls,   ///< the program's calls of MPI functions
  thread,  ///< and a thread of the library's own, while the program computes
};

/// Whether plans go on measuring what messages take.
enum class PlansSetting : std::uint8_t {
  fixed,  ///< the way that settings, the table of `isthmus tune` and the library's own values give
  live,   ///< long messages take the way that has turned out to be the fastest
};

/// How collectives go that ranks of one host can carry out in several ways with the same result, bit for bit.
/// The ways are those of `coll/select/team_way`, in their order.
enum class CollectiveWaySetting : std::uint8_t {
  automatic,  ///< as the table of collectives has it, or as has turned out to be the fastest
  flat,
  staged,
  counted,
  direct,
  direct_both,
  direct_all,
  messages,
  tree,
};

/// What a job says at its end of the ways that its messages took.
/// `picture`: the summary, then the line of JSON that `isthmus explain --picture` draws.
enum class ExplainSetting : std::uint8_t { off, summary, full, json, picture };

/// How the 64 bits of the tags are divided that data of chares has which goes apart: the type of the message,
/// the process that sends it, and a counter of that process.
struct TagDivision {
  std::uint32_t type_bits = 4;
  std::uint32_t source_bits = 32;
  std::uint32_t counter_bits = 28;

  friend bool operator==(const TagDivision&, const TagDivision&) = default;
};
/// "4,32,28". They make 64 together; a type has 2 bits or more, a process 32 or less, a counter 16 to 48.
[[nodiscard]] std::optional<TagDivision> parse_tag_division(std::string_view text) noexcept;

/// Where the value of a setting came from; the later wins.
enum class Origin : std::uint8_t { standard, tuned, environment };
[[nodiscard]] std::string_view name_of(Origin origin) noexcept;

/// Which way long messages of one kind have been found the fastest: from a table of measured values, for
/// plans that measure themselves. Names and numbers are those of `route/`.
struct TaughtWay {
  std::uint64_t from = 0;  ///< least bytes of its size class
  bool far = false;        ///< from ranks of other sockets
  bool all_ways = false;   ///< both sides may copy
  bool many = false;       ///< several messages under way together
  std::uint8_t way = 0;
  double ticks_per_byte = 0;
};

/// The same of whether messages of one kind go with their envelope.
struct TaughtEager {
  std::uint64_t from = 0;
  bool far = false;          ///< to ranks of other sockets
  bool nonblocking = false;  ///< of sends that do not block
  bool several = false;      ///< and several of them are under way together
  std::uint8_t way = 0;
  double ticks_per_byte = 0;
};

/// The same of messages of one kind in GPU memory.
struct TaughtGpu {
  std::uint64_t from = 0;
  std::uint8_t route = 0;
  bool has_gaps = false;
  bool many = false;
  std::uint8_t way = 0;
  double ticks_per_byte = 0;
};

/// The same of calls of a collective among ranks of a host.
struct TaughtCall {
  std::uint8_t collective = 0;
  std::optional<std::uint8_t> way;       ///< none: only `in_lanes` has been taught
  std::optional<std::uint8_t> in_lanes;  ///< the fastest way of calls that do not block
  bool far = false;                      ///< among several sockets
  int members = 2;
  std::uint64_t up_to = 0;    ///< most bytes of its size class
  double ticks_per_byte = 0;  ///< of `way`
};

/// Everything that a user can set, read once from `ISTHMUS_*` variables. A variable that is not set, or
/// empty, leaves the default, and every default is what most jobs want: a setting exists to compare, to find
/// a fault or to force what cannot be noticed.
struct Settings {
  /// ISTHMUS_EAGER_LIMIT: largest message in bytes that is sent before the receiver has asked for it; 0
  /// leaves it to the plan of each pair of ranks.
  std::uint64_t eager_limit = 0;
  /// ISTHMUS_BANDWIDTH_EAGER_LIMIT: the same towards a rank to which most sends are nonblocking; 0: no
  /// difference.
  std::uint64_t bandwidth_eager_limit = 0;
  /// ISTHMUS_SPLIT_FROM: from this size on both sides copy, in bytes; 0 leaves it to the plan.
  std::uint64_t split_from = 0;
  /// ISTHMUS_FRAGMENT: bytes of one fragment of a long message through the ring; 0 leaves it to the engine.
  std::uint32_t fragment = 0;
  /// ISTHMUS_IDLE: one policy for the whole job, so it must be set where mpiexec sees it.
  IdleSetting idle = IdleSetting::automatic;
  /// ISTHMUS_SPIN_MICROSECONDS: how long a waiting rank that has a core polls before it yields between looks.
  std::uint32_t spin_microseconds = 50;
  /// ISTHMUS_PROGRESS
  ProgressSetting progress = ProgressSetting::calls;
  /// ISTHMUS_CHECK: whether members of a communicator compare what they call before each collective. For the
  /// whole job.
  bool check = false;
  /// ISTHMUS_UNEXPECTED_LIMIT: memory of a rank for messages that have come before their receives, in bytes.
  std::uint64_t unexpected_limit = std::uint64_t{256} << 20;
  /// ISTHMUS_CHARE_TAG_BITS
  TagDivision chare_tag_bits;
  /// ISTHMUS_RANK_STACK: bytes of the stack of each rank, where a process has several (`mpiexec
  /// --ranks-per-process`); 0: as `ulimit -s` has it.
  std::uint64_t rank_stack = 0;
  /// ISTHMUS_PLANS
  PlansSetting plans = PlansSetting::live;
  /// ISTHMUS_COLLECTIVE_WAY: that of a communicator's rank 0 holds for all its members.
  CollectiveWaySetting collective_way = CollectiveWaySetting::automatic;
  /// ISTHMUS_CMA
  CmaSetting cma = CmaSetting::automatic;
  /// ISTHMUS_LINES
  LinesSetting lines = LinesSetting::automatic;
  /// ISTHMUS_MAPPING
  MappingSetting mapping = MappingSetting::automatic;
  /// ISTHMUS_GPU_PATH
  GpuPathSetting gpu_path = GpuPathSetting::automatic;
  /// ISTHMUS_GPU_COURIER
  GpuCourierSetting gpu_courier = GpuCourierSetting::automatic;
  /// ISTHMUS_GPU_EAGER_LIMIT: largest message in bytes that is copied from GPU memory to the host's and sent
  /// from there as any other; 0: none.
  std::uint64_t gpu_eager_limit = 0;
  /// ISTHMUS_GPU_PUSH_FROM: from this size on the sender's GPU writes to another GPU, in bytes; what is
  /// shorter, the receiver's reads. 0 leaves it to the plan.
  std::uint64_t gpu_push_from = 0;
  /// ISTHMUS_GPU_DIRECT_LIMIT: largest message in bytes that a GPU copies straight to pageable memory, longer
  /// ones go through memory that both ranks share; 0 leaves it to the plan.
  std::uint64_t gpu_direct_limit = 0;
  /// ISTHMUS_GPU_CHUNK: bytes of one piece of a long message from GPU memory to another host; 0 leaves it to
  /// the library.
  std::uint64_t gpu_chunk = 0;
  /// ISTHMUS_COPY_THREADS: threads of a rank that help to copy long messages between pageable memory and a
  /// GPU; nothing leaves it to the processors that no rank needs.
  std::optional<std::uint32_t> copy_threads;
  /// ISTHMUS_GPU_BOUNCE: bytes of each GPU that a rank keeps for messages whose own memory cannot be handed
  /// to another process; 0: such messages go through memory of the host.
  std::uint64_t gpu_bounce = std::uint64_t{64} << 20;
  /// ISTHMUS_MEMORY_ALLOC_KINDS: the kinds of memory that the program will use, as in the info key
  /// mpi_memory_alloc_kinds (MPI 5.0, section 11.4.3); `mpiexec --memory-alloc-kinds` sets it. For the whole
  /// job.
  std::string memory_alloc_kinds;
  /// ISTHMUS_RING_CELLS: 64-byte cells in the ring between two ranks; 0 leaves it to the number of ranks. For
  /// the whole job.
  std::uint32_t ring_cells = 0;
  /// ISTHMUS_RING_BYTES: bytes for eager payloads in the ring between two ranks; 0 leaves it to the number of
  /// ranks. For the whole job.
  std::uint32_t ring_bytes = 0;
  /// ISTHMUS_TRANSPORT: for the whole job. A `UCX_TLS` of the user wins over `automatic`.
  TransportSetting transport = TransportSetting::automatic;
  /// ISTHMUS_NETWORK_EAGER_LIMIT: largest message in bytes that is sent to another host with its envelope; 0
  /// leaves it to the network channel.
  std::uint64_t network_eager_limit = 0;
  /// ISTHMUS_LOCALITY: for the whole job.
  LocalitySetting locality = LocalitySetting::dynamic_locality;
  /// ISTHMUS_RENDEZVOUS_DIR: a folder in which processes that share nothing else meet; its name may differ
  /// between them. Empty: none.
  std::string rendezvous_dir;
  /// ISTHMUS_TUNING: the table of `isthmus tune` to load, or "off". Empty: the user's own, where there is
  /// one.
  std::string tuning;
  /// What the table has of messages and collectives.
  std::vector<TaughtWay> taught_ways;
  std::vector<TaughtEager> taught_eager;
  std::vector<TaughtGpu> taught_gpu;
  std::vector<TaughtCall> taught_calls;
  /// ISTHMUS_IVSHMEM: memory shared with other virtual machines: `auto` for the first ivshmem device that can
  /// be used, `off`, a PCI address, or the path of a file that stands in for one.
  std::string ivshmem = "auto";
  /// ISTHMUS_EXPLAIN: at MPI_Finalize, rank 0 prints which ways messages took, and why.
  ExplainSetting explain = ExplainSetting::off;
  /// ISTHMUS_TRACE: a folder in which each rank writes what it does to a file; empty: none.
  std::string trace;
  /// ISTHMUS_TRACE_LIMIT: the most that such a file takes, in bytes.
  std::uint64_t trace_limit = std::uint64_t{64} << 20;
  /// ISTHMUS_WARN: whether warnings are printed to stderr.
  bool warn = true;

  /// Reads `environment` (as `environ`: `NAME=VALUE` strings, a null pointer last). A value that is not
  /// allowed is `ErrorClass::arg`, in a sentence that names the variable, the value and what is allowed.
  static Result<Settings> read(const char* const* environment);

  /// Takes `text` for the setting of `variable` from a table of measured values, unless the environment has
  /// set it. False where it is no setting or the value is not allowed.
  [[nodiscard]] bool tune(std::string_view variable, std::string_view text);
  /// Where the value of `variable` came from; `standard` for what is no setting.
  [[nodiscard]] Origin origin(std::string_view variable) const noexcept;

  /// One sentence for each `ISTHMUS_*` variable in `environment` that is neither a setting nor one of the
  /// launcher's own, with the nearest known name.
  static std::vector<std::string> unknown_variables(const char* const* environment);

 private:
  static constexpr std::size_t count = 37;
  std::array<Origin, count> origins_{};  ///< in the order of the table
};

/// A setting as `isthmus info --settings` shows it.
struct SettingDescription {
  std::string_view variable;
  std::string value;          ///< in force
  std::string default_value;  ///< without variable and table
  Origin origin;
  std::string_view allowed;
  std::string_view documentation;
};

/// All settings, in the order of `Settings`.
std::vector<SettingDescription> describe(const Settings& settings);

/// Variables that the launcher sets for its ranks. No settings: `ISTHMUS_RANK` and `ISTHMUS_REGION` are for
/// the library, the others for scripts.
namespace launcher_variable {
inline constexpr const char* rank = "ISTHMUS_RANK";  ///< rank in MPI_COMM_WORLD
/// The job's region: the number of a descriptor, or the path of a socket that gives it to who shows the key.
inline constexpr const char* region = "ISTHMUS_REGION";
inline constexpr const char* key = "ISTHMUS_KEY";  ///< for that socket: 32 hexadecimal digits
/// The number of a descriptor: the box that goes with the region.
inline constexpr const char* box = "ISTHMUS_BOX";
/// Processors for the rank's own helping threads, as `taskset -c` takes them: no rank of the job is bound to
/// them.
inline constexpr const char* spare_cpus = "ISTHMUS_SPARE_CPUS";
inline constexpr const char* world_rank = "ISTHMUS_WORLD_RANK";  ///< as ISTHMUS_RANK, and left for scripts
inline constexpr const char* world_size = "ISTHMUS_WORLD_SIZE";  ///< ranks in MPI_COMM_WORLD
inline constexpr const char* local_rank = "ISTHMUS_LOCAL_RANK";  ///< rank among those of this host
inline constexpr const char* local_size = "ISTHMUS_LOCAL_SIZE";  ///< ranks on this host
inline constexpr const char* app_size = "ISTHMUS_APP_SIZE";      ///< ranks of the same program of mpiexec's
/// What differs between the ranks of a process that has several: for each of them the lines NAME=VALUE, with
/// an empty line between two.
inline constexpr const char* virtual_ranks = "ISTHMUS_VIRTUAL_RANKS";
/// How many threads give the ranks of a process that has several their turns.
inline constexpr const char* workers = "ISTHMUS_WORKERS";
/// Ranks may go on in other processes: a word that nobody can guess, a colon, and how many ranks each process
/// has been started with. Of a job on several hosts also a colon, and how many ranks each host has been
/// started with, with commas between.
inline constexpr const char* migratable = "ISTHMUS_MIGRATABLE";
inline constexpr std::array all{rank,          region,     key,        box,        spare_cpus,
                                world_rank,    world_size, local_rank, local_size, app_size,
                                virtual_ranks, workers,    migratable};
}  // namespace launcher_variable

}  // namespace isthmus
