# SPDX-License-Identifier: Apache-2.0
# What narrower caches cost, on the tokens that they generate: logits and perplexity beside those of a float cache.
include(${CMAKE_CURRENT_LIST_DIR}/../run_generate.cmake)
use_stories()

# figure(NAME): sets `value` to the number that the program reported under that name.
macro(figure name)
  if(NOT errors MATCHES "${name}: ([-+.e0-9]+)")
    message(FATAL_ERROR "there is no \"${name}\" in: ${errors}")
  endif()
  set(value ${CMAKE_MATCH_1})
endmacro()

# expect_between(NAME LOW HIGH)
macro(expect_between name low high)
  figure("${name}")
  if(NOT (value GREATER_EQUAL ${low} AND value LESS_EQUAL ${high}))
    message(SEND_ERROR "with ${kv}, the ${name} is ${value}, which should lie between ${low} and ${high}")
  endif()
endmacro()

# Measured: half 0.044 and 0.0027, bfloat16 0.22 and 0.020, int8 1.06 and 0.099; ratios within 0.00002, 0.0003, 0.0005.
# The lower bounds show that the cache is narrower indeed.
function(expect_cost kv largest_low largest_high mean_high ratio_low ratio_high)
  run_well(${files} --steps 300 --kv ${kv} --compare-float)
  expect_between("largest logit difference" ${largest_low} ${largest_high})
  expect_between("mean logit difference" 0 ${mean_high})
  expect_between("perplexity ratio" ${ratio_low} ${ratio_high})
  expect_between("perplexity with float" 1.3 1.9)
endfunction()
expect_cost(float 0 0 0 1 1)
expect_cost(half 0.001 0.12 0.007 0.9998 1.0002)
expect_cost(bfloat16 0.01 0.6 0.05 0.999 1.001)
expect_cost(int8 0.1 2.8 0.25 0.995 1.005)
