// SPDX-License-Identifier: Apache-2.0
// The headers under nvcc: both passes parse them. Nothing runs, so no GPU is needed.
#include <pagoda/pagoda.hpp>
