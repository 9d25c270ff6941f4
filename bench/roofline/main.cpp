// SPDX-License-Identifier: Apache-2.0
// Draws the roofline picture of decode attention:
//   pagoda_bench --benchmark_filter='decode/host/.*context:16384/threads:1/real' --benchmark_format=json > decode.json
//   roofline decode.json decode.svg
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "roofline.hpp"

namespace {

std::string read_file(const std::string& path) {
  std::ifstream input(path, std::ios::binary);
  try {
    if (input) return {std::istreambuf_iterator<char>(input), {}};
  } catch (const std::ios_base::failure&) {  // a directory
  }
  throw std::runtime_error("cannot read " + path + ": pass a file of what pagoda_bench --benchmark_format=json prints");
}

/// The picture of a file, which is named in whatever is wrong with it.
std::string draw_file(const std::string& path, const std::string& match) {
  const std::string json = read_file(path);
  try {
    return draw_roofline(read_points(json, match));
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(path + ": " + error.what());
  }
}

void run(const std::vector<std::string>& arguments) {
  std::string match = "decode/host/";
  std::vector<std::string> files;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--match" && i + 1 < arguments.size()) {
      match = arguments[++i];
    } else if (arguments[i].starts_with("-")) {
      throw std::runtime_error("\"" + arguments[i] +
                               "\" is no option: usage is roofline [--match TEXT] IN.json OUT.svg");
    } else {
      files.push_back(arguments[i]);
    }
  }
  if (files.size() != 2) {
    throw std::runtime_error("there are " + std::to_string(files.size()) +
                             " files, but there must be two: usage is roofline [--match TEXT] IN.json OUT.svg");
  }
  std::error_code ignored;  // of files that do not exist
  if (std::filesystem::equivalent(files[0], files[1], ignored)) {
    throw std::runtime_error(files[1] + " is the input: pass another file for the picture");
  }
  const std::string svg = draw_file(files[0], match);
  std::ofstream output(files[1], std::ios::binary);
  output << svg << std::flush;
  if (!output) throw std::runtime_error("cannot write " + files[1] + ": pass another file for the picture");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run({argv + 1, argv + argc});
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "roofline: " << error.what() << '\n';
    return 1;
  }
}
