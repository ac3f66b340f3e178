#pragma once

#include "facts.hpp"

namespace isthmus::tool {

Section host_facts();
/// Of a job that is started here.
Section processor_facts();
/// Where this process is.
Section place_facts();
/// What this user may take of the machine, and whom it limits.
Section limit_facts();
/// What the kernel lets processes do to each other.
Section permission_facts();
/// Hardware that messages could go through.
Section device_facts();
/// The parts of Isthmus that are linked with foreign libraries, and what those find here.
Section library_facts();
/// What all of this comes to, for each way that a message can take.
Section channel_facts(const Section& permissions, const Section& devices, const Section& libraries);

}  // namespace isthmus::tool
