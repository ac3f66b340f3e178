#pragma once

#include <string>
#include <vector>

#include "p2p/explain/parts.hpp"
#include "p2p/explain/tally.hpp"

/// What `isthmus explain` prints of a rank, in its forms. All probe peers that have not been heard of yet.
namespace isthmus {

/// Per peer: ways by size, refusals with reasons, and traffic so far.
[[nodiscard]] std::string full_report(const ExplainParts& parts);
/// The same as one JSON object.
[[nodiscard]] std::string json_report(const ExplainParts& parts);
/// What the summary of all ranks counts.
[[nodiscard]] RankTally tally(const ExplainParts& parts);

/// What the plans of all ranks follow from, with the origin of each value: what stands above all reports.
[[nodiscard]] std::string report_head(const Links& links);
/// The same, to the array of ranks that the JSON reports go into.
[[nodiscard]] std::string report_head_json(const Links& links);
/// What stands below that array: what messages take whose time nobody has taken.
[[nodiscard]] std::string report_tail_json(const std::vector<WayEstimate>& estimates);

}  // namespace isthmus
