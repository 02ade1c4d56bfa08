"""`llama`: requests, tokens and batches of real builds of llama.cpp, compared with what the programs tell."""

import json
import os
import signal
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.llm.node import node_folder
from tests.llm.runs import CACHE, going_on, recorded_run, serving, stopped
from tests.llm.tiny_model import write
from tests.probes.recording import Record, Recording

SPLIT = ("on_cpu_ns", "run_queue_ns", "blocked_ns")
CLOSE_MS = 20.0  # what a program that is preempted between two readings of a clock may differ by

pytestmark = pytest.mark.timeout(300)  # the first test installs packages


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
    """The requests of the recording, in order of their begin, without those that only propose tokens or warm up."""
    return [row for row in recorded.rows("llama_request") if not row["draft"] and row["generated_tokens"]]


def counts(rows: list[dict[str, Any]], prompt: str, cached: str, generated: str) -> Counter[tuple[int, int, int]]:
    return Counter((row[prompt], row[cached], row[generated]) for row in rows)


def are_close(ns: int, ms: float) -> bool:
    return abs(ns / 1e6 - ms) <= max(0.05 * ms, CLOSE_MS)


def assert_parts_add_up(recorded: Recording) -> None:
    """A token's time is its parts'; and what is known of the time in calls adds up to it."""
    tokens = recorded.rows("llama_token")
    assert all(row["duration_ns"] == row["decode_ns"] + row["wait_ns"] + row["outside_ns"] for row in tokens)
    known = [row for row in tokens if row["on_cpu_ns"] is not None]
    assert all(sum(row[part] for part in SPLIT) == row["decode_ns"] + row["wait_ns"] for row in known)
    assert len(known) > len(tokens) / 2
    assert all(
        sum(row[part] for part in SPLIT) == row["duration_ns"]
        for row in recorded.rows("llama_decode")
        if row["on_cpu_ns"] is not None
    )


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
    requests one after the other and at once."""
    out = tmp_path / "told"
    rounds = ("400*50", "400*50", "10*20,30*25", "7*100,50*33")
    recorded = recorded_run(record, serving(model, "2", "0", "-", *rounds), out)
    own, rows = told(out), served(recorded)
    assert counts(rows, "prompt_tokens", "cached_tokens", "generated_tokens") == counts(
        own, "prompt_n", "cache_n", "predicted_n"
    )
    assert len(own) == 6
    long = max(rows, key=lambda row: row["prompt_tokens"])
    assert are_close(long["ttft_ns"], own[0]["prompt_ms"])
    by_tokens = {row["predicted_n"]: row for row in own[2:]}
    assert all(are_close(row["generation_ns"], by_tokens[row["generated_tokens"]]["predicted_ms"]) for row in rows[2:])
    assert {row["sequence"] for row in rows} == {0, 1}
    assert all(row["has_begin"] for row in rows)
    assert recorded.accounts["llama_token"].lost == recorded.accounts["llama_request"].lost == {}
    assert_parts_add_up(recorded)
    assert_tokens_belong_to_requests(recorded)


def test_a_token_that_waits_for_another_prompt(record: Record, model: Path, tmp_path: Path) -> None:
    """A token whose batch has the prompt of another request tells so by the tokens of the batch."""
    recorded = recorded_run(record, serving(model, "2", "0", "-", "9*700>400*3"), tmp_path / "told")
    long, short = served(recorded)
    assert {long["generated_tokens"], short["generated_tokens"]} == {700, 3}
    assert short["prompt_tokens"] > 800
    tokens = [row for row in recorded.rows("llama_token") if row["number"]]
    (waited,) = (row for row in tokens if row["batch_tokens"] > 800)
    assert waited["request"] == long["request"]
    assert all(row["batch_tokens"] in (1, 2) for row in tokens if row is not waited)


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
    assert (first["has_begin"], first["prompt_tokens"], first["ttft_ns"]) == (0, 0, None)
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
    assert (row["ended"], row["has_begin"], row["prompt_tokens"]) == ("exited", 1, 2 * 8 + 2)
    assert row["generated_tokens"] >= 10
    assert_tokens_belong_to_requests(recorded)


def test_batches_that_fail(record: Record, workload: Callable[[str], str]) -> None:
    """A program gives a batch that failed again, in parts or whole: its tokens count once."""
    recorded = record("llama", [workload("batches"), "failing"])
    first, second = recorded.rows("llama_request")
    names = ("prompt_tokens", "cached_tokens", "generated_tokens", "decodes", "ended")
    assert [first[name] for name in names] == [10, 0, 2, 3, "replaced"]
    assert [second[name] for name in names] == [7, 3, 1, 1, "exited"]
    assert first["ttft_ns"] > recorded.rows("llama_decode")[0]["duration_ns"]  # failed batches are a part of it
    assert [row["result"] for row in recorded.rows("llama_decode")] == [1, 0, -3, 0, 1, 0, 0]
    assert [row["batch_tokens"] for row in recorded.rows("llama_token")] == [10, 1, 7]


def test_batches_as_no_program_should_make_them(record: Record, workload: Callable[[str], str]) -> None:
    """Counts, arrays and indices that are wrong cost little, harm nothing, and are counted as incomplete or lost."""
    recorded = record("llama", [workload("batches"), "absurd"])
    assert recorded.status == 0
    rows = recorded.rows("llama_decode")
    assert [row["tokens"] for row in rows] == [2**32 - 1, 2**31 - 1, 1, 1, 2**20, 2, 3]
    assert all(row["duration_ns"] < 1e9 for row in rows)
    assert recorded.accounts["llama_decode"].incomplete == 5
    assert recorded.accounts["llama_token"].lost == {"no_state": 2}


def test_the_contexts_of_node_llama_cpp(record: Record, model: Path, tmp_path: Path) -> None:
    """llama_decode with two contexts at once: 40 tokens are 40 batches and 40 tokens of each."""
    folder, out = node_folder(CACHE), tmp_path / "told"
    recorded = recorded_run(record, ["node", "generate.mjs", str(model), "40", "2"], out, folder)
    own, rows = told(out), served(recorded)
    assert sorted(row["prompt_tokens"] for row in rows) == sorted(one["prompt"] for one in own)
    assert [(row["generated_tokens"], row["decodes"], row["ended"]) for row in rows] == [(40, 40, "freed")] * 2
    assert len({row["context"] for row in rows}) == 2
    by_prompt = {one["prompt"]: one for one in own}
    assert all(are_close(row["generation_ns"], by_prompt[row["prompt_tokens"]]["rest_ms"]) for row in rows)
    batches = Counter((row["function"], row["tokens"]) for row in recorded.rows("llama_decode"))
    assert batches == {("decode", 1): 78, **{("decode", one["prompt"]): 1 for one in own}}
    assert all(row["result"] == 0 for row in recorded.rows("llama_decode"))
    assert_parts_add_up(recorded)
    assert_tokens_belong_to_requests(recorded)
