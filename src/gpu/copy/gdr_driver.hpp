#pragma once

#include <cstddef>
#include <memory>

#include "base/error.hpp"
#include "gpu/copy/gdr_api.hpp"
#include "gpu/memory/buffer.hpp"

namespace isthmus {

/// GDRCopy: device memory that the processor loads and stores itself. One thread at a time.
class GdrDriver {
 public:
  static constexpr const char* default_file = "libgdrapi.so.2";

  /// Errors say what is missing, and what it would bring.
  static Result<std::unique_ptr<GdrDriver>> open(const char* file = default_file);
  GdrDriver(const GdrDriver&) = delete;
  GdrDriver& operator=(const GdrDriver&) = delete;
  ~GdrDriver();

  [[nodiscard]] const gdr::Functions& functions() const noexcept { return functions_; }
  [[nodiscard]] gdr::Session session() const noexcept { return session_; }

 private:
  GdrDriver(const gdr::Functions& functions, gdr::Session session)
      : functions_(functions), session_(session) {}

  gdr::Functions functions_;
  gdr::Session session_;
};

/// Device memory of this process, mapped for the processor: the pages around one buffer. The driver must
/// outlive it.
class GdrMapping {
 public:
  /// `buffer` is device memory of this process, other kinds cannot be pinned.
  static Result<std::unique_ptr<GdrMapping>> open(const GdrDriver& driver, const Buffer& buffer);
  GdrMapping(const GdrMapping&) = delete;
  GdrMapping& operator=(const GdrMapping&) = delete;
  ~GdrMapping();

  [[nodiscard]] bool covers(const std::byte* device, std::size_t bytes) const noexcept {
    const auto offset = static_cast<std::size_t>(device - begin_);
    return offset <= bytes_ && bytes <= bytes_ - offset;
  }
  /// From host to device memory that this covers. Work of the GPU that is launched later sees it.
  void store(std::byte* device, const void* from, std::size_t bytes) const noexcept {
    driver_.functions().store(pin_, host_ + (device - begin_), from, bytes);
  }
  /// From device memory that this covers, slowly: reads of a GPU's memory are not cached.
  void load(void* to, const std::byte* device, std::size_t bytes) const noexcept {
    driver_.functions().load(pin_, to, host_ + (device - begin_), bytes);
  }
  /// Whether the program has freed the memory meanwhile.
  [[nodiscard]] bool is_stale() const noexcept;

 private:
  explicit GdrMapping(const GdrDriver& driver) : driver_(driver) {}

  const GdrDriver& driver_;
  gdr::Pin pin_;
  bool is_pinned_ = false;
  std::byte* begin_ = nullptr;  ///< where it begins on the device
  std::byte* host_ = nullptr;   ///< and here
  std::size_t bytes_ = 0;
};

}  // namespace isthmus
