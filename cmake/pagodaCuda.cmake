# SPDX-License-Identifier: Apache-2.0
# pagoda::cuda, for projects that launch Pagoda's kernels: find_package(pagoda COMPONENTS cuda) includes this file, and so
# does add_subdirectory with PAGODA_CUDA on. Sets pagoda_cuda_FOUND. PAGODA_CUDART is static or shared. CUDA need not be
# among the project's languages: see pagoda_add_cuda_objects. The kernels use no part of CCCL.
set(PAGODA_CUDART static CACHE STRING "The CUDA runtime that pagoda::cuda links: static or shared")
set_property(CACHE PAGODA_CUDART PROPERTY STRINGS static shared)
if(NOT PAGODA_CUDART MATCHES "^(static|shared)$")
  message(FATAL_ERROR "PAGODA_CUDART is \"${PAGODA_CUDART}\", but must be static or shared")
endif()

find_package(CUDAToolkit 12 QUIET GLOBAL)
set(pagoda_cuda_FOUND FALSE)
if(CUDAToolkit_FOUND AND CUDAToolkit_NVCC_EXECUTABLE)
  set(pagoda_cuda_FOUND TRUE)
  if(NOT TARGET pagoda::cuda)
    add_library(pagoda::cuda INTERFACE IMPORTED GLOBAL)
    set(pagoda_cudart CUDA::cudart)
    if(PAGODA_CUDART STREQUAL "static")
      set(pagoda_cudart CUDA::cudart_static)
    endif()
    target_link_libraries(pagoda::cuda INTERFACE pagoda::pagoda ${pagoda_cudart})
  endif()
endif()

# pagoda_add_cuda_objects(target source... [ARCHITECTURES number...] [FLAGS flag...]): compiles .cu files with nvcc into
# objects of a target of the same folder, with the target's include folders, and links it to pagoda::cuda. Without
# ARCHITECTURES, for compute capability 8.0 and 9.0; PTX of the last one serves newer devices. NDEBUG, which leaves out the
# kernels' checks of block tables, is defined in all configurations but Debug; FLAGS come last.
function(pagoda_add_cuda_objects target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "ARCHITECTURES;FLAGS")
  if(NOT arg_ARCHITECTURES)
    set(arg_ARCHITECTURES 80 90)
  endif()
  set(code "")
  foreach(architecture IN LISTS arg_ARCHITECTURES)
    list(APPEND code -gencode arch=compute_${architecture},code=sm_${architecture})
  endforeach()
  list(GET arg_ARCHITECTURES -1 last)
  list(APPEND code -gencode arch=compute_${last},code=compute_${last})
  target_link_libraries(${target} PRIVATE pagoda::cuda)
  set(folders $<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>)
  foreach(source IN LISTS arg_UNPARSED_ARGUMENTS)
    cmake_path(ABSOLUTE_PATH source NORMALIZE)
    cmake_path(GET source STEM LAST_ONLY name)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${target}.cuda/${name}.o)
    file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/${target}.cuda)
    add_custom_command(OUTPUT ${object}
      COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} -std=c++20 -O3 -Xcompiler=-fPIC ${code}
        "$<$<NOT:$<CONFIG:Debug>>:-DNDEBUG>" "$<$<BOOL:${folders}>:-I$<JOIN:${folders},;-I>>" ${arg_FLAGS}
        -MD -MF ${object}.d -MT ${object} -c ${source} -o ${object}
      DEPENDS ${source} DEPFILE ${object}.d
      COMMENT "nvcc ${name}.o of ${target}" COMMAND_EXPAND_LISTS VERBATIM)
    set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
    target_sources(${target} PRIVATE ${object})
  endforeach()
endfunction()
