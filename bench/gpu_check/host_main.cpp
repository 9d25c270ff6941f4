// SPDX-License-Identifier: Apache-2.0
// The GPU check without a GPU: the same code in the host context, with small sizes and a made-up clock. It shows that
// the check itself works; its speeds mean nothing.
#include "check_main.hpp"
#include "host_machine.hpp"

#define DECLARE(Quantizer)                                 \
  PAGODA_CHECK_QUANTIZER(extern, host_machine, Quantizer); \
  PAGODA_MEASURE_QUANTIZER(extern, host_machine, Quantizer)
DECLARE(f16);
DECLARE(bf16);
DECLARE(fp8);
DECLARE(int8);
DECLARE(int4);
PAGODA_CHECK_QUANTIZER(extern, host_machine, f32);

int main(int argc, char** argv) {
  pagoda_check::check_plan plan{.half_head_dims = {128, 64}};
  plan.speed.contexts = {40, 100};
  plan.speed.batches = {1, 3};
  plan.speed.groups = {1, 4};
  plan.speed.bar_context = 50;
  plan.speed.bar_batch = 2;
  plan.speed.kv_heads = 1;
  plan.speed.prefill_queries = 20;
  plan.speed.prefill_rows = 40;
  plan.speed.appended_at_once = 120;
  plan.speed.most_bytes = 300'000;  // too little for the largest cells of half
  plan.speed.graph_microseconds = 60'000;
  plan.speed.most_calls = 3;
  plan.speed.least_runs = 1;
  plan.speed.most_runs = 2;
  return pagoda_check::check_main<pagoda_check::host_machine>(argc, argv, plan);
}
