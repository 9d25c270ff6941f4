# SPDX-License-Identifier: Apache-2.0
# How the project compiles CUDA sources: nvcc is called by custom commands and is optional, so that CUDA never joins
# the project's languages. Where nvcc is missing, PAGODA_NVCC is false and what needs it is skipped.
find_package(CUDAToolkit QUIET)
find_program(PAGODA_NVCC nvcc HINTS ${CUDAToolkit_BIN_DIR} /usr/local/cuda/bin)

set(pagoda_nvcc_flags -std=c++20 -O3 -Werror all-warnings -I ${PROJECT_SOURCE_DIR}/include)

# pagoda_add_nvcc_outputs(target architecture kind suffix source...): for each source, <stem>.<architecture>.<suffix>
# in the current build folder, made by nvcc <kind>, and again when a header that it includes changes. The files are
# appended to the target's property PAGODA_OUTPUTS; their folder is its PAGODA_OUTPUT_DIRECTORY.
function(pagoda_add_nvcc_outputs target architecture kind suffix)
  cmake_parse_arguments(PARSE_ARGV 4 arg "" "" "INCLUDES;FLAGS")
  if(NOT PAGODA_NVCC)
    message(FATAL_ERROR "${target}: nvcc was not found; ask PAGODA_NVCC before adding the target")
  endif()
  set(include_flags "")
  foreach(directory IN LISTS arg_INCLUDES)
    cmake_path(ABSOLUTE_PATH directory)
    list(APPEND include_flags -I ${directory})
  endforeach()
  set(outputs "")
  foreach(source IN LISTS arg_UNPARSED_ARGUMENTS)
    cmake_path(ABSOLUTE_PATH source NORMALIZE)
    cmake_path(GET source STEM LAST_ONLY name)
    set(output ${CMAKE_CURRENT_BINARY_DIR}/${name}.${architecture}.${suffix})
    add_custom_command(OUTPUT ${output}
      COMMAND ${PAGODA_NVCC} ${pagoda_nvcc_flags} ${include_flags} ${arg_FLAGS}
        -arch=${architecture} ${kind} -MD -MF ${output}.d -MT ${output} -o ${output} ${source}
      DEPENDS ${source} DEPFILE ${output}.d
      COMMENT "nvcc ${name}.${architecture}.${suffix}" VERBATIM)
    list(APPEND outputs ${output})
  endforeach()
  if(NOT TARGET ${target})
    add_custom_target(${target})
    set_target_properties(${target} PROPERTIES PAGODA_OUTPUTS "" PAGODA_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
  endif()
  add_custom_target(${target}.${architecture}.${suffix} DEPENDS ${outputs})
  add_dependencies(${target} ${target}.${architecture}.${suffix})
  set_property(TARGET ${target} APPEND PROPERTY PAGODA_OUTPUTS ${outputs})
endfunction()

# pagoda_compile_ptx(target source... [INCLUDES folder...] [FLAGS flag...]): the target makes <stem>.compute_80.ptx and
# <stem>.compute_90.ptx of each source.
function(pagoda_compile_ptx target)
  pagoda_add_nvcc_outputs(${target} compute_80 -ptx ptx ${ARGN})
  pagoda_add_nvcc_outputs(${target} compute_90 -ptx ptx ${ARGN})
endfunction()

# pagoda_compile_cubin(target architecture source... [INCLUDES folder...] [FLAGS flag...]): the target makes
# <stem>.<architecture>.cubin of each source; the architecture is sm_80, for example. Called again with another
# architecture, it adds to the same target.
function(pagoda_compile_cubin target architecture)
  pagoda_add_nvcc_outputs(${target} ${architecture} -cubin cubin ${ARGN})
endfunction()
