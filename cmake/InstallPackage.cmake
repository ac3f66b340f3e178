# Installs what other builds find Isthmus by: isthmus.pc for pkg-config and IsthmusConfig.cmake for find_package(Isthmus). Both find
# the installation from where they lie, so that it may be moved.
include(CMakePackageConfigHelpers)

set(_isthmus_package ${PROJECT_SOURCE_DIR}/cmake/package)
configure_file(${_isthmus_package}/isthmus.pc.in ${PROJECT_BINARY_DIR}/package/isthmus.pc @ONLY)
configure_file(${_isthmus_package}/IsthmusConfig.cmake.in ${PROJECT_BINARY_DIR}/package/IsthmusConfig.cmake @ONLY)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/IsthmusConfigVersion.cmake
                                 VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/package/isthmus.pc DESTINATION lib/pkgconfig)
install(FILES ${PROJECT_BINARY_DIR}/package/IsthmusConfig.cmake ${PROJECT_BINARY_DIR}/package/IsthmusConfigVersion.cmake
        DESTINATION lib/cmake/Isthmus)
unset(_isthmus_package)
