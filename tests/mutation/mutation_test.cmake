# SPDX-License-Identifier: Apache-2.0
# Plants one fault in a copy of the headers and demands that the named way notices it.
# Input: WAY, HEADER, FROM, TO, INCLUDE_DIR, SOURCE_DIR, WORK_DIR, CXX_COMPILER, NVCC, PTX_PROBE, GATES, GATES_SOURCE.
cmake_minimum_required(VERSION 3.25)

if(NOT WAY STREQUAL "host" AND NOT NVCC)
  message(STATUS "skipped: nvcc was not found")
  return()
endif()

file(REMOVE_RECURSE ${WORK_DIR})
file(COPY ${INCLUDE_DIR} DESTINATION ${WORK_DIR})
set(header ${WORK_DIR}/include/pagoda/${HEADER})
file(READ ${header} text)
string(FIND "${text}" "${FROM}" first)
string(FIND "${text}" "${FROM}" last REVERSE)
if(first EQUAL -1 OR NOT first EQUAL last)
  message(FATAL_ERROR "the text of this fault does not stand in ${HEADER} exactly once:\n${FROM}")
endif()
string(REPLACE "${FROM}" "${TO}" text "${text}")
file(WRITE ${header} "${text}")

# run(what command...): the command must succeed, or the fault does not even compile.
function(run what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${what} failed:\n${output}")
  endif()
endfunction()

set(includes -I ${WORK_DIR}/include)
if(WAY STREQUAL "host")
  run("the compiler" ${CXX_COMPILER} -std=c++20 ${includes} ${SOURCE_DIR}/host_probe.cpp -o ${WORK_DIR}/probe)
  set(command ${WORK_DIR}/probe)
elseif(WAY STREQUAL "ptx")
  run("nvcc" ${NVCC} -std=c++20 -O3 -arch=compute_80 -ptx ${includes} ${SOURCE_DIR}/probe_kernels.cu
    -o ${WORK_DIR}/probe.ptx)
  set(command ${PTX_PROBE} ${WORK_DIR}/probe.ptx)
else()
  run("nvcc" ${NVCC} -std=c++20 -O3 -DNDEBUG -arch=sm_80 -cubin ${includes} ${GATES_SOURCE} -o ${WORK_DIR}/probe.cubin)
  set(command ${GATES} --check decode_half ${WORK_DIR}/probe.cubin)
endif()
execute_process(COMMAND ${command} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
file(REMOVE_RECURSE ${WORK_DIR})
if(result EQUAL 0)
  message(FATAL_ERROR "the fault went unnoticed:\n${output}")
endif()
message(STATUS "noticed by ${WAY} (${result}):\n${output}")
