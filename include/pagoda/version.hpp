// SPDX-License-Identifier: Apache-2.0
/// @file The version, in one place: CMake and the package files read it here.
#pragma once

#define PAGODA_VERSION_MAJOR 0
#define PAGODA_VERSION_MINOR 1
#define PAGODA_VERSION_PATCH 0
