#include "suite/core/options.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <span>

namespace isthmus::bench {
namespace {

using Words = std::vector<std::string>;
// Returns what is wrong with the value, empty where nothing is.
using Take = std::string (*)(Options&, const std::string& value);

enum class Value : std::uint8_t { none, needed, possible };

struct Flag {
  std::string_view letter;  // "-m", or empty
  std::string_view name;
  std::string_view value;  // what help calls it
  Value takes;
  unsigned features;  // 0: every benchmark has it
  std::string_view meaning;
  Take take;
};

std::optional<long> number_of(std::string_view text, long least) {
  long number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < least) return std::nullopt;
  return number;
}

Words split(const std::string& text, char separator) {
  Words parts;
  std::size_t from = 0;
  for (;;) {
    const std::size_t to = text.find(separator, from);
    parts.push_back(text.substr(from, to - from));
    if (to == std::string::npos) return parts;
    from = to + 1;
  }
}

template <class Number>
std::string set_number(Number& where, const std::string& text, long least) {
  const auto number = number_of(text, least);
  if (!number || static_cast<long>(static_cast<Number>(*number)) != *number)
    return "needs a whole number of at least " + std::to_string(least);
  where = static_cast<Number>(*number);
  return "";
}

std::string take_sizes(Options& options, const std::string& text) {
  std::string wrong =
      "needs MAX, MIN:MAX or a list SIZE,SIZE,...; a size is a number of bytes, or one with K, M or G";
  if (std::ranges::find(text, ',') != text.end()) {
    for (const std::string& word : split(text, ',')) {
      const auto size = size_of(word);
      if (!size) return wrong;
      options.sizes.push_back(*size);
    }
    return "";
  }
  const Words ends = split(text, ':');
  if (ends.size() > 2) return wrong;
  const auto high = size_of(ends.back());
  const auto low = ends.size() == 2 && !ends[0].empty() ? size_of(ends[0]) : std::optional(options.smallest);
  if (!high || !low) return wrong;
  if (*high < *low)
    return "the greatest size, " + ends.back() + ", is below the least, " + std::to_string(*low);
  options.smallest = *low;
  options.largest = *high;
  return "";
}

std::string take_percentiles(Options& options, const std::string& text) {
  options.percentiles.clear();
  for (std::string word : split(text.empty() ? "50,90,99" : text, ',')) {
    if (!word.empty() && (word[0] == 'P' || word[0] == 'p')) word.erase(0, 1);
    const auto number = number_of(word, 0);
    if (!number || *number > 100) return "needs percentiles from 0 to 100, as in 50,90,99";
    options.percentiles.push_back(static_cast<int>(*number));
  }
  return "";
}

template <class Choice>
struct Named {
  std::string_view name;
  Choice choice;
};

template <class Choice>
std::string choose(Choice& where, const std::string& text, std::initializer_list<Named<Choice>> all) {
  std::string names;
  for (const auto& [name, choice] : all) {
    if (name == text) {
      where = choice;
      return "";
    }
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  return "knows " + names;
}

std::string take_accelerator(Options& options, const std::string& text) {
  if (text != "cuda" && text != "managed") return "knows cuda and managed";
  options.placement.fill(text == "cuda" ? Placement::device : Placement::managed_device);
  return "";
}

std::string take_elements(Options& options, const std::string& text) {
  using Elements = std::vector<Element>;
  return choose(options.elements, text,
                {{"all", Elements{Element::character, Element::integer, Element::real}},
                 {"mpi_char", Elements{Element::character}},
                 {"mpi_int", Elements{Element::integer}},
                 {"mpi_float", Elements{Element::real}}});
}

std::string take_layout(Options& options, const std::string& text) {
  auto layout = layout_named(text);
  if (const auto* wrong = std::get_if<std::string>(&layout)) return *wrong;
  options.layout = std::move(std::get<Layout>(layout));
  return "";
}

std::string take_seconds(Options& options, const std::string& text) {
  char* end = nullptr;
  const double seconds = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !std::isfinite(seconds) || seconds <= 0)
    return "needs a time in seconds, above 0";
  options.effort.seconds = seconds;
  return "";
}

std::string take_timing(Options& options, const std::string& text) {
  return choose(
      options.timing, text,
      {{"barrier", Timing::barrier}, {"loop", Timing::loop}, {"synchronised", Timing::synchronised}});
}

std::string take_synchronisation(Options& options, const std::string& text) {
  return choose(options.synchronisation, text,
                {{"flush", Synchronisation::flush},
                 {"lock", Synchronisation::lock},
                 {"fence", Synchronisation::fence},
                 {"pscw", Synchronisation::post_start}});
}

std::string take_format(Options& options, const std::string& text) {
  return choose(options.format, text, {{"text", Format::text}, {"json", Format::json}});
}

std::string take_window_kind(Options& options, const std::string& text) {
  return choose(options.window_kind, text,
                {{"allocate", WindowKind::allocate}, {"create", WindowKind::create}});
}

// -r means two things in the OSU suite; no benchmark has both.
std::string take_rate(Options& options, const std::string& text) {
  return choose(options.print_rate, text, {{"0", false}, {"1", true}});
}
std::string take_target(Options& options, const std::string& text) {
  return choose(options.compute_target, text, {{"cpu", std::string("cpu")}, {"gpu", std::string("gpu")}});
}

constexpr unsigned of(Feature feature) {
  return static_cast<unsigned>(feature);
}

constexpr Flag flags[] = {
    {"-m", "--message-size", "[MIN:]MAX", Value::needed, of(Feature::sizes),
     "the sizes: powers of two from MIN (1) to MAX (4M), or a list SIZE,SIZE,...", take_sizes},
    {"-i", "--iterations", "N", Value::needed, 0,
     "measure N operations at each size, instead of as many as the time allows",
     [](Options& o, const std::string& v) { return set_number(o.effort.iterations, v, 1); }},
    {"-x", "--warmup", "N", Value::needed, 0,
     "warm up with N operations, instead of until the times have converged",
     [](Options& o, const std::string& v) { return set_number(o.effort.warmup, v, 0); }},
    {"-W", "--window-size", "N", Value::needed, of(Feature::window), "messages under way at once (64)",
     [](Options& o, const std::string& v) { return set_number(o.window, v, 1); }},
    {"-c", "--validation", "", Value::none, 0, "check the contents, before and after what is timed",
     [](Options& o, const std::string&) { return o.validate = true, std::string(); }},
    {"-d", "--accelerator", "cuda|managed", Value::needed, of(Feature::placement),
     "buffers in GPU memory (as D) or managed memory (as MD)", take_accelerator},
    {"-T", "--type", "all|mpi_char|mpi_int|mpi_float", Value::needed, of(Feature::types),
     "the type of a message's elements (MPI_BYTE; MPI_FLOAT where they are added up); all: one after the "
     "other",
     take_elements},
    {"-D", "--ddt", "cont|vect:STRIDE:BLOCK|indx:FILE", Value::needed, of(Feature::layouts),
     "a derived datatype: BLOCK elements of each STRIDE, or blocks as a file has them (docs/bench.md)",
     take_layout},
    {"-f", "--full", "", Value::none, 0,
     "more columns: the mean, least, greatest, the median's interval, operations",
     [](Options& o, const std::string&) { return o.full = true, std::string(); }},
    {"-z", "--tail-lat", "P,P,...", Value::possible, 0, "columns with these percentiles (50,90,99)",
     take_percentiles},
    {"-r", "--print-rate", "0|1", Value::needed, of(Feature::rate), "whether to print the message rate (1)",
     take_rate},
    {"-r", "--cuda-target", "cpu|gpu", Value::needed, of(Feature::overlap),
     "who computes beside the operation (cpu)", take_target},
    {"-t", "--num-test-calls", "N", Value::needed, of(Feature::overlap),
     "calls of MPI_Test within the computation (0)",
     [](Options& o, const std::string& v) { return set_number(o.test_calls, v, 0); }},
    {"-t", "--num-threads", "N", Value::needed, of(Feature::threads), "threads of each rank (2)",
     [](Options& o, const std::string& v) { return set_number(o.threads, v, 1); }},
    {"-p", "--pairs", "N", Value::needed, of(Feature::pairs), "pairs of ranks (as many as there are)",
     [](Options& o, const std::string& v) { return set_number(o.pairs, v, 1); }},
    {"", "--partitions", "N", Value::needed, of(Feature::partitions), "partitions of a message (16)",
     [](Options& o, const std::string& v) { return set_number(o.partitions, v, 1); }},
    {"-w", "--win-option", "allocate|create", Value::needed, of(Feature::one_sided),
     "how the window comes about (allocate)", take_window_kind},
    {"-s", "--sync-option", "flush|lock|fence|pscw", Value::needed, of(Feature::one_sided),
     "how operations are completed (flush)", take_synchronisation},
    {"", "--timing", "barrier|loop|synchronised", Value::needed, of(Feature::collective),
     "a barrier before each operation, as the OSU suite (barrier); back to back; or all ranks begin at one "
     "moment, and the "
     "last to finish counts",
     take_timing},
    {"-M", "--mem-limit", "SIZE", Value::needed, 0,
     "leave out sizes for which a rank needs more memory than that (512M)",
     [](Options& o, const std::string& v) {
       const auto size = size_of(v);
       if (size) o.memory_limit = *size;
       return std::string(size ? "" : "needs a size, as in 512M");
     }},
    {"", "--faults", "", Value::none, of(Feature::managed),
     "columns with page faults of CPU and GPU and bytes that migrated, per operation, of all ranks (needs "
     "CUPTI)",
     [](Options& o, const std::string&) { return o.faults = true, std::string(); }},
    {"", "--seconds", "S", Value::needed, 0, "measure each size for about that long (0.1)", take_seconds},
    {"", "--format", "text|json", Value::needed, 0, "a table, or a JSON object a line", take_format},
    {"", "--samples", "", Value::none, 0, "with --format json: every sample",
     [](Options& o, const std::string&) { return o.samples = true, std::string(); }},
    {"-h", "--help", "", Value::none, 0, "this text",
     [](Options& o, const std::string&) { return o.help = true, std::string(); }},
};

const Flag* find(std::string_view word, unsigned features, bool& known) {
  for (const Flag& flag : flags) {
    if (word != flag.name && (flag.letter.empty() || word != flag.letter)) continue;
    known = true;
    if (flag.features == 0 || (flag.features & features) != 0) return &flag;
  }
  return nullptr;
}

// A flag's word as it stands: "-m", "1:8" apart, "--message-size=1:8" and "-m1:8" in one.
struct Split {
  std::string name;
  std::optional<std::string> value;
};

Split name_and_value(const std::string& word) {
  const std::size_t equals = word.find('=');
  if (word.starts_with("--")) {
    if (equals == std::string::npos) return {word, std::nullopt};
    return {word.substr(0, equals), word.substr(equals + 1)};
  }
  if (word.size() > 2) return {word.substr(0, 2), word.substr(2)};
  return {word, std::nullopt};
}

std::string take_positional(Options& options, unsigned features, const std::string& word,
                            std::size_t& positions) {
  if (!has(features, Feature::placement)) return "'" + word + "': this benchmark takes no placement";
  const auto placement = placement_named(word);
  if (!placement) return "'" + word + "' is no placement: there are H, A, pinned, D, VMM, POOL, MH and MD";
  if (positions == 2) return "'" + word + "': a third placement, where a message has two sides";
  options.placement[positions++] = *placement;
  return "";
}

}  // namespace

std::optional<std::size_t> size_of(std::string_view text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  const std::string_view suffix(end, static_cast<std::size_t>(text.data() + text.size() - end));
  unsigned shift = 0;
  if (suffix == "K" || suffix == "k" || suffix == "KiB") {
    shift = 10;
  } else if (suffix == "M" || suffix == "m" || suffix == "MiB") {
    shift = 20;
  } else if (suffix == "G" || suffix == "g" || suffix == "GiB") {
    shift = 30;
  } else if (!suffix.empty() && suffix != "B") {
    return std::nullopt;
  }
  if (number > (SIZE_MAX >> 1 >> shift)) return std::nullopt;
  return number << shift;
}

std::variant<Options, Refusal> parse_options(const Words& words, unsigned features) {
  Options options;
  std::size_t positions = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word.size() < 2 || word[0] != '-') {
      if (std::string why = take_positional(options, features, word, positions); !why.empty())
        return Refusal{why};
      continue;
    }
    auto [name, value] = name_and_value(word);
    bool known = false;
    const Flag* flag = find(name, features, known);
    if (flag == nullptr)
      return Refusal{name + (known ? " is not for this benchmark" : " is no option") + "; --help shows all"};
    if (flag->takes == Value::none && value) return Refusal{name + " takes no value"};
    if (flag->takes == Value::needed && !value) {
      if (++i == words.size()) return Refusal{name + " needs " + std::string(flag->value)};
      value = words[i];
    }
    if (flag->takes == Value::possible && !value && i + 1 < words.size() &&
        number_of(words[i + 1].substr(0, 1), 0))
      value = words[++i];
    if (const std::string why = flag->take(options, value.value_or("")); !why.empty()) {
      if (value) name.append(" ").append(*value);
      return Refusal{name.append(": ").append(why)};
    }
  }
  if (positions == 1) options.placement[1] = options.placement[0];
  return options;
}

std::string options_help(unsigned features) {
  std::string text;
  if (has(features, Feature::placement))
    text +=
        "  [PLACEMENT [PLACEMENT]]          of the first side's buffers and the second's: H (host memory), "
        "A (MPI_Alloc_mem), pinned, D (device),\n"
        "                                   VMM, POOL, MH, MD (managed memory that is used on the host, on "
        "the device)\n";
  constexpr std::size_t column = 35;
  for (const Flag& flag : flags) {
    if (flag.features != 0 && (flag.features & features) == 0) continue;
    std::string line = flag.letter.empty() ? "      " : "  " + std::string(flag.letter) + ", ";
    line += flag.name;
    if (!flag.value.empty()) line.append(" ").append(flag.value);
    if (line.size() + 1 > column) {
      text += line + "\n";
      line.clear();
    }
    line.resize(column, ' ');
    text.append(line).append(flag.meaning).append("\n");
  }
  return text;
}

std::vector<std::size_t> sizes_of(const Options& options, std::size_t unit) {
  std::vector<std::size_t> sizes;
  if (!options.sizes.empty()) {
    for (const std::size_t size : options.sizes)
      if (size % unit == 0) sizes.push_back(size);
    return sizes;
  }
  if (options.smallest == 0) sizes.push_back(0);
  for (std::size_t size = std::max(options.smallest, unit); size <= options.largest && size > 0; size *= 2)
    if (size % unit == 0) sizes.push_back(size);
  return sizes;
}

}  // namespace isthmus::bench
