// SPDX-License-Identifier: Apache-2.0
/// @file All of the host and of CUDA, kernels included: for .cu files. Files of another compiler include
/// <pagoda/pagoda.hpp> and the headers pagoda/cuda/*.hpp that they use.
#pragma once

#include <pagoda/cuda/append.hpp>
#include <pagoda/cuda/attention.hpp>
#include <pagoda/cuda/execute.hpp>
#include <pagoda/cuda/instantiate.cuh>
#include <pagoda/cuda/memory.hpp>
#include <pagoda/cuda/step_tables.hpp>
#include <pagoda/pagoda.hpp>
