#!/bin/sh
# Branch coverage of src/graph and src/cache by the fast tests, branches of exceptions left out: tools/coverage.sh [OUTPUT.md]
# Needs gcovr. Builds into build/coverage; prints the branches that no test takes, each by its line. Fails below 95 %.
set -eu
cd "$(dirname "$0")/.."
output=${1:-build/coverage/coverage.md}
build=build/coverage
programs="graph_test cache_test engine_test lane_run"

cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=Debug -DMONOGRAPH_COVERAGE=ON -DMONOGRAPH_TESTS=ON --log-level=WARNING
cmake --build $build -j "$(nproc)" --target $programs
find $build -name '*.gcda' -delete
for program in $programs; do
  "$build/tests/$program" >/dev/null || { echo "coverage: $program failed" >&2; exit 1; }
done
report() {
  gcovr --root . --object-directory $build --filter src/graph/ --filter src/cache/ --exclude-throw-branches \
    --exclude-unreachable-branches "$@"
}
{
  echo "# Branch coverage of src/graph and src/cache"
  echo
  echo "\`tools/coverage.sh\`, commit $(git rev-parse --short HEAD): the fast tests $programs, $(gcovr --version | head -1), branches of exceptions excluded."
  echo
  echo '```'
  report --branches
  echo '```'
  echo
  echo "Not taken, of the branches of each line:"
  echo
  report --json | python3 -c '
import json, sys
for file in json.load(sys.stdin)["files"]:
    for line in file["lines"]:
        counts = [branch["count"] for branch in line["branches"] if not branch["throw"]]
        if 0 in counts:
            text = open(file["file"]).read().split("\n")[line["line_number"] - 1].strip()
            print("- {}:{}, {} of {}: `{}`".format(file["file"], line["line_number"], counts.count(0), len(counts), text))'
} >"$output"
sed -n '1,200p' "$output"
report --branches --fail-under-branch 95 >/dev/null
