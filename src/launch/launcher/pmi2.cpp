#include "launch/launcher/pmi2.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <utility>

#include "base/whole_number.hpp"
#include "launch/launcher/pmi_words.hpp"
#include "launch/launcher/value_parts.hpp"

namespace isthmus::launch {
namespace {

constexpr std::size_t length_characters = 6;
constexpr std::size_t longest_value = 1000;  // PMI-2 ends values at 1024 characters

/// The value of `name` in a message.
std::optional<std::string_view> word_of_message(std::string_view message, std::string_view name) {
  return pmi_word(message, ';', name);
}

std::unexpected<Error> not_pmi2(std::string_view text, std::string_view expected) {
  return fail(ErrorClass::other, "what the launcher says on PMI_FD is not PMI-2: " + pmi_shown(text) +
                                     " instead of " + std::string(expected));
}

/// Launchers pad the length on either side.
std::optional<std::size_t> length_of(std::string_view text) {
  const std::size_t first = std::min(text.find_first_not_of(' '), text.size());
  const std::size_t end = text.find_last_not_of(' ') + 1;
  return whole_number<std::size_t>(text.substr(first, end > first ? end - first : 0));
}

std::string framed(const std::string& message) {
  std::array<char, 24> length;
  const int characters =
      std::snprintf(length.data(), length.size(), "%*zu", int{length_characters}, message.size());
  return std::string(length.data(), static_cast<std::size_t>(characters)) + message;
}

}  // namespace

Result<std::unique_ptr<KeyValues>> Pmi2::connect(PmiPlace place) {
  std::unique_ptr<Pmi2> made(new Pmi2(std::move(place)));
  ISTHMUS_TRY(made->introduce());
  return made;
}

Result<> Pmi2::introduce() {
  ISTHMUS_TRY(socket_.send("cmd=init pmi_version=2 pmi_subversion=0\n"));
  auto line = socket_.read_line(LauncherSocket::patience);
  if (!line) return std::unexpected(std::move(line).error());
  if (pmi_word(*line, ' ', "cmd") != "response_to_init" || pmi_word(*line, ' ', "rc") != "0" ||
      pmi_word(*line, ' ', "pmi_version") != "2")
    return not_pmi2(*line, "cmd=response_to_init pmi_version=2");
  auto hello = ask("fullinit", "pmijobid=" + std::string(job()) + ";pmirank=" + std::to_string(rank()) +
                                   ";threaded=FALSE;");
  if (!hello) return std::unexpected(std::move(hello).error());
  facts().appnum = pmi_number(*hello, ';', "appnum");
  auto name = ask("job-getid");
  if (!name) return std::unexpected(std::move(name).error());
  facts().job = word_of_message(*name, "jobid").value_or("");
  if (job().empty()) return not_pmi2(*name, "job-getid-response with jobid");
  if (const auto universe = ask("info-getjobattr", "key=universeSize;wait=FALSE;"); universe)
    facts().universe = pmi_number(*universe, ';', "value");
  return {};
}

Result<std::string> Pmi2::ask(std::string_view name, const std::string& words,
                              LauncherSocket::Milliseconds within) {
  const std::string request = "cmd=" + std::string(name) + ";" + words;
  ISTHMUS_TRY(socket_.send(framed(request)));
  auto length = socket_.read(length_characters, within);
  if (!length) return length;
  const auto bytes = length_of(*length);
  if (!bytes) return not_pmi2(*length, "the length of a message");
  auto answer = socket_.read(*bytes, within);
  if (!answer) return answer;
  const std::string expected = std::string(name) + "-response";
  if (word_of_message(*answer, "cmd") != expected) return not_pmi2(*answer, "cmd=" + expected);
  if (word_of_message(*answer, "rc").value_or("0") != "0" ||
      word_of_message(*answer, "found").value_or("TRUE") == "FALSE")
    return fail(ErrorClass::other, "the launcher refuses " + pmi_shown(request) + ": " + pmi_shown(*answer));
  return answer;
}

Result<> Pmi2::put(std::string_view key, std::string_view value) {
  const auto parts = to_parts(value, longest_value);
  for (std::size_t i = 0; i < parts.size(); ++i)
    ISTHMUS_TRY(ask("kvs-put", "key=" + pmi_key(rank(), key, i) + ";value=" + parts[i] + ";"));
  return {};
}

Result<> Pmi2::fence() {
  ISTHMUS_TRY(ask("kvs-fence", "", LauncherSocket::for_ever));
  return {};
}

Result<std::string> Pmi2::get(std::uint32_t rank, std::string_view key) {
  return from_parts([&](std::size_t part) -> Result<std::string> {
    auto answer =
        ask("kvs-get", "jobid=" + std::string(job()) + ";srcid=-1;key=" + pmi_key(rank, key, part) + ";");
    if (!answer) return answer;
    return std::string(word_of_message(*answer, "value").value_or(""));
  });
}

void Pmi2::abort(int code, std::string_view /*line*/) noexcept {
  end_job(socket_, framed("cmd=abort;isworld=TRUE;msg=exit status " + std::to_string(code) + ";"), code);
}

Result<> Pmi2::finalize() {
  ISTHMUS_TRY(ask("finalize", "", LauncherSocket::for_ever));
  socket_.close();
  return {};
}

}  // namespace isthmus::launch
