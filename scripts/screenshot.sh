#!/usr/bin/env bash
# Remakes docs/page.png: the page of a running demo after some simulated hours.
#   scripts/screenshot.sh [SIRENFEED_BINARY]      needs Debian's chromium
set -euo pipefail
cd "$(dirname "$0")/.."
binary=${1:-build/release/sirenfeed}
http=${HTTP:-127.0.0.1:18090}
work=$(mktemp -d "${TMPDIR:-/tmp}/sirenfeed-screenshot.XXXXXX")
"$binary" up --data "$work/data" --http "$http" --simulate --simulate.speed "${SPEED:-7200}" > "$work/log" 2>&1 &
pid=$!
trap 'kill "$pid" 2>/dev/null || true; wait "$pid" || true; rm -rf "$work"' EXIT
sleep "${SECONDS_TO_RUN:-90}"
chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking \
  --disable-component-update --disable-sync --user-data-dir="$work/profile" --hide-scrollbars \
  --window-size=1280,2420 --virtual-time-budget=6000 --screenshot="$PWD/docs/page.png" \
  "http://$http/?user=user-1" 2> "$work/chromium.log"
echo "docs/page.png"
