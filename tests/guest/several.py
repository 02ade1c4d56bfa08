"""Runs `scope` commands one after the other, given as JSON: {name: arguments}. Prints a line `NAME` and its output.

Each runs in a fork of this process, which has imported what they need: an emulated CPU imports for many seconds.
"""

import json
import os
import sys

import numpy  # noqa: F401
import polars  # noqa: F401
import pyarrow.compute  # noqa: F401

import scope_bpf.capture.doctor  # noqa: F401
from scope_bpf.probes import probes
from scope_cli.main import enter

MARK = "=== "

if __name__ == "__main__":
    probes()
    for name, arguments in json.loads(sys.argv[1]).items():
        print(f"{MARK}{name}", flush=True)
        if not (child := os.fork()):
            sys.argv = ["scope", *arguments]
            enter()
        os.waitpid(child, 0)
