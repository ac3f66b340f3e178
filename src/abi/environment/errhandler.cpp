// MPI 5.0, sections 9.3 to 9.5: error handlers, error codes and their strings.

#include <mpi.h>

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "abi/core/call.hpp"
#include "abi/core/entry.hpp"

namespace isthmus::abi {
namespace {

/// `function` is the program's, for handles of type `Handle`.
template <Errhandler::Subject subject, class Handle>
int create(const char* name, const char* argument, void (*function)(Handle*, int*, ...),
           MPI_Errhandler* errhandler) noexcept {
  return call_any_time(name, [&](Runtime& runtime) -> Result<> {
    ISTHMUS_TRY(check_pointer(reinterpret_cast<const void*>(function), argument));
    ISTHMUS_TRY(check_pointer(errhandler, "errhandler"));
    *errhandler =
        runtime.errhandlers.add(make_ref<Errhandler>(subject, [function](std::uintptr_t handle, int& code) {
          auto object = reinterpret_cast<Handle>(handle);
          function(&object, &code);
        }));
    return {};
  });
}

Result<Errhandler*> find_for(Errhandler::Subject subject, MPI_Errhandler errhandler) {
  Result<Errhandler*> found = find_errhandler(errhandler);
  if (found && !(*found)->serves(subject))
    return fail(ErrorClass::errhandler, "errhandler was made for another kind of object");
  return found;
}

Result<> check_file_null(MPI_File file) {
  if (file == MPI_FILE_NULL) return {};
  return std::unexpected(bad_handle(ErrorClass::file, "file", file, HandleKind::file));
}

}  // namespace

ISTHMUS_ENTRY(int, Comm_create_errhandler)
(MPI_Comm_errhandler_function* comm_errhandler_fn, MPI_Errhandler* errhandler) {
  return create<Errhandler::Subject::communicator>("MPI_Comm_create_errhandler", "comm_errhandler_fn",
                                                   comm_errhandler_fn, errhandler);
}
ISTHMUS_ENTRY(int, Win_create_errhandler)
(MPI_Win_errhandler_function* win_errhandler_fn, MPI_Errhandler* errhandler) {
  return create<Errhandler::Subject::window>("MPI_Win_create_errhandler", "win_errhandler_fn",
                                             win_errhandler_fn, errhandler);
}
ISTHMUS_ENTRY(int, File_create_errhandler)
(MPI_File_errhandler_function* file_errhandler_fn, MPI_Errhandler* errhandler) {
  return create<Errhandler::Subject::file>("MPI_File_create_errhandler", "file_errhandler_fn",
                                           file_errhandler_fn, errhandler);
}
ISTHMUS_ENTRY(int, Session_create_errhandler)
(MPI_Session_errhandler_function* session_errhandler_fn, MPI_Errhandler* errhandler) {
  return create<Errhandler::Subject::session>("MPI_Session_create_errhandler", "session_errhandler_fn",
                                              session_errhandler_fn, errhandler);
}

ISTHMUS_ENTRY(int, Comm_set_errhandler)(MPI_Comm comm, MPI_Errhandler errhandler) {
  return call("MPI_Comm_set_errhandler", comm, [&](Communicator& c) -> Result<> {
    Result<Errhandler*> found = find_for(Errhandler::Subject::communicator, errhandler);
    if (!found) return std::unexpected(std::move(found).error());
    c.errhandler = Ref<Errhandler>::share(*found);
    if (Runtime& runtime = Runtime::get(); &c == runtime.self) runtime.self_has_errhandler = true;
    return {};
  });
}

ISTHMUS_ENTRY(int, Comm_get_errhandler)(MPI_Comm comm, MPI_Errhandler* errhandler) {
  return call("MPI_Comm_get_errhandler", comm, [&](Communicator& c) -> Result<> {
    ISTHMUS_TRY(check_pointer(errhandler, "errhandler"));
    *errhandler = Runtime::get().errhandlers.share(*c.errhandler);
    return {};
  });
}

// Files are a later chapter; the handler that they will start with hangs on MPI_FILE_NULL (section 14.7).

ISTHMUS_ENTRY(int, File_set_errhandler)(MPI_File file, MPI_Errhandler errhandler) {
  return call("MPI_File_set_errhandler", [&](Runtime& runtime) -> Result<> {
    ISTHMUS_TRY(check_file_null(file));
    Result<Errhandler*> found = find_for(Errhandler::Subject::file, errhandler);
    if (!found) return std::unexpected(std::move(found).error());
    runtime.file_errhandler = Ref<Errhandler>::share(*found);
    return {};
  });
}

ISTHMUS_ENTRY(int, File_get_errhandler)(MPI_File file, MPI_Errhandler* errhandler) {
  return call("MPI_File_get_errhandler", [&](Runtime& runtime) -> Result<> {
    ISTHMUS_TRY(check_file_null(file));
    ISTHMUS_TRY(check_pointer(errhandler, "errhandler"));
    *errhandler = runtime.errhandlers.share(*runtime.file_errhandler);
    return {};
  });
}

ISTHMUS_ENTRY(int, Errhandler_free)(MPI_Errhandler* errhandler) {
  return call_any_time("MPI_Errhandler_free", [&](Runtime& runtime) -> Result<> {
    ISTHMUS_TRY(check_pointer(errhandler, "errhandler"));
    if (Result<Errhandler*> found = find_errhandler(*errhandler); !found)
      return std::unexpected(std::move(found).error());
    runtime.errhandlers.remove(*errhandler);  // nothing to do for predefined ones, which may be freed
    *errhandler = MPI_ERRHANDLER_NULL;
    return {};
  });
}

namespace {

/// For MPI_*_call_errhandler: that the program may raise `code`.
Result<> check_code(Runtime& runtime, int code, const char* argument) {
  if (runtime.error_codes.class_of(code)) return {};
  return fail(ErrorClass::arg, fmt::format("{} {} is neither predefined nor added", argument, code));
}

/// What the program's code means, for the line of a fatal handler.
std::string message_of(const char* function, int code) {
  const std::string text = error_string(code);
  return fmt::format("{}: {}", function, text.empty() ? fmt::format("error code {}", code) : text);
}

}  // namespace

ISTHMUS_ENTRY(int, Comm_call_errhandler)(MPI_Comm comm, int errorcode) {
  constexpr const char* function = "MPI_Comm_call_errhandler";
  return call(function, comm, [&](Communicator& c) -> Result<> {
    ISTHMUS_TRY(check_code(Runtime::get(), errorcode, "errorcode"));
    const auto alive = Ref<Communicator>::share(&c);
    invoke(*c.errhandler, c.handle, errorcode, message_of(function, errorcode));
    return {};
  });
}

ISTHMUS_ENTRY(int, File_call_errhandler)(MPI_File fh, int errorcode) {
  constexpr const char* function = "MPI_File_call_errhandler";
  return call(function, [&](Runtime& runtime) -> Result<> {
    ISTHMUS_TRY(check_file_null(fh));
    ISTHMUS_TRY(check_code(runtime, errorcode, "errorcode"));
    invoke(*runtime.file_errhandler, reinterpret_cast<std::uintptr_t>(fh), errorcode,
           message_of(function, errorcode));
    return {};
  });
}

// --- codes and their strings: sections 9.4 and 9.5. All threads may call these at any time.

ISTHMUS_ENTRY(int, Error_class)(int errorcode, int* errorclass) {
  return call_any_time("MPI_Error_class", [&](Runtime& runtime) -> Result<> {
    ISTHMUS_TRY(check_pointer(errorclass, "errorclass"));
    ISTHMUS_TRY(check_code(runtime, errorcode, "errorcode"));
    *errorclass = *runtime.error_codes.class_of(errorcode);
    return {};
  });
}

ISTHMUS_ENTRY(int, Error_string)(int errorcode, char* string, int* resultlen) {
  return call_any_time("MPI_Error_string", [&](Runtime& runtime) -> Result<> {
    ISTHMUS_TRY(check_pointer(string, "string"));
    ISTHMUS_TRY(check_pointer(resultlen, "resultlen"));
    ISTHMUS_TRY(check_code(runtime, errorcode, "errorcode"));
    std::string text;
    if (predefined_class(errorcode))
      text = error_string(errorcode);
    else if (const std::string* own = runtime.error_codes.string_of(errorcode))
      text = *own;
    text.resize(std::min<std::size_t>(text.size(), MPI_MAX_ERROR_STRING - 1));
    std::ranges::copy(text, string);
    string[text.size()] = '\0';
    *resultlen = static_cast<int>(text.size());
    return {};
  });
}

ISTHMUS_ENTRY(int, Add_error_class)(int* errorclass) {
  return call_any_time("MPI_Add_error_class", [&](Runtime& runtime) -> Result<> {
    ISTHMUS_TRY(check_pointer(errorclass, "errorclass"));
    *errorclass = runtime.world_attributes.last_used_code = runtime.error_codes.add_class();
    return {};
  });
}

ISTHMUS_ENTRY(int, Add_error_code)(int errorclass, int* errorcode) {
  return call_any_time("MPI_Add_error_code", [&](Runtime& runtime) -> Result<> {
    ISTHMUS_TRY(check_pointer(errorcode, "errorcode"));
    Result<int> code = runtime.error_codes.add_code(errorclass);
    if (!code) return std::unexpected(std::move(code).error());
    *errorcode = runtime.world_attributes.last_used_code = *code;
    return {};
  });
}

ISTHMUS_ENTRY(int, Add_error_string)(int errorcode, const char* string) {
  return call_any_time("MPI_Add_error_string", [&](Runtime& runtime) -> Result<> {
    ISTHMUS_TRY(check_pointer(string, "string"));
    const std::string_view text(string);
    if (text.size() >= MPI_MAX_ERROR_STRING)
      return fail(
          ErrorClass::arg,
          fmt::format("string has {} characters, more than MPI_MAX_ERROR_STRING allows", text.size()));
    return runtime.error_codes.set_string(errorcode, std::string(text));
  });
}

ISTHMUS_ENTRY(int, Remove_error_class)(int errorclass) {
  return call_any_time("MPI_Remove_error_class",
                       [&](Runtime& runtime) { return runtime.error_codes.remove_class(errorclass); });
}

ISTHMUS_ENTRY(int, Remove_error_code)(int errorcode) {
  return call_any_time("MPI_Remove_error_code",
                       [&](Runtime& runtime) { return runtime.error_codes.remove_code(errorcode); });
}

ISTHMUS_ENTRY(int, Remove_error_string)(int errorcode) {
  return call_any_time("MPI_Remove_error_string",
                       [&](Runtime& runtime) { return runtime.error_codes.remove_string(errorcode); });
}

}  // namespace isthmus::abi
