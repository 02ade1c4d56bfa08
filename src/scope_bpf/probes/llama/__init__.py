"""Inference with llama.cpp, in any program that contains it: requests, tokens, and batches."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from scope_bpf.catalogue import spent
from scope_bpf.catalogue.probe import Alternative, Hooks, Probe
from scope_bpf.catalogue.stream import Derived, Made, Rows, Settled, Stream
from scope_bpf.probes.llama.functions import places
from scope_bpf.probes.llama.guide import GUIDE
from scope_catalogue.options import Option
from scope_catalogue.shown import FileOf, Flow, Rollup, Shown, Slices, Span, Timeline
from scope_catalogue.stream import Column
from scope_catalogue.tables import Count, LatestRows, Quantiles, Share, SlowestRows, Sum, Table

if TYPE_CHECKING:
    from scope_bpf.binding.object import BpfObject
    from scope_bpf.code.modules import Modules
    from scope_bpf.code.resolver import Resolver

_CONTEXT = Column("address of the llama_context, which identifies it in its process", hex=True, identity=True)
_SEQUENCE = Column(
    "sequence of the context; servers have one for each request that they compute at the same time", identity=True
)
_REQUEST = Column("number of the request in its context, from 1", identity=True)
_DRAFT = Column("1 if the context only proposes tokens, which another one checks: speculative decoding")
_SECOND_NS = 1e9


def _rate(count: Rows, ns: Rows, known: Rows) -> pa.Array:
    """Events per second; null where unknown."""
    known = known & (ns > 0)
    return pa.array(count * _SECOND_NS / np.where(known, ns, 1), pa.float64(), mask=~known)


def _derive_request(rows: Rows) -> dict[str, pa.Array]:
    has_first, prompt = rows["has_first"] != 0, rows["prompt_tokens"].astype(np.float64)
    further = np.maximum(rows["generated_tokens"].astype(np.int64) - 1, 0)  # the first one ends the prompt
    return {
        "prompt_rate": _rate(prompt, rows["ttft_ns"], has_first),
        "token_rate": _rate(further.astype(np.float64), rows["generation_ns"], further > 0),
    }


_OPERATORS = {
    "matmul_ns": "multiplying matrices, and quantizing for it",
    "attention_ns": "attention: flash attention, softmax, rotary embedding, masks",
    "barrier_ns": "spinning, until the other threads are done",
    "elementwise_ns": "other operators: norms, activations, sums, convolutions",
    "copy_ns": "copying rows and tensors",
    "kernel_ns": "in the kernel",
    "other_ns": "anything else: building graphs, libraries, code without symbols",
    "unsampled_ns": "in calls that were too short for a sample",
}
# They add up to decode_ns and wait_ns.
_WHERE = ("on_cpu_ns", "gpu_wait_ns", "run_queue_ns", "blocked_ns", "stopped_ns", "unknown_ns")
_SPLIT = {
    "gpu_wait_ns": Column("waiting for a GPU, in decode_ns and wait_ns; absent with them, as all of these", "ns"),
    "on_cpu_ns": Column("time of the thread on a CPU, without gpu_wait_ns", "ns"),
    "run_queue_ns": Column("time waiting for a CPU, without gpu_wait_ns", "ns"),
    "blocked_ns": Column("time blocked, without gpu_wait_ns", "ns"),
    "stopped_ns": Column("time stopped by a signal or a debugger, without gpu_wait_ns", "ns"),
    "unknown_ns": Column(
        "rest of decode_ns and wait_ns, around switches of the thread that were not seen; a row with such a time "
        "counts as incomplete",
        "ns",
    ),
    "page_fault_ns": spent.COLUMNS["page_fault_ns"],
    **{name: Column(f"of on_cpu_ns, by samples: {text}", "ns") for name, text in _OPERATORS.items()},
}
_OUTSIDE = {
    "outside_on_cpu_ns": Column("of outside_ns, time on a CPU; absent if calls overlapped, as all of these", "ns"),
    "outside_run_queue_ns": Column("of outside_ns, time waiting for a CPU", "ns"),
    "outside_blocked_ns": Column("of outside_ns, time blocked", "ns"),
    "outside_stopped_ns": Column("of outside_ns, time stopped by a signal or a debugger", "ns"),
    "outside_unknown_ns": Column(
        "rest of outside_ns: different threads made the calls before and after, or a switch was not seen", "ns"
    ),
}
_OF_SEQUENCE = ("context", "sequence")
_FROM_REQUEST = Flow("llama", (*_OF_SEQUENCE, "request"), begins=True)
# The first token's time begins with the request's: an arrow would lead nowhere.
_TO_TOKENS = Flow("llama", (*_OF_SEQUENCE, "request"), where="number > 0")

# opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans. llama.cpp's functions are not told which model it is, but
# the probe `ollama` sees which file the process loads.
_SPAN = Span(
    kind="internal",
    text="text_completion",
    given={"gen_ai.operation.name": "text_completion", "gen_ai.provider.name": "llama.cpp"},
    attributes={
        "prompt_tokens": "gen_ai.usage.input_tokens",
        "cached_tokens": "gen_ai.usage.cache_read.input_tokens",
        "generated_tokens": "gen_ai.usage.output_tokens",
        "ttft_ns": "scope.ttft_ns",
        "token_rate": "scope.token_rate",
        "sequence": "scope.sequence",
        "ended": "scope.ended",
    },
    files={"gen_ai.request.model": FileOf("ollama_model", "path")},
    where="draft = 0",
)

_HOOKS = "llama.cpp's C interface, CUDA's waits; tp_btf: sched_switch, sched_wakeup; software events; clocks of CPUs"


def _resolver(object_: "BpfObject", _modules: "Modules", _options: Mapping[str, Any]) -> "Resolver":
    from scope_bpf.probes.llama.operators import Operators

    return Operators(object_)


PROBE = Probe(
    name="llama",
    meaning="inference with llama.cpp (Ollama, llama-server, node-llama-cpp, ...): requests, tokens, batches",
    streams=(
        Stream(
            "llama_decode",
            "one row per finished computation of a batch, timed at entry",
            columns={
                "duration_ns": Column("from entry to return; a GPU may go on computing after it", "ns"),
                "context": _CONTEXT,
                "function": Column("decode, encode or process: llama_decode, llama_encode or llama_process"),
                "tokens": Column("tokens of the batch, of all sequences"),
                "outputs": Column("tokens whose output was wanted, from which a next token can be sampled"),
                "result": Column("0: done; 1: no room in the context; 2: aborted; negative: error; absent if unknown"),
                **spent.COLUMNS,
            },
            hidden=("has_result", "has_tokens", "has_outputs"),
            null_unless={
                "tokens": "has_tokens",
                "outputs": "has_outputs",
                "result": "has_result",
            },
            shown=Shown(
                tables=(
                    Table(
                        ("comm", "function", "tokens"),
                        (Count(), Sum("duration_ns"), *map(Sum, spent.PARTS), Quantiles("duration_ns")),
                        ranked_by=("duration_ns",),
                        title="batches by size",
                    ),
                ),
                line=("tid", "duration_ns", "function", "tokens", "outputs", "result"),
                timeline=Timeline(slices=(Slices(named=("function",), by_thread=""),)),
            ),
            rollup=Rollup(by=("comm", "function"), measured="duration_ns"),
        ),
        Stream(
            "llama_token",
            "one row per generated token, timed when the program got it; its time is the sum of decode_ns, wait_ns and "
            "outside_ns",
            columns={
                "duration_ns": Column("since the token before; of the first token, since the request began", "ns"),
                "context": _CONTEXT,
                "request": _REQUEST,
                "sequence": _SEQUENCE,
                "number": Column("number of the token in its request, from 0"),
                "batch_tokens": Column(
                    "tokens of all sequences in the batches that were computed since the token before: many if another "
                    "request's prompt was among them"
                ),
                "others_prompt_tokens": Column("of batch_tokens, those of the prompts of other requests"),
                "decode_ns": Column("in calls that compute batches, also of other sequences of the context", "ns"),
                "wait_ns": Column("in calls that wait for results, such as those of a GPU", "ns"),
                "outside_ns": Column("outside of these calls: sampling, and what the program does between", "ns"),
                "draft": _DRAFT,
                "others_run_queue_ns": Column(
                    "time that other threads of the process waited for a CPU while batches were computed, summed over "
                    "the threads: a batch is as slow as its slowest thread; absent if the kernel does not count it",
                    "ns",
                ),
                **_SPLIT,
                **_OUTSIDE,
            },
            hidden=("has_parts", "has_outside", "has_others"),
            null_unless=dict.fromkeys(("decode_ns", "wait_ns", "outside_ns", *_SPLIT), "has_parts")
            | dict.fromkeys(_OUTSIDE, "has_outside")
            | {"others_run_queue_ns": "has_others"},
            shown=Shown(
                tables=(
                    Table(
                        ("comm", "pid", "sequence"),
                        (
                            Count(),
                            Sum("duration_ns"),
                            Sum("decode_ns"),
                            Sum("wait_ns"),
                            Sum("outside_ns"),
                            Share("decode_ns"),
                            Share("wait_ns"),
                            Share("outside_ns"),
                            Quantiles("duration_ns"),
                        ),
                        ranked_by=("duration_ns",),
                        where="draft = 0",
                        title="tokens by sequence",
                    ),
                    Table(
                        ("comm", "pid", "sequence"),
                        (Count(), *map(Sum, _WHERE), Sum("page_fault_ns"), *map(Share, _WHERE)),
                        ranked_by=_WHERE,
                        where="draft = 0 and on_cpu_ns > 0",
                        title="tokens: where the time in calls of llama.cpp went",
                    ),
                    Table(
                        ("comm", "pid", "sequence"),
                        (Count(), Sum("on_cpu_ns"), *map(Sum, _OPERATORS)),
                        ranked_by=("on_cpu_ns",),
                        where="draft = 0 and on_cpu_ns > 0",
                        title="tokens: the time on a CPU in calls of llama.cpp, by operator",
                    ),
                    SlowestRows(
                        (
                            "comm",
                            "pid",
                            "sequence",
                            "request",
                            "number",
                            "batch_tokens",
                            "others_run_queue_ns",
                            "duration_ns",
                        ),
                        duration="duration_ns",
                        parts=(*_OPERATORS, *_WHERE[1:], *_OUTSIDE),
                        causes={
                            "others_prompt_tokens > 0": "another request's prompt",
                            "stopped_ns > 0": "stopped by a signal",
                            "outside_stopped_ns > 0": "stopped by a signal",
                        },
                        where="draft = 0 and number > 0",
                        title="the slowest tokens after the first, and what took longer than in the median one",
                    ),
                ),
                line=("tid", "duration_ns", "sequence", "request", "number", "decode_ns", "wait_ns", "outside_ns"),
                timeline=Timeline(
                    slices=(
                        Slices(
                            text="token", ending=True, on=_OF_SEQUENCE, below="tokens", by_thread="", flow=_TO_TOKENS
                        ),
                    )
                ),
            ),
            rollup=Rollup(by=("comm",), measured="duration_ns", where="draft = 0"),
        ),
        Stream(
            "llama_request",
            "one row per request that ended: a prompt and the tokens generated after it, timed at its first batch; "
            "what a server computes to warm up is none",
            columns={
                "duration_ns": Column("from the first batch to the last token", "ns"),
                "context": _CONTEXT,
                "request": _REQUEST,
                "sequence": _SEQUENCE,
                "ttft_ns": Column("time to first token; absent if there is none, or the begin was not seen", "ns"),
                "generation_ns": Column("from the first token to the last; absent without tokens", "ns"),
                "prompt_tokens": Column("tokens of the prompt that were computed; absent if the begin was not seen"),
                "cached_tokens": Column("tokens of the prompt that were still in the context; absent if unknown"),
                "generated_tokens": Column("tokens that were sampled"),
                "drafted_tokens": Column("tokens that speculative decoding proposed"),
                "draft": _DRAFT,
                "decodes": Column("batches with tokens of the request"),
                "ended": Column(
                    "replaced by another request of the sequence; idle for 2 s; freed or exited: the context was freed "
                    "or the process ended; not: it goes on after the trace"
                ),
                "has_begin": Column("1; 0 if the request may have begun before the trace: then its prompt is unknown"),
            },
            made=Made(
                derived={
                    "prompt_rate": Derived(Column("tokens of the prompt until the first token", "1/s"), pa.float64()),
                    "token_rate": Derived(Column("tokens after the first token", "1/s"), pa.float64()),
                },
                derive=_derive_request,
            ),
            hidden=("has_first", "has_tokens", "has_cached"),
            null_unless={
                "prompt_tokens": "has_begin",
                "cached_tokens": "has_cached",
                "ttft_ns": "has_first",
                "generation_ns": "has_tokens",
            },
            settled=Settled("llama_settle"),
            shown=Shown(
                tables=(
                    Table(
                        ("comm", "pid"),
                        (
                            Count(),
                            Sum("prompt_tokens"),
                            Sum("generated_tokens"),
                            Sum("duration_ns"),
                            Quantiles("ttft_ns"),
                            Quantiles("duration_ns"),
                        ),
                        where="draft = 0",
                        title="requests",
                    ),
                    LatestRows(
                        (
                            *(
                                "comm",
                                "pid",
                                "sequence",
                                "request",
                                "prompt_tokens",
                                "cached_tokens",
                                "generated_tokens",
                            ),
                            *("ttft_ns", "duration_ns", "prompt_rate", "token_rate", "ended"),
                        ),
                        title="latest requests",
                    ),
                ),
                line=("duration_ns", "sequence", "request", "prompt_tokens", "generated_tokens", "ttft_ns", "ended"),
                timeline=Timeline(slices=(Slices(text="request", on=_OF_SEQUENCE, flow=_FROM_REQUEST),)),
                span=_SPAN,
            ),
            rollup=Rollup(by=("comm",), measured="duration_ns", where="draft = 0"),
        ),
    ),
    alternatives=(
        Alternative(
            f"uprobe_multi: {_HOOKS}",
            ("llama_exit", "llama_exec"),
            uprobe_multi=True,
        ),
        Alternative(
            f"uprobe: {_HOOKS}",
            ("llama_exit", "llama_exec"),
        ),
    ),
    extra_options=(
        Option(
            "rate",
            "integer",
            499,
            "samples a second of a thread that computes, which tell its operators",
            minimum=1,
            maximum=10000,
        ),
    ),
    hooks=lambda options: spent.HOOKS + Hooks(sampled={"llama_sample": options["rate"]}),
    places=places,
    kept_by_process=("llama_contexts", "llama_processes", "llama_requests"),
    resolver=_resolver,
    guide=GUIDE,
)
