// SPDX-License-Identifier: Apache-2.0
// Draws the roofline picture of decode attention:
//   pagoda_bench --benchmark_filter='decode/host/.*context:16384/threads:1/real' --benchmark_format=json > decode.json
//   roofline decode.json decode.svg
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "roofline.hpp"

namespace {

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
  std::ifstream input(files[0], std::ios::binary);
  if (!input) throw std::runtime_error("cannot read " + files[0]);
  const std::string json{std::istreambuf_iterator<char>(input), {}};
  const std::string svg = draw_roofline(read_points(json, match));
  std::ofstream output(files[1], std::ios::binary);
  output << svg << std::flush;
  if (!output) throw std::runtime_error("cannot write " + files[1]);
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
