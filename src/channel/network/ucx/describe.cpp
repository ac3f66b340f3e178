#include "channel/network/ucx/describe.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

namespace isthmus::network {
namespace {

/// What `print` prints.
template <class Print>
std::string printed(Print print) {
  char* text = nullptr;
  std::size_t bytes = 0;
  std::FILE* stream = open_memstream(&text, &bytes);
  if (!stream) return {};
  print(stream);
  static_cast<void>(std::fclose(stream));
  const std::unique_ptr<char, void (*)(void*)> release(text, std::free);
  return {text, bytes};
}

/// The word with a slash in it.
std::string_view slashed_word(std::string_view line) {
  const std::size_t slash = line.find('/');
  if (slash == std::string_view::npos) return {};
  const std::size_t begin = line.rfind(' ', slash) + 1;
  return line.substr(begin, line.find_first_of(" \n", slash) - begin);
}

/// All different TRANSPORT/DEVICE that `read` finds in the lines that have `mark` in them.
template <class Read>
std::vector<Inventory::Transport> transports_in(std::string_view text, std::string_view mark, Read read) {
  std::vector<Inventory::Transport> found;
  for (std::size_t at = text.find(mark); at != std::string_view::npos; at = text.find(mark, at + 1)) {
    const std::string_view word = read(slashed_word(text.substr(at, text.find('\n', at) - at)));
    const std::size_t slash = word.find('/');
    if (slash == std::string_view::npos) continue;
    Inventory::Transport each{std::string(word.substr(0, slash)), std::string(word.substr(slash + 1))};
    if (std::ranges::find(found, each) == found.end()) found.push_back(std::move(each));
  }
  return found;
}

}  // namespace

std::string to_string(const std::vector<Inventory::Transport>& transports) {
  std::string all;
  for (const auto& [name, device] : transports) {
    if (!all.empty()) all += ", ";
    all.append(name).append(" on ").append(device);
  }
  return all.empty() ? "unknown" : all;
}

// A line for each lane: "lane[N]: 2:TRANSPORT/DEVICE.PATH ..."
std::string describe_endpoint(ucp_ep_h endpoint) {
  const std::string text = printed([&](std::FILE* stream) { ucp_ep_print_info(endpoint, stream); });
  return to_string(transports_in(text, "lane[", [](std::string_view word) {
    word = word.substr(0, word.rfind('.'));
    return word.substr(word.substr(0, word.find('/')).find(':') + 1);
  }));
}

// A line for each: "resource N : md N dev N flags -- TRANSPORT/DEVICE"
std::vector<Inventory::Transport> transports_of(ucp_context_h context) {
  const std::string text = printed([&](std::FILE* stream) { ucp_context_print_info(context, stream); });
  return transports_in(text, "resource ", [](std::string_view word) { return word; });
}

}  // namespace isthmus::network
