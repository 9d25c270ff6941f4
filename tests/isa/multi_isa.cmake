# SPDX-License-Identifier: Apache-2.0
# The example multi_isa: no code of its AVX objects is taken for another processor. Proven twice: by the symbols of the
# objects, and by running the program on emulated processors without AVX-512 and without AVX. The same objects linked
# without setting them apart are the control: they must fail both.
if(NOT TARGET multi_isa_avx512)
  return()
endif()
get_target_property(apart multi_isa PAGODA_OBJECTS_APART)
pagoda_add_isa_test(multi_isa.symbols symbols_test.cmake -D NM=${CMAKE_NM} "-DAPART=${apart}"
  "-DMIXED=$<TARGET_OBJECTS:multi_isa_avx2>;$<TARGET_OBJECTS:multi_isa_avx512>" -D PROGRAM=$<TARGET_FILE:multi_isa>)

# The order that hurts: a linker keeps the first copy.
add_executable(pagoda_multi_isa_mixed $<TARGET_OBJECTS:multi_isa_avx512> $<TARGET_OBJECTS:multi_isa_avx2>
  $<TARGET_OBJECTS:multi_isa_plain> ${PROJECT_SOURCE_DIR}/examples/multi_isa/main.cpp)
target_link_libraries(pagoda_multi_isa_mixed PRIVATE pagoda::pagoda pagoda_warnings)
set_target_properties(pagoda_multi_isa_mixed PROPERTIES CXX_EXTENSIONS OFF)

find_program(PAGODA_QEMU_X86_64 qemu-x86_64)
function(pagoda_add_emulated_test name program cpu expected)
  pagoda_add_isa_test(multi_isa.${name} emulated_test.cmake -D QEMU=${PAGODA_QEMU_X86_64}
    -D PROGRAM=$<TARGET_FILE:${program}> -D CPU=${cpu} "-DEXPECTED=${expected}")
endfunction()
pagoda_add_emulated_test(without_avx multi_isa Nehalem "picked: plain\nplain [^\n]*\n$")
pagoda_add_emulated_test(without_avx512 multi_isa Haswell "picked: avx2\nplain [^\n]*\navx2 [^\n]*\n$")
pagoda_add_emulated_test(mixed pagoda_multi_isa_mixed Nehalem "[Ii]llegal instruction")
