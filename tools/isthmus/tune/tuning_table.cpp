#include "tune/tuning_table.hpp"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "facts.hpp"

namespace isthmus::tool {
namespace {

std::string now() {
  const std::time_t time = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

Json curve_json(const Question& question) {
  const Curve& curve = question.curve;
  Json series = Json::array();
  for (std::size_t way = 0; way < curve.ways.size(); ++way)
    series.push_back({{"label", curve.ways[way].label},
                      {"variables", curve.ways[way].variables},
                      {"microseconds", curve.times[way]}});
  Json result{{"name", curve.name},
              {"decides", question.variable},
              {"messages_under_way", curve.many ? 64 : 1},
              {"sizes", curve.sizes},
              {"series", series}};
  if (question.candidates.empty())
    result["value_is"] = question.first_above ? "first size of the second" : "last size of the first";
  else
    result["candidates"] = question.candidates;
  return result;
}

/// Holds back the signals that end a program at the keyboard.
class SignalsHeld {
 public:
  SignalsHeld() {
    sigset_t ending;
    ::sigemptyset(&ending);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP})
      ::sigaddset(&ending, signal);
    ::sigprocmask(SIG_BLOCK, &ending, &before_);
  }
  ~SignalsHeld() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

std::string table_text(const std::vector<Answered>& answers) {
  const auto machine = tuning::Machine::here();
  Json table{
      {"isthmus_tuning", tuning::version},
      {"made", now()},
      {"machine",
       {{"processor", machine.processor}, {"processors", machine.processors}, {"kernel", machine.kernel}}}};
  table["values"] = Json::object();
  table["curves"] = Json::array();
  for (const auto& [question, value] : answers) {
    table["values"][value.variable] = {
        {"value", value.value}, {"origin", value.tuned ? "tuned" : "default"}, {"why", value.why}};
    table["curves"].push_back(curve_json(question));
  }
  return table.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::expected<void, std::string> write_whole(const std::string& path, const std::string& text) {
  const std::filesystem::path target = std::filesystem::absolute(path);
  const std::string temporary = target.string() + "." + std::to_string(::getpid());
  const auto failed = [&](const std::string& why) {
    return std::unexpected(target.string() + " cannot be written: " + why);
  };
  std::error_code error;
  std::filesystem::create_directories(target.parent_path(), error);
  if (error) return failed(error.message());
  const SignalsHeld held;
  std::ofstream file(temporary, std::ios::binary);
  file << text;
  file.close();
  if (!file || ::rename(temporary.c_str(), target.c_str()) != 0) {
    const std::string why = std::strerror(errno);
    ::unlink(temporary.c_str());
    return failed(why);
  }
  return {};
}

}  // namespace isthmus::tool
