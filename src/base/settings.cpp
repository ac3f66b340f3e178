#include "base/settings.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/chosen_gpu.hpp"
#include "base/spelling.hpp"
#include "base/trace_file.hpp"

namespace isthmus {
namespace {

constexpr std::string_view prefix = "ISTHMUS_";

/// Value of `name` in `environment`, nothing where it is not set or empty.
std::optional<std::string_view> look_up(const char* const* environment, std::string_view name) {
  for (; environment && *environment; ++environment) {
    const std::string_view entry = *environment;
    if (entry.size() > name.size() + 1 && entry.starts_with(name) && entry[name.size()] == '=')
      return entry.substr(name.size() + 1);
  }
  return std::nullopt;
}

std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// A number of bytes, with an optional K, M or G (powers of 1024).
std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  unsigned shift = 0;
  if (!text.empty()) switch (text.back()) {
      case 'k':
      case 'K':
        shift = 10;
        break;
      case 'm':
      case 'M':
        shift = 20;
        break;
      case 'g':
      case 'G':
        shift = 30;
        break;
      default:
        break;
    }
  if (shift) text.remove_suffix(1);
  const auto number = parse_number(text);
  if (!number || *number > std::numeric_limits<std::uint64_t>::max() >> shift) return std::nullopt;
  return *number << shift;
}

std::optional<bool> parse_switch(std::string_view text) {
  if (text == "1" || text == "on" || text == "yes" || text == "true") return true;
  if (text == "0" || text == "off" || text == "no" || text == "false") return false;
  return std::nullopt;
}

template <class T>
bool assign(T& field, std::optional<std::uint64_t> value, std::uint64_t low, std::uint64_t high) {
  if (!value || *value < low || *value > high) return false;
  field = static_cast<T>(*value);
  return true;
}

/// 0, or a power of two from `low` to `high`: what `wire::RingGeometry::valid` asks for.
bool assign_power(std::uint32_t& field, std::optional<std::uint64_t> value, std::uint64_t low,
                  std::uint64_t high) {
  return value && (*value == 0 || std::has_single_bit(*value)) &&
         assign(field, value, *value ? low : 0, high);
}

template <class T>
bool assign(T& field, std::optional<T> value) {
  if (value) field = *value;
  return value.has_value();
}

struct Setting {
  std::string_view variable;
  std::string_view allowed;
  std::string_view documentation;
  bool (*parse)(Settings&, std::string_view);
  std::string (*print)(const Settings&);
};

// The words of settings, in the order of their values.
constexpr std::array<std::string_view, 3> idle_words{"auto", "spin", "sleep"};
constexpr std::array<std::string_view, 2> progress_words{"calls", "thread"};
constexpr std::array<std::string_view, 2> plans_words{"fixed", "live"};
constexpr std::array<std::string_view, 9> collective_ways{
    "auto", "flat", "staged", "counted", "direct", "direct_both", "direct_all", "messages", "tree"};
constexpr std::array<std::string_view, 2> auto_or_off{"auto", "off"};
constexpr std::array<std::string_view, 3> lines_words{"auto", "keep", "hand-back"};
constexpr std::array<std::string_view, 5> gpu_paths{"auto", "push", "pull", "staged", "network"};
constexpr std::array<std::string_view, 3> gpu_couriers{"auto", "off", "on"};
constexpr std::array<std::string_view, 4> transport_names{"auto", "rc", "ud", "tcp"};
constexpr std::array<std::string_view, 2> locality_words{"dynamic", "static"};
constexpr std::array<std::string_view, 5> explain_forms{"off", "on", "full", "json", "picture"};

template <const auto& words, auto field>
bool parse_word(Settings& s, std::string_view text) {
  const auto* const found = std::ranges::find(words, text);
  if (found == words.end()) return false;
  s.*field = static_cast<std::remove_cvref_t<decltype(s.*field)>>(found - words.begin());
  return true;
}

template <const auto& words, auto field>
std::string print_word(const Settings& s) {
  return std::string(words.at(static_cast<std::size_t>(s.*field)));
}

/// Of the compiler wrappers, `mpicc` and `mpicxx`; users may have set them for good.
constexpr std::array<std::string_view, 2> wrapper_variables{"ISTHMUS_CC", "ISTHMUS_CXX"};

constexpr std::string_view switch_values = "on or off (also 1, 0, yes, no, true, false)";

constexpr auto table = std::to_array<Setting>({
    {"ISTHMUS_EAGER_LIMIT", "a number of bytes to 1G (4096, 4K, 1M); 0 leaves it to the plan of each pair",
     "Largest message that is sent before the receiver has asked for it.",
     [](Settings& s, std::string_view text) {
       return assign(s.eager_limit, parse_bytes(text), 0, std::uint64_t{1} << 30);
     },
     [](const Settings& s) { return std::to_string(s.eager_limit); }},
    {"ISTHMUS_BANDWIDTH_EAGER_LIMIT", "a number of bytes to 1G (4096, 4K, 1M); 0 makes no difference",
     "The same towards a rank to which most sends are nonblocking.",
     [](Settings& s, std::string_view text) {
       return assign(s.bandwidth_eager_limit, parse_bytes(text), 0, std::uint64_t{1} << 30);
     },
     [](const Settings& s) { return std::to_string(s.bandwidth_eager_limit); }},
    {"ISTHMUS_SPLIT_FROM", "a number of bytes to 1G (4096, 4K, 1M); 0 leaves it to the plan of each pair",
     "Size from which on sender and receiver both copy.",
     [](Settings& s, std::string_view text) {
       return assign(s.split_from, parse_bytes(text), 0, std::uint64_t{1} << 30);
     },
     [](const Settings& s) { return std::to_string(s.split_from); }},
    {"ISTHMUS_FRAGMENT", "a number of bytes from 1K to 1G; 0 leaves it to the library",
     "Pieces in which a long message goes through the ring where the kernel refuses direct copies.",
     [](Settings& s, std::string_view text) {
       const auto bytes = parse_bytes(text);
       return assign(s.fragment, bytes, bytes && *bytes != 0 ? 1024 : 0, 1U << 30);
     },
     [](const Settings& s) { return std::to_string(s.fragment); }},
    {"ISTHMUS_IDLE", "auto, spin or sleep",
     "How a rank waits: auto spins when every rank has a hardware thread of its own and sleeps when not. For "
     "the whole job.",
     &parse_word<idle_words, &Settings::idle>, &print_word<idle_words, &Settings::idle>},
    {"ISTHMUS_SPIN_MICROSECONDS", "0 to 1000000",
     "How long a waiting rank polls before it lets others run between its looks. Ranks that share cores do "
     "at "
     "once.",
     [](Settings& s, std::string_view text) {
       return assign(s.spin_microseconds, parse_number(text), 0, 1'000'000);
     },
     [](const Settings& s) { return std::to_string(s.spin_microseconds); }},
    {"ISTHMUS_PROGRESS", "calls or thread",
     "Who moves what is under way: the program's calls of MPI functions, or also a thread of the library's "
     "own while the program computes, which sleeps while there is nothing to move.",
     &parse_word<progress_words, &Settings::progress>, &print_word<progress_words, &Settings::progress>},
    {"ISTHMUS_CHECK", switch_values,
     "Whether the members of a communicator compare what they call before each collective, and name the rank "
     "whose call does not fit. For the whole job.",
     [](Settings& s, std::string_view text) { return assign(s.check, parse_switch(text)); },
     [](const Settings& s) { return std::string(s.check ? "on" : "off"); }},
    {"ISTHMUS_UNEXPECTED_LIMIT", "a number of bytes from 64K (64K, 1M, 4G)",
     "Memory of a rank for messages that have come before their receives. When it is full, ranks that have "
     "sent "
     "more than their share wait, or the receives that look for what they will send next fail at four times "
     "as "
     "much.",
     [](Settings& s, std::string_view text) {
       return assign(s.unexpected_limit, parse_bytes(text), std::uint64_t{64} << 10, std::uint64_t{1} << 40);
     },
     [](const Settings& s) { return std::to_string(s.unexpected_limit); }},
    {"ISTHMUS_CHARE_TAG_BITS", "three numbers of bits, 64 together, as 4,32,28",
     "How the tags of data of chares that goes apart from their messages are divided: the type of the "
     "message "
     "(2 or more), the process that sends it (32 or less), and its counter (16 to 48). For the whole job.",
     [](Settings& s, std::string_view text) { return assign(s.chare_tag_bits, parse_tag_division(text)); },
     [](const Settings& s) {
       const TagDivision& bits = s.chare_tag_bits;
       return std::to_string(bits.type_bits) + ',' + std::to_string(bits.source_bits) + ',' +
              std::to_string(bits.counter_bits);
     }},
    {"ISTHMUS_RANK_STACK", "a number of bytes from 64K (64K, 16M, 1G), or 0",
     "The stack of each rank, where a process has several (mpiexec --ranks-per-process); 0: as ulimit -s has "
     "it, and 8M "
     "where that is unlimited.",
     [](Settings& s, std::string_view text) {
       if (text == "0") {
         s.rank_stack = 0;
         return true;
       }
       return assign(s.rank_stack, parse_bytes(text), std::uint64_t{64} << 10, std::uint64_t{1} << 40);
     },
     [](const Settings& s) { return std::to_string(s.rank_stack); }},
    {"ISTHMUS_PLANS", "fixed or live",
     "Which way long messages between ranks of a host take, messages in GPU memory, and collectives among "
     "them: the one that settings and tables give, or the one that has turned out to be the fastest. Where "
     "ranks share cores, that of collectives is fixed unless this is set. Values for ISTHMUS_SPLIT_FROM, "
     "ISTHMUS_GPU_PATH, ISTHMUS_GPU_PUSH_FROM and ISTHMUS_GPU_DIRECT_LIMIT hold with both.",
     &parse_word<plans_words, &Settings::plans>, &print_word<plans_words, &Settings::plans>},
    {"ISTHMUS_COLLECTIVE_WAY",
     "auto, flat, staged, counted, direct, direct_both, direct_all, messages or tree",
     "For comparisons: the way of collectives of 1 KiB to 64 MiB among ranks of a host, where it is possible "
     "and the result is the same as by any other, bit for bit. With direct, GPUs' kernels do not meet for "
     "short ones.",
     &parse_word<collective_ways, &Settings::collective_way>,
     &print_word<collective_ways, &Settings::collective_way>},
    {"ISTHMUS_CMA", "auto or off",
     "Whether large messages are copied straight between processes (process_vm_readv) where that works.",
     &parse_word<auto_or_off, &Settings::cma>, &print_word<auto_or_off, &Settings::cma>},
    {"ISTHMUS_LINES", "auto, keep or hand-back",
     "Whether a rank that has read a message in shared memory writes a byte to each of its lines of cache: "
     "on "
     "some processors, and auto knows those of AMD, the next message is written faster then.",
     &parse_word<lines_words, &Settings::lines>, &print_word<lines_words, &Settings::lines>},
    {"ISTHMUS_MAPPING", "auto or off",
     "Whether long messages out of memory of MPI_Alloc_mem are copied once, by a receiver that has mapped "
     "it: "
     "also between containers in which process_vm_readv does not work.",
     &parse_word<auto_or_off, &Settings::mapping>, &print_word<auto_or_off, &Settings::mapping>},
    {"ISTHMUS_GPU_PATH", "auto, push, pull, staged or network",
     "How messages between GPUs go: written by the sender's GPU, read by the receiver's (both on one host), "
     "through the host's memory, or by the network's adapter, which is handed GPU memory (for the whole job, "
     "also between ranks of one host). What does not work between two ranks is left out.",
     &parse_word<gpu_paths, &Settings::gpu_path>, &print_word<gpu_paths, &Settings::gpu_path>},
    {"ISTHMUS_GPU_COURIER", "auto, off or on",
     "Whether short messages between GPUs of one host are copied by a kernel that waits for them, and leaves "
     "after 100 us without any: auto does so where a rank's sends are latency-bound, on always.",
     &parse_word<gpu_couriers, &Settings::gpu_courier>, &print_word<gpu_couriers, &Settings::gpu_courier>},
    {"ISTHMUS_GPU_EAGER_LIMIT", "a number of bytes to 1G (4096, 4K, 1M); 0: none",
     "Largest message that is copied from GPU memory to the host's and sent from there as any other.",
     [](Settings& s, std::string_view text) {
       return assign(s.gpu_eager_limit, parse_bytes(text), 0, std::uint64_t{1} << 30);
     },
     [](const Settings& s) { return std::to_string(s.gpu_eager_limit); }},
    {"ISTHMUS_GPU_PUSH_FROM", "a number of bytes to 1G (4096, 4K, 1M); 0 leaves it to the plan",
     "Size from which on the sender's GPU writes to another GPU; what is shorter, the receiver's GPU reads.",
     [](Settings& s, std::string_view text) {
       return assign(s.gpu_push_from, parse_bytes(text), 0, std::uint64_t{1} << 30);
     },
     [](const Settings& s) { return std::to_string(s.gpu_push_from); }},
    {"ISTHMUS_GPU_DIRECT_LIMIT", "a number of bytes to 1G (4096, 4K, 1M); 0 leaves it to the plan",
     "Largest message that a GPU copies straight to pageable memory; longer ones go through memory that both "
     "ranks share.",
     [](Settings& s, std::string_view text) {
       return assign(s.gpu_direct_limit, parse_bytes(text), 0, std::uint64_t{1} << 30);
     },
     [](const Settings& s) { return std::to_string(s.gpu_direct_limit); }},
    {"ISTHMUS_GPU_CHUNK", "a number of bytes from 4K to 1G; 0 leaves it to the library",
     "Pieces in which a long message goes from GPU memory to another host.",
     [](Settings& s, std::string_view text) {
       const auto bytes = parse_bytes(text);
       return assign(s.gpu_chunk, bytes, bytes && *bytes != 0 ? 4096 : 0, std::uint64_t{1} << 30);
     },
     [](const Settings& s) { return std::to_string(s.gpu_chunk); }},
    {"ISTHMUS_COPY_THREADS", "auto, or a number from 0 to 8",
     "Threads of a rank that help it to copy long messages between pageable memory and a GPU. auto takes "
     "processors that no rank needs.",
     [](Settings& s, std::string_view text) {
       s.copy_threads.reset();
       if (text == "auto") return true;
       std::uint32_t threads = 0;
       if (!assign(threads, parse_bytes(text), 0, 8)) return false;
       s.copy_threads = threads;
       return true;
     },
     [](const Settings& s) { return s.copy_threads ? std::to_string(*s.copy_threads) : "auto"; }},
    {"ISTHMUS_GPU_BOUNCE", "a number of bytes from 4M to 64G; 0: none",
     "Memory of each GPU that a rank takes, when first needed, for messages from and to GPU memory that "
     "cannot "
     "be handed to another process; without it they go through memory of the host.",
     [](Settings& s, std::string_view text) {
       const auto bytes = parse_bytes(text);
       return assign(s.gpu_bounce, bytes, bytes && *bytes != 0 ? std::uint64_t{4} << 20 : 0,
                     std::uint64_t{64} << 30);
     },
     [](const Settings& s) { return std::to_string(s.gpu_bounce); }},
    {"ISTHMUS_MEMORY_ALLOC_KINDS", "kinds of memory with commas between, as in system,mpi,cuda:device",
     "The kinds of memory that the program will use (MPI 5.0, section 11.4.3), as mpiexec "
     "--memory-alloc-kinds.",
     [](Settings& s, std::string_view text) {
       constexpr std::string_view letters =
           "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_:,";
       if (text.find_first_not_of(letters) != std::string_view::npos) return false;
       s.memory_alloc_kinds = text;
       return true;
     },
     [](const Settings& s) { return s.memory_alloc_kinds; }},
    {"ISTHMUS_RING_CELLS", "a power of two from 16 to 65536; 0 leaves it to the number of ranks",
     "64-byte cells in the ring between two ranks. For the whole job.",
     [](Settings& s, std::string_view text) {
       return assign_power(s.ring_cells, parse_number(text), 16, 65536);
     },
     [](const Settings& s) { return std::to_string(s.ring_cells); }},
    {"ISTHMUS_RING_BYTES", "a power of two from 4K to 1G; 0 leaves it to the number of ranks",
     "Room for eager messages in the ring between two ranks. For the whole job.",
     [](Settings& s, std::string_view text) {
       return assign_power(s.ring_bytes, parse_bytes(text), 4096, 1U << 30);
     },
     [](const Settings& s) { return std::to_string(s.ring_bytes); }},
    {"ISTHMUS_TRANSPORT", "auto, rc, ud or tcp",
     "What carries messages between hosts: rc and ud are InfiniBand or RoCE. For the whole job.",
     &parse_word<transport_names, &Settings::transport>, &print_word<transport_names, &Settings::transport>},
    {"ISTHMUS_NETWORK_EAGER_LIMIT",
     "a number of bytes to 1G (4096, 4K, 1M); 0 leaves it to the network channel",
     "Largest message that is sent to another host before the receiver has asked for it.",
     [](Settings& s, std::string_view text) {
       return assign(s.network_eager_limit, parse_bytes(text), 0, std::uint64_t{1} << 30);
     },
     [](const Settings& s) { return std::to_string(s.network_eager_limit); }},
    {"ISTHMUS_LOCALITY", "dynamic or static",
     "Which ranks share memory: dynamic finds out by trying, static takes what the launcher has arranged. "
     "For the whole job.",
     &parse_word<locality_words, &Settings::locality>, &print_word<locality_words, &Settings::locality>},
    {"ISTHMUS_RENDEZVOUS_DIR", "the absolute path of a folder",
     "A folder through which ranks in containers of one machine meet that share no network namespace.",
     [](Settings& s, std::string_view text) {
       if (!text.starts_with('/')) return false;
       s.rendezvous_dir = text;
       return true;
     },
     [](const Settings& s) { return s.rendezvous_dir; }},
    {"ISTHMUS_TUNING", "the absolute path of a table that isthmus tune has written, or off",
     "Measured values to use instead of the defaults; without it, those of the user's own table, if there is "
     "one.",
     [](Settings& s, std::string_view text) {
       if (!text.starts_with('/') && text != "off") return false;
       s.tuning = text;
       return true;
     },
     [](const Settings& s) { return s.tuning; }},
    {"ISTHMUS_IVSHMEM", "auto, off, a PCI address (0000:00:03.0) or the absolute path of a file",
     "The ivshmem device through which ranks in virtual machines of one host share memory; auto takes the "
     "first "
     "that can be used.",
     [](Settings& s, std::string_view text) {
       const bool address = text.contains(':') && !text.contains('/');
       if (text != "auto" && text != "off" && !address && !text.starts_with('/')) return false;
       s.ivshmem = text;
       return true;
     },
     [](const Settings& s) { return s.ivshmem; }},
    {"ISTHMUS_EXPLAIN", "on, off, full, json or picture (also 1, 0, yes, no, true, false)",
     "At MPI_Finalize, rank 0 prints which ways messages took, and why: on one screen (on), for each pair "
     "(full), "
     "as one JSON object (json), or the first and the last (picture). isthmus explain sets it.",
     [](Settings& s, std::string_view text) {
       if (parse_word<explain_forms, &Settings::explain>(s, text)) return true;
       bool on = false;
       if (!assign(on, parse_switch(text))) return false;
       s.explain = on ? ExplainSetting::summary : ExplainSetting::off;
       return true;
     },
     &print_word<explain_forms, &Settings::explain>},
    {"ISTHMUS_TRACE", "the absolute path of a folder",
     "A folder in which each rank writes its calls and messages to a file of its own; isthmus trace sets it, "
     "and reads them.",
     [](Settings& s, std::string_view text) {
       if (!text.starts_with('/')) return false;
       s.trace = text;
       return true;
     },
     [](const Settings& s) { return s.trace; }},
    {"ISTHMUS_TRACE_LIMIT", "a number of bytes from 64K to 64G (64K, 1M, 4G)",
     "The most that such a file takes. What happens after that is counted, and not written.",
     [](Settings& s, std::string_view text) {
       return assign(s.trace_limit, parse_bytes(text), std::uint64_t{64} << 10, std::uint64_t{64} << 30);
     },
     [](const Settings& s) { return std::to_string(s.trace_limit); }},
    {"ISTHMUS_WARN", switch_values, "Whether warnings are printed to stderr.",
     [](Settings& s, std::string_view text) { return assign(s.warn, parse_switch(text)); },
     [](const Settings& s) { return std::string(s.warn ? "on" : "off"); }},
});

/// Position of `variable` in the table; its size where it is no setting.
std::size_t position_of(std::string_view variable) noexcept {
  const auto* found = std::ranges::find(table, variable, &Setting::variable);
  return static_cast<std::size_t>(found - table.begin());
}

/// The setting that a mistyped `name` probably meant.
std::string_view nearest_setting(std::string_view name) {
  std::array<std::string_view, table.size()> names;
  std::transform(table.begin(), table.end(), names.begin(), [](const Setting& s) { return s.variable; });
  return nearest(name, names);
}

}  // namespace

std::string_view name_of(TransportSetting transport) noexcept {
  return transport_names.at(static_cast<std::size_t>(transport));
}

std::optional<TagDivision> parse_tag_division(std::string_view text) noexcept {
  std::array<std::uint64_t, 3> bits{};
  for (std::size_t i = 0; i < bits.size(); ++i) {
    const std::size_t end = i + 1 < bits.size() ? text.find(',') : text.size();
    if (end == std::string_view::npos) return std::nullopt;
    const auto number = parse_number(text.substr(0, end));
    if (!number || *number > 64) return std::nullopt;
    bits[i] = *number;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  const auto [type, source, counter] = bits;
  if (type + source + counter != 64 || type < 2 || source > 32 || counter < 16 || counter > 48)
    return std::nullopt;
  return TagDivision{static_cast<std::uint32_t>(type), static_cast<std::uint32_t>(source),
                     static_cast<std::uint32_t>(counter)};
}

std::optional<TransportSetting> transport_named(std::string_view name) noexcept {
  const auto* found = std::ranges::find(transport_names, name);
  if (found == transport_names.end()) return std::nullopt;
  return static_cast<TransportSetting>(found - transport_names.begin());
}

std::string_view name_of(Origin origin) noexcept {
  return origin == Origin::standard ? "default" : origin == Origin::tuned ? "tuned" : "environment";
}

Result<Settings> Settings::read(const char* const* environment) {
  static_assert(table.size() == count);
  Settings settings;
  for (const Setting& setting : table) {
    const auto text = look_up(environment, setting.variable);
    if (!text) continue;
    settings.origins_[position_of(setting.variable)] = Origin::environment;
    if (!setting.parse(settings, *text))
      return fail(ErrorClass::arg, std::string(setting.variable) + "='" + std::string(*text) +
                                       "' is not understood; allowed: " + std::string(setting.allowed));
  }
  return settings;
}

bool Settings::tune(std::string_view variable, std::string_view text) {
  const std::size_t position = position_of(variable);
  if (position == count) return false;
  Settings tried = *this;
  if (!table[position].parse(tried, text)) return false;
  if (origins_[position] == Origin::environment) return true;
  *this = std::move(tried);
  origins_[position] = Origin::tuned;
  return true;
}

Origin Settings::origin(std::string_view variable) const noexcept {
  const std::size_t position = position_of(variable);
  return position < count ? origins_[position] : Origin::standard;
}

std::vector<std::string> Settings::unknown_variables(const char* const* environment) {
  std::vector<std::string> warnings;
  for (; environment && *environment; ++environment) {
    const std::string_view entry = *environment;
    if (!entry.starts_with(prefix)) continue;
    const std::string_view name = entry.substr(0, entry.find('='));
    const auto is_name = [&](const Setting& setting) { return setting.variable == name; };
    if (std::any_of(table.begin(), table.end(), is_name)) continue;
    const auto is_one_of = [name](const auto& names) {
      return std::find(names.begin(), names.end(), name) != names.end();
    };
    if (is_one_of(launcher_variable::all) || is_one_of(wrapper_variables) || name == chosen_gpu_variable ||
        name == trace_file_variable)
      continue;
    warnings.push_back("the variable " + std::string(name) +
                       " means nothing to Isthmus and is ignored; the nearest setting is " +
                       std::string(nearest_setting(name)) + " (isthmus info --settings lists all)");
  }
  return warnings;
}

std::vector<SettingDescription> describe(const Settings& settings) {
  std::vector<SettingDescription> descriptions;
  descriptions.reserve(table.size());
  for (const Setting& setting : table)
    descriptions.push_back({setting.variable, setting.print(settings), setting.print(Settings{}),
                            settings.origin(setting.variable), setting.allowed, setting.documentation});
  return descriptions;
}

}  // namespace isthmus
