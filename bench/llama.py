"""Tokens per second of llama.cpp, traced and not.

What tracing adds to a token is measured with a tiny model, whose tokens take about a millisecond: with a larger one, it
is less than what the noise of the machine does to a token. The ratio is that of a model as large as SmolLM-135M in 4
bits, which is among the smallest that people serve. Both models here are random.
"""

import json
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from tests.llm.runs import SERVER
from tests.llm.tiny_model import Size, write

from bench.measure import Result, median_of, recorded

ROUNDS = 9
# As https://huggingface.co/HuggingFaceTB/SmolLM-135M config.json, but without grouped heads, and with few words.
SERVED = Size(width=576, heads=9, layers=30, feed_forward=1536, quantized=True)
TOKENS = {"tiny": 1500, "served": 250}
# The server stops itself when llama.cpp is loaded; a second later it has been attached to.
GOES_ON = '"$@" & until grep -q "^State:.T" /proc/$!/status; do sleep 0.05; done; sleep 1; kill -CONT $!; wait $!'
WANTED = {"llama": 0.99, "llama,ggml": 0.97}


def _ns_per_token(model: Path, tokens: int, probes: str = "") -> float:
    server = [sys.executable, str(SERVER), str(model), "1", "0", "-", f"8*{tokens}"]
    command = ["sh", "-c", GOES_ON, "sh", *server]
    if probes:
        command = [sys.executable, "-m", "scope_cli.main", "trace", probes, "--json", "/dev/null", "--", *command]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    if probes and recorded(ran.stderr)[0] < tokens:
        raise ValueError(f"scope did not record every token: {ran.stderr}")
    told = next(line for line in ran.stdout.splitlines() if line.startswith("{"))
    return 1e9 / float(json.loads(told)["predicted_per_second"])


def run() -> list[Result]:
    """What tracing adds to a token, and the tokens per second of a small model that is served, traced to untraced."""
    with tempfile.TemporaryDirectory(prefix="scopebench") as folder:
        tiny, served = (Path(folder) / f"{name}.gguf" for name in TOKENS)
        write(tiny)
        write(served, size=SERVED)
        token_ns = median_of(3, {"": lambda: _ns_per_token(served, TOKENS["served"])})[""]
        contenders = {name: partial(_ns_per_token, tiny, TOKENS["tiny"], name) for name in ("", *WANTED)}
        found = median_of(ROUNDS, contenders)
    results = [
        Result("llama.cpp: time of a token, tiny model, small one served", f"{found['']:,.0f} ns, {token_ns:,.0f} ns")
    ]
    for probes, wanted in WANTED.items():
        added = found[probes] - found[""]
        ratio = token_ns / (token_ns + added)
        results += [
            Result(f"... time that {probes} adds to a token", f"{added:,.0f} ns"),
            Result(
                "... so, tokens per second of the small one served",
                f"{ratio:.3f}×",
                f"≥ {wanted}×",
                ratio >= wanted,
            ),
        ]
    return results
