#pragma once

#include <isthmus/chare/archive.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "chare/runtime.hpp"

/// What processes tell each other when a checkpoint is written.
namespace isthmus::chare {

/// What a program asks process 0 for.
struct Wish {
  Callback written{};
  Callback restarted{};
  bool in_memory = false;
  std::string path;  ///< of one on disk
  template <class Archive>
  void serialize(Archive& archive) {
    archive(written, restarted, in_memory, path);
  }
};
/// What process 0 tells all to write.
struct Order {
  std::uint64_t generation = 0;
  bool in_memory = false;
  std::string path;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(generation, in_memory, path);
  }
};
/// What each answers.
struct Answer {
  std::string error;  ///< empty: it is written
  SavedPart part;
  std::uint32_t next_collection = 0;
  std::vector<std::uint64_t> collections;  ///< by number, and how many chares: pairs
  template <class Archive>
  void serialize(Archive& archive) {
    archive(error, part, next_collection, collections);
  }
};
template <class T>
std::vector<std::byte> packed(const T& value) {
  Sizer sizer;
  sizer(value);
  std::vector<std::byte> bytes(sizer.size());
  Writer(bytes.data())(value);
  return bytes;
}
/// False where it is no such value.
template <class T>
bool unpack(std::span<const std::byte> bytes, T& value) {
  try {
    Reader reader(bytes.data(), bytes.size());
    reader(value);
    reader.finish();
    return true;
  } catch (const ArchiveError&) {
    return false;
  }
}

/// What process 0 knows of the checkpoint that is being written.
struct Runtime::Checkpoint {
  Wish wish;
  std::vector<Callback> quiet;  ///< those who wait for quiescence: after it
  std::uint32_t missing = 0;    ///< answers
  /// In memory: that have been announced and are not there, less those that are there and have not been.
  std::int64_t copies = 0;
  std::uint32_t unheard = 0;  ///< in memory: who has not heard yet that it is whole
  CheckpointHead head;
  std::string error;
};

}  // namespace isthmus::chare
