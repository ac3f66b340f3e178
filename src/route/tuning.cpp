#include "route/tuning.hpp"

#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "route/way_choice.hpp"

namespace isthmus::tuning {
namespace {

using Json = nlohmann::json;

/// Size classes of a table at most.
constexpr std::size_t most_taught_ways = 4096;

/// Of a communicator.
constexpr std::uint64_t most_members = 1 << 20;

/// More than any table has; a longer file is none.
constexpr std::streamsize longest_table = 1 << 20;

/// A member of `object`, null where it has none.
Json member(const Json& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found != object.end() ? *found : Json();
}

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : std::string();
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(longest_table + 1, '\0');
  file.read(text.data(), longest_table + 1);
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return text;
}

std::unexpected<Error> wrong(const std::string& what) {
  return fail(ErrorClass::arg, what);
}

Result<Value> parse_value(const std::string& variable, const Json& entry) {
  if (std::ranges::find(variables, variable) == variables.end())
    return wrong("has a value for " + variable + ", which no table has");
  const Json value = member(entry, "value");
  const std::string origin = text_of(member(entry, "origin"));
  if (!value.is_number_unsigned() || (origin != "tuned" && origin != "default"))
    return wrong("is damaged: " + variable + " has no value with an origin");
  Value result{.variable = variable,
               .value = value.get<std::uint64_t>(),
               .why = text_of(member(entry, "why")),
               .tuned = origin == "tuned"};
  Settings tried;
  if (!tried.tune(variable, std::to_string(result.value)))
    return wrong("is damaged: " + variable + " cannot be " + std::to_string(result.value));
  return result;
}

bool flag(const Json& entry, const char* name) {
  const Json found = member(entry, name);
  return found.is_boolean() && found.get<bool>();
}

bool is_cost(const Json& value) {
  return value.is_number() && value.get<double>() > 0;
}

/// What an entry says that is of messages from a length on.
struct SizeLesson {
  std::uint64_t from;
  std::uint8_t way;
  double ticks_per_byte;
};

/// Nothing where it has no size, cost, or none of these `ways`.
std::optional<SizeLesson> parse_size_lesson(const Json& entry, std::span<const std::string_view> ways) {
  const Json from = member(entry, "from");
  const Json cost = member(entry, "ticks_per_byte");
  const auto way = std::ranges::find(ways, text_of(member(entry, "way")));
  if (!from.is_number_unsigned() || from.get<std::uint64_t>() == 0 || !is_cost(cost) || way == ways.end())
    return std::nullopt;
  return SizeLesson{.from = from.get<std::uint64_t>(),
                    .way = static_cast<std::uint8_t>(way - ways.begin()),
                    .ticks_per_byte = cost.get<double>()};
}

/// One entry of "taught": what `isthmus tune --from` has heard of messages of a size class.
Result<TaughtWay> parse_taught_way(const Json& entry) {
  const auto lesson = parse_size_lesson(entry, long_ways);
  if (!lesson) return wrong("is damaged: a way that messages have taught has no size, way or cost");
  return TaughtWay{.from = lesson->from,
                   .far = !flag(entry, "same_socket"),
                   .all_ways = flag(entry, "any_way"),
                   .many = flag(entry, "several"),
                   .way = lesson->way,
                   .ticks_per_byte = lesson->ticks_per_byte};
}

/// One entry of "taught_eager".
Result<TaughtEager> parse_taught_eager(const Json& entry) {
  const auto lesson = parse_size_lesson(entry, eager_ways);
  if (!lesson) return wrong("is damaged: what has been taught of sends has no size, way or cost");
  return TaughtEager{.from = lesson->from,
                     .far = !flag(entry, "same_socket"),
                     .nonblocking = flag(entry, "nonblocking"),
                     .several = flag(entry, "several"),
                     .way = lesson->way,
                     .ticks_per_byte = lesson->ticks_per_byte};
}

/// One entry of "taught_gpu".
Result<TaughtGpu> parse_taught_gpu(const Json& entry) {
  const auto lesson = parse_size_lesson(entry, gpu_way_names);
  const auto route = std::ranges::find(gpu_route_names, text_of(member(entry, "route")));
  if (!lesson || route == gpu_route_names.end())
    return wrong("is damaged: what has been taught of GPU memory has no route, size, way or cost");
  return TaughtGpu{.from = lesson->from,
                   .route = static_cast<std::uint8_t>(route - gpu_route_names.begin()),
                   .has_gaps = flag(entry, "gaps"),
                   .many = flag(entry, "several"),
                   .way = lesson->way,
                   .ticks_per_byte = lesson->ticks_per_byte};
}

/// One entry of "taught_collectives".
Result<TaughtCall> parse_taught_call(const Json& entry) {
  const auto collective = std::ranges::find(collectives, text_of(member(entry, "collective")));
  const Json blocking = member(entry, "way");
  const auto way = std::ranges::find(call_ways, text_of(blocking));
  const Json members = member(entry, "members");
  const Json up_to = member(entry, "up_to");
  const Json cost = member(entry, "ticks_per_byte");
  const Json in_lanes = member(entry, "nonblocking_way");
  const auto other = std::ranges::find(call_ways, text_of(in_lanes));
  const bool has_way = blocking.is_null() ? !in_lanes.is_null() : way != call_ways.end() && is_cost(cost);
  if (collective == collectives.end() || !has_way || !members.is_number_unsigned() ||
      members.get<std::uint64_t>() < 2 || members.get<std::uint64_t>() > most_members ||
      !up_to.is_number_unsigned() || (!in_lanes.is_null() && other == call_ways.end()))
    return wrong("is damaged: a collective that has been taught has no name, members, size, way or cost");
  TaughtCall taught{.collective = static_cast<std::uint8_t>(collective - collectives.begin()),
                    .way = {},
                    .in_lanes = {},
                    .far = !flag(entry, "same_socket"),
                    .members = members.get<int>(),
                    .up_to = up_to.get<std::uint64_t>()};
  if (!blocking.is_null()) {
    taught.way = static_cast<std::uint8_t>(way - call_ways.begin());
    taught.ticks_per_byte = cost.get<double>();
  }
  if (!in_lanes.is_null()) taught.in_lanes = static_cast<std::uint8_t>(other - call_ways.begin());
  return taught;
}

/// The entries of one list of lessons, which may be missing.
template <class Entry>
Result<std::vector<Entry>> parse_taught(const Json& list, Result<Entry> (*parse_entry)(const Json&)) {
  std::vector<Entry> entries;
  if (list.is_null()) return entries;
  if (!list.is_array() || list.size() > most_taught_ways)
    return wrong("is damaged: what messages have taught is no list");
  for (const Json& entry : list) {
    auto parsed = parse_entry(entry);
    if (!parsed) return std::unexpected(std::move(parsed).error());
    entries.push_back(std::move(*parsed));
  }
  return entries;
}

}  // namespace

Machine Machine::here() {
  Machine machine;
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; machine.processor.empty() && std::getline(file, line) && !line.empty();)
    if (line.starts_with("model name"))
      if (const std::size_t colon = line.find(": "); colon != std::string::npos)
        machine.processor = line.substr(colon + 2);
  machine.processors = ::sysconf(_SC_NPROCESSORS_CONF);
  utsname system{};
  ::uname(&system);
  machine.kernel = system.release;
  return machine;
}

std::string Machine::text() const {
  return processor + ", " + std::to_string(processors) + " hardware threads, kernel " + kernel;
}

std::string default_path() {
  const char* config = std::getenv("XDG_CONFIG_HOME");
  if (config && config[0] == '/') return std::string(config) + "/isthmus/tuning.json";
  const char* home = std::getenv("HOME");
  return home && home[0] == '/' ? std::string(home) + "/.config/isthmus/tuning.json" : std::string();
}

Result<Table> parse(std::string_view json, const Machine& machine) {
  const Json table = Json::parse(json, nullptr, false);
  const Json found_version = member(table, "isthmus_tuning");
  if (!found_version.is_number_unsigned()) return wrong("is damaged, or no table of isthmus tune");
  if (const auto number = found_version.get<std::uint64_t>(); number != version)
    return wrong("has version " + std::to_string(number) + " of the format, and this Isthmus knows version " +
                 std::to_string(version));
  const Json place = member(table, "machine");
  const Json processors = member(place, "processors");
  const Machine measured{.processor = text_of(member(place, "processor")),
                         .processors = processors.is_number_integer() ? processors.get<long>() : 0,
                         .kernel = text_of(member(place, "kernel"))};
  if (measured != machine)
    return wrong("was measured on another machine (" + measured.text() + "; this is " + machine.text() + ")");
  const Json values = member(table, "values");
  if (!values.is_object()) return wrong("is damaged: it has no values");
  Table result;
  for (const auto& [variable, entry] : values.items()) {
    auto value = parse_value(variable, entry);
    if (!value) return std::unexpected(std::move(value).error());
    result.values.push_back(std::move(*value));
  }
  auto ways = parse_taught(member(table, "taught"), &parse_taught_way);
  if (!ways) return std::unexpected(std::move(ways).error());
  auto eager = parse_taught(member(table, "taught_eager"), &parse_taught_eager);
  if (!eager) return std::unexpected(std::move(eager).error());
  auto gpu = parse_taught(member(table, "taught_gpu"), &parse_taught_gpu);
  if (!gpu) return std::unexpected(std::move(gpu).error());
  auto calls = parse_taught(member(table, "taught_collectives"), &parse_taught_call);
  if (!calls) return std::unexpected(std::move(calls).error());
  result.taught_ways = std::move(*ways);
  result.taught_eager = std::move(*eager);
  result.taught_gpu = std::move(*gpu);
  result.taught_calls = std::move(*calls);
  return result;
}

std::string apply(Settings& settings) {
  if (settings.tuning == "off") return {};
  const bool named = !settings.tuning.empty();
  const std::string path = named ? settings.tuning : default_path();
  if (path.empty()) return {};
  if (::access(path.c_str(), R_OK) != 0) {
    if (!named && (errno == ENOENT || errno == ENOTDIR || errno == EACCES)) return {};
    return "the tuning table " + path + " cannot be read (" + std::strerror(errno) +
           "); the defaults are used instead";
  }
  // Whoever opens a pipe waits for its other end.
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode))
    return "the tuning table " + path + " is not a file; the defaults are used instead";
  auto table = parse(read_file(path), Machine::here());
  if (!table)
    return "the tuning table " + path + ' ' + table.error().text() +
           "; the defaults are used instead (isthmus tune makes a new one, ISTHMUS_TUNING=off does without)";
  for (const Value& value : table->values)
    if (value.tuned && !settings.tune(value.variable, std::to_string(value.value)))
      return "the tuning table " + path + " does not fit";
  settings.taught_ways = std::move(table->taught_ways);
  settings.taught_eager = std::move(table->taught_eager);
  settings.taught_gpu = std::move(table->taught_gpu);
  settings.taught_calls = std::move(table->taught_calls);
  return {};
}

}  // namespace isthmus::tuning
