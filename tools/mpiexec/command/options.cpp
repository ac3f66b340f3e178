#include "command/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <iterator>
#include <span>
#include <string_view>

#include "base/settings.hpp"
#include "base/spelling.hpp"
#include "base/whole_number.hpp"
#include "command/hosts.hpp"
#include "command/words.hpp"
#include "wire/region.hpp"

namespace isthmus::mpiexec {
namespace {

/// Each has a stack, a thread that keeps its thread-local storage, and a copy of the program.
constexpr std::uint32_t most_ranks_per_process = 1024;

using Operands = std::span<const std::string>;
/// Nothing, or what is wrong with the operands.
using Complaint = std::optional<std::string>;

enum class Scope : std::uint8_t { part, job };
enum class Group : std::uint8_t { job, environment, placement, hosts, container, output, help, ignored };

struct State {
  Options options;
  Part part;
  std::optional<std::string> print;
};

struct Option {
  std::vector<std::string_view> names;  ///< without dashes; the first is the one to show
  std::string_view operands;            ///< as --help shows them, separated by spaces
  Scope scope;
  Group group;
  std::string_view help;
  Complaint (*apply)(State&, Operands);

  [[nodiscard]] std::size_t operand_count() const {
    return operands.empty() ? 0
                            : 1 + static_cast<std::size_t>(std::count(operands.begin(), operands.end(), ' '));
  }
};

std::string dashed(std::string_view name) {
  return (name.size() == 1 ? "-" : "--") + std::string(name);
}

template <class Value, std::size_t N>
Complaint choose(Value& target, const std::string& text,
                 const std::array<std::pair<std::string_view, Value>, N>& choices) {
  const auto found =
      std::find_if(choices.begin(), choices.end(), [&](const auto& c) { return c.first == text; });
  if (found == choices.end()) {
    std::string names;
    for (const auto& [name, value] : choices)
      names += (names.empty() ? "" : &name == &choices.back().first ? " or " : ", ") + std::string(name);
    return "allowed: " + names;
  }
  target = found->second;
  return std::nullopt;
}

/// `to` stays what it is where that is no whole number from 1 to `most`.
Complaint set_count(auto& to, Operands operands, std::uint32_t most) {
  const std::uint32_t count = whole_number<std::uint32_t>(operands[0]).value_or(0);
  if (count == 0 || count > most) return fmt::format("allowed: a whole number from 1 to {}", most);
  to = count;
  return std::nullopt;
}

std::optional<Export> parse_export(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == 0 || text.empty()) return std::nullopt;
  if (equals == std::string::npos) return Export{text, std::nullopt};
  return Export{text.substr(0, equals), text.substr(equals + 1)};
}

/// -x before the first program is for all parts, as users of Open MPI expect; in a later part for that part.
Complaint add_export(State& state, Operands operands) {
  auto entry = parse_export(operands[0]);
  if (!entry) return "allowed: NAME or NAME=VALUE";
  auto& list = state.options.parts.empty() ? state.options.exports : state.part.exports;
  list.push_back(std::move(*entry));
  return std::nullopt;
}

Complaint add_pair(std::vector<Export>& list, Operands operands) {
  if (operands[0].empty() || operands[0].contains('='))
    return "a variable's name is not empty and has no '='";
  list.push_back({operands[0], operands[1]});
  return std::nullopt;
}

Complaint set_timeout(State& state, Operands operands) {
  const std::string& text = operands[0];
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  constexpr double most = 1e8;  // three years
  if (error != std::errc{} || end != text.data() + text.size() || !(seconds > 0) || seconds > most)
    return "allowed: a number of seconds above 0, such as 90 or 0.5";
  state.options.timeout = std::chrono::duration<double>(seconds);
  return std::nullopt;
}

Complaint take_hosts(State& state, std::expected<std::vector<HostSlots>, std::string> hosts) {
  if (!hosts) return hosts.error();
  state.options.hosts.insert(state.options.hosts.end(), hosts->begin(), hosts->end());
  return std::nullopt;
}

Complaint set_words(std::vector<std::string>& target, const std::string& text, std::string_view example) {
  auto words = split_words(text);
  if (!words) return "a quote in the command is not closed";
  if (words->empty()) return fmt::format("allowed: a command such as {}", example);
  target = std::move(*words);
  return std::nullopt;
}

Complaint set_memory_kinds(State& state, Operands operands) {
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_:,";
  if (operands[0].empty() || operands[0].find_first_not_of(letters) != std::string::npos)
    return "allowed: kinds with commas between, such as system,mpi,cuda:device";
  state.options.exports.push_back({"ISTHMUS_MEMORY_ALLOC_KINDS", operands[0]});
  return std::nullopt;
}

Complaint set_transport(State& state, Operands operands) {
  if (!transport_named(operands[0])) return "allowed: auto, rc, ud or tcp";
  state.options.exports.push_back({"ISTHMUS_TRANSPORT", operands[0]});
  return std::nullopt;
}

Complaint set_gpu_bind(State& state, Operands operands) {
  constexpr std::string_view allowed =
      "allowed: closest, none or a list such as 0,1,1, of numbers or UUIDs; with :order behind it, the other "
      "GPUs "
      "stay visible";
  constexpr std::string_view suffix = ":order";
  std::string_view text = operands[0];
  GpuBind bind;
  if (text.ends_with(suffix)) {
    bind.others_behind = true;
    text.remove_suffix(suffix.size());
  }
  if (text == "closest" || (text == "none" && !bind.others_behind)) {
    bind.how = text == "closest" ? GpuBind::How::closest : GpuBind::How::none;
  } else {
    bind.how = GpuBind::How::listed;
    for (bool more = true; more;) {
      const std::size_t comma = text.find(',');
      const std::string_view word = text.substr(0, comma);
      const bool is_uuid = word.starts_with("GPU-") && word.size() > 4;
      if (!is_uuid && !whole_number<std::uint32_t>(word)) return std::string(allowed);
      bind.list.emplace_back(word);
      more = comma != std::string_view::npos;
      if (more) text.remove_prefix(comma + 1);
    }
  }
  state.options.gpu_bind = std::move(bind);
  return std::nullopt;
}

Complaint accept(State& /*state*/, Operands /*operands*/) {
  return std::nullopt;
}

Complaint note_mca(State& state, Operands operands) {
  state.options.notes.push_back(
      fmt::format("'{}' is a parameter of Open MPI and has no effect", operands[0]));
  return std::nullopt;
}

Complaint note_per_host(State& state, Operands /*operands*/) {
  state.options.notes.emplace_back("the number of ranks per host has no effect: all run on this one");
  return std::nullopt;
}

std::string help_text();

const std::vector<Option> table{
    {{"n", "np"},
     "N",
     Scope::part,
     Group::job,
     "Start N ranks of the program. Without it, one for each core that may be used.",
     [](State& s, Operands o) { return set_count(s.part.ranks, o, wire::maximum_local_ranks); }},
    {{"ranks-per-process"},
     "N",
     Scope::job,
     Group::job,
     "Start a process for each N ranks, which take turns on its one thread, each with a copy of the "
     "program's globals: docs/virtual-ranks.md says which programs can. Default: 1.",
     [](State& s, Operands o) { return set_count(s.options.ranks_per_process, o, most_ranks_per_process); }},
    {{"workers-per-process"},
     "N",
     Scope::job,
     Group::job,
     "With --ranks-per-process: N threads of each process give its ranks their turns, and ranks move between "
     "them (MPIX_Migrate, MPIX_Load_balance). Default: 1.",
     [](State& s, Operands o) { return set_count(s.options.workers, o, most_ranks_per_process); }},
    {{"migratable"},
     "",
     Scope::job,
     Group::job,
     "With --ranks-per-process: ranks may go on in other processes, also of other hosts (MPIX_Load_balance, "
     "MPIX_Migrate_all), with their globals, stack and heap.",
     [](State& s, Operands) {
       s.options.migratable = true;
       return Complaint{};
     }},
    {{"wdir", "wd"},
     "DIR",
     Scope::part,
     Group::job,
     "Start the program in the folder DIR.",
     [](State& s, Operands o) -> Complaint {
       s.part.directory = o[0];
       return o[0].empty() ? Complaint("the name of a folder is not empty") : std::nullopt;
     }},
    {{"timeout"},
     "SECONDS",
     Scope::job,
     Group::job,
     "End the job after that time, with exit status 124, and say what each rank was doing then, and why it "
     "hangs. Without it the variable MPIEXEC_TIMEOUT says how long.",
     set_timeout},
    {{"on-failure"},
     "WHAT",
     Scope::job,
     Group::job,
     "abort: a rank that dies ends the job (default). continue: the others go on, for programs that survive "
     "the death of a rank; the exit status and the last line say who died.",
     [](State& s, Operands o) -> Complaint {
       s.options.outlive = o[0] == "continue";
       return s.options.outlive || o[0] == "abort" ? std::nullopt : Complaint("allowed: abort or continue");
     }},
    {{"hosts", "host", "H"},
     "A[:N],B[:N]...",
     Scope::job,
     Group::hosts,
     "Start ranks on these hosts, in blocks: N on each (1 if no host says more), and in that proportion "
     "where there are more ranks. "
     "Isthmus must be installed there in the same folder.",
     [](State& s, Operands o) { return take_hosts(s, parse_hosts(o[0])); }},
    {{"hostfile", "machinefile", "f"},
     "FILE",
     Scope::job,
     Group::hosts,
     "The same from a file, a host a line: NAME, NAME:N or NAME slots=N.",
     [](State& s, Operands o) { return take_hosts(s, read_hostfile(o[0])); }},
    {{"launcher"},
     "CMD",
     Scope::job,
     Group::hosts,
     "Reach a host by CMD NAME 'COMMAND LINE'. Default: ssh, without passwords.",
     [](State& s, Operands o) {
       s.options.launcher.clear();
       return o[0] == "ssh" ? std::nullopt : set_words(s.options.launcher, o[0], "ssh or 'ssh -p 2222'");
     }},
    {{"head-address"},
     "ADDRESS",
     Scope::job,
     Group::hosts,
     "Have the hosts connect to this address of this host. Default: all that it has are tried.",
     [](State& s, Operands o) -> Complaint {
       s.options.head_address = o[0];
       return o[0].empty() ? Complaint("allowed: an IPv4 or IPv6 address or a name") : std::nullopt;
     }},
    {{"transport"},
     "NAME",
     Scope::job,
     Group::hosts,
     "Carry messages between hosts by rc or ud (InfiniBand or RoCE) or tcp, or by the fastest that both "
     "have: "
     "auto, the default. The same as -x ISTHMUS_TRANSPORT=NAME.",
     set_transport},
    {{"x"},
     "NAME[=VALUE]",
     Scope::part,
     Group::environment,
     "Set a variable for the ranks. Before the first program: for all programs of the line.",
     add_export},
    {{"env"},
     "NAME VALUE",
     Scope::part,
     Group::environment,
     "Set a variable for this program's ranks.",
     [](State& s, Operands o) { return add_pair(s.part.exports, o); }},
    {{"genv"},
     "NAME VALUE",
     Scope::part,
     Group::environment,
     "Set a variable for all ranks.",
     [](State& s, Operands o) { return add_pair(s.options.exports, o); }},
    {{"no-compat-env"},
     "",
     Scope::job,
     Group::environment,
     "Set none of the variables by which programs know their rank under Open MPI and MPICH.",
     [](State& s, Operands) {
       s.options.compatible_environment = false;
       return Complaint{};
     }},
    {{"memory-alloc-kinds"},
     "KINDS",
     Scope::job,
     Group::environment,
     "The kinds of memory that the program will use, as in system,mpi,cuda:device (MPI 5.0, section 11.4.3).",
     set_memory_kinds},
    {{"bind-to"},
     "WHAT",
     Scope::job,
     Group::placement,
     "Confine each rank to a core, socket or numa node, or to none. Default: core if there is one for each "
     "rank that no other job of mpiexec has, none otherwise.",
     [](State& s, Operands o) {
       return choose(s.options.bind.emplace(), o[0],
                     std::array<std::pair<std::string_view, BindTo>, 4>{{{"core", BindTo::core},
                                                                         {"socket", BindTo::package},
                                                                         {"numa", BindTo::numa},
                                                                         {"none", BindTo::none}}});
     }},
    {{"map-by"},
     "WHAT",
     Scope::job,
     Group::placement,
     "Deal the ranks out by core or slot (neighbours side by side; default), or to each socket or numa "
     "node in "
     "turn.",
     [](State& s, Operands o) {
       return choose(s.options.map, o[0],
                     std::array<std::pair<std::string_view, MapBy>, 4>{{{"core", MapBy::core},
                                                                        {"slot", MapBy::core},
                                                                        {"socket", MapBy::package},
                                                                        {"numa", MapBy::numa}}});
     }},
    {{"gpu-bind"},
     "WHICH",
     Scope::job,
     Group::placement,
     "Show each rank one GPU, by CUDA_VISIBLE_DEVICES: closest, one near its processors, dealt out evenly; "
     "or a list, "
     "as 0,1,1, the i-th for the i-th rank of a host; or none, the default. With :order behind it, the other "
     "GPUs "
     "stay visible behind the rank's own.",
     set_gpu_bind},
    {{"container"},
     "CMD",
     Scope::job,
     Group::container,
     "Start each rank as CMD PROGRAM ARGUMENTS. {rank} and {job} in CMD stand for the rank and the job. "
     "podman, "
     "docker and apptainer (run or exec) are told by themselves to hand on what a rank needs.",
     [](State& s, Operands o) {
       return set_words(s.options.container, o[0], "'podman run IMAGE' or 'unshare -m'");
     }},
    {{"rendezvous"},
     "DIR",
     Scope::job,
     Group::container,
     "Offer the job's memory on a socket in a new folder below DIR, for a CMD that closes inherited "
     "descriptors. Default: ISTHMUS_RENDEZVOUS_DIR; without it a descriptor, or for docker /tmp.",
     [](State& s, Operands o) -> Complaint {
       s.options.rendezvous = o[0];
       return o[0].starts_with('/') ? std::nullopt : Complaint("allowed: a folder's path from /");
     }},
    {{"report-bindings"},
     "",
     Scope::job,
     Group::placement,
     "Print where each rank goes, to stderr.",
     [](State& s, Operands) {
       s.options.report_bindings = true;
       return Complaint{};
     }},
    {{"tag-output", "l", "prepend-rank"},
     "",
     Scope::job,
     Group::output,
     "Begin each line with its rank: [3] for stdout, [3 stderr] for stderr.",
     [](State& s, Operands) {
       s.options.output = OutputMode::tagged;
       return Complaint{};
     }},
    {{"output"},
     "MODE",
     Scope::job,
     Group::output,
     "How output gets here. lines: whole lines, which never mix; direct: nothing lies between; tagged: as "
     "--tag-output. Default: direct for one rank and on a terminal, lines otherwise.",
     [](State& s, Operands o) {
       return choose(
           s.options.output, o[0],
           std::array<std::pair<std::string_view, OutputMode>, 3>{{{"lines", OutputMode::lines},
                                                                   {"direct", OutputMode::direct},
                                                                   {"tagged", OutputMode::tagged}}});
     }},
    {{"v", "verbose"},
     "",
     Scope::job,
     Group::output,
     "Print what the job is and where each rank goes, to stderr.",
     [](State& s, Operands) {
       s.options.verbose = s.options.report_bindings = true;
       return Complaint{};
     }},
    {{"h", "help"},
     "",
     Scope::job,
     Group::help,
     "Print this.",
     [](State& s, Operands) {
       s.print = help_text();
       return Complaint{};
     }},
    {{"V", "version"},
     "",
     Scope::job,
     Group::help,
     "Print the version.",
     [](State& s, Operands) {
       s.print = fmt::format("mpiexec (Isthmus) {}\n", ISTHMUS_VERSION);
       return Complaint{};
     }},
    // What scripts for other launchers carry and what needs no doing here.
    {{"oversubscribe"}, "", Scope::part, Group::ignored, "", accept},
    {{"allow-run-as-root"}, "", Scope::part, Group::ignored, "", accept},
    {{"genvall", "envall"}, "", Scope::part, Group::ignored, "", accept},
    {{"mca", "gmca"}, "NAME VALUE", Scope::part, Group::ignored, "", note_mca},
    {{"ppn", "perhost", "npernode", "N"}, "N", Scope::part, Group::ignored, "", note_per_host},
};

/// `text` in lines of at most `width`, those after the first begun with `indent` spaces.
std::string wrap(std::string_view text, std::size_t indent, std::size_t width) {
  std::string result;
  std::size_t column = indent;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    if (column > indent && column + 1 + word.size() > width) {
      result += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      result += ' ';
      ++column;
    }
    result += word;
    column += word.size();
  }
  return result;
}

std::string help_group(Group group, std::string_view title) {
  constexpr std::size_t text_column = 28;
  constexpr std::size_t width = 100;
  std::string text = fmt::format("\n{}\n", title);
  for (const Option& option : table) {
    if (option.group != group) continue;
    std::string names;
    for (const std::string_view name : option.names) {
      if (name == "l" || name == "prepend-rank" || name == "wd") continue;  // for other launchers' users
      names += (names.empty() ? "" : ", ") +
               (name == "np" || name == "env" || name == "genv" ? "-" + std::string(name) : dashed(name));
    }
    if (!option.operands.empty()) names += ' ' + std::string(option.operands);
    // Names that are longer than the column have a line of their own.
    if (names.size() + 1 > text_column - 2) names += '\n' + std::string(text_column, ' ');
    text += fmt::format("  {:<{}}{}\n", names, text_column - 2, wrap(option.help, text_column, width));
  }
  return text;
}

std::string help_text() {
  std::string text =
      "mpiexec starts the ranks of an MPI program, here or on several hosts, and waits for their end.\n\n"
      "  mpiexec [-n N] [options] program [arguments]\n"
      "  mpiexec -n N [options] program [arguments] : -n M [options] program2 [arguments] ...\n";
  text += help_group(Group::job, "The job");
  text += help_group(Group::environment, "Environment (all of mpiexec's own reaches the ranks anyway)");
  text += help_group(Group::placement, "Placement");
  text += help_group(Group::hosts, "Several hosts");
  text += help_group(Group::container, "Containers");
  text += help_group(Group::output, "Output");
  text += help_group(Group::help, "Help");
  text +=
      "\n-n, --wdir, -x and -env belong to one program and stand before it; the others hold for the whole "
      "job\n"
      "and stand before the first. More ranks than cores need no option.\n"
      "\nEach rank finds ISTHMUS_WORLD_RANK, ISTHMUS_WORLD_SIZE, ISTHMUS_LOCAL_RANK and ISTHMUS_LOCAL_SIZE "
      "in its\n"
      "environment, the same as OMPI_COMM_WORLD_RANK, ..._SIZE, ..._LOCAL_RANK, ..._LOCAL_SIZE, PMI_RANK, "
      "PMI_SIZE,\n"
      "MPI_LOCALRANKID and MPI_LOCALNRANKS, and in ISTHMUS_APP_SIZE the number of ranks of its program. Rank "
      "0 gets\n"
      "the standard input, the others an empty one.\n"
      "\nThe exit status is 0 if all ranks end with 0, else that of the first that did not, 128 + S if "
      "signal S\n"
      "killed it, the code of MPI_Abort, 124 after --timeout, 126 or 127 if the program cannot be run, 2 for "
      "a\n"
      "wrong command line. A rank that fails ends the job, or with --on-failure continue not. Signals go on "
      "to\n"
      "the ranks; a second Ctrl-C kills. SIGQUIT (Ctrl-\\) goes to none of them: mpiexec prints what\n"
      "each rank waits for, as `isthmus stuck` does from another terminal, and the job goes on.\n"
      "\nExamples\n"
      "  mpiexec -n 4 ./solver input.dat            four ranks\n"
      "  mpiexec ./solver                           one rank on each core\n"
      "  mpiexec -n 1 ./ocean : -n 3 ./air          two programs in one MPI_COMM_WORLD\n"
      "  mpiexec -n 4 -x OMP_NUM_THREADS=2 --bind-to socket --report-bindings ./solver\n"
      "  mpiexec -n 8 --tag-output --timeout 60 ./test\n"
      "  mpiexec -n 8 --hosts node1:4,node2:4 ./solver\n"
      "  mpiexec -n 2 --container 'podman run --volume /home/me:/home/me image' /home/me/solver\n"
      "  isthmus explain mpiexec -n 4 ./solver      which path each pair of ranks takes, and why\n";
  return text;
}

const Option* find_option(std::string_view name) {
  for (const Option& option : table)
    if (std::find(option.names.begin(), option.names.end(), name) != option.names.end()) return &option;
  return nullptr;
}

std::string unknown_option(const std::string& argument, std::string_view name) {
  std::vector<std::string_view> names;
  for (const Option& option : table)
    if (option.group != Group::ignored)
      std::copy_if(option.names.begin(), option.names.end(), std::back_inserter(names),
                   [](std::string_view candidate) { return candidate.size() > 1; });
  return fmt::format("unknown option '{}'; the nearest is --{} (mpiexec --help shows all)", argument,
                     nearest(name, names));
}

/// Applies the option at `position` and moves past it and its operands.
Complaint apply_option(State& state, const std::vector<std::string>& words, std::size_t& position) {
  const std::string& argument = words[position++];
  std::string_view name = argument;
  name.remove_prefix(name.starts_with("--") ? 2 : 1);
  const std::size_t equals = name.find('=');
  const Option* option = find_option(name.substr(0, equals));
  if (!option) return unknown_option(argument, name.substr(0, equals));
  std::vector<std::string> operands;
  if (equals != std::string_view::npos) {
    if (option->operand_count() != 1)
      return fmt::format("option '{}' takes {} after a space", argument.substr(0, argument.find('=')),
                         option->operands.empty() ? "nothing" : option->operands);
    operands.emplace_back(name.substr(equals + 1));
  }
  while (operands.size() < option->operand_count()) {
    if (position == words.size()) return fmt::format("option '{}' needs {}", argument, option->operands);
    operands.push_back(words[position++]);
  }
  if (option->scope == Scope::job && !state.options.parts.empty())
    return fmt::format("option '{}' holds for the whole job: it must stand before the first program",
                       argument);
  if (auto complaint = option->apply(state, operands))
    return fmt::format(
        "{}: {}",
        fmt::join(words.begin() + static_cast<std::ptrdiff_t>(position - operands.size() -
                                                              (equals == std::string_view::npos)),
                  words.begin() + static_cast<std::ptrdiff_t>(position), " "),
        *complaint);
  return std::nullopt;
}

/// One program with its options: what stands between two `:`.
Complaint parse_part(State& state, const std::vector<std::string>& words) {
  state.part = {};
  std::size_t position = 0;
  while (position < words.size() && words[position].size() > 1 && words[position][0] == '-') {
    if (words[position] == "--") {
      ++position;
      break;
    }
    if (auto complaint = apply_option(state, words, position)) return complaint;
    if (state.print) return std::nullopt;
  }
  state.part.command.assign(words.begin() + static_cast<std::ptrdiff_t>(position), words.end());
  if (state.part.command.empty() || state.part.command[0].empty())
    return state.options.parts.empty() ? "no program is given (mpiexec --help tells more)"
                                       : "no program is given after ':'";
  state.options.parts.push_back(std::move(state.part));
  return std::nullopt;
}

std::vector<std::vector<std::string>> split(const std::vector<std::string>& arguments) {
  std::vector<std::vector<std::string>> sections(1);
  for (const std::string& argument : arguments)
    if (argument == ":")
      sections.emplace_back();
    else
      sections.back().push_back(argument);
  return sections;
}

/// Hosts that are all this one need nothing; otherwise -n may be left away.
void settle_hosts(Options& options) {
  const auto& hosts = options.hosts;
  if (options.launcher.empty() &&
      std::ranges::all_of(hosts, [](const HostSlots& h) { return is_here(h.name); }))
    options.hosts.clear();
  if (!options.hosts.empty() && options.parts.size() == 1 && !options.parts.front().ranks) {
    std::uint32_t slots = 0;
    for (const HostSlots& host : hosts)
      slots += host.slots;
    options.parts.front().ranks = slots;
  }
  for (std::size_t i = 0; i < options.parts.size(); ++i) {
    options.parts[i].appnum = static_cast<std::int32_t>(i);
    options.parts[i].all_ranks = options.parts[i].ranks;
  }
}

Complaint check_total(const std::vector<Part>& parts) {
  std::uint64_t total = 0;
  for (const Part& part : parts) {
    if (!part.ranks && parts.size() > 1)
      return fmt::format("with several programs each needs its -n; '{}' has none", part.command[0]);
    total += part.ranks.value_or(1);
  }
  if (total > wire::maximum_local_ranks)
    return fmt::format("{} ranks in all; at most {} can run on one host", total, wire::maximum_local_ranks);
  return std::nullopt;
}

}  // namespace

Request parse(const std::vector<std::string>& arguments) {
  State state;
  for (const auto& section : split(arguments)) {
    if (auto complaint = parse_part(state, section)) return UsageError{std::move(*complaint)};
    if (state.print) return PrintAndExit{std::move(*state.print)};
  }
  if (const char* folder = std::getenv("ISTHMUS_RENDEZVOUS_DIR");
      folder && *folder == '/' && state.options.rendezvous.empty())
    state.options.rendezvous = folder;
  if (const char* seconds = std::getenv("MPIEXEC_TIMEOUT");
      seconds && *seconds != '\0' && !state.options.timeout) {
    const std::array words{std::string(seconds)};
    if (auto complaint = set_timeout(state, words))
      return UsageError{fmt::format("MPIEXEC_TIMEOUT='{}': {}", seconds, *complaint)};
  }
  settle_hosts(state.options);
  if (auto complaint = check_total(state.options.parts)) return UsageError{std::move(*complaint)};
  const Options& options = state.options;
  if (options.workers > options.ranks_per_process)
    return UsageError{
        fmt::format("--workers-per-process: {} threads are more than the ranks of a process, {}; "
                    "--ranks-per-process gives it more",
                    options.workers, options.ranks_per_process)};
  if (options.migratable) {
    if (options.ranks_per_process == 1)
      return UsageError{
          "--migratable: ranks that are processes cannot move; --ranks-per-process gives a process several"};
    for (const auto& [is_there, what] : {std::pair{!options.container.empty(), "--container"},
                                         std::pair{options.outlive, "--on-failure continue"},
                                         std::pair{options.parts.size() > 1, "several programs (`:`)"}})
      if (is_there)
        return UsageError{
            fmt::format("--migratable does not go with {} so far; leave one of them away", what)};
  }
  // A container hands on descriptors of one rank: PMI's, and the one that it writes its trace to.
  if (options.ranks_per_process > 1 && !options.hosts.empty() && !options.container.empty())
    return UsageError{
        "--ranks-per-process: several ranks of a process in a container work on one host so far; leave it, "
        "--hosts or --container away"};
  return std::move(state.options);
}

}  // namespace isthmus::mpiexec
