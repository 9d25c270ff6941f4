# SPDX-License-Identifier: Apache-2.0
# Every input that cannot be is refused: no text, a code that is not 0, and a message that names what is wrong.
include(${CMAKE_CURRENT_LIST_DIR}/../run_generate.cmake)
set(tiny ${WORK_DIR}/tiny)
file(MAKE_DIRECTORY ${tiny})
execute_process(COMMAND ${WRITE_TINY_FILES} ${tiny} COMMAND_ERROR_IS_FATAL ANY)
set(model --model ${tiny}/model.bin)
set(words --tokenizer ${tiny}/tokenizer.bin)

# expect_refusal(REGEX ARG...): each part of the regular expression has to be in the message.
function(expect_refusal message_regex)
  run(${ARGN})
  if(exit_code STREQUAL "0" OR NOT exit_code MATCHES "^[0-9]+$")
    message(SEND_ERROR "generate ${ARGN}\nended with ${exit_code}: ${errors}")
  endif()
  if(NOT output STREQUAL "")
    message(SEND_ERROR "generate ${ARGN}\nwrote text although it is refused: ${errors}")
  endif()
  if(NOT errors MATCHES "${message_regex}")
    message(SEND_ERROR "generate ${ARGN}\nshould say \"${message_regex}\", but says: ${errors}")
  endif()
endfunction()

# What is refused below works otherwise.
run_well(${model} ${words} --steps 5)
run_well(--model ${tiny}/model_unshared.bin ${words} --steps 5)
set(prompt "a \"quoted\" b; [c] \\ $x\n'é'")
run_well(${model} ${words} --steps 48 --kv int8 --layout tokens_heads_dim --block-size 4 --threads 2 --prompt-chunk 3
  --window 9 --sinks 2 --compare-float)
string(HEX "${prompt}" prompt_hex)
if(NOT output MATCHES "^${prompt_hex}")
  message(SEND_ERROR "the prompt came back changed: ${output}")
endif()
unset(prompt)
run_well(${model} ${words} --steps 20 --kv float --keys int8 --values int4 --compare-float)
if(NOT errors MATCHES "largest logit difference: (0\\.|[1-9])")
  message(SEND_ERROR "keys and values of narrower types change nothing: ${errors}")
endif()
run_well(${model} ${words} --steps 20 --kv contiguous)

# The command line
expect_refusal("--model is required" ${words})
expect_refusal("--tokenizer is required" ${model})
expect_refusal("not expected:.*--temperature" ${model} ${words} --temperature 1)
expect_refusal("not expected: more" ${model} ${words} more)
expect_refusal("--steps" ${model} ${words} --steps)
expect_refusal("--steps: 1 required" ${model} ${words} --steps=)
foreach(number 010 0x10 1e3 +5 4294967297)
  expect_refusal("no whole number: write decimal digits, at most 2147483647" ${model} ${words} "--steps=${number}")
  expect_refusal("no whole number" ${model} ${words} "--window=${number}")
  expect_refusal("no whole number" ${model} ${words} "--sinks=${number}")
endforeach()
expect_refusal("--steps.*\"many\" is no whole number" ${model} ${words} --steps many)
expect_refusal("--steps.*\"2.5\" is no whole number" ${model} ${words} --steps 2.5)
expect_refusal("--steps.*\"99999999999\" is no whole number" ${model} ${words} --steps 99999999999)
expect_refusal("--steps is 0.*at least 1" ${model} ${words} --steps 0)
expect_refusal("--steps is -3.*at least 1" ${model} ${words} --steps -3)
expect_refusal("--steps is 49.*context has 48" ${model} ${words} --steps 49)
foreach(flag --kv --keys --values)
  expect_refusal("${flag} is \"fp8\", but must be one of float, half, .*hadamard-int8.* or contiguous: pass one"
    ${model} ${words} ${flag} fp8)
  expect_refusal("\"fp4\".*float, half, bfloat16, fp8_e4m3.*int4, .*hadamard-int8" ${model} ${words} ${flag} fp4)
endforeach()
expect_refusal("head_dim is 8.*int8g32.*groups of 32" ${model} ${words} --kv int8g32)
expect_refusal("value head_dim is 8.*int4g32.*groups of 32" ${model} ${words} --keys int8 --values int4g32)
expect_refusal("keys of type \"half\" with values of type \"float\".*keys of half.*values of half"
  ${model} ${words} --values float)
expect_refusal("different types.*heads_tokens_dim.*tokens_heads_dim"
  ${model} ${words} --keys int8 --values int4 --layout tokens_heads_dim)
run_well(${model} ${words} --steps 5 --keys contiguous --values contiguous)
foreach(flags "--kv;contiguous;--keys;int8" "--kv;int8;--values;contiguous" "--values;contiguous")
  expect_refusal("keys are to be .* and the values .*, but contiguous stores both in one way: pass --kv contiguous alone"
    ${model} ${words} ${flags})
endforeach()
expect_refusal("the keys are to be int8 and the values contiguous" ${model} ${words} --kv contiguous --keys int8)
expect_refusal("keeps all tokens" ${model} ${words} --kv contiguous --window 8)
expect_refusal("\"flat\".*heads_tokens_dim, tokens_heads_dim" ${model} ${words} --layout flat)
expect_refusal("block_size is 0.*between 1 and 65536" ${model} ${words} --block-size 0)
expect_refusal("block_size is -16.*between 1 and 65536" ${model} ${words} --block-size -16)
expect_refusal("block_size is 24.*power of two" ${model} ${words} --block-size 24)
expect_refusal("block_size is 131072.*between 1 and 65536" ${model} ${words} --block-size 131072)
expect_refusal("--prompt-chunk is 0.*at least 1" ${model} ${words} --prompt-chunk 0)
expect_refusal("--prompt-chunk is -1.*at least 1" ${model} ${words} --prompt-chunk -1)
expect_refusal("--threads is 0.*at least 1" ${model} ${words} --threads 0)
expect_refusal("--threads is -2.*at least 1" ${model} ${words} --threads -2)
expect_refusal("5000 threads.*4096" ${model} ${words} --threads 5000)
expect_refusal("--window is 0.*at least 1" ${model} ${words} --window 0)
expect_refusal("--window is -8.*at least 1" ${model} ${words} --window -8)
expect_refusal("--sinks is 4.*--window" ${model} ${words} --sinks 4)
expect_refusal("--sinks is -1.*at least 0" ${model} ${words} --window 8 --sinks -1)
expect_refusal("--sinks is 49.*48 steps" ${model} ${words} --window 8 --sinks 49)

# Prompts
string(REPEAT "?" 60 long_prompt)
expect_refusal("62 tokens.*48.*context" ${model} ${words} --prompt ${long_prompt})
expect_refusal("12 tokens.*10 steps.*raise --steps" ${model} ${words} --steps 10 --prompt "??????????")

# Model files
foreach(file_and_message
    "missing.bin|pass the path of a readable file" ".|pass the path of a readable file" "model_empty.bin|truncated.*4 bytes.*0 remain: download the file again"
    "model_short_header.bin|truncated.*0 remain"
    "model_truncated.bin|truncated" "model_trailing.bin|trailing" "model_zero_dim.bin|dim 0.*at least 1"
    "model_negative_layers.bin|n_layers -2.*at least 1" "model_heads_do_not_divide.bin|dim 16.*3 heads"
    "model_kv_heads_do_not_divide.bin|2 heads.*3 kv heads" "model_head_dim_4.bin|head_dim is 4"
    "model_vast.bin|64 bits" "model_nan.bin|element 10 of tok_emb.*finite" "tokenizer.bin|model file")
  string(REGEX MATCH "^([^|]*)[|](.*)$" whole "${file_and_message}")
  expect_refusal("\"${tiny}/${CMAKE_MATCH_1}\": .*${CMAKE_MATCH_2}" --model ${tiny}/${CMAKE_MATCH_1} ${words})
endforeach()

# Tokenizer files
foreach(file_and_message
    "missing.bin|pass the path of a readable file" "tokenizer_truncated.bin|truncated" "tokenizer_trailing.bin|9 bytes after.*300 tokens"
    "tokenizer_of_299.bin|300 tokens.*truncated" "tokenizer_of_301.bin|after the model's 300 tokens"
    "tokenizer_negative_length.bin|token 0.*length -1"
    "tokenizer_too_long_token.bin|token 0.*length 100.*max_token_length 6"
    "tokenizer_zero_longest.bin|max_token_length 0.*at least 1"
    "tokenizer_infinite_score.bin|token 0.*score inf.*finite"
    "model.bin|tokenizer file")
  string(REGEX MATCH "^([^|]*)[|](.*)$" whole "${file_and_message}")
  expect_refusal("\"${tiny}/${CMAKE_MATCH_1}\": .*${CMAKE_MATCH_2}" ${model} --tokenizer ${tiny}/${CMAKE_MATCH_1})
endforeach()
