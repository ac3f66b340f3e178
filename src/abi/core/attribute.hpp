#pragma once

#include <mpi.h>

#include <unordered_map>

#include "base/attributes.hpp"
#include "base/error.hpp"
#include "base/ref.hpp"

namespace isthmus::abi {

class Runtime;

/// Keyvals by the integers that programs know them by. Integers are not used twice, because attributes may
/// outlive the freed keyval and their callbacks are still told its number. A freed keyval is found as long as
/// an attribute has it: "the actual free does not transpire until after all references [...] to the key have
/// been freed" (MPI 5.0, section 7.7.2). Outlives its keyvals. Guarded by the engine's lock.
class KeyvalTable {
 public:
  /// The new keyval's number.
  int add(AttributeOwner owner, Keyval::Copy copy, Keyval::Delete destroy);
  /// Null if there is none of that number for such an owner.
  [[nodiscard]] Ref<Keyval> find(AttributeOwner owner, int number) const;
  /// From now on attributes alone keep the keyval that `find` has found. Nothing happens where that is so.
  void free(int number);

 private:
  class Entry;
  struct Place {
    Keyval* keyval;       ///< takes itself out of the table when its last reference goes
    Ref<Keyval> unfreed;  ///< the program's own reference; empty once it has freed the keyval
  };

  std::unordered_map<int, Place> keyvals_;
  int next_ = 0x1000;  ///< above the ABI's predefined ones
};

/// The predefined attributes of communicators (MPI 5.0, section 9.1.2), which every communicator shows.
/// Programs are given addresses of these values.
struct WorldAttributes {
  int tag_ub = 0;
  int host = MPI_PROC_NULL;
  int io = MPI_ANY_SOURCE;  ///< every process can do language-standard I/O
  int wtime_is_global = 1;  ///< the ranks of one host read one clock
  int appnum = 0;
  int universe_size = 1;
  int last_used_code = MPI_ERR_LASTCODE;  ///< grows with MPI_Add_error_class and MPI_Add_error_code
};

/// Gives the predefined attributes their values; part of MPI_Init, once the job is joined.
void set_world_attributes(Runtime& runtime);

/// What MPI_Finalize does first: deletes the attributes of MPI_COMM_SELF, the last set first, so that
/// programs hear of the end while MPI still works (MPI 5.0, section 11.2.4); then those of MPI_COMM_WORLD.
Result<> delete_attributes_at_finalize(Runtime& runtime);

}  // namespace isthmus::abi
