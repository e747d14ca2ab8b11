# Warnings, CPU level and sanitizers for our own targets; third-party headers are SYSTEM includes.
add_library(sirenfeed_options INTERFACE)
target_compile_options(sirenfeed_options INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Werror
  -Wno-missing-field-initializers)  # designated initialisers leave defaults out on purpose
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(sirenfeed_options INTERFACE -Wthread-safety)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 reports false positives in inlined libstdc++ and Eigen code at -O3.
  target_compile_options(sirenfeed_options INTERFACE
    -Wno-maybe-uninitialized -Wno-stringop-overflow -Wno-stringop-truncation -Wno-array-bounds -Wno-restrict)
endif()
if(SIRENFEED_NATIVE)
  set(SIRENFEED_CPU_FLAGS -march=native)
else()
  set(SIRENFEED_CPU_FLAGS -march=x86-64-v3)
endif()
target_compile_options(sirenfeed_options INTERFACE ${SIRENFEED_CPU_FLAGS})
# The bytes of a model may not depend on what the optimiser contracts where.
target_compile_options(sirenfeed_options INTERFACE -fno-fast-math)
# Eigen runs single-threaded (TBB is above it) and its blocks must not depend on the machine's caches.
target_compile_definitions(sirenfeed_options INTERFACE EIGEN_DONT_PARALLELIZE)
target_include_directories(sirenfeed_options INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
if(SIRENFEED_SANITIZE)
  target_compile_options(sirenfeed_options INTERFACE
    -fsanitize=${SIRENFEED_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(sirenfeed_options INTERFACE -fsanitize=${SIRENFEED_SANITIZE})
  if(SIRENFEED_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Asio's fences, which the sanitizer cannot see; what they order is also ordered by its mutexes.
    target_compile_options(sirenfeed_options INTERFACE -Wno-tsan)
  endif()
endif()
if(SIRENFEED_FUZZ)
  target_compile_options(sirenfeed_options INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  add_link_options(-Wl,-z,relro,-z,now)
endif()

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE})
endif()

# One static library a folder: every *.cc directly in it. `libs` are linked PRIVATE unless a folder says otherwise.
function(sirenfeed_folder name)
  file(GLOB sources CONFIGURE_DEPENDS *.cc)
  if(NOT sources)  # a folder that has only headers so far
    file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/empty.cc "")
    set(sources ${CMAKE_CURRENT_BINARY_DIR}/empty.cc)
  endif()
  add_library(sirenfeed_${name} STATIC ${sources})
  target_link_libraries(sirenfeed_${name} PUBLIC $<BUILD_INTERFACE:sirenfeed_options>)
endfunction()
