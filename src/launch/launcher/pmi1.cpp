#include "launch/launcher/pmi1.hpp"

#include <algorithm>
#include <optional>

#include "base/whole_number.hpp"
#include "launch/launcher/pmi_words.hpp"
#include "launch/launcher/value_parts.hpp"

namespace isthmus::launch {
namespace {

/// The value of `name` in a line.
std::optional<std::string_view> word_of_line(std::string_view line, std::string_view name) {
  return pmi_word(line, ' ', name);
}

std::unexpected<Error> not_an_answer(std::string_view line, std::string_view expected) {
  return fail(ErrorClass::other, "what the launcher says on PMI_FD is not PMI-1: " + pmi_shown(line) +
                                     " instead of cmd=" + std::string(expected));
}

/// Of numbers that a job can do without: -1 where there is none.
std::int32_t number_or_none(const Result<std::string>& line, std::string_view name) {
  return line ? pmi_number(*line, ' ', name) : -1;
}

constexpr std::size_t shortest_limit = 32;  // of values, below which a launcher is not one
constexpr std::size_t longest_limit =
    1024;  // of values, whatever a launcher offers: Hydra's lines are limited too

}  // namespace

Result<std::unique_ptr<KeyValues>> Pmi1::connect(PmiPlace place) {
  std::unique_ptr<Pmi1> made(new Pmi1(std::move(place)));
  ISTHMUS_TRY(made->introduce());
  return made;
}

Result<> Pmi1::introduce() {
  ISTHMUS_TRY(ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init"));
  auto maxes = ask("cmd=get_maxes", "maxes");
  if (!maxes) return std::unexpected(std::move(maxes).error());
  const auto limit = whole_number<std::size_t>(word_of_line(*maxes, "vallen_max").value_or(""));
  if (!limit || *limit < shortest_limit) return not_an_answer(*maxes, "maxes with vallen_max");
  longest_value_ = std::min(*limit, longest_limit) - 1;  // some launchers count a zero at the end
  auto space = ask("cmd=get_my_kvsname", "my_kvsname");
  if (!space) return std::unexpected(std::move(space).error());
  facts().job = word_of_line(*space, "kvsname").value_or("");
  if (job().empty()) return not_an_answer(*space, "my_kvsname with kvsname");
  facts().universe = number_or_none(ask("cmd=get_universe_size", "universe_size"), "size");
  facts().appnum = number_or_none(ask("cmd=get_appnum", "appnum"), "appnum");
  return {};
}

Result<std::string> Pmi1::ask(const std::string& request, std::string_view answer,
                              LauncherSocket::Milliseconds within) {
  ISTHMUS_TRY(socket_.send(request + "\n"));
  auto line = socket_.read_line(within);
  if (!line) return line;
  if (word_of_line(*line, "cmd") != answer) return not_an_answer(*line, answer);
  if (word_of_line(*line, "rc").value_or("0") != "0")
    return fail(ErrorClass::other, "the launcher refuses '" + request + "': " + pmi_shown(*line));
  return line;
}

Result<> Pmi1::put(std::string_view key, std::string_view value) {
  const auto parts = to_parts(value, longest_value_);
  for (std::size_t i = 0; i < parts.size(); ++i)
    ISTHMUS_TRY(ask(
        "cmd=put kvsname=" + std::string(job()) + " key=" + pmi_key(rank(), key, i) + " value=" + parts[i],
        "put_result"));
  return {};
}

Result<> Pmi1::fence() {
  ISTHMUS_TRY(ask("cmd=barrier_in", "barrier_out", LauncherSocket::for_ever));
  return {};
}

Result<std::string> Pmi1::get(std::uint32_t rank, std::string_view key) {
  return from_parts([&](std::size_t part) -> Result<std::string> {
    auto line =
        ask("cmd=get kvsname=" + std::string(job()) + " key=" + pmi_key(rank, key, part), "get_result");
    if (!line) return line;
    return std::string(word_of_line(*line, "value").value_or(""));
  });
}

void Pmi1::abort(int code, std::string_view /*line*/) noexcept {
  end_job(socket_, "cmd=abort exitcode=" + std::to_string(code) + "\n", code);
}

Result<> Pmi1::finalize() {
  ISTHMUS_TRY(ask("cmd=finalize", "finalize_ack", LauncherSocket::for_ever));
  socket_.close();
  return {};
}

}  // namespace isthmus::launch
