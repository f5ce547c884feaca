# Generates C from the protos and one serialized descriptor set for reflection.
find_program(PROTOC protoc REQUIRED)
find_program(PROTOC_C protoc-c REQUIRED)

# crisol_protos(TARGET file.proto …): a library of the generated code, compiled as system code.
function(crisol_protos target)
  set(root "${CMAKE_SOURCE_DIR}/proto")
  set(out "${CMAKE_BINARY_DIR}/generated")
  set(sources)
  set(paths)
  file(MAKE_DIRECTORY "${out}")
  foreach(proto IN LISTS ARGN)
    string(REGEX REPLACE "\\.proto$" "" stem "${proto}")
    list(APPEND paths "${root}/${proto}")
    list(APPEND sources "${out}/${stem}.pb-c.c")
    add_custom_command(
      OUTPUT "${out}/${stem}.pb-c.c" "${out}/${stem}.pb-c.h"
      COMMAND "${PROTOC_C}" "-I${root}" "--c_out=${out}" "${root}/${proto}"
      DEPENDS "${root}/${proto}" VERBATIM)
  endforeach()
  add_custom_command(
    OUTPUT "${out}/descriptor_set.pb"
    COMMAND "${PROTOC}" "-I${root}" --include_imports --include_source_info
            "--descriptor_set_out=${out}/descriptor_set.pb"
            ${ARGN}
    DEPENDS ${paths} VERBATIM)
  add_custom_target(${target}_descriptor_set DEPENDS "${out}/descriptor_set.pb")
  add_library(${target} STATIC ${sources})
  add_dependencies(${target} ${target}_descriptor_set)
  target_include_directories(${target} SYSTEM PUBLIC "${out}")
  target_compile_options(${target} PRIVATE -w)
  target_link_libraries(${target} PUBLIC PkgConfig::protobuf_c)
endfunction()
