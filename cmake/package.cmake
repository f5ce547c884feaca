# What 'cmake --install' puts where, and the Debian package that 'cpack' makes of it.
# The programs look for each other beside themselves, so all of them are in one folder.
include(GNUInstallDirs)
set(program_folder "${CMAKE_INSTALL_LIBEXECDIR}/crisol")
set(installed_programs crisol orchestrator sandbox-init sandboxd sandboxd-docker sandboxd-front sandboxd-native)
# What 'sandboxd selftest' attacks with; instrumented builds have none.
if(NOT CRISOL_SANITIZE)
  list(APPEND installed_programs sandbox-init-weak sandboxd-selftest sbprobe)
endif()
install(TARGETS ${installed_programs} RUNTIME DESTINATION "${program_folder}")
# Executable: it is looked for among the programs.
install(TARGETS crisol-template LIBRARY DESTINATION "${program_folder}" PERMISSIONS
        OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
foreach(link bin/crisol sbin/sandboxd)
  get_filename_component(name "${link}" NAME)
  get_filename_component(folder "${link}" DIRECTORY)
  install(CODE "
    file(MAKE_DIRECTORY \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${folder}\")
    file(CREATE_LINK \"../${program_folder}/${name}\" \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${link}\" SYMBOLIC)")
endforeach()

# ---- the Debian package: only what /usr is for ----

set(debian "${CMAKE_SOURCE_DIR}/deploy/debian")
file(GLOB units CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/deploy/systemd/*")
install(FILES ${units} DESTINATION lib/systemd/system COMPONENT debian EXCLUDE_FROM_ALL)
install(FILES "${debian}/crisol.sysusers" DESTINATION lib/sysusers.d RENAME crisol.conf COMPONENT debian EXCLUDE_FROM_ALL)
install(FILES "${debian}/copyright" "${CMAKE_SOURCE_DIR}/README.md" "${CMAKE_SOURCE_DIR}/SECURITY.md" DESTINATION share/doc/crisol
        COMPONENT debian EXCLUDE_FROM_ALL)
# As they lie in the source, so that what links to them finds them.
install(DIRECTORY "${CMAKE_SOURCE_DIR}/docs" DESTINATION share/doc/crisol COMPONENT debian EXCLUDE_FROM_ALL
        FILES_MATCHING PATTERN "*.md")
install(FILES "${CMAKE_SOURCE_DIR}/deploy/orchestrator.conf" "${CMAKE_SOURCE_DIR}/deploy/sandboxd.conf"
        DESTINATION share/doc/crisol/deploy COMPONENT debian EXCLUDE_FROM_ALL)
install(DIRECTORY "${CMAKE_SOURCE_DIR}/proto/crisol" DESTINATION share/doc/crisol/proto COMPONENT debian EXCLUDE_FROM_ALL
        FILES_MATCHING PATTERN "*.proto")
install(FILES "${debian}/lintian-overrides" DESTINATION share/lintian/overrides RENAME crisol COMPONENT debian
        EXCLUDE_FROM_ALL)
foreach(name sandboxd orchestrator)
  install(FILES "${debian}/${name}.default" DESTINATION /etc/default RENAME crisol-${name} COMPONENT debian
          EXCLUDE_FROM_ALL)
endforeach()
# Debian wants these packed, without the time in them.
find_program(GZIP gzip)
if(GZIP)
  foreach(page changelog:share/doc/crisol crisol.1:share/man/man1 sandboxd.8:share/man/man8)
    string(REPLACE ":" ";" page "${page}")
    list(GET page 0 name)
    list(GET page 1 folder)
    execute_process(COMMAND "${GZIP}" -9nc "${debian}/${name}" OUTPUT_FILE "${CMAKE_BINARY_DIR}/${name}.gz")
    install(FILES "${CMAKE_BINARY_DIR}/${name}.gz" DESTINATION "${folder}" COMPONENT debian EXCLUDE_FROM_ALL)
  endforeach()
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME crisol)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_DIRECTORY "${CMAKE_BINARY_DIR}/packages")
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_CMAKE_PROJECTS "${CMAKE_BINARY_DIR};crisol;Unspecified;/;${CMAKE_BINARY_DIR};crisol;debian;/")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "The Crisol authors <crisol@example.com>")
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "code agent that tries its own work in a sandbox
orchestrator turns a task into code that has passed its tests; sandboxd runs
untrusted programs in throw-away sandboxes of namespaces, seccomp and control
groups. Both serve gRPC; the orchestrator REST and server-sent events, too.")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "adduser, ca-certificates, python3, python3-pytest")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "docker.io, postgresql")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA "${debian}/postinst;${debian}/prerm;${debian}/postrm;${debian}/conffiles")
include(CPack)
