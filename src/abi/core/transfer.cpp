#include "abi/core/transfer.hpp"

#include <fmt/format.h>

namespace isthmus::abi {

Error explain_payload(const void* buffer, MPI_Count count, MPI_Datatype datatype,
                      const ArgumentNames& names) {
  if (Result<> checked = check_count(count, names.count); !checked) return std::move(checked).error();
  Result<Datatype*> type = find_committed(datatype, names.datatype);
  if (!type) return std::move(type).error();
  if (Result<std::int64_t> bytes = (*type)->bytes(count); !bytes)
    return Error(ErrorClass::count, fmt::format("{} {} times {} bytes is more than a message can have",
                                                names.count, count, (*type)->size()));
  if (Result<> checked = check_buffer(buffer, count, **type, names.buffer); !checked)
    return std::move(checked).error();
  return Error(ErrorClass::intern, "a message that is right was refused");
}

Result<> check_null_send(const Communicator& comm, int dest, int tag, const ArgumentNames& names) {
  if (comm.is_revoked()) return std::unexpected(comm.why_broken());
  ISTHMUS_TRY(check_rank(comm, dest, true, names.rank));
  return check_tag(tag, names.tag);
}

Result<> check_null_receive(const Communicator& comm, int source, int tag, const ArgumentNames& names) {
  if (comm.is_revoked()) return std::unexpected(comm.why_broken());
  if (source != MPI_ANY_SOURCE) ISTHMUS_TRY(check_rank(comm, source, true, names.rank));
  return tag == MPI_ANY_TAG ? Result<>() : check_tag(tag, names.tag);
}

Error explain_failure(int code, const Status& status, std::uint64_t room) {
  const auto error_class = static_cast<ErrorClass>(code);
  if (error_class == ErrorClass::truncate)
    return Error(error_class,
                 fmt::format("the message from rank {} with tag {} is longer than the {} bytes that "
                             "buf has room for",
                             status.source, status.tag, room));
  if (error_class == ErrorClass::proc_aborted)
    return Error(error_class, "a process that the operation needs is no more");
  return Error(error_class);
}

}  // namespace isthmus::abi
