#pragma once

#include <mpi.h>

#include <memory>
#include <optional>

#include "abi/core/transfer.hpp"
#include "base/error.hpp"
#include "comm/communicator.hpp"
#include "stream/operation.hpp"
#include "stream/stream.hpp"

/// Short messages in the order of a stream by kernels that match them (kernels/body/mail.hpp), on
/// communicators whose members have promised that there are no others (docs/streams.md).
namespace isthmus::abi {

/// Whether messages of that communicator go that way, all of them.
bool has_mail(const Communicator& comm);

/// Where a status goes, as programs ask for it.
struct MailStatus {
  MPI_Status* status = MPI_STATUS_IGNORE;
  bool with_error = false;
};

/// Puts a send on the communicator's stream. `request`: null, or where the program gets one, of an operation
/// that is over.
Result<> send_mail(const char* function, Communicator& comm, const Outgoing& out, MPI_Request* request);
/// Puts a receive on the stream, behind those of the same messages that the program has a request for.
Result<> receive_mail(const char* function, Communicator& comm, const Incoming& in, MailStatus status);
/// A receive that is put on the stream when a wait for it is, or for a later one of the same messages.
Result<> post_mail(const char* function, Communicator& comm, const Incoming& in, MPI_Request* request);
/// Whether what a request is for is such.
bool is_mail(const stream::Enqueued& what);
/// Has the stream wait for it.
Result<> wait_for_mail(stream::Enqueued& what, MailStatus status);

}  // namespace isthmus::abi
