#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/unique_fd.hpp"
#include "chare/record.hpp"

/// A checkpoint on disk: a head at the path that the program has given, and beside it a part for each process
/// that wrote it. The head names its parts by a number that no other checkpoint has, and takes the place of
/// an older one by `rename` when all parts are on disk: so whatever fails, the older one stays whole.
///
/// What is read may be anything: sizes are compared with the file's before memory is taken, and each piece
/// has a checksum, which finds damage, not forgery.
namespace isthmus::chare {

struct SavedCollection {
  std::uint64_t id = 0;
  isthmus_chare_shape shape{};
  std::string type;              ///< its mangled name
  std::uint64_t population = 0;  ///< chares in all parts
  std::uint8_t is_closed = 0;    ///< of a sparse one: `done_inserting`
  template <class Archive>
  void serialize(Archive& archive) {
    archive(id, shape, type, population, is_closed);
  }
};

struct SavedPart {
  std::uint64_t bytes = 0;
  std::uint64_t chares = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(bytes, chares);
  }
};

struct CheckpointHead {
  std::uint64_t generation = 0;       ///< the number in the names of the parts
  std::uint32_t roots = 0;            ///< processes that may have made collections
  std::uint32_t next_collection = 0;  ///< numbers from here on are free in all of them
  isthmus_chare_callback restarted{};
  std::string restarted_item;  ///< the mangled name of `restarted.item`
  std::vector<SavedCollection> collections;
  std::vector<SavedPart> parts;  ///< by process
  template <class Archive>
  void serialize(Archive& archive) {
    archive(generation, roots, next_collection, restarted, restarted_item, collections, parts);
  }
};

/// In a part, in front of what each chare has written of itself.
struct SavedChare {
  std::uint64_t checksum;  ///< of all behind it
  std::uint64_t bytes;     ///< behind this
  std::uint64_t collection;
  Index index;
  double load;
  std::uint64_t has_own_load;
};

[[nodiscard]] std::string part_name(const std::string& path, std::uint64_t generation, std::uint32_t process);

/// Writes a part. What has been written stays where an error is returned: the caller removes it.
class PartWriter {
 public:
  /// There must be no such file.
  static Result<PartWriter> open(const std::string& name);
  /// `write` puts `bytes` bytes.
  Result<> add(SavedChare chare, std::uint64_t bytes, const std::function<void(std::byte*)>& write);
  /// All is on disk.
  Result<SavedPart> finish();

 private:
  PartWriter(std::string name, UniqueFd file) : name_(std::move(name)), file_(std::move(file)) {}
  Result<> flush();

  std::string name_;
  UniqueFd file_;
  std::vector<std::byte> waiting_;
  SavedPart written_;
};

/// Hands each chare of a part to `take`. An error says what does not fit; those before it have been taken.
Result<> read_part(const std::string& name, const SavedPart& expected,
                   const std::function<Result<>(const SavedChare&, std::span<const std::byte>)>& take);

/// Puts the head at `path`, in place of what was there, and removes the parts of the checkpoint that is no
/// more: the older one, or after an error this one. Where the head is in its place and may not be on disk,
/// the error says so, and the parts of both stay: after a crash of the machine either of them may be found.
Result<> commit_checkpoint(const std::string& path, const CheckpointHead& head);
Result<CheckpointHead> read_head(const std::string& path);

/// Those of a checkpoint that is not, or is no more. What cannot be removed stays.
void remove_parts(const std::string& path, std::uint64_t generation, std::uint32_t processes);

}  // namespace isthmus::chare
