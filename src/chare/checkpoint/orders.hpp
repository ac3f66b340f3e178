#pragma once

#include <isthmus/chare/archive.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "chare/runtime.hpp"

/// What processes tell each other when a checkpoint is written.
namespace isthmus::chare {

/// What is done when nothing moves any more.
enum class Pause : std::uint8_t {
  file,    ///< a checkpoint on disk
  memory,  ///< one in memory
  resize,  ///< another number of processes
};
/// What a program asks process 0 for.
struct Wish {
  Callback written{};
  Callback restarted{};  ///< of a checkpoint
  Pause pause = Pause::file;
  std::uint32_t processes = 0;  ///< of `resize`
  std::string path;             ///< of `file`
  template <class Archive>
  void serialize(Archive& archive) {
    archive(written, restarted, pause, processes, path);
  }
};
/// What process 0 tells those who have chares to write, or to say.
struct Order {
  std::uint64_t generation = 0;
  Pause pause = Pause::file;
  std::uint32_t processes = 0;
  std::string path;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(generation, pause, processes, path);
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

/// What all processes are told of their new number.
struct Resizing {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  CheckpointHead head;  ///< its collections
  template <class Archive>
  void serialize(Archive& archive) {
    archive(from, to, head);
  }
};

/// What process 0 knows of the checkpoint that is being written, or of the change of processes.
struct Runtime::Checkpoint {
  Wish wish;
  std::vector<Callback> quiet;  ///< those who wait for quiescence: after it
  std::uint32_t missing = 0;    ///< answers
  /// In memory: that have been announced and are not there, less those that are there and have not been.
  std::int64_t copies = 0;
  /// Who has not heard yet that a checkpoint in memory is whole, or with how many processes it goes on.
  std::uint32_t unheard = 0;
  bool is_moving = false;  ///< chares are on their way to or from processes
  CheckpointHead head;
  std::string error;
};

}  // namespace isthmus::chare
