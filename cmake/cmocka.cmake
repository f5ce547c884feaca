# add_cmocka_test(NAME SOURCES a.c … LIBS l … [WRAP f …] LABELS unit [TIMEOUT 120])
# A test that cannot run at all exits 77.
function(add_cmocka_test name)
  cmake_parse_arguments(PARSE_ARGV 1 T "" "TIMEOUT" "SOURCES;LIBS;WRAP;LABELS")
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 120)
  endif()
  crisol_executable(${name} ${T_SOURCES})
  # A test function that main does not list is an error, not a test that never ran.
  target_compile_options(${name} PRIVATE -Werror=unused-function)
  target_link_libraries(${name} PRIVATE ${T_LIBS} PkgConfig::cmocka)
  foreach(function_name IN LISTS T_WRAP)
    target_link_options(${name} PRIVATE "LINKER:--wrap=${function_name}")
  endforeach()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${T_LABELS}" TIMEOUT ${T_TIMEOUT}
                       SKIP_RETURN_CODE 77)
  crisol_test_environment(${name})
endfunction()

# For tests that are not made by add_cmocka_test and run programs of ours.
function(crisol_test_environment name)
  if(CRISOL_SANITIZE MATCHES thread)
    # Or each hand-over through a library without instrumentation would be a false report.
    set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT
      "TSAN_OPTIONS=ignore_noninstrumented_modules=1:suppressions='${CMAKE_SOURCE_DIR}/tests/tsan.supp'")
  endif()
endfunction()
