# Targets that check the house: `headers` compiles each header alone, `check` runs everything but the long tests.
file(GLOB_RECURSE bide_headers CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}
     ${CMAKE_SOURCE_DIR}/agent/*.h ${CMAKE_SOURCE_DIR}/db/*.h ${CMAKE_SOURCE_DIR}/web/*.h)
set(header_units)
foreach(header ${bide_headers})
  string(REPLACE "/" "_" unit ${header})
  set(unit ${CMAKE_BINARY_DIR}/headers/${unit}.cpp)
  # Twice: #pragma once is there, too.
  file(CONFIGURE OUTPUT ${unit} CONTENT "#include \"${header}\"\n#include \"${header}\"\n" @ONLY)
  list(APPEND header_units ${unit})
endforeach()
add_library(headers OBJECT EXCLUDE_FROM_ALL ${header_units})
target_link_libraries(headers PRIVATE bide_options nlohmann_json::nlohmann_json)
set_target_properties(headers PROPERTIES UNITY_BUILD OFF)

# cmake --preset coverage && cmake --build build-coverage --target coverage: needs Debian's gcovr. Branches that only a
# thrown exception takes are not counted; a line that is left out says GCOVR_EXCL_BR_LINE and why.
if(BIDE_COVERAGE)
  add_custom_target(coverage
    COMMAND ${CMAKE_COMMAND} --build ${CMAKE_BINARY_DIR} --target all
    COMMAND ${CMAKE_COMMAND} -E chdir ${CMAKE_BINARY_DIR} ${CMAKE_CTEST_COMMAND} -L "kernel|http|unit" -E house -j2
            --output-on-failure
    COMMAND ${CMAKE_BINARY_DIR}/tests/bide-sim --seeds 60
    COMMAND gcovr --root ${CMAKE_SOURCE_DIR} --filter ${CMAKE_SOURCE_DIR}/agent/kernel/ --exclude-throw-branches
            --exclude-unreachable-branches --branches --fail-under-branch 100 ${CMAKE_BINARY_DIR}
    WORKING_DIRECTORY ${CMAKE_BINARY_DIR}
    USES_TERMINAL VERBATIM)
endif()

if(BIDE_TESTS)
  include(ProcessorCount)
  ProcessorCount(cores)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  # The binary directory must have been built by the compiler whose commands clang-tidy reads.
  add_custom_target(check
    COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_SOURCE_DIR}/tests/house/format.py
    COMMAND ${CMAKE_COMMAND} --build ${CMAKE_BINARY_DIR} --target all
    COMMAND ${CMAKE_COMMAND} --build ${CMAKE_BINARY_DIR} --target headers
    COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_SOURCE_DIR}/tests/house/tidy.py ${CMAKE_BINARY_DIR}
    COMMAND ${CMAKE_CTEST_COMMAND} --output-on-failure -j${cores} -LE "^(long|bench)$"
    WORKING_DIRECTORY ${CMAKE_BINARY_DIR}
    USES_TERMINAL VERBATIM)
endif()
