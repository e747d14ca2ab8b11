#!/usr/bin/env bash
# Runs every benchmark of a Release build and prints machine and commit first.
#   bench/run.sh [BUILD_DIR] [FILTER]
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release}
filter=${2:-}
grep -q 'CMAKE_BUILD_TYPE:STRING=Release' "$build/CMakeCache.txt" ||
  { echo "bench: $build is no Release build" >&2; exit 1; }
echo "commit  $(git rev-parse --short HEAD)$(git diff --quiet || echo ' (changed)')"
cpu=$(sed -n 's/^model name\s*: //p' /proc/cpuinfo | head -1)
memory=$(awk '/MemTotal/{printf "%.0f GiB", $2/1048576}' /proc/meminfo)
echo "machine $cpu, $(nproc) cores, $memory"
echo "built   Release, $("$build/sirenfeed" --version)"
for bench in "$build"/bench/*_bench; do
  [[ -x $bench && $bench == *"$filter"* ]] || continue
  echo; echo "== $(basename "$bench")"
  "$bench"
done
export SIRENFEED="$PWD/$build/sirenfeed"
for script in bench/*_bench.sh bench/*_bench.py; do
  [[ -e $script && $script == *"$filter"* ]] || continue
  echo; echo "== $(basename "${script%.*}")"
  case $script in
    *.sh) bash "$script" ;;
    *.py) python3 "$script" ;;
  esac
done
