"""The table of CUDA functions agrees with the BPF programs."""

import numpy as np

from scope_bpf.layout.records import enum_values, record_dtype
from scope_bpf.probes import probe_named
from scope_bpf.probes.cuda.functions import FUNCTIONS

PROBE = probe_named("cuda")


def test_a_function_is_named_once() -> None:
    """Each symbol is in one row of the table only."""
    symbols = [symbol for function in FUNCTIONS for symbol in function.symbols]
    assert len(symbols) == len(set(symbols))


def test_every_function_is_what_the_programs_take_it_for() -> None:
    """Each function sets all members of struct cuda_place; its `kind` and `stream` are values of the object's enums."""
    record = record_dtype(PROBE.btf, "cuda_place")
    kinds, streams = enum_values(PROBE.btf, "cuda_kind"), enum_values(PROBE.btf, "cuda_argument")
    for function in FUNCTIONS:
        assert {*function.place.keep, "pad"} == set(record.names or ())
        (kept,) = np.frombuffer(function.place.descriptor(PROBE.btf, "cuda_place"), record)
        assert kept["kind"] == kinds[function.kind]
        assert kept["stream"] == streams.get(str(function.stream), function.stream)
        assert (kept["bytes"], kept["ptr"]) == (function.bytes, function.ptr)
