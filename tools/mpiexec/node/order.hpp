#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "command/options.hpp"
#include "ranks/ending.hpp"
#include "wire/region.hpp"

namespace isthmus::mpiexec {

using Pairs = std::map<std::string, std::string>;

inline constexpr std::uint32_t agent_protocol = 7;

/// An agent's first words.
struct Hello {
  std::uint32_t host;   ///< which of the job's
  std::string version;  ///< of mpiexec there
};

/// What an agent is to start.
struct Order {
  std::string job;
  std::string folder;                    ///< where the head is
  std::vector<std::string> environment;  ///< the head's, as NAME=VALUE
  std::uint32_t first_rank;
  std::uint32_t world;
  std::string mapping;    ///< which ranks share hosts, as PMI_process_mapping has it
  std::string migration;  ///< as `launcher_variable::migratable` says it; empty: ranks stay on their host
  Options options;        ///< with the parts that have ranks there, and how many
};

std::string pack(const Hello& hello);
std::string pack(const Order& order);
std::string pack(const Failure& failure);
std::string pack(const Pairs& pairs);

/// Nothing if `body` is not one.
std::optional<Hello> unpack_hello(std::string_view body);
std::optional<Order> unpack_order(std::string_view body);
std::optional<Failure> unpack_failure(std::string_view body);
std::optional<Pairs> unpack_pairs(std::string_view body);

}  // namespace isthmus::mpiexec
