#!/usr/bin/env python3
"""Draws prefill results (tools/prefill_result.py) as an SVG: graph, eager and floor, and the best peer over HTTP.

usage: plot_bench.py RESULT.json OUTPUT.svg

Needs the standard library only. Peers are the best of vLLM, SGLang and llama.cpp at each length, measured once on the
same kind of GPU (time to first token over HTTP); compare them with our curve of the same name.
"""
import json
import math
import sys

# ms over HTTP, one client, random weights, one H200.
BEST_PEER = {"Qwen3-0.6B": {1: 3.2, 16: 4.2, 64: 4.3, 128: 4.4, 256: 4.6, 512: 5.0, 1024: 5.9, 2048: 9.1, 4096: 15.2, 8192: 32.3},
             "Qwen3-8B": {1: 11.0, 16: 12.1, 64: 12.5, 128: 12.3, 256: 14.0, 512: 18.6, 1024: 29.1, 2048: 52.5, 4096: 104,
                          8192: 218}}
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 420, 64, 150, 36, 48
COLOURS = {"floor": "#888888", "graph, device": "#0b6e4f", "eager, device": "#d98e04", "HTTP": "#1f5fa8",
           "best peer, HTTP": "#b3261e"}


def curves(result):
    """Name -> [(tokens, ms)], in the order of the legend."""
    rows = result["rows"]

    def of(key):
        return [(r["tokens"], r[key] / 1000) for r in rows if r.get(key)]

    tokens = {r["tokens"] for r in rows}
    peer = sorted((t, ms) for t, ms in BEST_PEER.get(result["model"], {}).items() if t in tokens)
    named = {"floor": of("floor_us"), "graph, device": of("graph_us"), "eager, device": of("eager_us"),
             "HTTP": of("http_ttft_us"), "best peer, HTTP": peer}
    return {name: points for name, points in named.items() if points}


def decades(low, high):
    return [10.0 ** e for e in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]


def svg(result):
    lines = curves(result)
    every = [point for points in lines.values() for point in points]
    x_low, x_high = min(t for t, _ in every), max(t for t, _ in every)
    y_ticks = decades(min(ms for _, ms in every), max(ms for _, ms in every))

    def x(tokens):
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log(tokens / x_low) / max(math.log(x_high / x_low), 1e-9)

    def y(ms):
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * math.log(ms / y_ticks[0]) / math.log(y_ticks[-1] / y_ticks[0])

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
           f'<text x="{LEFT}" y="20" font-size="14">{result["model"]}: one prompt to its first token, {result["gpu"]}</text>']
    for tick in y_ticks:
        out.append(f'<path d="M{LEFT} {y(tick):.1f}H{WIDTH - RIGHT}" stroke="#dddddd"/>'
                   f'<text x="{LEFT - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g} ms</text>')
    for tokens in sorted({t for t, _ in every}):
        out.append(f'<path d="M{x(tokens):.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#eeeeee"/>'
                   f'<text x="{x(tokens):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{tokens}</text>')
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">tokens in the prompt</text>')
    for i, (name, points) in enumerate(lines.items()):
        path = "M" + "L".join(f"{x(t):.1f} {y(ms):.1f}" for t, ms in points)
        dash = ' stroke-dasharray="5 4"' if name == "floor" else ""
        out.append(f'<path d="{path}" fill="none" stroke="{COLOURS[name]}" stroke-width="2"{dash}/>')
        out.append(f'<text x="{WIDTH - RIGHT + 12}" y="{TOP + 16 + 20 * i}" fill="{COLOURS[name]}">{name}</text>')
    return "\n".join(out + ["</svg>", ""])


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1]) as file:
        result = json.load(file)
    with open(sys.argv[2], "w") as file:
        file.write(svg(result))


if __name__ == "__main__":
    main()
