// measure_network_port: the network channel's port against ucx_perftest (Debian: ucx-utils), the same
// transport, in turn.
//
//   measure_network_port [--repetitions R] [--transport tcp] [--between PID PID ADDRESS] [--only POINT |
//   --sizes]
//
// With --between, the two sides live in the network namespaces of the two processes, and ADDRESS is the first
// one's; else both live here, on 127.0.0.1. Prints latencies (one way) and bandwidths, and their ratios:
// medians over R repetitions. --sizes prints the port's own figures for eager and fetched messages of many
// sizes: the measurement behind the eager limit.

#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/settings.hpp"
#include "channel/network/port.hpp"

namespace {

using namespace isthmus;

constexpr std::size_t window = 32;  // messages in flight, as ucx_perftest has

struct Options {
  int repetitions = 7;
  std::string transport = "tcp";
  std::array<int, 2> hosts{0, 0};  // pids, 0 for this one
  std::string address = "127.0.0.1";
  bool sizes = false;
  std::string only;
};

enum class Shape { latency, bandwidth };

struct Point {
  Shape shape;
  std::size_t bytes;
  int operations;
};

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "network_port: %s\n", why.c_str());
  _exit(1);
}

// Goes to the namespace and the core of its side.
void settle(const Options& options, int side) {
  if (const int pid = options.hosts[static_cast<std::size_t>(side)]) {
    const int space = open(("/proc/" + std::to_string(pid) + "/ns/net").c_str(), O_RDONLY | O_CLOEXEC);
    if (space < 0 || setns(space, CLONE_NEWNET) != 0) give_up("setns: " + std::string(std::strerror(errno)));
    close(space);
  }
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(side, &cores);
  sched_setaffinity(0, sizeof cores, &cores);
  alarm(120);
}

// Counts what comes; fetches what is offered into one buffer, as ucx_perftest does.
class Counter final : public network::Events {
 public:
  void arrived(network::PeerId /*peer*/, std::span<const std::byte> /*header*/,
               std::span<const std::byte> bytes) override {
    if (!bytes.empty()) std::memcpy(buffer.data(), bytes.data(), bytes.size());
    ++messages;
  }
  void offered(network::PeerId /*peer*/, std::span<const std::byte> /*header*/, std::uint64_t bytes,
               network::OfferId offer) override {
    port->fetch(offer, std::span(buffer).first(bytes), 0);
  }
  void sent(network::Token /*token*/, const Error* /*error*/) override { --pending; }
  void fetched(network::Token /*token*/, const Error* error) override {
    if (error) give_up(error->text());
    ++messages;
  }
  void lost(network::PeerId /*peer*/, const Error& why) override {
    if (!ending) give_up(why.text());
  }

  network::Port* port = nullptr;
  std::vector<std::byte> buffer;
  long messages = 0;
  long pending = 0;
  bool ending = false;
};

class Side {
 public:
  Side(const Settings& settings, int side, int link, std::size_t bytes) : leads_(side == 1) {
    counter_.buffer.resize(bytes);
    data_.resize(bytes, std::byte{1});
    auto port = network::open(settings, {static_cast<network::PeerId>(side), 2}, counter_);
    if (!port) give_up(port.error().text());
    port_ = std::move(*port);
    counter_.port = port_.get();
    const auto mine = port_->address();
    std::array<std::byte, 8192> theirs;
    if (write(link, mine.data(), mine.size()) < 0) give_up("write");
    const ssize_t count = read(link, theirs.data(), theirs.size());
    peer_ = static_cast<network::PeerId>(1 - side);
    const auto connected =
        port_->connect(peer_, std::span(theirs).first(static_cast<std::size_t>(std::max<ssize_t>(count, 0))));
    if (!connected) give_up(connected.error().text());
  }

  // Seconds an operation, at the leading side.
  double run(const Point& point) {
    const int warm = std::max(point.operations / 10, 3);
    const auto times = [&](int n) {
      point.shape == Shape::latency ? ping_pong(point.bytes, n) : stream(point.bytes, n);
    };
    times(warm);
    const auto begin = std::chrono::steady_clock::now();
    times(point.operations);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    return took.count() / point.operations / (point.shape == Shape::latency ? 2 : 1);
  }

  void end() {
    counter_.ending = true;
    while (!port_->idle())
      port_->poll();
  }

 private:
  void send(std::size_t bytes) {
    const auto progress = port_->send(peer_, std::span(data_).first(0), std::span(data_).first(bytes), 0);
    if (!progress) give_up(progress.error().text());
    if (*progress == network::Port::Progress::pending) ++counter_.pending;
  }
  void receive(long count) {
    expected_ += count;
    while (counter_.messages < expected_)
      port_->poll();
  }
  void ping_pong(std::size_t bytes, int n) {
    for (int i = 0; i < n; ++i) {
      if (leads_) send(bytes);
      receive(1);
      if (!leads_) send(bytes);
    }
    while (counter_.pending > 0)
      port_->poll();
  }
  void stream(std::size_t bytes, int n) {
    if (!leads_) {
      receive(n);
      send(0);
      return;
    }
    for (int i = 0; i < n; ++i) {
      while (counter_.pending >= static_cast<long>(window))
        port_->poll();
      send(bytes);
      port_->poll();
    }
    receive(1);
  }

  bool leads_;
  Counter counter_;
  std::vector<std::byte> data_;
  std::unique_ptr<network::Port> port_;
  network::PeerId peer_ = 0;
  long expected_ = 0;
};

// Both sides in processes of their own; seconds an operation.
double measure_port(const Options& options, const Settings& settings, const Point& point) {
  int link[2];
  int result[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, link) != 0 || pipe(result) != 0) give_up("socketpair");
  std::array<pid_t, 2> children;
  for (int side = 0; side < 2; ++side) {
    children[static_cast<std::size_t>(side)] = fork();
    if (children[static_cast<std::size_t>(side)] != 0) continue;
    settle(options, side);
    {
      Side self(settings, side, link[side], std::max<std::size_t>(point.bytes, 1));
      const double seconds = self.run(point);
      if (side == 1 && write(result[1], &seconds, sizeof seconds) < 0) give_up("write");
      self.end();
    }
    _exit(0);
  }
  close(result[1]);
  double seconds = 0;
  if (read(result[0], &seconds, sizeof seconds) != sizeof seconds) seconds = 0;
  for (const int descriptor : {result[0], link[0], link[1]})
    close(descriptor);
  for (const pid_t child : children)
    waitpid(child, nullptr, 0);
  return seconds;
}

// The same with ucx_perftest.
double measure_perftest(const Options& options, const Point& point) {
  const std::string test = point.shape == Shape::latency ? "ucp_am_lat" : "ucp_am_bw";
  const std::string command = "exec ucx_perftest -t " + test + " -s " + std::to_string(point.bytes) + " -n " +
                              std::to_string(point.operations) + " -w " +
                              std::to_string(point.operations / 10);
  int result[2];
  if (pipe(result) != 0) give_up("pipe");
  std::array<pid_t, 2> children;
  for (int side = 0; side < 2; ++side) {
    children[static_cast<std::size_t>(side)] = fork();
    if (children[static_cast<std::size_t>(side)] != 0) {
      usleep(300'000);  // until the server listens
      continue;
    }
    settle(options, side);
    setenv("UCX_TLS", options.transport.c_str(), 1);
    const int out = side == 1 ? result[1] : open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(out, STDOUT_FILENO);
    close(result[0]);
    close(result[1]);
    const std::string mine = side == 1 ? command + " -f -v " + options.address : command;
    execlp("sh", "sh", "-c", mine.c_str(), nullptr);
    _exit(127);
  }
  close(result[1]);
  std::string text;
  std::array<char, 4096> piece;
  for (ssize_t count = 0; (count = read(result[0], piece.data(), piece.size())) > 0;)
    text.append(piece.data(), static_cast<std::size_t>(count));
  close(result[0]);
  for (const pid_t child : children)
    waitpid(child, nullptr, 0);
  // iterations, percentile, average (us), overall (us), bandwidths, rates
  double overall = 0;
  const std::size_t line = text.rfind('\n', text.size() - 2);
  if (std::sscanf(text.c_str() + (line == std::string::npos ? 0 : line + 1), "%*f,%*f,%*f,%lf", &overall) !=
      1)
    return 0;
  return overall * 1e-6;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void compare(const Options& options, const Settings& settings, const char* name, const Point& point) {
  if (!std::string_view(name).starts_with(options.only)) return;
  std::vector<double> ours;
  std::vector<double> theirs;
  for (int i = 0; i < options.repetitions; ++i) {
    ours.push_back(measure_port(options, settings, point));
    theirs.push_back(measure_perftest(options, point));
  }
  const double a = median(ours);
  const double b = median(theirs);
  if (point.shape == Shape::latency)
    std::printf("%-18s port %8.2f us    ucx_perftest %8.2f us    ratio %.3f   best %.2f / %.2f\n", name,
                a * 1e6, b * 1e6, a / b, std::ranges::min(ours) * 1e6, std::ranges::min(theirs) * 1e6);
  else
    std::printf("%-18s port %8.3f GB/s  ucx_perftest %8.3f GB/s  ratio %.3f   best %.3f / %.3f\n", name,
                point.bytes / a / 1e9, point.bytes / b / 1e9, b / a,
                point.bytes / std::ranges::min(ours) / 1e9, point.bytes / std::ranges::min(theirs) / 1e9);
  std::fflush(stdout);
}

void print_sizes(const Options& options, Settings settings) {
  std::printf("%10s  %12s  %12s  %12s  %12s\n", "bytes", "eager us", "fetched us", "eager GB/s",
              "fetched GB/s");
  for (std::size_t bytes = 1024; bytes <= std::size_t{4} << 20; bytes *= 2) {
    std::array<double, 4> value;
    for (const bool eager : {true, false}) {
      settings.network_eager_limit = eager ? std::uint64_t{1} << 30 : 1;
      std::vector<double> latencies;
      std::vector<double> gaps;
      for (int i = 0; i < options.repetitions; ++i) {
        latencies.push_back(measure_port(options, settings, {Shape::latency, bytes, 1000}));
        gaps.push_back(
            measure_port(options, settings,
                         {Shape::bandwidth, bytes,
                          static_cast<int>(std::clamp<std::size_t>((1U << 28U) / bytes, 100, 10000))}));
      }
      value[eager ? 0 : 1] = median(latencies) * 1e6;
      value[eager ? 2 : 3] = static_cast<double>(bytes) / median(gaps) / 1e9;
    }
    std::printf("%10zu  %12.2f  %12.2f  %12.3f  %12.3f\n", bytes, value[0], value[1], value[2], value[3]);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--repetitions" && i + 1 < argc) {
      options.repetitions = std::max(std::atoi(argv[++i]), 1);
    } else if (argument == "--transport" && i + 1 < argc) {
      options.transport = argv[++i];
    } else if (argument == "--between" && i + 3 < argc) {
      options.hosts = {std::atoi(argv[i + 1]), std::atoi(argv[i + 2])};
      options.address = argv[i + 3];
      i += 3;
    } else if (argument == "--only" && i + 1 < argc) {
      options.only = argv[++i];
    } else if (argument == "--sizes") {
      options.sizes = true;
    } else {
      std::fprintf(
          stderr,
          "usage: measure_network_port [--repetitions R] [--transport tcp] [--between PID PID ADDRESS] "
          "[--only POINT | --sizes]\n");
      return 2;
    }
  }
  const std::string transport = "ISTHMUS_TRANSPORT=" + options.transport;
  const std::array<const char*, 2> environment{transport.c_str(), nullptr};
  const auto settings = Settings::read(environment.data());
  if (!settings) {
    std::fprintf(stderr, "network_port: %s\n", settings.error().text().c_str());
    return 2;
  }
  if (options.sizes) {
    print_sizes(options, *settings);
    return 0;
  }
  compare(options, *settings, "latency.8", {Shape::latency, 8, 20000});
  compare(options, *settings, "latency.1K", {Shape::latency, 1024, 20000});
  compare(options, *settings, "bandwidth.64K", {Shape::bandwidth, 65536, 10000});
  compare(options, *settings, "bandwidth.1M", {Shape::bandwidth, 1U << 20U, 1000});
  compare(options, *settings, "bandwidth.4M", {Shape::bandwidth, 4U << 20U, 250});
  return 0;
}
