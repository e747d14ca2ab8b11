#!/usr/bin/env bash
# The whole pipeline in one process: embedded log, features, trainer, serving and simulated users.
#   scripts/demo.sh [SIRENFEED_BINARY]      Ctrl-C ends it; its data folder is removed then
# Settings (environment): HTTP (127.0.0.1:8080), SPEED (event seconds a second, 7200).
set -euo pipefail
cd "$(dirname "$0")/.."
binary=${1:-build/release/sirenfeed}
http=${HTTP:-127.0.0.1:8080}
data=$(mktemp -d "${TMPDIR:-/tmp}/sirenfeed-demo.XXXXXX")
"$binary" up --data "$data" --http "$http" --simulate --simulate.speed "${SPEED:-7200}" &
pid=$!
# The folder goes once the process has ended, however the script was asked to.
trap 'kill "$pid" 2>/dev/null || true; wait "$pid" || true; rm -rf "$data"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
wait "$pid"
