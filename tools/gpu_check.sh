#!/bin/sh
# Everything that needs a Hopper GPU, for anyone who has one: builds the CUDA preset, runs the lane's tests on the GPU, the
# sanitizer over them, and the benchmarks. Results go to bench/results/NAME (default h200).   tools/gpu_check.sh [NAME]
set -eu
cd "$(dirname "$0")/.."
results=bench/results/${1:-h200}
mkdir -p "$results"

cmake --preset cuda -DMONOGRAPH_TESTS=ON --log-level=WARNING
cmake --build --preset cuda -j "$(nproc)" --target graph_test lane_bench monograph
tests="build/cuda/tests/graph_test --gtest_filter=*cuda*"

{
  echo "commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
  nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,memory.total --format=csv,noheader
  nvcc --version | tail -1
  echo "== $tests"
  $tests 2>&1 | tail -n 40
  for tool in memcheck racecheck; do
    echo "== compute-sanitizer --tool $tool $tests"
    # A host may refuse the tool; then its message stands here instead of a verdict.
    compute-sanitizer --tool "$tool" $tests 2>&1 | tail -n 4 || echo "not run: $tool ended with an error"
  done
} | tee "$results/check.txt"

for shape in qwen3-0.6b qwen3-8b; do
  build/cuda/lane_bench cuda "$shape" 50 1,16,64,128,256,512,1024,2048,4096,8192 "$results/prefill-$shape.json"
done | tee "$results/prefill.md"
