# SPDX-License-Identifier: Apache-2.0
# cmake -D PROGRAM=<pagoda_gpu_check> -P device_check_test.cmake: its correctness phase, where it was built and a device
# is there.
if(NOT PROGRAM)
  message("[SKIPPED] nvcc was not found")
  return()
endif()
if(NOT EXISTS ${PROGRAM})
  message("[SKIPPED] the GPU check was not built: build the target gpu_check")
  return()
endif()
execute_process(COMMAND ${PROGRAM} --only correctness OUTPUT_VARIABLE output ERROR_VARIABLE output
  RESULT_VARIABLE result)
message("${output}")
if(result EQUAL 77 AND output MATCHES "\\[SKIPPED\\] no CUDA device")
  return()
endif()
if(NOT result EQUAL 0)
  message(FATAL_ERROR "the GPU check ended with ${result}")
endif()
