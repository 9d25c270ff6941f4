// SPDX-License-Identifier: Apache-2.0
// The execution context costs nothing: a kernel over it becomes the machine code of its twin in plain CUDA.
#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <string>

#include <doctest/doctest.h>

#include "cubin/resources.hpp"
#include "probe_files.hpp"

namespace {

/// Parts of the names of a kernel over the context and of the same by hand.
struct twin {
  std::string context;
  std::string plain;
};

const twin small_decode{"entry<pagoda_gates::twin_decode<1>", "plain_decode<1>"};
const twin decode{"entry<pagoda_gates::twin_decode<4>", "plain_decode<4>"};
const twin copy{"entry<pagoda::kernels::copy_blocks>", "plain_copy_blocks"};

cubin::module_file twins(int architecture) {
  return cubin::module_file::load(pagoda_gates::probe_file("twin", architecture));
}

}  // namespace

TEST_CASE("on sm_80 both twins are the same bytes") {
  for (const int architecture : pagoda_gates::probed_architectures()) {
    if (architecture != 80) continue;
    const cubin::module_file module = twins(architecture);
    for (const twin& pair : {decode, copy}) {
      CAPTURE(pair.plain);
      const cubin::kernel& context = module.find(pair.context);
      const cubin::kernel& plain = module.find(pair.plain);
      CHECK(context.registers == plain.registers);
      REQUIRE(context.code.size() == plain.code.size());
      std::size_t different = 0;
      for (std::size_t i = 0; i < plain.code.size(); ++i) {
        different += context.code[i].low() != plain.code[i].low() || context.code[i].high() != plain.code[i].high();
      }
      CHECK(different == 0);
      CHECK(std::equal(context.code_bytes.begin(), context.code_bytes.end(), plain.code_bytes.begin(),
                       plain.code_bytes.end()));
    }
  }
}

TEST_CASE("everywhere the twins differ by at most 3 % of their instructions") {
  for (const int architecture : pagoda_gates::probed_architectures()) {
    CAPTURE(architecture);
    const cubin::module_file module = twins(architecture);
    for (const twin& pair : {small_decode, decode, copy}) {
      CAPTURE(pair.plain);
      const cubin::kernel& context = module.find(pair.context);
      const cubin::kernel& plain = module.find(pair.plain);
      const auto count = [](const cubin::kernel& k) { return static_cast<long>(k.code.size()); };
      CHECK(count(plain) > 100);
      CHECK(std::labs(count(context) - count(plain)) * 100 <= 3 * count(plain));
      CHECK(context.frame_bytes == 0);
      CHECK(context.count(cubin::operation::ldg, 128) == plain.count(cubin::operation::ldg, 128));
      CHECK(context.count(cubin::operation::ldg, 128) >= 3);
      CHECK(context.count(cubin::operation::ld) == 0);
    }
  }
}
