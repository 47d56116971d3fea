#!/bin/sh
# Everything that needs a Hopper GPU, for anyone who has one: builds the CUDA preset, runs the tests on the GPU, the
# sanitizer over some of them, and the benchmarks. Each stage is bounded in time and says how it ended; the script fails
# if one did not pass. Results go to bench/results/NAME (default h200).   tools/gpu_check.sh [NAME]
#
# BUILD=folder uses programs that are built already. ONLY="limits bits" runs these stages alone and adds to check.txt;
# ONLY=list prints their names. LANE_SECONDS (600) and LANE_SEED (1) are those of lane_run; two runs of 300 s with two seeds
# are as good as one of 600. schedule_run makes SCHEDULES (100) schedules from FIRST_SCHEDULE (1) on, and begins none after
# SCHEDULE_SECONDS (1100). MONOGRAPH_TEST_MODEL=file adds a real model to fidelity, bits, traffic and start.
set -u
cd "$(dirname "$0")/.." || exit 1
results=bench/results/${1:-h200}
build=${BUILD:-build/cuda}
configs=bench/configs
tiny=tests/golden/models/width256-q4_k_m.gguf  # its rows are a multiple of 64 wide, as the kernels need them
failed=0
mkdir -p "$results"
[ -n "${ONLY:-}" ] || rm -f "$results"/*.log "$results/check.txt"

# stage SECONDS NAME COMMAND...: its output is the stage's file; one line of verdict for check.txt.
stage() {
  limit=$1 name=$2
  shift 2
  case " ${ONLY:-$name} " in
    " list ") echo "$name, at most $limit s" && return ;;
    *" $name "*) ;;
    *) return ;;
  esac
  started=$(date +%s)
  timeout -k 5 "$limit" "$@" >"$results/$name.log" 2>&1
  code=$?
  case $code in
    0) verdict=passed ;;
    124 | 137) verdict="stopped after $limit s, not finished" ;;
    *) verdict="failed, exit code $code" ;;
  esac
  [ $code -eq 0 ] || failed=1
  echo "$name: $verdict, $(($(date +%s) - started)) s: $*" | tee -a "$results/check.txt"
}

# What a stage that has just run says in the lines that match.
quote() {
  case " ${ONLY:-$1} " in *" $1 "*) ;; *) return ;; esac
  [ -f "$results/$1.log" ] || return
  grep -E "$2" "$results/$1.log" | cut -c1-300 | sed 's/^/    /' | tee -a "$results/check.txt"
}

# tests NAME SECONDS FILTER: a part of cuda_test, and a line for each thing it counted.
tests() {
  stage "$2" "$1" "$build/tests/cuda_test" --gtest_filter="$3"
  quote "$1" '^\[  (PASSED|FAILED)|positions equal|settings over|replays on|us, eager|budget|start with'
}

if [ "${ONLY:-}" != list ]; then
  {
    echo "commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
    nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,memory.total --format=csv,noheader
  } | tee -a "$results/check.txt"
  if [ -z "${BUILD:-}" ]; then
    cmake --preset cuda -DMONOGRAPH_TESTS=ON --log-level=WARNING || exit 1
    cmake --build --preset cuda -j "$(nproc)" \
      --target graph_test cuda_test lane_run schedule_run bench_limits attention_bench gemm_bench monograph || exit 1
  fi
fi

stage 60 graph_test "$build/tests/graph_test" --gtest_filter='*cuda*'
quote graph_test '^\[  (PASSED|FAILED)'
# cuda_test in parts; `others` is whatever no other part names.
tests bits 120 '*/Bits.*'
tests replays 120 '*Replays.*:*/Poison.*-*CG09_TenThousand*'
# The random replays, six times as many as the test makes by itself: a million rows on both paths. (R10)
stage 300 replay_rows env MONOGRAPH_REPLAYS=60000 "$build/tests/cuda_test" --gtest_filter='*CG09_TenThousand*'
quote replay_rows '^\[  (PASSED|FAILED)|replays on'
tests fidelity 120 '*Fidelity*'
tests sampling 60 '*/Sampling.*'
tests calls 60 'Calls.*'
tests memory 120 'Memory.*'
tests bug_log 180 'BugLog.*'
tests attention_test 120 '*/CudaAttention.*'
tests paths 300 'Paths.*:PathEngines.*:*/PathOps.*:*/PathLanes.*'
tests others 120 \
  '-*/Bits.*:*Replays.*:*/Poison.*:*Fidelity*:*/Sampling.*:Calls.*:Memory.*:BugLog.*:*/CudaAttention.*:Path*:*/Path*.*'
# What another GPU would run: everything made from the PTX of compute capability 8.0 when the program starts.
stage 240 sm80_ptx env CUDA_FORCE_PTX_JIT=1 "$build/tests/cuda_test" \
  --gtest_filter='*GpuOps*:*GpuPack*:*/Bits.*:*Fidelity/*:*Poison*:*Sampling*cuda:*CudaAttention*cuda'
quote sm80_ptx '^\[  (PASSED|FAILED)|positions equal|settings over'

# Ten minutes of random traffic with every invariant checked, and requests that share a replay over HTTP, by a model of so
# many layers that its steps last long enough for them to meet.
stage $((${LANE_SECONDS:-600} + 60)) lane_run "$build/tests/lane_run" --device cuda --steps 1000000000 \
  --seconds "${LANE_SECONDS:-600}" --seed "${LANE_SEED:-1}"
quote lane_run 'lane_run|requests=|statuses|FAILED|replay:'
# A thousand prompts under a hundred schedules, each an engine of its own: one answer each. (R11)
stage $((${SCHEDULE_SECONDS:-1100} + 60)) schedule_run "$build/tests/schedule_run" --device cuda --model "$tiny" --prompts 1000 \
  --schedules "${SCHEDULES:-100}" --first "${FIRST_SCHEDULE:-1}" --seconds "${SCHEDULE_SECONDS:-1100}"
quote schedule_run 'schedule_run|schedules=|tokens=|FAILED|engine:'
stage 120 smoke env "MONOGRAPH_BINARY=$build/monograph" "MONOGRAPH_SMOKE_FLAGS=--device cuda --memory-fraction 0.3" MONOGRAPH_SMOKE_LAYERS=512 \
  python3 -B tests/e2e/smoke_test.py
quote smoke '^ok|^FAIL|step '
# Sixteen clients with shared prefixes among running decodes, prompts above the largest bucket, streams, dropped connections.
stage 180 traffic env "MONOGRAPH_BINARY=$build/monograph" "MONOGRAPH_SERVE_FLAGS=--device cuda" \
  "MONOGRAPH_TINY_MODEL=$tiny" \
  "MONOGRAPH_TEST_MODEL=${MONOGRAPH_TEST_MODEL:-$configs/SmolLM2-135M}" python3 -B tests/e2e/traffic_test.py test_sixteen_clients \
  test_long_prompt_takes_three_replays test_streams_equal_whole_answers test_chat_streams_equal_whole_answers test_many_dropped_streams
quote traffic '^ok|^FAIL'

# Rows of the bug log, bad requests and 1,000 sampling settings among neighbours, over HTTP.
for name in bug_log bad_requests sampling_http; do
  stage 180 "http_$name" env "MONOGRAPH_BINARY=$build/monograph" "MONOGRAPH_SERVE_FLAGS=--device cuda --memory-fraction 0.3" \
    "MONOGRAPH_TINY_MODEL=$tiny" python3 -B "tests/e2e/${name}_test.py"
  quote "http_$name" '^ok|^FAIL'
done

# What each bucket's graph costs at start-up: two warm-ups, the capture, a replay as self-test (target: 50 ms), its memory, its
# time and eager's.
stage 60 graphs "$build/monograph" inspect graphs --model $configs/Qwen3-0.6B --load-format dummy --device cuda --prefill-graph-policy measured
quote graphs '^prefill graphs|^arena|^\|'

stage 60 gemm "$build/gemm_bench" check
stage 60 gemm_times "$build/gemm_bench" time

# One small model and one pass over prefill, decode and sampling: the tools slow kernels down by hundreds of times. A host
# may refuse them; then their message stands in the file and the stage has failed.
for tool in memcheck racecheck synccheck initcheck; do
  stage 300 "$tool" compute-sanitizer --tool "$tool" --error-exitcode 1 "$build/tests/graph_test" \
    --gtest_filter="${SANITIZED:-*ASharedPrefix*cuda*:*ChunksPacking*cuda*}"
  quote "$tool" 'SUMMARY|PASSED|FAILED|not supported|Error:'
done

# Seconds to the first token, capture, the printed budgets; writes 16.4 GB of weights into a temporary folder.
stage 240 start python3 -B tools/start_figures.py "$build/monograph" "$results/start.json" \
  --small "${MONOGRAPH_TEST_MODEL:-$configs/SmolLM2-135M}"
quote start 'at most'
# Time to the first token, one sequence and 64 clients over HTTP.
for model in Qwen3-0.6B Qwen3-8B; do
  stage 180 "http-$model" python3 -B tools/http_figures.py "$build/monograph" "$configs/$model" "$results/http-$model.json"
  quote "http-$model" '^TTFT|^load|a token'
done

stage 60 limits "$build/bench_limits" "$results/limits.json" "${CUBLASLT:-libcublasLt.so.13}"
stage 60 attention "$build/attention_bench"
# The floors stand on the figures that the results are compared by, so that one GPU's day does not move the marks.
for model in Qwen3-0.6B Qwen3-8B; do
  bench="$build/monograph bench prefill --model $configs/$model --load-format dummy --device cuda --repetitions 50
    --prompt-lengths 1,16,64,128,256,512,1024,2048,4096,8192 --max-seq-len 8256 --chunk-size 8192
    --bandwidth ${BANDWIDTH:-4.55} --rate ${RATE:-790} --output json"
  # shellcheck disable=SC2086  # words, not one argument
  stage 120 "prefill-$model" $bench
  if [ -f "$results/prefill-$model.log" ] && [ -s "$results/prefill-$model.log" ]; then
    python3 tools/prefill_result.py "$results/prefill-$model.log" "$results/limits.json" "$(echo $bench)" \
      "$results/prefill-$model.json" && rm "$results/prefill-$model.log" &&
      python3 tools/plot_bench.py "$results/prefill-$model.json" "$results/prefill-$model.svg" || failed=1
  fi
  stage 60 "decode-$model" "$build/monograph" bench decode --model "$configs/$model" --load-format dummy --device cuda \
    --prompt-lengths 512 --batch-sizes 1,8,64 --repetitions 10
  stage 60 "startup-$model" "$build/monograph" bench startup --model "$configs/$model" --load-format dummy --device cuda \
    --repetitions 2 --log-level info
done
stage 120 pytorch python3 tools/compare_pytorch.py "$build/monograph" "$configs/Qwen3-0.6B" 1,16,64,128,512,2048 \
  "$results/pytorch-Qwen3-0.6B.json"
exit $failed
