#pragma once

#include <array>
#include <cstddef>
#include <new>

namespace isthmus {

/// Memory for the frames of coroutines, which come and go in a few sizes: a free list for each size. Guarded
/// by whoever owns it. All frames must be back before it goes.
class FramePool {
 public:
  FramePool() = default;
  FramePool(const FramePool&) = delete;
  FramePool& operator=(const FramePool&) = delete;
  ~FramePool() {
    for (Frame* list : free_)
      while (list) {
        Frame* const next = list->next;
        ::operator delete(list);
        list = next;
      }
  }

  /// Throws std::bad_alloc.
  void* take(std::size_t bytes) {
    const std::size_t size_class = (bytes + sizeof(Frame) + step - 1) / step;
    Frame* frame = nullptr;
    if (size_class < classes && free_[size_class]) [[likely]] {
      frame = free_[size_class];
      free_[size_class] = frame->next;
    } else {
      frame = static_cast<Frame*>(::operator new(size_class * step));
      frame->size_class = size_class;
    }
    frame->owner = this;
    return frame + 1;
  }

  static void give_back(void* memory) noexcept {
    Frame* const frame = static_cast<Frame*>(memory) - 1;
    if (frame->size_class >= classes) {
      ::operator delete(frame);
      return;
    }
    FramePool& owner = *frame->owner;
    frame->next = owner.free_[frame->size_class];
    owner.free_[frame->size_class] = frame;
  }

 private:
  /// In front of each frame; its size keeps the frame aligned as `operator new` would.
  struct alignas(std::max_align_t) Frame {
    std::size_t size_class;
    union {
      FramePool* owner;  ///< while it is in use
      Frame* next;       ///< while it is free
    };
  };
  static constexpr std::size_t step = 128;
  static constexpr std::size_t classes = 17;  ///< larger frames than 2 KiB are not kept

  std::array<Frame*, classes> free_{};
};

}  // namespace isthmus
