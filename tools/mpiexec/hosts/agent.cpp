#include "hosts/agent.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "base/whole_number.hpp"
#include "hosts/addresses.hpp"
#include "launch/visit/region_socket.hpp"
#include "node/run_job.hpp"
#include "stuck/rank_state.hpp"
#include "talk/frames.hpp"
#include "talk/pack.hpp"

namespace isthmus::mpiexec {
namespace {

constexpr std::size_t longest_from_head = std::size_t{64} << 20;
/// For the head's order, and for its parting after our last words.
constexpr auto agent_patience = std::chrono::seconds(10);

/// Not a byte more than the line: what follows is rank 0's.
std::string read_key() {
  std::string line;
  for (char byte = 0; line.size() < 64 && ::read(STDIN_FILENO, &byte, 1) == 1 && byte != '\n';)
    line += byte;
  return line;
}

int complain(const std::string& text) {
  fmt::print(stderr, "mpiexec: {}\n", text);
  return 1;
}

/// Lets the link work until `done` says so or its patience ends.
template <class Done>
void wait_until(Link& link, Done done) {
  const auto end = Clock::now() + agent_patience;
  while (!done() && !link.closed() && Clock::now() < end) {
    std::vector<pollfd> waited_for;
    link.prepare(waited_for);
    ::poll(waited_for.data(), waited_for.size(), 100);
    link.pump();
  }
}

class Agent final : public WiderJob {
 public:
  Agent(Link& link, Order order) : link_(link), order_(std::move(order)) {}

  [[nodiscard]] Job::Share share() const override {
    return {.job = order_.job,
            .first_rank = order_.first_rank,
            .world = order_.world,
            .mapping = order_.mapping,
            .migration = order_.migration};
  }
  void refuse(const StartError& error) override {
    link_.send(FrameKind::refusal,
               Packer().number(static_cast<std::uint32_t>(error.status)).text(error.text).take());
    wait_for_parting();
  }
  void started(Supervisor& supervisor, PmiServer& pmi) override {
    supervisor_ = &supervisor;
    pmi_ = &pmi;
    link_.send(FrameKind::started);
    react();  // what has come together with the order
  }
  void barrier(const Pairs& put) override { link_.send(FrameKind::barrier, pack(put)); }
  bool traced(std::uint32_t rank, std::string_view bytes) override {
    // No more than a piece waits here, whatever the line.
    if (!lost_) wait_until(link_, [&] { return link_.is_idle(); });
    if (lost_ || !link_.is_idle() || link_.closed()) return false;
    link_.send(FrameKind::traced, Packer().number(rank).text(bytes).take());
    return true;
  }
  void failed(const Failure& failure) override { link_.send(FrameKind::failure, pack(failure)); }
  void ended() override {
    link_.send(FrameKind::finished);
    wait_for_parting();
  }

  void prepare(std::vector<pollfd>& waited_for) const override {
    if (!lost_) link_.prepare(waited_for);
  }
  [[nodiscard]] std::optional<Clock::time_point> deadline() const override {
    return lost_ || link_.closed() ? std::nullopt : std::optional(link_.deadline());
  }
  void react() override {
    if (lost_) return;
    link_.pump();
    while (const auto frame = link_.next()) {
      head_is_stopped_ = false;
      obey(*frame);
    }
    if (!link_.closed() && (head_is_stopped_ || !link_.silent())) return;
    lost_ = true;
    if (!supervisor_) return;
    supervisor_->end(false);
    supervisor_->kill_all();
  }

 private:
  void wait_for_parting() {
    if (!lost_) wait_until(link_, [] { return false; });
  }

  void obey(const Frame& frame) {
    // Not all could be started: those that were are being ended, whatever the head says.
    if (!supervisor_) return;
    Unpacker unpacker(frame.body);
    switch (frame.kind) {
      case FrameKind::released:
        if (const auto pairs = unpack_pairs(frame.body)) pmi_->release(*pairs);
        return;
      case FrameKind::signal: {
        const std::uint32_t signal = unpacker.number();
        head_is_stopped_ = signal == SIGTSTP;  // Ctrl-Z stops the head too
        if (signal > 0 && signal < NSIG) supervisor_->forward(static_cast<int>(signal));
        return;
      }
      case FrameKind::look: {
        const std::uint32_t question = unpacker.number();
        link_.send(FrameKind::seen, Packer().number(question).text(stuck::pack(supervisor_->look())).take());
        return;
      }
      case FrameKind::died:
        supervisor_->died_elsewhere(unpacker.number());
        return;
      case FrameKind::end:
        supervisor_->end(unpacker.number() != 0);
        return;
      case FrameKind::kill:
        supervisor_->kill_all();
        return;
      default:
        return;
    }
  }

  Link& link_;
  Order order_;
  Supervisor* supervisor_ = nullptr;  ///< from the moment that all have started
  PmiServer* pmi_ = nullptr;
  bool head_is_stopped_ = false;
  bool lost_ = false;  ///< the head
};

/// The head's environment, but for what belongs to a host or a login.
void adopt(const std::vector<std::string>& environment) {
  constexpr std::string_view own[] = {"HOSTNAME", "HOST",   "HOME",    "USER", "LOGNAME",         "SHELL",
                                      "PWD",      "OLDPWD", "DISPLAY", "TERM", "XDG_RUNTIME_DIR", "MAIL"};
  for (const std::string& entry : environment) {
    const std::size_t equals = entry.find('=');
    const std::string name = entry.substr(0, equals);
    if (equals == std::string::npos || name.starts_with("SSH_") ||
        std::ranges::find(own, name) != std::end(own))
      continue;
    ::setenv(name.c_str(), entry.c_str() + equals + 1, 1);
  }
}

}  // namespace

int run_agent(const std::vector<std::string>& words) {
  const std::vector<pid_t> bystanders = present_children();
  const Signals signals;
  const auto host = words.size() > 2 ? whole_number<std::uint32_t>(words[0]) : std::nullopt;
  const auto port = words.size() > 2 ? whole_number<std::uint16_t>(words[1]) : std::nullopt;
  if (!host || !port) return complain(fmt::format("{} is for mpiexec itself, see --hosts", agent_word));
  const auto key = launch::parse_key(read_key());
  if (!key)
    return complain("the launcher does not hand on what mpiexec writes to it: the job's key is missing");
  auto socket = connect_to_any({words.begin() + 2, words.end()}, *port);
  if (!socket)
    return complain(
        fmt::format("this host cannot connect to port {} of the one where mpiexec runs ({}); "
                    "--head-address says which address to use",
                    *port, socket.error()));
  Link link(std::move(*socket), longest_from_head, *key, *host);
  link.send(FrameKind::hello, pack(Hello{*host, ISTHMUS_VERSION}));
  std::optional<Frame> frame;
  wait_until(link, [&] { return (frame = link.next()).has_value(); });
  if (!frame) frame = link.next();
  if (!frame) return 1;  // the head knows why
  auto order = frame->kind == FrameKind::order ? unpack_order(frame->body) : std::nullopt;
  if (!order) return complain("the head's order makes no sense");
  adopt(order->environment);
  const Options options = order->options;
  const std::string folder = order->folder;
  Agent agent(link, std::move(*order));
  if (::chdir(folder.c_str()) != 0) {
    agent.refuse(
        {1, fmt::format("{}: {} (the ranks start where mpiexec does)", folder, std::strerror(errno))});
    return 1;
  }
  return run_job(options, signals, bystanders, &agent);
}

}  // namespace isthmus::mpiexec
