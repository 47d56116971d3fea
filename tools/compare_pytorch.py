#!/usr/bin/env python3
"""PyTorch's whole forward in one CUDA graph beside ours, on the same GPU with the same shapes.

usage: compare_pytorch.py BINARY CONFIG_FOLDER TOKENS RESULT.json [REPETITIONS]

TOKENS is a list such as 1,128,512. PyTorch: transformers' model of config.json, random bfloat16 weights, scaled dot
product attention without a cache, head on the last token, argmax inside the graph; the time is the host's, from the
replay to the token in hand. Ours: `bench prefill --load-format dummy`, step_us, which is the same span. Needs torch and
transformers.
"""
import json
import statistics
import subprocess
import sys
import time

import torch
from transformers import AutoConfig, AutoModelForCausalLM


def graph_of(model, tokens):
    """Replays a forward over fixed ids; the function returns the next token."""
    ids = torch.randint(0, model.config.vocab_size, (1, tokens), device="cuda")

    def forward():
        hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state[:, -1]
        return model.lm_head(hidden).argmax(-1)

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            forward()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        token = forward()

    def replay():
        graph.replay()
        return int(token)

    return replay


@torch.inference_mode()
def pytorch_us(folder, lengths, repetitions):
    torch.manual_seed(1)
    config = AutoConfig.from_pretrained(folder)
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16, attn_implementation="sdpa").eval()
    times = {}
    for tokens in lengths:
        replay = graph_of(model, tokens)
        samples = []
        for i in range(-3, repetitions):
            start = time.perf_counter()
            replay()
            if i >= 0:
                samples.append(1e6 * (time.perf_counter() - start))
        times[tokens] = statistics.median(samples)
        torch.cuda.empty_cache()
    return times


def ours_us(binary, folder, lengths, repetitions):
    longest = max(lengths)
    command = [binary, "bench", "prefill", "--model", folder, "--load-format", "dummy", "--device", "cuda",
               "--prompt-lengths", ",".join(map(str, lengths)), "--repetitions", str(repetitions),
               "--max-seq-len", str(longest + 64), "--chunk-size", str(max(longest, 2048)), "--output", "json"]
    rows = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {row["n_prompt"]: row["step_us"] for row in rows}, " ".join(command)


def main():
    if len(sys.argv) not in (5, 6):
        sys.exit(__doc__)
    binary, folder, lengths, result_file = sys.argv[1:5]
    lengths = [int(t) for t in lengths.split(",")]
    repetitions = int(sys.argv[5]) if len(sys.argv) == 6 else 50
    ours, command = ours_us(binary, folder, lengths, repetitions)
    theirs = pytorch_us(folder, lengths, repetitions)
    rows = [{"tokens": t, "pytorch_us": round(theirs[t], 1), "monograph_us": round(ours[t], 1),
             "ratio": round(theirs[t] / ours[t], 2)} for t in lengths]
    print("| tokens | PyTorch graph us | Monograph us | ratio |\n|---:|---:|---:|---:|")
    for row in rows:
        print("| {tokens} | {pytorch_us} | {monograph_us} | {ratio} |".format(**row))
    with open(result_file, "w") as file:
        json.dump({"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "command": command, "model": folder,
                   "repetitions": repetitions, "rows": rows}, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
