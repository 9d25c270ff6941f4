// SPDX-License-Identifier: Apache-2.0
// Writes a tiny model and tokenizer, and spoilt ones, for the tests of the command line: write_tiny_files DIRECTORY
#include <cmath>
#include <cstring>
#include <fstream>
#include <iostream>
#include <limits>

#include "tiny_files.hpp"

namespace {

void write(const std::string& path, std::span<const std::byte> bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) {
    std::cerr << "cannot write " << path << '\n';
    std::exit(1);
  }
}

template <class T>
tiny::bytes with(tiny::bytes file, std::size_t offset, T value) {
  std::memcpy(file.data() + offset, &value, sizeof(value));
  return file;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: write_tiny_files DIRECTORY\n";
    return 2;
  }
  const std::string directory = std::string(argv[1]) + "/";
  const tiny::bytes model = tiny::model_file();
  const tiny::bytes words = tiny::tokenizer_file();
  tiny::bytes longer = model;
  longer.push_back({});

  write(directory + "model.bin", model);
  write(directory + "model_unshared.bin", tiny::model_file({.vocabulary = -300}));
  write(directory + "model_empty.bin", {});
  write(directory + "model_short_header.bin", std::span(model).first(20));
  write(directory + "model_truncated.bin", std::span(model).first(model.size() - 1));
  write(directory + "model_trailing.bin", longer);
  write(directory + "model_zero_dim.bin", with(model, 0, std::int32_t{0}));
  write(directory + "model_negative_layers.bin", with(model, 8, std::int32_t{-2}));
  write(directory + "model_heads_do_not_divide.bin", with(model, 12, std::int32_t{3}));
  write(directory + "model_kv_heads_do_not_divide.bin", with(model, 16, std::int32_t{3}));
  write(directory + "model_head_dim_4.bin", with(model, 12, std::int32_t{4}));
  write(directory + "model_vast.bin", tiny::header_of({1 << 30, 1 << 30, 1 << 20, 1 << 27, 1, 1 << 30, 1 << 30}));
  write(directory + "model_nan.bin", with(model, tiny::header_bytes + 40, std::nanf("")));

  tiny::bytes more_words = words;
  more_words.resize(words.size() + 9);
  write(directory + "tokenizer.bin", words);
  write(directory + "tokenizer_truncated.bin", std::span(words).first(words.size() - 1));
  write(directory + "tokenizer_trailing.bin", more_words);
  write(directory + "tokenizer_of_299.bin", tiny::tokenizer_file(299));
  write(directory + "tokenizer_of_301.bin", tiny::tokenizer_file(301));
  write(directory + "tokenizer_negative_length.bin", with(words, 8, std::int32_t{-1}));
  write(directory + "tokenizer_too_long_token.bin", with(words, 8, std::int32_t{100}));
  write(directory + "tokenizer_zero_longest.bin", with(words, 0, std::int32_t{0}));
  write(directory + "tokenizer_infinite_score.bin", with(words, 4, std::numeric_limits<float>::infinity()));
}
