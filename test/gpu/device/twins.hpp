#pragma once

#include "emulated_cuda.h"

const EmulatedTwin* device_twins();
