#pragma once

#include <isthmus/device_view.h>

#include <string>

#include "base/error.hpp"

namespace isthmus::device {

/// What a kernel has noted of a call that was refused, as the program reads it.
Error refusal(const isthmus_device_control& noted);

}  // namespace isthmus::device
