# SPDX-License-Identifier: Apache-2.0
# The same tests, and the example multi_isa, cross-compiled for AArch64 and run in an emulator.
find_program(PAGODA_AARCH64_CXX aarch64-linux-gnu-g++)
find_program(PAGODA_QEMU_AARCH64 qemu-aarch64)
find_path(PAGODA_DOCTEST_INCLUDE_DIR doctest/doctest.h)
foreach(tool IN ITEMS PAGODA_AARCH64_CXX PAGODA_QEMU_AARCH64 PAGODA_DOCTEST_INCLUDE_DIR)
  if(NOT ${tool})
    add_test(NAME isa.aarch64 COMMAND ${CMAKE_COMMAND} -E echo
      "[SKIPPED] ${tool} was not found (Debian: g++-aarch64-linux-gnu, qemu-user)")
    set_tests_properties(isa.aarch64 PROPERTIES LABELS isa SKIP_REGULAR_EXPRESSION "\\[SKIPPED\\]")
    return()
  endif()
endforeach()

# A copy of doctest alone: its folder also has headers of this machine's C library.
configure_file(${PAGODA_DOCTEST_INCLUDE_DIR}/doctest/doctest.h aarch64/include/doctest/doctest.h COPYONLY)
set(aarch64_warnings $<TARGET_PROPERTY:pagoda_warnings,INTERFACE_COMPILE_OPTIONS>)

# pagoda_add_aarch64_program(name source...): <name> in the current build folder, a static program.
function(pagoda_add_aarch64_program name)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/aarch64/${name}.objects)
  file(MAKE_DIRECTORY ${folder})
  set(objects "")
  foreach(source IN LISTS ARGN)
    cmake_path(GET source STEM stem)
    set(object ${folder}/${stem}.o)
    add_custom_command(OUTPUT ${object}
      COMMAND ${PAGODA_AARCH64_CXX} -std=c++20 -O1 ${aarch64_warnings} -I ${PROJECT_SOURCE_DIR}/include
        -I ${PROJECT_SOURCE_DIR}/tests/support -isystem ${CMAKE_CURRENT_BINARY_DIR}/aarch64/include
        -MD -MF ${object}.d -MT ${object} -c ${source} -o ${object}
      DEPENDS ${source} DEPFILE ${object}.d
      COMMENT "Building AArch64 object ${stem}.o of ${name}" COMMAND_EXPAND_LISTS VERBATIM)
    list(APPEND objects ${object})
  endforeach()
  set(program ${CMAKE_CURRENT_BINARY_DIR}/aarch64/${name})
  add_custom_command(OUTPUT ${program} COMMAND ${PAGODA_AARCH64_CXX} -static -pthread ${objects} -o ${program}
    DEPENDS ${objects} COMMENT "Linking AArch64 program ${name}" VERBATIM)
  add_custom_target(pagoda_aarch64_${name} ALL DEPENDS ${program})
endfunction()

pagoda_add_aarch64_program(isa ${isa_sources})
set(multi_isa_dir ${PROJECT_SOURCE_DIR}/examples/multi_isa)
pagoda_add_aarch64_program(multi_isa ${multi_isa_dir}/main.cpp ${multi_isa_dir}/kernels.cpp)

# Emulation is slow: the cases with the largest batches are left to the machine at hand.
add_test(NAME isa.aarch64 COMMAND ${PAGODA_QEMU_AARCH64} ${CMAKE_CURRENT_BINARY_DIR}/aarch64/isa
  "--test-case-exclude=chunked prefill*,window and sinks*,soft cap*,ALiBi*,tree masks*,scale*,sink logits*,prefill*")
add_test(NAME isa.aarch64.multi_isa COMMAND ${PAGODA_QEMU_AARCH64} ${CMAKE_CURRENT_BINARY_DIR}/aarch64/multi_isa 100)
set_tests_properties(isa.aarch64 PROPERTIES LABELS isa TIMEOUT 300 FAIL_REGULAR_EXPRESSION "test cases: +0 ")
set_tests_properties(isa.aarch64.multi_isa PROPERTIES
  LABELS isa TIMEOUT 120 PASS_REGULAR_EXPRESSION "picked: plain\nplain [^\n]*\n$")
