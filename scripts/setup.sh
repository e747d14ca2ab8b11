#!/usr/bin/env bash
# Installs the Debian/Ubuntu packages that Sirenfeed needs; does nothing when they are there.
#   scripts/setup.sh [build] [test] [lint] [monitoring]     these groups (default: build test lint)
#   scripts/setup.sh --list [GROUP…]           only print the packages' names
set -euo pipefail

build=(
  g++ cmake ninja-build make ccache git ca-certificates pkg-config python3
  libboost1.81-dev libboost-iostreams1.81-dev libboost-json1.81-dev libboost-url1.81-dev
  libcli11-dev libeigen3-dev libexpected-dev libfccp-dev libfmt-dev libprotobuf-dev protobuf-compiler
  librdkafka-dev librocksdb-dev libsimdjson-dev libspdlog-dev libtbb-dev libxxhash-dev prometheus-cpp-dev
  zlib1g-dev libjs-chart.js
)
test=(libgtest-dev libgmock-dev libbenchmark-dev curl jq time wrk kcat openjdk-17-jre-headless maven python3-venv)
# Prometheus starts a service where there is systemd, so that only CI asks for it.
monitoring=(prometheus)
lint=(clang clang-format clang-tidy libclang-rt-14-dev)

list=
if [ "${1:-}" = --list ]; then list=1; shift; fi
[ $# -gt 0 ] || set -- build test lint
packages=()
for group; do
  case $group in
    build) packages+=("${build[@]}") ;;
    test)  packages+=("${test[@]}") ;;
    lint)  packages+=("${lint[@]}") ;;
    monitoring) packages+=("${monitoring[@]}") ;;
    *)     echo "setup: unknown group '$group' (build, test, lint, monitoring)" >&2; exit 2 ;;
  esac
done
if [ -n "$list" ]; then printf '%s\n' "${packages[@]}"; exit; fi

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q ' installed$' || missing+=("$package")
done
[ ${#missing[@]} = 0 ] && exit 0

sudo=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || { echo "setup: run as root, or install sudo, to add: ${missing[*]}" >&2; exit 1; }
  sudo=(sudo)
fi
echo "setup: installing ${missing[*]}" >&2
"${sudo[@]}" apt-get update -qq
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
