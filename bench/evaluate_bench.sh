#!/usr/bin/env bash
# The canonical workload: one causal pass over KuaiRand (every exposure predicted, then learned).
#   SIRENFEED=build/release/sirenfeed bench/evaluate_bench.sh [FILE]
# FILE: impressions.csv.gz of KuaiRand-Pure's standard-policy log; without it the slice of tests/data.
set -euo pipefail
cd "$(dirname "$0")/.."
file=${1:-${KUAIRAND:-tests/data/kuairand_pure/impressions_slice.csv.gz}}
binary=${SIRENFEED:-build/release/sirenfeed}
echo "file $file"
for cores in 0 0,1; do
  threads=$(awk -F, '{print NF}' <<< "$cores")
  /usr/bin/env time -f "cores $threads: %e s wall, %U s user, %M KiB peak" \
    taskset -c "$cores" "$binary" evaluate "$file" --format kuairand --json - > /tmp/sirenfeed-evaluate.$$.json
done
python3 - /tmp/sirenfeed-evaluate.$$.json <<'PYTHON'
import json, sys
report = json.load(open(sys.argv[1]))
for window in report["windows"]:
    if window["task"] == "click":
        print("click: rows {rows}, AUC {auc:.4f}, NE {ne:.4f}, ECE {ece:.4f}".format(**window))
print("exposures/s {:.0f}".format(report["models"][0]["exposures"] / report["seconds"]))
PYTHON
rm -f /tmp/sirenfeed-evaluate.$$.json
