# model/ for other programs: find_package(sirenfeed), target sirenfeed::model. Installs that folder and base/, on which
# it stands, and nothing of the feed: cmake --install build/release --component model --prefix DIR
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/sirenfeed)
set(header_dir ${CMAKE_INSTALL_INCLUDEDIR}/sirenfeed)

foreach(folder base model)
  set_target_properties(sirenfeed_${folder} PROPERTIES EXPORT_NAME ${folder})
  target_include_directories(sirenfeed_${folder} INTERFACE $<INSTALL_INTERFACE:${header_dir}>)
  target_compile_features(sirenfeed_${folder} PUBLIC cxx_std_20)
  install(TARGETS sirenfeed_${folder} EXPORT sirenfeed-targets COMPONENT model
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder} DESTINATION ${header_dir} COMPONENT model
    FILES_MATCHING PATTERN "*.h")
endforeach()
install(EXPORT sirenfeed-targets NAMESPACE sirenfeed:: DESTINATION ${package_dir} COMPONENT model)

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/sirenfeed-config.cmake.in
  ${PROJECT_BINARY_DIR}/sirenfeed-config.cmake INSTALL_DESTINATION ${package_dir})
# Before 1.0 a minor version may change the headers.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/sirenfeed-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/sirenfeed-config.cmake ${PROJECT_BINARY_DIR}/sirenfeed-config-version.cmake
  DESTINATION ${package_dir} COMPONENT model)
