#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "gpus.hpp"

namespace isthmus::fuzz {

/// Buffers in GPU memory, with bytes around each that nobody may write.
class Arenas {
 public:
  /// Null where there is no more room. Lasts until `check`.
  std::byte* take(Gpus::Kind kind, std::uint64_t bytes, bool is_sent) {
    const std::uint64_t begin = (used_[kind] + apart + 15) / 16 * 16;
    if (begin + bytes + apart > Gpus::arena_bytes) return nullptr;
    used_[kind] = begin + bytes;
    taken_.push_back({kind, begin, bytes, is_sent});
    std::memset(Gpus::get().view(kind) + begin, is_sent ? sent_byte : 0, bytes);
    return Gpus::get().arena(kind) + begin;
  }
  /// Ends the process where anything else has been written than buffers that receive, or handles of the
  /// driver are open that `handles` do not count.
  void check(unsigned handles) {
    Gpus::get().check_healthy();
    for (unsigned kind = 0; kind < Gpus::kinds; ++kind)
      if (used_[kind] != 0) check_arena(static_cast<Gpus::Kind>(kind));
    unsigned open = 0;
    const std::string which = Gpus::open_handles(open);
    if (open != handles) std::fputs(which.c_str(), stderr);
    require(open == handles, "the engine has left handles of the driver open");
  }

 private:
  static constexpr std::uint64_t apart = 64;
  static constexpr unsigned char sent_byte = 0x11;
  struct Taken {
    Gpus::Kind kind;
    std::uint64_t begin, bytes;
    bool is_sent;
  };

  void check_arena(Gpus::Kind kind) const {
    unsigned char* const memory = Gpus::get().view(kind);
    // All bytes are as the one before them: this is quick.
    const auto is_only = [memory](std::uint64_t begin, std::uint64_t bytes, unsigned char byte) {
      const unsigned char* const from = memory + begin;
      return bytes == 0 || (*from == byte && std::memcmp(from, from + 1, bytes - 1) == 0);
    };
    std::uint64_t behind = 0;
    for (const Taken& each : taken_) {
      if (each.kind != kind) continue;
      require(is_only(behind, each.begin - behind, Gpus::canary), "memory beside a buffer has changed");
      if (each.is_sent) require(is_only(each.begin, each.bytes, sent_byte), "memory of a sender has changed");
      behind = each.begin + each.bytes;
    }
    require(is_only(behind, apart, Gpus::canary), "memory behind a buffer has changed");
    std::memset(memory, Gpus::canary, used_[kind] + apart);
  }

  std::array<std::uint64_t, Gpus::kinds> used_{};
  std::vector<Taken> taken_;
};

}  // namespace isthmus::fuzz
