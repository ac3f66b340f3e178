#pragma once

namespace isthmus {

/// Whether this process can load from an address, found without doing it, in 0.1 us: the kernel reads a set
/// of signals there before it refuses to do with it what is not defined. process_vm_readv would not read
/// memory of devices, which is as good a buffer as any.
bool is_readable(const void* address) noexcept;

}  // namespace isthmus
