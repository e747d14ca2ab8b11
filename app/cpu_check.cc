// Says plainly, before any AVX2 instruction runs, that the CPU is too old for this build.
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace {

__attribute__((constructor(101))) void check_cpu() {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("bmi2")) {
    return;
  }
  static const char kMessage[] =
      "sirenfeed: this build needs an x86-64-v3 CPU (AVX2, FMA, BMI2: Intel Haswell or AMD Zen and "
      "newer).\nBuild it for this machine with: cmake --preset release -DSIRENFEED_NATIVE=ON\n";
  (void)!write(STDERR_FILENO, kMessage, std::strlen(kMessage));
  _exit(1);
}

}  // namespace
