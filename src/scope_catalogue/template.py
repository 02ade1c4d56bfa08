"""Templates: several probes with options, started as one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Part:
    """A probe of a template, with the options that differ from their defaults."""

    probe: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Template:
    """Probes that answer a question together."""

    name: str
    meaning: str
    parts: tuple[Part, ...]


TEMPLATES = (
    Template(
        "llama",
        "where a token's time goes in llama.cpp: batches, requests and operators, and the threads that wait for a CPU",
        (Part("llama"), Part("ggml"), Part("sched", {"mode": "summary"}), Part("files")),
    ),
    Template(
        "ollama",
        "requests to Ollama, the tokens of its runner, its GPU work and the model files that it opens",
        (Part("ollama"), Part("llama"), Part("ggml"), Part("cuda"), Part("files")),
    ),
    Template(
        "pytorch",
        "a Python program on a GPU: its kernels, copies and memory, the state of the GPU, and where its CPU time goes",
        (Part("cuda"), Part("gpu"), Part("profile")),
    ),
    Template(
        "slow",
        "why a process is slow: on a CPU, waiting for one, or blocked, in which call, on which file",
        (Part("why"), Part("profile"), Part("files"), Part("syscalls", {"mode": "summary"})),
    ),
)
