#include "node/order.hpp"

#include "talk/pack.hpp"

namespace isthmus::mpiexec {
namespace {

constexpr std::string_view greeting = "isthmus agent";

void add(Packer& packer, const std::vector<Export>& exports) {
  packer.number(static_cast<std::uint32_t>(exports.size()));
  for (const Export& entry : exports)
    packer.text(entry.name).number(entry.value.has_value()).text(entry.value.value_or(""));
}

std::vector<Export> take_exports(Unpacker& unpacker) {
  std::vector<Export> exports;
  for (std::uint32_t left = unpacker.number(); left > 0; --left) {
    Export entry{unpacker.text(), std::nullopt};
    const bool has_value = unpacker.number() != 0;
    std::string value = unpacker.text();
    if (has_value) entry.value = std::move(value);
    if (entry.name.empty()) break;  // cut off
    exports.push_back(std::move(entry));
  }
  return exports;
}

void add(Packer& packer, const Part& part) {
  packer.number(static_cast<std::uint32_t>(part.appnum))
      .number(part.ranks.value_or(1))
      .number(part.all_ranks.value_or(1))
      .number(part.directory.has_value())
      .text(part.directory.value_or(""))
      .texts(part.command);
  add(packer, part.exports);
}

Part take_part(Unpacker& unpacker) {
  Part part;
  part.appnum = static_cast<std::int32_t>(unpacker.number());
  part.ranks = unpacker.number();
  part.all_ranks = unpacker.number();
  const bool has_directory = unpacker.number() != 0;
  std::string directory = unpacker.text();
  if (has_directory) part.directory = std::move(directory);
  part.command = unpacker.texts();
  part.exports = take_exports(unpacker);
  return part;
}

void add(Packer& packer, const Options& options) {
  packer.number(options.bind ? 1 + static_cast<std::uint32_t>(*options.bind) : 0)
      .number(static_cast<std::uint32_t>(options.map))
      .number(static_cast<std::uint32_t>(options.output))
      .number(options.outlive)
      .number(options.verbose)
      .number(options.report_bindings)
      .number(options.compatible_environment)
      .number(static_cast<std::uint32_t>(options.gpu_bind.how))
      .texts(options.gpu_bind.list)
      .number(options.gpu_bind.others_behind)
      .number(options.ranks_per_process)
      .number(options.workers)
      .number(options.migratable)
      .texts(options.container)
      .text(options.rendezvous);
  add(packer, options.exports);
  packer.number(static_cast<std::uint32_t>(options.parts.size()));
  for (const Part& part : options.parts)
    add(packer, part);
}

Options take_options(Unpacker& unpacker) {
  Options options;
  if (const std::uint32_t bind = unpacker.number()) options.bind = static_cast<BindTo>(bind - 1);
  options.map = static_cast<MapBy>(unpacker.number());
  options.output = static_cast<OutputMode>(unpacker.number());
  options.outlive = unpacker.number() != 0;
  options.verbose = unpacker.number() != 0;
  options.report_bindings = unpacker.number() != 0;
  options.compatible_environment = unpacker.number() != 0;
  options.gpu_bind.how = static_cast<GpuBind::How>(unpacker.number());
  options.gpu_bind.list = unpacker.texts();
  options.gpu_bind.others_behind = unpacker.number() != 0;
  options.ranks_per_process = std::max<std::uint32_t>(unpacker.number(), 1);
  options.workers = std::max<std::uint32_t>(unpacker.number(), 1);
  options.migratable = unpacker.number() != 0;
  options.container = unpacker.texts();
  options.rendezvous = unpacker.text();
  options.exports = take_exports(unpacker);
  for (std::uint32_t left = unpacker.number(); left > 0; --left) {
    options.parts.push_back(take_part(unpacker));
    if (options.parts.back().command.empty()) break;  // cut off
  }
  return options;
}

template <class T>
std::optional<T> if_complete(const Unpacker& unpacker, T value) {
  return unpacker.complete() ? std::optional(std::move(value)) : std::nullopt;
}

}  // namespace

std::string pack(const Hello& hello) {
  return Packer().text(greeting).number(agent_protocol).number(hello.host).text(hello.version).take();
}

std::optional<Hello> unpack_hello(std::string_view body) {
  Unpacker unpacker(body);
  if (unpacker.text() != greeting) return std::nullopt;
  const std::uint32_t protocol = unpacker.number();
  Hello hello{.host = unpacker.number(), .version = unpacker.text()};
  if (protocol != agent_protocol) hello.version += " (protocol " + std::to_string(protocol) + ")";
  return if_complete(unpacker, std::move(hello));
}

std::string pack(const Order& order) {
  Packer packer;
  packer.text(order.job)
      .text(order.folder)
      .texts(order.environment)
      .number(order.first_rank)
      .number(order.world)
      .text(order.mapping)
      .text(order.migration);
  add(packer, order.options);
  return packer.take();
}

std::optional<Order> unpack_order(std::string_view body) {
  Unpacker unpacker(body);
  Order order{.job = unpacker.text(),
              .folder = unpacker.text(),
              .environment = unpacker.texts(),
              .first_rank = unpacker.number(),
              .world = unpacker.number(),
              .mapping = unpacker.text(),
              .migration = unpacker.text(),
              .options = take_options(unpacker)};
  return if_complete(unpacker, std::move(order));
}

std::string pack(const Failure& failure) {
  return Packer()
      .number(static_cast<std::uint32_t>(failure.kind))
      .number(failure.rank)
      .number(static_cast<std::uint32_t>(failure.pid))
      .number(static_cast<std::uint32_t>(failure.value))
      .number(failure.finalized)
      .number(failure.core_dumped)
      .number(failure.ranks)
      .take();
}

std::optional<Failure> unpack_failure(std::string_view body) {
  Unpacker unpacker(body);
  const Failure failure{.kind = static_cast<Failure::Kind>(unpacker.number()),
                        .rank = unpacker.number(),
                        .pid = static_cast<pid_t>(unpacker.number()),
                        .value = static_cast<int>(unpacker.number()),
                        .finalized = unpacker.number() != 0,
                        .core_dumped = unpacker.number() != 0,
                        .ranks = unpacker.number()};
  return if_complete(unpacker, failure);
}

std::string pack(const Pairs& pairs) {
  Packer packer;
  packer.number(static_cast<std::uint32_t>(pairs.size()));
  for (const auto& [key, value] : pairs)
    packer.text(key).text(value);
  return packer.take();
}

std::optional<Pairs> unpack_pairs(std::string_view body) {
  Unpacker unpacker(body);
  Pairs pairs;
  for (std::uint32_t left = unpacker.number(); left > 0; --left) {
    std::string key = unpacker.text();
    if (key.empty()) return std::nullopt;
    pairs.insert_or_assign(std::move(key), unpacker.text());
  }
  return if_complete(unpacker, std::move(pairs));
}

}  // namespace isthmus::mpiexec
