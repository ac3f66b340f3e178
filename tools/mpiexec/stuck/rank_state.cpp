#include "stuck/rank_state.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "talk/pack.hpp"

namespace isthmus::mpiexec::stuck {

std::string pack(const std::vector<RankState>& ranks) {
  Packer packer;
  packer.number(static_cast<std::uint32_t>(ranks.size()));
  for (const RankState& each : ranks) {
    packer.number(each.rank).number(static_cast<std::uint32_t>(each.where));
    packer.number(static_cast<unsigned char>(each.process));
    packer.number(static_cast<std::uint32_t>(std::clamp(each.seconds * 1000, 0.0, 4e9)));
    packer.text(each.host);
    const bool waits = each.where == RankState::Where::waiting;
    packer.text(waits ? std::string_view(reinterpret_cast<const char*>(&each.report), sizeof each.report)
                      : "");
  }
  return packer.take();
}

std::optional<std::vector<RankState>> unpack(std::string_view body, std::uint32_t world) {
  Unpacker unpacker(body);
  std::vector<RankState> ranks;
  const std::uint32_t count = unpacker.number();
  if (count > world) return std::nullopt;
  for (std::uint32_t i = 0; i < count; ++i) {
    RankState each;
    each.rank = unpacker.number();
    const std::uint32_t where = unpacker.number();
    const std::uint32_t process = unpacker.number();
    each.seconds = unpacker.number() / 1000.0;
    each.host = unpacker.text();
    const std::string report = unpacker.text();
    if (each.rank >= world || where > static_cast<std::uint32_t>(RankState::Where::ended))
      return std::nullopt;
    each.where = static_cast<RankState::Where>(where);
    each.process = process > ' ' && process <= '~' ? static_cast<char>(process) : '\0';
    if (each.where == RankState::Where::waiting) {
      if (report.size() != sizeof each.report) return std::nullopt;
      std::memcpy(&each.report, report.data(), sizeof each.report);
      each.report = wire::checked(each.report, world);
    }
    ranks.push_back(std::move(each));
  }
  if (!unpacker.complete()) return std::nullopt;
  return ranks;
}

}  // namespace isthmus::mpiexec::stuck
