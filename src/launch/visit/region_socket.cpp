#include "launch/visit/region_socket.hpp"

#include <charconv>
#include <system_error>

#include "base/settings.hpp"

namespace isthmus::launch {
namespace {

constexpr int patience_seconds = 10;

std::unexpected<Error> cannot(std::string_view path, std::string_view why) {
  return fail(ErrorClass::intern,
              std::string(launcher_variable::region) + "='" + std::string(path) + "': " + std::string(why));
}

}  // namespace

std::string key_text(const wire::JobKey& key) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : key) {
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

std::optional<wire::JobKey> parse_key(std::string_view text) {
  wire::JobKey key{};
  if (text.size() != 2 * key.size()) return std::nullopt;
  for (std::size_t i = 0; i < key.size(); ++i) {
    const char* const begin = text.data() + 2 * i;
    const auto [end, error] = std::from_chars(begin, begin + 2, key[i], 16);
    if (error != std::errc{} || end != begin + 2) return std::nullopt;
  }
  return key;
}

Result<Handed> fetch_region(const char* path, const char* key) {
  const auto bytes = key ? parse_key(key) : std::nullopt;
  if (!bytes)
    return cannot(path, std::string("is a socket, but ") + launcher_variable::key +
                            (key ? " is not 32 hexadecimal digits" : " is not set") +
                            "; both are set by mpiexec: unset them to run as a job of one rank");
  const auto address = BrokerAddress::at(path);
  if (!address) return cannot(path, address.error().text());
  auto handed = visit(*address, {.key = *bytes}, patience_seconds);
  if (!handed)
    return cannot(path, handed.error().text() +
                            " (is mpiexec's folder mounted here, does mpiexec still run, and is " +
                            launcher_variable::key + " that of its job?)");
  return handed;
}

}  // namespace isthmus::launch
