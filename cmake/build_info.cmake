# The commit that a binary was built from, for /v1/model, --version and benchmark output.
execute_process(COMMAND git -C ${PROJECT_SOURCE_DIR} rev-parse --short HEAD
  OUTPUT_VARIABLE SIRENFEED_COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT SIRENFEED_COMMIT)
  set(SIRENFEED_COMMIT "unknown")
endif()
configure_file(${PROJECT_SOURCE_DIR}/base/build_info.h.in ${PROJECT_BINARY_DIR}/base/build_info.h @ONLY)
