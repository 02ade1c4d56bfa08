"""`llama`: requests, tokens and batches of real builds of llama.cpp, compared with what the programs tell."""

import json
import os
import signal
import subprocess
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.llm.node import node_folder
from tests.llm.runs import CACHE, going_on, recorded_run, serving, stopped
from tests.llm.tiny_model import write
from tests.probes.missed_switch import record_with_a_missed_switch
from tests.probes.recording import Record, Recording

SPLIT = ("on_cpu_ns", "run_queue_ns", "blocked_ns", "stopped_ns", "unknown_ns")
OPERATORS = ("matmul", "attention", "elementwise", "copy", "barrier", "other")
KINDS = (*(f"{name}_ns" for name in OPERATORS), "kernel_ns", "unsampled_ns")
MOST_RUNS = 9
NEAR_MS, FAR_MS = 1.0, 200.0  # how much a figure may differ; and one, if the program was preempted beside its clock

pytestmark = pytest.mark.timeout(600)  # the first test installs packages


@pytest.fixture(scope="session")
def other_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that says other things."""
    path = tmp_path_factory.mktemp("model") / "other.gguf"
    write(path, seed=1)
    return path


def told(out: Path) -> list[dict[str, Any]]:
    """What the program measured, by request."""
    return [json.loads(line) for line in out.read_text().splitlines()]


def served(recorded: Recording) -> list[dict[str, Any]]:
    """The requests of the recording, in order of their begin, without those that only propose tokens."""
    return [row for row in recorded.rows("llama_request") if not row["draft"]]


def counts(rows: list[dict[str, Any]], prompt: str, cached: str, generated: str) -> Counter[tuple[int, int, int]]:
    return Counter((row[prompt], row[cached], row[generated]) for row in rows)


def agree(figures: Sequence[tuple[int, float]]) -> bool:
    """Whether most of our figures, in ns, are within 5 % of the program's own, in ms, and none is far off."""
    apart = [(abs(ns / 1e6 - ms), 0.05 * ms) for ns, ms in figures]
    near = sum(difference <= max(allowed, NEAR_MS) for difference, allowed in apart)
    return near > len(apart) / 2 and all(difference <= FAR_MS for difference, _ in apart)


def assert_parts_add_up(recorded: Recording) -> None:
    """A token's time is its parts', in calls and outside of them."""
    tokens = recorded.rows("llama_token")
    assert all(row["duration_ns"] == row["decode_ns"] + row["wait_ns"] + row["outside_ns"] for row in tokens)
    parts = (*SPLIT, "gpu_wait_ns")
    assert all(sum(row[part] for part in parts) == row["decode_ns"] + row["wait_ns"] for row in tokens)
    assert all(sum(row[f"outside_{part}"] for part in SPLIT) == row["outside_ns"] for row in tokens)
    assert all(sum(row[kind] for kind in KINDS) == row["on_cpu_ns"] for row in tokens)
    assert all(sum(row[part] for part in SPLIT) == row["duration_ns"] for row in recorded.rows("llama_decode"))


def assert_tokens_belong_to_requests(recorded: Recording) -> None:
    """The tokens of each request are numbered from 0, and their times add up to the request's."""
    tokens = defaultdict(list)
    for row in recorded.rows("llama_token"):
        tokens[row["pid"], row["context"], row["request"]].append(row)
    for request in recorded.rows("llama_request"):
        own = tokens.pop((request["pid"], request["context"], request["request"]), [])
        assert [row["number"] for row in own] == list(range(request["generated_tokens"]))
        assert not own or sum(row["duration_ns"] for row in own) == request["duration_ns"]
        assert not own or not request["has_begin"] or own[0]["duration_ns"] == request["ttft_ns"]
    assert not tokens


def test_requests_of_a_server(record: Record, model: Path, tmp_path: Path) -> None:
    """A llama-server with two slots: prompts, tokens, tokens still in the cache and times are those that it tells, for
    requests one after the other and at once.

    The server takes its times a little before and after its calls, and can lose its CPU there: times agree in two
    runs, however busy the machine is; all else agrees in each.
    """
    out = tmp_path / "told"
    rounds = ("900*50", "900*51", "10*20,30*25", "700*100,800*33")
    agreed: list[bool] = []
    while sum(agreed) < 2 and len(agreed) < MOST_RUNS:
        recorded = recorded_run(record, serving(model, "2", "0", "-", *rounds), out)
        own, rows = told(out), served(recorded)
        assert counts(rows, "prompt_tokens", "cached_tokens", "generated_tokens") == counts(
            own, "prompt_n", "cache_n", "predicted_n"
        )
        assert len(own) == 6
        assert {row["sequence"] for row in rows} == {0, 1}
        assert all(row["has_begin"] for row in rows)
        assert recorded.accounts["llama_token"].lost == recorded.accounts["llama_request"].lost == {}
        assert_parts_add_up(recorded)
        assert_tokens_belong_to_requests(recorded)
        by_tokens = {one["predicted_n"]: one for one in own}
        pairs = [(row, by_tokens[row["generated_tokens"]]) for row in rows]
        prompts = [(row["ttft_ns"], one["prompt_ms"]) for row, one in pairs]
        generations = [(row["generation_ns"], one["predicted_ms"]) for row, one in pairs]
        agreed.append(agree(prompts) and agree(generations))
    assert sum(agreed) == 2, f"times differ from the server's, in the last run: {prompts}, {generations}"


def test_a_token_that_waits_for_another_prompt(record: Record, model: Path, tmp_path: Path) -> None:
    """A token whose batch has the prompt of another request tells so by the tokens of the batch."""
    recorded = recorded_run(record, serving(model, "2", "0", "-", "9*1500>400*3"), tmp_path / "told")
    long, short = served(recorded)
    assert {long["generated_tokens"], short["generated_tokens"]} == {1500, 3}
    assert short["prompt_tokens"] > 800
    tokens = [row for row in recorded.rows("llama_token") if row["number"]]
    (waited,) = (row for row in tokens if row["batch_tokens"] > 800)
    assert waited["request"] == long["request"]
    assert waited["others_prompt_tokens"] == short["prompt_tokens"]
    assert all(row["batch_tokens"] in (1, 2) for row in tokens if row is not waited)
    assert all(row["others_prompt_tokens"] == 0 for row in tokens if row is not waited)


def test_threads_that_wait_for_a_cpu(
    record: Record, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If other programs use the CPUs, a token says how long the threads that compute it together waited for one."""
    monkeypatch.setenv("THREADS", "2")
    busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        recorded = recorded_run(record, serving(model, "1", "0", "-", "9*60"), tmp_path / "told")
    finally:
        for each in busy:
            each.kill()
            each.wait()
    waited = sum(row["others_run_queue_ns"] for row in recorded.rows("llama_token"))
    decoded = sum(row["decode_ns"] for row in recorded.rows("llama_token"))
    assert 0 < waited < 50 * decoded  # two threads compute; the server has some others
    assert waited > decoded / 20


def test_rates_are_those_of_the_tokens(record: Record, model: Path, tmp_path: Path) -> None:
    """prompt_rate and token_rate are tokens over time."""
    recorded = recorded_run(record, serving(model, "1", "0", "-", "100*30"), tmp_path / "told")
    (row,) = served(recorded)
    assert row["prompt_rate"] == pytest.approx(row["prompt_tokens"] / row["ttft_ns"] * 1e9)
    assert row["token_rate"] == pytest.approx(29 / row["generation_ns"] * 1e9)


def test_speculative_decoding(record: Record, model: Path, other_model: Path, tmp_path: Path) -> None:
    """Accepted and rejected drafts: the tokens are those that the server tells, as are the drafts; the context that
    only proposes tokens is marked."""
    for draft in (model, other_model):
        out = tmp_path / draft.stem
        recorded = recorded_run(record, serving(model, "2", "4", str(draft), "40*60", "10*20,30*25"), out)
        own, rows = told(out), served(recorded)
        assert counts(rows, "prompt_tokens", "cached_tokens", "generated_tokens") == counts(
            own, "prompt_n", "cache_n", "predicted_n"
        )
        assert Counter(row["drafted_tokens"] for row in rows) == Counter(one["draft_n"] for one in own)
        assert {row["context"] for row in rows}.isdisjoint(
            row["context"] for row in recorded.rows("llama_request") if row["draft"]
        )
        assert any(row["draft"] for row in recorded.rows("llama_token"))
        assert_parts_add_up(recorded)


def test_a_request_that_runs_already(record: Record, model: Path, tmp_path: Path) -> None:
    """A trace that begins during a request says that it has not seen its prompt; the next request is whole."""
    out = tmp_path / "told"
    with stopped(serving(model, "1", "0", "-", "8*900!", "9*12"), out) as pid:
        os.kill(pid, signal.SIGCONT)
        os.waitpid(pid, os.WUNTRACED)
        recorded = going_on(record, pid)
    first, second = served(recorded)
    assert (first["has_begin"], first["prompt_tokens"], first["ttft_ns"]) == (0, None, None)
    assert 0 < first["generated_tokens"] < 900
    own = told(out)[1]
    assert (second["has_begin"], second["prompt_tokens"], second["generated_tokens"]) == (1, own["prompt_n"], 12)
    assert_tokens_belong_to_requests(recorded)


def test_a_killed_server(record: Record, model: Path, tmp_path: Path) -> None:
    """The requests of a process that is killed end with it."""
    with stopped(serving(model, "1", "0", "-", "8*900!"), tmp_path / "told") as pid:
        stops = f"until grep -q '^State:.T' /proc/{pid}/status; do sleep 0.05; done"
        recorded = going_on(record, pid, f"sleep 0.05; {stops}; kill -9 {pid};")
    (row,) = served(recorded)
    assert (row["has_begin"], row["prompt_tokens"]) == (1, 2 * 8 + 2)
    assert row["ended"] in ("exited", "idle")  # idle if it was stopped for 2 s
    assert row["generated_tokens"] >= 10
    assert_tokens_belong_to_requests(recorded)


def test_batches_that_fail(record: Record, workload: Callable[[str], str]) -> None:
    """A program gives a batch that failed again, in parts or whole: its tokens count once."""
    recorded = record("llama", [workload("batches"), "failing"])
    first, second = recorded.rows("llama_request")
    names = ("prompt_tokens", "cached_tokens", "generated_tokens", "decodes", "ended")
    assert [first[name] for name in names] == [10, 0, 2, 3, "replaced"]
    assert [second[name] for name in names] == [7, 3, 1, 1, "exited"]
    before = recorded.rows("llama_decode")[:4]
    assert first["ttft_ns"] > sum(row["duration_ns"] for row in before)  # failed batches are a part of it
    assert [row["result"] for row in recorded.rows("llama_decode")] == [1, 0, -3, 0, 1, 0, 0]
    assert [row["batch_tokens"] for row in recorded.rows("llama_token")] == [10, 1, 7]


def test_a_warmup_is_no_request(record: Record, workload: Callable[[str], str], model: Path, tmp_path: Path) -> None:
    """What a context computes before its memory is cleared, and before any output of it is read, is no request: so a
    server's first request is its first row. Requests for embeddings, which are outputs, are requests."""
    recorded = record("llama", [workload("batches"), "warmup"])
    assert [row["tokens"] for row in recorded.rows("llama_decode")] == [2, 2, 10, 10]
    assert [(row["request"], row["generated_tokens"]) for row in recorded.rows("llama_request")] == [(1, 0), (2, 1)]
    served_by = recorded_run(record, serving(model, "1", "0", "-", "9*5"), tmp_path / "told")
    assert [(row["request"], row["generated_tokens"]) for row in served_by.rows("llama_request")] == [(1, 5)]
    assert served_by.count("llama_decode") > 5


def test_a_token_of_a_stopped_process(record: Record, workload: Callable[[str], str]) -> None:
    """A stop by a signal is a part of a token's time, whether it falls into a call or outside of calls."""
    recorded = record("llama", [workload("batches"), "stops"])
    assert_parts_add_up(recorded)
    first, plain, outside, inside = recorded.rows("llama_token")
    assert all(row["stopped_ns"] == row["outside_stopped_ns"] == 0 for row in (first, plain))
    assert outside["outside_stopped_ns"] > 0 == outside["stopped_ns"]
    assert inside["stopped_ns"] > 0 == inside["outside_stopped_ns"]


def test_calls_inside_calls_count_once(record: Record, workload: Callable[[str], str]) -> None:
    """In older versions, getting an output calls llama_synchronize(): its time is not added twice."""
    recorded = record("llama", [workload("batches"), "nested"])
    (token,) = recorded.rows("llama_token")
    assert token["wait_ns"] >= 20e6
    assert token["wait_ns"] + token["decode_ns"] <= token["duration_ns"] < 2 * token["wait_ns"] + 1e9
    assert_parts_add_up(recorded)


def test_freeing_no_context_ends_nothing(record: Record, workload: Callable[[str], str]) -> None:
    """llama_free(NULL) does nothing; llama_free() of a context ends its requests."""
    recorded = record("llama", [workload("batches"), "frees"])
    assert [(row["generated_tokens"], row["ended"]) for row in recorded.rows("llama_request")] == [(2, "freed")]


def test_an_idle_request_that_goes_on(record: Record, workload: Callable[[str], str]) -> None:
    """A request that goes on after 2 s has another row, which does not claim to know the prompt; no token is lost."""
    recorded = record("llama", [workload("batches"), "idle"])
    names = ("has_begin", "prompt_tokens", "generated_tokens", "ended")
    assert [[row[name] for name in names] for row in recorded.rows("llama_request")] == [
        [1, 10, 2, "idle"],
        [0, None, 3, "exited"],
    ]
    assert recorded.count("llama_token") == 5
    assert recorded.accounts["llama_token"].lost == {}


def test_an_image_in_a_prompt(record: Record, workload: Callable[[str], str]) -> None:
    """The tokens of an image share a position, and the text goes on beyond it: all belongs to one prompt."""
    recorded = record("llama", [workload("batches"), "image"])
    (row,) = recorded.rows("llama_request")
    assert (row["prompt_tokens"], row["cached_tokens"], row["generated_tokens"]) == (5 + 4 + 4 + 5, 0, 1)


def test_a_prompt_that_has_begun_already(record: Record, workload: Callable[[str], str]) -> None:
    """A trace that begins between two batches of a prompt does not claim to know it."""
    with stopped([workload("batches"), "half"], Path("/dev/null")) as pid:
        recorded = going_on(record, pid)
    first, second = recorded.rows("llama_request")
    assert (first["has_begin"], first["prompt_tokens"], first["ttft_ns"], first["generated_tokens"]) == (
        0,
        None,
        None,
        1,
    )
    assert (second["has_begin"], second["prompt_tokens"], second["generated_tokens"]) == (1, 10, 1)


def test_batches_as_no_program_should_make_them(record: Record, workload: Callable[[str], str]) -> None:
    """Counts, arrays and indices that are wrong cost little, harm nothing, and are counted as incomplete or lost."""
    recorded = record("llama", [workload("batches"), "absurd"])
    assert recorded.status == 0
    rows = recorded.rows("llama_decode")
    assert [row["tokens"] for row in rows] == [2**32 - 1, 2**31 - 1, 1, 1, 2**20, 2, 3]
    assert [row["outputs"] for row in rows] == [None, None, None, None, None, 2, 1]
    assert all(row["duration_ns"] < 1e9 for row in rows)
    assert recorded.accounts["llama_decode"].incomplete == 5
    assert recorded.accounts["llama_token"].lost == {"no_state": 4}


def test_the_contexts_of_node_llama_cpp(record: Record, model: Path, tmp_path: Path) -> None:
    """llama_decode with two contexts at once: 40 tokens are 40 batches and 40 tokens of each."""
    folder, out = node_folder(CACHE), tmp_path / "told"
    recorded = recorded_run(record, ["node", "generate.mjs", str(model), "40", "2"], out, folder)
    own, rows = told(out), served(recorded)
    assert sorted(row["prompt_tokens"] for row in rows) == sorted(one["prompt"] for one in own)
    assert [(row["generated_tokens"], row["decodes"], row["ended"]) for row in rows] == [(40, 40, "freed")] * 2
    assert len({row["context"] for row in rows}) == 2
    by_prompt = {one["prompt"]: one for one in own}
    pairs = [(row, by_prompt[row["prompt_tokens"]]) for row in rows]
    assert all(abs(row["generation_ns"] / 1e6 - one["rest_ms"]) <= FAR_MS for row, one in pairs)  # its loop may be busy
    batches = Counter((row["function"], row["tokens"]) for row in recorded.rows("llama_decode"))
    assert batches == {("decode", 1): 78, **{("decode", one["prompt"]): 1 for one in own}}
    assert all(row["result"] == 0 for row in recorded.rows("llama_decode"))
    assert_parts_add_up(recorded)
    assert_tokens_belong_to_requests(recorded)


def test_a_switch_that_is_not_seen(workload: Callable[[str], str], tmp_path: Path) -> None:
    """The time around a switch that the programs missed is unknown, in batch and token, and both count as incomplete;
    the rest of the call is explained, and so is the next call."""
    told_to = tmp_path / "told"
    recorded, incomplete = record_with_a_missed_switch("llama", {}, [workload("operators"), str(told_to), "stops"])
    assert_parts_add_up(recorded)
    batches, tokens = recorded.rows("llama_decode"), recorded.rows("llama_token")
    own = [json.loads(line) for line in told_to.read_text().splitlines()[:3]]
    before = [0.5 * one["matmul"] for one in own]  # until it stops; the host may take a virtual CPU away meanwhile
    after = [0.5 * sum(one[kind] for kind in OPERATORS if kind != "matmul") for one in own]
    for half, other_half, whole in (batches, tokens):
        assert half["on_cpu_ns"] >= before[0] and half["stopped_ns"] > 0 and half["unknown_ns"] >= after[0]
        assert other_half["on_cpu_ns"] >= after[1] and other_half["unknown_ns"] >= before[1]
        assert whole["on_cpu_ns"] >= before[2] + after[2] and whole["stopped_ns"] > 0
    for stream, rows in (("llama_decode", batches), ("llama_token", tokens)):
        assert incomplete[stream] == sum(row["unknown_ns"] > 0 for row in rows) >= 2


def test_operators_of_a_token(record: Record, workload: Callable[[str], str], tmp_path: Path) -> None:
    """The time on a CPU is shared out to operators as the program measures it; a wait for a GPU, which takes part of it
    on a CPU, is counted once and apart."""
    told_to = tmp_path / "told"
    recorded = record("llama", [workload("operators"), str(told_to)], rate=999)
    assert_parts_add_up(recorded)
    tokens = recorded.rows("llama_token")
    assert len(tokens) == 8
    *lines, _ = told_to.read_text().splitlines()
    known = [(row, json.loads(line)) for row, line in zip(tokens, lines, strict=True) if not row["unknown_ns"]]
    assert known
    for row, own in known:
        assert own["waited"] <= row["gpu_wait_ns"] <= own["waited_in_all"]
        computed = sum(own[kind] for kind in OPERATORS)
        for kind in OPERATORS:
            assert abs(row[f"{kind}_ns"] / row["on_cpu_ns"] - own[kind] / computed) < 0.1
