# SPDX-License-Identifier: Apache-2.0
# Compiles a source to a cubin and keeps what ptxas says about its kernels.
# Input: NVCC, ARCHITECTURE, SOURCE, CUBIN, REPORT.
cmake_minimum_required(VERSION 3.25)

execute_process(
  COMMAND ${NVCC} -std=c++20 -O3 -Werror all-warnings -arch=${ARCHITECTURE} -cubin -Xptxas -v -o ${CUBIN} ${SOURCE}
  RESULT_VARIABLE result OUTPUT_VARIABLE report ERROR_VARIABLE report)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${SOURCE} does not compile:\n${report}")
endif()
file(WRITE ${REPORT} "${report}")
