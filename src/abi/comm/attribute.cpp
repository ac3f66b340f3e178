#include "abi/core/attribute.hpp"

#include <fmt/format.h>

#include <utility>

#include "abi/core/call.hpp"
#include "abi/core/entry.hpp"
#include "coll/agree/circle.hpp"

namespace isthmus::abi {

/// A keyval that leaves the table at its end.
class KeyvalTable::Entry final : public Keyval {
 public:
  Entry(KeyvalTable& table, int number, AttributeOwner owner, Copy copy, Delete destroy)
      : Keyval(number, owner, std::move(copy), std::move(destroy)), table_(table) {}

 private:
  ~Entry() override { table_.keyvals_.erase(number()); }

  KeyvalTable& table_;
};

int KeyvalTable::add(AttributeOwner owner, Keyval::Copy copy, Keyval::Delete destroy) {
  const int number = next_++;
  Ref<Keyval> keyval = make_ref<Entry>(*this, number, owner, std::move(copy), std::move(destroy));
  Keyval* const place = keyval.get();
  keyvals_.emplace(number, Place{place, std::move(keyval)});
  return number;
}

Ref<Keyval> KeyvalTable::find(AttributeOwner owner, int number) const {
  const auto found = keyvals_.find(number);
  if (found == keyvals_.end() || found->second.keyval->owner() != owner) return {};
  return Ref<Keyval>::share(found->second.keyval);
}

void KeyvalTable::free(int number) {
  // Its last reference erases the place, which therefore must not hold it at that moment.
  const Ref<Keyval> last = std::exchange(keyvals_.at(number).unfreed, {});
}

void set_world_attributes(Runtime& runtime) {
  WorldAttributes& attributes = runtime.world_attributes;
  const launch::Job& job = *runtime.job;
  attributes.tag_ub = coll::maximum_tag;
  attributes.appnum = job.region.block(job.slot).place.appnum;
  attributes.universe_size = static_cast<int>(job.region.header().universe);
}

Result<> delete_attributes_at_finalize(Runtime& runtime) {
  Result<> result;
  for (Communicator* comm : {runtime.self, runtime.world}) {
    if (Result<> cleared = comm->attributes.clear(comm->handle); !cleared && result)
      result = std::move(cleared);
  }
  return result;
}

namespace {

/// The value of predefined attribute `keyval` of communicators; null if that is not one.
const int* find_predefined(const Runtime& runtime, int keyval) {
  const WorldAttributes& attributes = runtime.world_attributes;
  switch (keyval) {
    case MPI_TAG_UB:
      return &attributes.tag_ub;
    case MPI_HOST:
      return &attributes.host;
    case MPI_IO:
      return &attributes.io;
    case MPI_WTIME_IS_GLOBAL:
      return &attributes.wtime_is_global;
    case MPI_APPNUM:
      return &attributes.appnum;
    case MPI_UNIVERSE_SIZE:
      return &attributes.universe_size;
    case MPI_LASTUSEDCODE:
      return &attributes.last_used_code;
    default:
      return nullptr;
  }
}

bool is_predefined(int keyval) {
  return (keyval >= MPI_TAG_UB && keyval <= MPI_UNIVERSE_SIZE) ||
         (keyval >= MPI_WIN_BASE && keyval <= MPI_WIN_MODEL);
}

Result<Ref<Keyval>> find_keyval(Runtime& runtime, AttributeOwner owner, int number, const char* argument) {
  if (Ref<Keyval> keyval = runtime.keyvals.find(owner, number)) return keyval;
  if (number == MPI_KEYVAL_INVALID)
    return fail(ErrorClass::keyval, fmt::format("{} is MPI_KEYVAL_INVALID", argument));
  if (is_predefined(number))
    return fail(
        ErrorClass::keyval,
        fmt::format("{} is the predefined attribute key {}, which cannot be changed here", argument, number));
  return fail(ErrorClass::keyval,
              fmt::format("{} is {}, which is no living keyval of this kind", argument, number));
}

/// A function of the program for handles of type `Handle`; the constants MPI_*_NULL_COPY_FN, MPI_*_DUP_FN and
/// MPI_*_NULL_DELETE_FN are the numbers 0 and 1 in place of functions.
template <class Handle>
Keyval::Copy copy_with(int (*function)(Handle, int, void*, void*, void*, int*), void* extra_state) {
  if (function == nullptr) return {};
  if (reinterpret_cast<std::uintptr_t>(function) == 1)
    return
        [](std::uintptr_t, int, void* value) -> Result<std::optional<void*>> { return std::optional(value); };
  return [=](std::uintptr_t handle, int keyval, void* value) -> Result<std::optional<void*>> {
    void* copy = nullptr;
    int flag = 0;
    const int code = function(reinterpret_cast<Handle>(handle), keyval, extra_state, value, &copy, &flag);
    if (code != MPI_SUCCESS) return std::unexpected(Error::from_code(code));
    return flag != 0 ? std::optional(copy) : std::nullopt;
  };
}

template <class Handle>
Keyval::Delete delete_with(int (*function)(Handle, int, void*, void*), void* extra_state) {
  if (function == nullptr) return {};
  return [=](std::uintptr_t handle, int keyval, void* value) -> Result<> {
    const int code = function(reinterpret_cast<Handle>(handle), keyval, value, extra_state);
    if (code != MPI_SUCCESS) return std::unexpected(Error::from_code(code));
    return {};
  };
}

template <AttributeOwner owner, class Copy, class Delete>
int create_keyval(const char* function, const char* argument, Copy* copy, Delete* destroy, int* keyval,
                  void* extra_state) noexcept {
  return call(function, [&](Runtime& runtime) -> Result<> {
    ISTHMUS_TRY(check_pointer(keyval, argument));
    *keyval = runtime.keyvals.add(owner, copy_with(copy, extra_state), delete_with(destroy, extra_state));
    return {};
  });
}

template <AttributeOwner owner>
int free_keyval(const char* function, const char* argument, int* keyval) noexcept {
  return call(function, [&](Runtime& runtime) -> Result<> {
    ISTHMUS_TRY(check_pointer(keyval, argument));
    // One that is in use may be freed more than once, as by delete callbacks that each free it.
    ISTHMUS_TRY(find_keyval(runtime, owner, *keyval, argument));
    runtime.keyvals.free(*keyval);
    *keyval = MPI_KEYVAL_INVALID;
    return {};
  });
}

/// `attribute_val` is the address of a pointer.
void store(void* attribute_val, const void* value) {
  *static_cast<void**>(attribute_val) = const_cast<void*>(value);
}

Result<> get_attribute(Runtime& runtime, AttributeOwner owner, const AttributeSet& attributes, int number,
                       const char* argument, void* attribute_val, int* flag) {
  ISTHMUS_TRY(check_pointer(attribute_val, "attribute_val"));
  ISTHMUS_TRY(check_pointer(flag, "flag"));
  Result<Ref<Keyval>> keyval = find_keyval(runtime, owner, number, argument);
  if (!keyval) return std::unexpected(std::move(keyval).error());
  const std::optional<void*> value = attributes.find(**keyval);
  if (value) store(attribute_val, *value);
  *flag = value.has_value() ? 1 : 0;
  return {};
}

Result<> set_attribute(Runtime& runtime, AttributeOwner owner, AttributeSet& attributes,
                       std::uintptr_t handle, int number, const char* argument, void* value) {
  Result<Ref<Keyval>> keyval = find_keyval(runtime, owner, number, argument);
  if (!keyval) return std::unexpected(std::move(keyval).error());
  return attributes.set(*keyval, value, handle);
}

Result<> delete_attribute(Runtime& runtime, AttributeOwner owner, AttributeSet& attributes,
                          std::uintptr_t handle, int number, const char* argument) {
  Result<Ref<Keyval>> keyval = find_keyval(runtime, owner, number, argument);
  if (!keyval) return std::unexpected(std::move(keyval).error());
  return attributes.erase(**keyval, handle);
}

// The functions on communicators have a second, deprecated name.

int get_comm_attribute(const char* function, MPI_Comm comm, int number, const char* argument,
                       void* attribute_val, int* flag) noexcept {
  return call(function, comm, [&](Communicator& c) -> Result<> {
    Runtime& runtime = Runtime::get();
    if (const int* predefined = find_predefined(runtime, number)) {
      ISTHMUS_TRY(check_pointer(attribute_val, "attribute_val"));
      ISTHMUS_TRY(check_pointer(flag, "flag"));
      store(attribute_val, predefined);
      *flag = 1;
      return {};
    }
    return get_attribute(runtime, AttributeOwner::communicator, c.attributes, number, argument, attribute_val,
                         flag);
  });
}

int set_comm_attribute(const char* function, MPI_Comm comm, int number, const char* argument,
                       void* value) noexcept {
  return call(function, comm, [&](Communicator& c) {
    const Ref<Communicator> alive = Ref<Communicator>::share(&c);  // the callback may free it
    return set_attribute(Runtime::get(), AttributeOwner::communicator, c.attributes, c.handle, number,
                         argument, value);
  });
}

int delete_comm_attribute(const char* function, MPI_Comm comm, int number, const char* argument) noexcept {
  return call(function, comm, [&](Communicator& c) {
    const Ref<Communicator> alive = Ref<Communicator>::share(&c);
    return delete_attribute(Runtime::get(), AttributeOwner::communicator, c.attributes, c.handle, number,
                            argument);
  });
}

/// For functions on datatypes. `body`: `Result<>(Runtime&, Datatype&)`.
template <class Body>
int call_with_kept_type(const char* function, MPI_Datatype datatype, Body&& body) noexcept {
  return call(function, [&](Runtime& runtime) -> Result<> {
    Result<Datatype*> type = find_datatype(datatype);
    if (!type) return std::unexpected(std::move(type).error());
    const Ref<Datatype> alive = Ref<Datatype>::share(*type);
    return body(runtime, *alive);
  });
}

}  // namespace

ISTHMUS_ENTRY(int, Comm_create_keyval)
(MPI_Comm_copy_attr_function* comm_copy_attr_fn, MPI_Comm_delete_attr_function* comm_delete_attr_fn,
 int* comm_keyval, void* extra_state) {
  return create_keyval<AttributeOwner::communicator>("MPI_Comm_create_keyval", "comm_keyval",
                                                     comm_copy_attr_fn, comm_delete_attr_fn, comm_keyval,
                                                     extra_state);
}
ISTHMUS_ENTRY(int, Comm_free_keyval)(int* comm_keyval) {
  return free_keyval<AttributeOwner::communicator>("MPI_Comm_free_keyval", "comm_keyval", comm_keyval);
}
ISTHMUS_ENTRY(int, Comm_set_attr)(MPI_Comm comm, int comm_keyval, void* attribute_val) {
  return set_comm_attribute("MPI_Comm_set_attr", comm, comm_keyval, "comm_keyval", attribute_val);
}
ISTHMUS_ENTRY(int, Comm_get_attr)(MPI_Comm comm, int comm_keyval, void* attribute_val, int* flag) {
  return get_comm_attribute("MPI_Comm_get_attr", comm, comm_keyval, "comm_keyval", attribute_val, flag);
}
ISTHMUS_ENTRY(int, Comm_delete_attr)(MPI_Comm comm, int comm_keyval) {
  return delete_comm_attribute("MPI_Comm_delete_attr", comm, comm_keyval, "comm_keyval");
}

ISTHMUS_ENTRY(int, Keyval_create)
(MPI_Copy_function* copy_fn, MPI_Delete_function* delete_fn, int* keyval, void* extra_state) {
  return create_keyval<AttributeOwner::communicator>("MPI_Keyval_create", "keyval", copy_fn, delete_fn,
                                                     keyval, extra_state);
}
ISTHMUS_ENTRY(int, Keyval_free)(int* keyval) {
  return free_keyval<AttributeOwner::communicator>("MPI_Keyval_free", "keyval", keyval);
}
ISTHMUS_ENTRY(int, Attr_put)(MPI_Comm comm, int keyval, void* attribute_val) {
  return set_comm_attribute("MPI_Attr_put", comm, keyval, "keyval", attribute_val);
}
ISTHMUS_ENTRY(int, Attr_get)(MPI_Comm comm, int keyval, void* attribute_val, int* flag) {
  return get_comm_attribute("MPI_Attr_get", comm, keyval, "keyval", attribute_val, flag);
}
ISTHMUS_ENTRY(int, Attr_delete)(MPI_Comm comm, int keyval) {
  return delete_comm_attribute("MPI_Attr_delete", comm, keyval, "keyval");
}

ISTHMUS_ENTRY(int, Type_create_keyval)
(MPI_Type_copy_attr_function* type_copy_attr_fn, MPI_Type_delete_attr_function* type_delete_attr_fn,
 int* type_keyval, void* extra_state) {
  return create_keyval<AttributeOwner::datatype>("MPI_Type_create_keyval", "type_keyval", type_copy_attr_fn,
                                                 type_delete_attr_fn, type_keyval, extra_state);
}
ISTHMUS_ENTRY(int, Type_free_keyval)(int* type_keyval) {
  return free_keyval<AttributeOwner::datatype>("MPI_Type_free_keyval", "type_keyval", type_keyval);
}
ISTHMUS_ENTRY(int, Type_set_attr)(MPI_Datatype datatype, int type_keyval, void* attribute_val) {
  return call_with_kept_type("MPI_Type_set_attr", datatype, [&](Runtime& runtime, Datatype& type) {
    return set_attribute(runtime, AttributeOwner::datatype, runtime.labels_of(type).attributes, type.handle,
                         type_keyval, "type_keyval", attribute_val);
  });
}
ISTHMUS_ENTRY(int, Type_get_attr)(MPI_Datatype datatype, int type_keyval, void* attribute_val, int* flag) {
  return call_with_kept_type("MPI_Type_get_attr", datatype, [&](Runtime& runtime, Datatype& type) {
    return get_attribute(runtime, AttributeOwner::datatype, runtime.labels_of(type).attributes, type_keyval,
                         "type_keyval", attribute_val, flag);
  });
}
ISTHMUS_ENTRY(int, Type_delete_attr)(MPI_Datatype datatype, int type_keyval) {
  return call_with_kept_type("MPI_Type_delete_attr", datatype, [&](Runtime& runtime, Datatype& type) {
    return delete_attribute(runtime, AttributeOwner::datatype, runtime.labels_of(type).attributes,
                            type.handle, type_keyval, "type_keyval");
  });
}

// Windows are a later chapter; their keyvals can be made all the same.
ISTHMUS_ENTRY(int, Win_create_keyval)
(MPI_Win_copy_attr_function* win_copy_attr_fn, MPI_Win_delete_attr_function* win_delete_attr_fn,
 int* win_keyval, void* extra_state) {
  return create_keyval<AttributeOwner::window>("MPI_Win_create_keyval", "win_keyval", win_copy_attr_fn,
                                               win_delete_attr_fn, win_keyval, extra_state);
}
ISTHMUS_ENTRY(int, Win_free_keyval)(int* win_keyval) {
  return free_keyval<AttributeOwner::window>("MPI_Win_free_keyval", "win_keyval", win_keyval);
}

}  // namespace isthmus::abi
