// SPDX-License-Identifier: Apache-2.0
// The same run of the kernels as nvcc compiled them: ptx_probe FILE.
#include <cstdio>
#include <exception>

#include "mutation_case.hpp"
#include "ptx/machine.hpp"

namespace {

struct ptx_launcher {
  const pagoda_test::ptx::module& module;
  template <class Kernel>
  void launch(pagoda::simt::index3 grid, const typename Kernel::arguments& arguments) {
    pagoda_test::ptx::launch<Kernel>(module, grid, arguments);
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: ptx_probe FILE.ptx\n");
    return 2;
  }
  try {
    const pagoda_test::ptx::module module = pagoda_test::ptx::module::load(argv[1]);
    ptx_launcher launcher{module};
    return mutation::run_all(launcher);
  } catch (const std::exception& error) {
    std::printf("caught: %s\n", error.what());
    return 1;
  }
}
