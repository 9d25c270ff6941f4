// SPDX-License-Identifier: Apache-2.0
/// @file Where the trained model and its tokenizer are, for the tests that need them.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <iostream>

inline std::filesystem::path data_directory() {
  if (const char* path = std::getenv("PAGODA_TEST_DATA")) return path;
  return std::filesystem::path(PAGODA_SOURCE_DIR) / ".." / "shared" / "data";
}

/// Whether the files are there; a word about where they come from if not.
inline bool have_files(const std::filesystem::path& directory) {
  for (const char* name : {"stories260K.bin", "tok512.bin", "expected_t0_n200.txt"}) {
    if (std::filesystem::exists(directory / name)) continue;
    std::cout
        << "[SKIPPED] " << (directory / name).string()
        << " is missing: get stories260K.bin and tok512.bin from karpathy/tinyllamas on Hugging Face and the text "
           "from karpathy/llama2.c on GitHub, put them into DIRECTORY/stories260K, and set the environment variable "
           "PAGODA_TEST_DATA to DIRECTORY\n";
    return false;
  }
  return true;
}
