# Fuzzing with libFuzzer, which comes with clang. The libraries under test need coverage, too, so
# the whole build has it; CRISOL_SANITIZE says which faults are found.
if(CRISOL_FUZZ)
  if(NOT CMAKE_C_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR "CRISOL_FUZZ needs clang: -DCMAKE_C_COMPILER=clang")
  endif()
  target_compile_options(strict_flags INTERFACE -fsanitize=fuzzer-no-link)
  add_custom_target(fuzz_targets) # all of them and nothing else
endif()

# add_fuzz_target(NAME SOURCES a.c … LIBS l … CORPUS folder [MAX_SIZE 4096])
# Runs for 10 s under the label fuzz. What it finds beyond the seeds in the folder stays in the
# build folder, crashes as crash-…: each becomes a seed and a unit test.
function(add_fuzz_target name)
  cmake_parse_arguments(PARSE_ARGV 1 F "" "CORPUS;MAX_SIZE" "SOURCES;LIBS")
  if(NOT F_MAX_SIZE)
    set(F_MAX_SIZE 4096)
  endif()
  set(found "${CMAKE_CURRENT_BINARY_DIR}/${name}")
  file(MAKE_DIRECTORY "${found}")
  crisol_executable(${name} ${F_SOURCES})
  add_dependencies(fuzz_targets ${name})
  target_link_libraries(${name} PRIVATE ${F_LIBS})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  add_test(NAME ${name}
           COMMAND ${name} -max_total_time=10 -timeout=5 -rss_limit_mb=1024 -print_final_stats=1
                   "-max_len=${F_MAX_SIZE}" "-artifact_prefix=${found}/" "${found}"
                   "${CMAKE_CURRENT_SOURCE_DIR}/${F_CORPUS}")
  set_tests_properties(${name} PROPERTIES LABELS fuzz TIMEOUT 300)
endfunction()
