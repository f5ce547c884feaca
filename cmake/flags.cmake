# One INTERFACE target carries every flag; all of our code links it.
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

add_library(strict_flags INTERFACE)
target_include_directories(strict_flags INTERFACE "${CMAKE_SOURCE_DIR}")
target_compile_definitions(strict_flags INTERFACE _GNU_SOURCE)
target_compile_options(strict_flags INTERFACE
  -Wall -Wextra -Wpedantic -Werror -Wshadow -Wconversion -Wsign-conversion -Wstrict-prototypes
  -Wmissing-prototypes -Wold-style-definition -Wvla -Wformat=2 -Wundef -Wwrite-strings
  -Wnull-dereference -Wdouble-promotion -Wimplicit-fallthrough
  # clang would report the casts inside protobuf-c's __INIT macros, although their header is SYSTEM.
  $<$<C_COMPILER_ID:GNU>:-Wcast-qual -Wduplicated-cond -Wlogical-op>
  # Tables split long literals over lines on purpose.
  $<$<C_COMPILER_ID:Clang>:-Wno-string-concatenation>
  -fstack-protector-strong -fstack-clash-protection
  -fno-omit-frame-pointer)
target_link_options(strict_flags INTERFACE -Wl,-z,relro,-z,now,-z,noexecstack)

if(CRISOL_SANITIZE)
  target_compile_options(strict_flags INTERFACE -fsanitize=${CRISOL_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(strict_flags INTERFACE -fsanitize=${CRISOL_SANITIZE})
else()
  target_compile_options(strict_flags INTERFACE
    $<$<AND:$<C_COMPILER_ID:GNU>,$<NOT:$<CONFIG:Debug>>>:-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3>
    $<$<AND:$<C_COMPILER_ID:Clang>,$<NOT:$<CONFIG:Debug>>>:-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2>)
endif()

# Executables of ours: hardened, position independent.
function(crisol_executable name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE strict_flags)
  target_link_options(${name} PRIVATE -pie)
endfunction()

# Static libraries of ours.
function(crisol_library name)
  add_library(${name} STATIC ${ARGN})
  target_link_libraries(${name} PUBLIC strict_flags)
endfunction()
