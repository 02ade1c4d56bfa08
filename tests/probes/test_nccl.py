"""The `nccl` probe: ranks that call a stand-in for NCCL, compared with its own account; and NCCL itself, which fails
without a GPU."""

import re
import subprocess
import sys
from collections import Counter, defaultdict
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from tests.llm.runs import CACHE, recorded_run
from tests.probes.nccl_programs import WORKLOADS, build, nccl, stand_in
from tests.probes.recording import ONE_INTERVAL_MS, Record, Recording

from scope_bpf.capture.command import HeldCommand
from scope_bpf.capture.tracer import Tracer
from scope_bpf.catalogue.target import Target
from scope_bpf.code.elf import ElfFile
from scope_bpf.probes import probe_named
from scope_bpf.probes.nccl.functions import FUNCTIONS, RESULTS
from scope_catalogue.options import parse_options

RANKS, LATE = 3, 1
DTYPES = {0: "int8", 4: "int64", 7: "float32", 8: "float64", 9: "bfloat16", 11: "float8e5m2", 99: "99"}
OPS = {0: "sum", 2: "max", 3: "min", 4: "avg", 17: "custom"}


def ran(record: Record, folder: Path, linked: str = "shared", **options: Any) -> Recording:
    """What was recorded of nccl_ranks.c; the account of its stand-in is in a file in the folder."""
    recording = record("nccl", [str(build(folder, linked)), str(RANKS), str(LATE), str(folder / "told")], **options)
    assert recording.status == 0
    assert all(not account.lost for account in recording.accounts.values())
    return recording


def _transfers(recording: Recording) -> list[dict[str, Any]]:
    return [row for row in recording.rows("nccl_call") if row["dtype"] is not None]


@pytest.mark.parametrize("linked", ["shared", "static"])
def test_every_call_is_there(record: Record, tmp_path: Path, linked: str) -> None:
    """Each collective, send and receive of each rank has a row with bytes, type, operator, root or peer, stream and
    result, as the library itself tells."""
    recording = ran(record, tmp_path, linked)
    told: list[tuple[Any, ...]] = [
        (name, *(None if int(word) == -1 else int(word) for word in words))
        for name, *words in map(str.split, (tmp_path / "told").read_text().splitlines())
    ]
    names = ("rank", "nranks", "bytes", "dtype", "op", "root", "peer", "stream", "result")
    rows = [row for row in _transfers(recording) if row["function"] != "ncclBcast"]
    found = Counter((row["function"], *(row[name] for name in names)) for row in rows)
    assert found == Counter(
        (function, rank, ranks, size, DTYPES[dtype], OPS.get(op), root, peer, stream, result)
        for function, rank, ranks, size, dtype, op, root, peer, stream, result in told
    )
    assert found.total() == RANKS * (7 + 3 + 7 + 2 + 1 + 1)
    assert {row["result_name"] for row in rows} == {"ncclSuccess", "ncclInvalidArgument"}


def test_groups_and_nested_calls(record: Record, tmp_path: Path) -> None:
    """Calls in a group are marked, and its end has a row; so is ncclBroadcast when ncclBcast calls it."""
    rows = ran(record, tmp_path).rows("nccl_call")
    assert Counter(row["function"] for row in rows if row["in_group"]) == {
        "ncclSend": RANKS,
        "ncclRecv": RANKS,
        "ncclAllReduce": RANKS,
    }
    assert sum(row["function"] == "ncclGroupEnd" for row in rows) == RANKS + 1
    assert not [row for row in rows if row["function"] in ("ncclGroupStart", "ncclGetUniqueId")]
    calls = Counter((row["function"], row["nested"]) for row in rows if "cast" in row["function"])
    assert calls == {("ncclBcast", 0): 3 * RANKS, ("ncclBroadcast", 1): 3 * RANKS}
    assert sum(row["nested"] for row in rows) == 3 * RANKS


def test_ranks_of_a_communicator(record: Record, tmp_path: Path) -> None:
    """Ranks in several processes, each initialised by another function, share a communicator; so do those of
    ncclCommInitAll, which share another."""
    recording = ran(record, tmp_path)
    ranks: dict[int, set[tuple[bool, int]]] = defaultdict(set)
    for row in _transfers(recording):
        ranks[row["communicator"]].add((row["pid"] == recording.pid, row["rank"]))
    assert sorted(map(sorted, ranks.values())) == [
        [(False, rank) for rank in range(RANKS)],
        [(True, rank) for rank in range(RANKS)],
    ]
    inits = {row["function"]: row for row in recording.rows("nccl_call") if row["function"].startswith("ncclCommInit")}
    assert {name: (row["rank"], row["nranks"], row["handle"] is None) for name, row in inits.items()} == {
        "ncclCommInitRank": (0, RANKS, False),
        "ncclCommInitRankConfig": (1, RANKS, False),
        "ncclCommInitRankScalable": (2, RANKS, False),
        "ncclCommInitAll": (None, None, True),
    }


def _of_children(recording: Recording) -> dict[int, list[dict[str, Any]]]:
    """The collectives of each communicator that was made by a split, by the communicator."""
    assert recording.status == 0
    assert all(not account.lost for account in recording.accounts.values())
    found = defaultdict(list)
    for row in recording.rows("nccl_call"):
        if row["function"] == "ncclAllReduce":
            found[row["communicator"]].append(row)
    return found


def test_communicators_by_splits(record: Record, tmp_path: Path) -> None:
    """The ranks that a split puts together share a communicator of their own, with the ranks that the library gives
    them, and their collectives are numbered; so are those that are made of such a one."""
    command = [str(build(tmp_path, "shared", "nccl_splits.c")), "5", str(tmp_path / "told")]
    recording = record("nccl", command)
    children = _of_children(recording)
    rows = [row for own in children.values() for row in own]
    ranks = defaultdict(lambda: None, {(row["comm"], row["bytes"]): row["rank"] for row in rows})
    assert {size: [ranks[f"nccl-{n}", size] for n in range(5)] for size in (11, 13, 17)} == {
        11: [2, 1, 1, 0, 0],  # odd and even, in the reverse order
        13: [None, 0, 1, 2, 3],
        17: [None, 1, 2, 0, 3],
    }
    told = [tuple(map(int, line.split()[1:4])) for line in (tmp_path / "told").read_text().splitlines()]
    assert Counter((row["rank"], row["nranks"], row["bytes"]) for row in rows) == Counter(told)
    assert sorted((own[0]["bytes"], own[0]["nranks"]) for own in children.values()) == [
        (11, 2),
        (11, 3),
        (13, 4),
        (17, 4),
    ]
    for own in children.values():
        numbers = product(range(own[0]["nranks"]), range(3))
        assert Counter((row["rank"], row["sequence"]) for row in own) == Counter(numbers)
        assert sum(row["late_ns"] == 0 for row in own) >= 3
    splits = [row for row in recording.rows("nccl_call") if row["function"] == "ncclCommSplit"]
    assert {(row["communicator"], row["rank"]) for row in splits} == {
        *((row["communicator"], row["rank"]) for row in rows),
        (None, None),  # rank 0 has no color the second time
    }


def test_a_split_with_ranks_that_are_not_recorded(record: Record, tmp_path: Path) -> None:
    """If not all ranks of the parent are recorded on this machine, those of its children are not known; their
    communicators are, and their collectives are numbered."""
    command = [str(build(tmp_path, "static", "nccl_splits.c")), "5", str(tmp_path / "told")]
    children = _of_children(record("nccl", command, target=Target(comm="nccl-3")))
    assert {
        own[0]["bytes"]: [(row["rank"], row["nranks"], row["sequence"], row["late_ns"]) for row in own]
        for own in children.values()
    } == {size: [(None, None, number, 0) for number in range(3)] for size in (11, 13, 17)}
    assert None not in children


def _told(account: Path) -> dict[int, tuple[int, int]]:
    """The stand-in's account of what was sent: its bytes, with the communicator's rank and number of ranks."""
    words = map(str.split, account.read_text().splitlines())
    return {int(size): (int(rank), int(ranks)) for _, rank, ranks, size, *_ in words}


def test_communicators_of_others(record: Record, tmp_path: Path) -> None:
    """If only one rank makes a communicator of its own, rank and ranks are absent, also if it is where one was whose
    rank is known, or gets its handle at the end of a group. Of one that is made from an id in a group, while the last
    one at its address ends, or without blocking, they are known."""
    account = tmp_path / "told"
    recording = record("nccl", [str(build(tmp_path, "shared", "nccl_children.c")), str(account)])
    assert recording.status == 0
    rows = recording.rows("nccl_call")
    assert all(not account.lost for account in recording.accounts.values())
    sent = {row["bytes"]: row for row in rows if row["function"] == "ncclSend"}
    told, children = _told(account), {211, 223, 227, 229}
    assert {size: (row["rank"], row["nranks"]) for size, row in sent.items()} == {
        size: (None, None) if size in children else known for size, known in told.items()
    }
    assert set(told) == children | {101, 103, 107, 109}
    assert {size for size, row in sent.items() if row["communicator"] is None} == children - {211}  # without a group
    handles = {size: row["handle"] for size, row in sent.items()}
    ends = [row for row in rows if row["function"] in ("ncclCommAbort", "ncclCommDestroy")]
    assert [(row["handle"], row["rank"]) for row in ends] == [
        *((handles[size], rank) for size, rank in ((211, 0), (223, 1), (227, 3), (229, 4), (229, None), (103, 5))),
        (handles[101], 2),
    ]
    assert handles[229] == handles[103] == handles[107]
    made = [(row["function"], row["handle"]) for row in rows if row["function"][8:] in ("Split", "Shrink", "Grow")]
    assert made == [
        ("ncclCommSplit", handles[211]),
        ("ncclCommSplit", None),
        ("ncclCommShrink", handles[223]),
        ("ncclCommGrow", handles[227]),
        ("ncclCommSplit", None),
    ]
    (finalized,) = (row["rank"] for row in rows if row["function"] == "ncclCommFinalize")
    (revoked,) = (row["rank"] for row in rows if row["function"] == "ncclCommRevoke")
    assert (finalized, revoked) == (2, 6)


def test_a_library_that_is_opened_and_used_soon(tmp_path: Path) -> None:
    """From the first recorded call on, every call is there; if earlier ones are missing, a note says how long it took
    to attach. A communicator that was made before has no rank; one that is made after has."""
    library, gate, account = stand_in(tmp_path), tmp_path / "gate", tmp_path / "told"
    program = HeldCommand([str(build(tmp_path, "none", "nccl_dlopen.c")), str(library), str(gate), str(account)])
    probe, recording = probe_named("nccl"), Recording()
    try:
        with Tracer(probe, parse_options(probe.options, {}), Target(pid=program.pid), command=program.path) as tracer:
            tracer.start()
            program.release()
            while program.poll() is None:
                for raw in tracer.poll(20):
                    recording.add(raw)
                if recording.batches and tracer.functions_attached:
                    gate.touch()
            for raw in tracer.finish():
                recording.add(raw)
            notes = tracer.notes()
            assert all(not account.lost for account in tracer.accounts().values())
    finally:
        program.close()
    rows, told = recording.rows("nccl_call"), _told(account)
    sent = [(row["bytes"], row["rank"], row["nranks"]) for row in rows if row["function"] == "ncclSend"]
    missing, again = sent[0][0] - 1, max(told) - 17
    first = (2, 5) if rows[0]["function"] == "ncclCommInitRank" else (None, None)
    assert sent == [(size, *(first if size <= again else told[size])) for size in range(missing + 1, again + 18)]
    assert told[again + 1] == (3, 5)
    if missing or first == (None, None):
        (late_ms,) = (
            int(found[1].replace(",", ""))
            for note in notes
            if (found := re.match(rf"{library} was attached ([\d,]+) ms", note))
        )
        assert late_ms >= missing  # each call came a millisecond or more after the one before


def test_who_is_late(record: Record, tmp_path: Path) -> None:
    """Rows with the same number are the same collective, and tell how much later each rank called it than the first;
    meanwhile the others wait for the one that is 20 ms late."""
    recording = ran(record, tmp_path)
    collectives: dict[int, dict[int, dict[str, Any]]] = defaultdict(dict)
    for row in _transfers(recording):
        if row["sequence"] is not None and row["pid"] != recording.pid and row["result"] == 0:
            collectives[row["sequence"]][row["rank"]] = row
    assert sorted(collectives) == list(range(7 + 3 + 7))
    for ranks in collectives.values():
        assert len({(row["function"], row["bytes"]) for row in ranks.values()}) == 1
        first = min(row["ktime_ns"] for row in ranks.values())
        assert {rank: row["late_ns"] for rank, row in ranks.items()} == {
            rank: row["ktime_ns"] - first for rank, row in ranks.items()
        }
        assert max(ranks, key=lambda rank: ranks[rank]["late_ns"]) == LATE
        assert ranks[LATE]["late_ns"] >= 20_000_000
        assert all(row["duration_ns"] >= 20_000_000 for rank, row in ranks.items() if rank != LATE)


def test_a_rank_that_is_far_behind(record: Record, tmp_path: Path) -> None:
    """The delay of a rank is absent, not 0, where the first rank's call is so long ago that it is forgotten. It is
    known however many communicators were left without an end, and of what the rank calls when the other's has ended.
    """
    count, left = 24_001, 16_500
    recording = record("nccl", [str(build(tmp_path, "static", "nccl_behind.c")), str(count), str(left)])
    assert recording.status == 0
    rows = [row for row in recording.rows("nccl_call") if row["sequence"] is not None]
    first, second = ([row for row in rows if row["rank"] == rank] for rank in (0, 1))
    assert {row["late_ns"] for row in first} == {0}
    called_ns = {row["sequence"]: row["ktime_ns"] for row in first}
    known = [row for row in second if row["late_ns"] is not None]
    assert {row["late_ns"] for row in second if row["sequence"] == count} <= {0}  # the ring may have lost it
    account = recording.accounts["nccl_call"]
    assert len(second) - len(known) >= count - 16_384 - sum(account.lost.values())
    assert account.incomplete >= len(second) - len(known)
    for row in known:
        if row["sequence"] in called_ns:
            assert row["late_ns"] == row["ktime_ns"] - called_ns[row["sequence"]] > 0


def test_waits_for_the_stream(record: Record, tmp_path: Path) -> None:
    """A wait for a stream tells how many calls, with how many bytes, were made on it since the wait before; a wait
    without any has no row. It lasts as long as the stand-in sleeps: 3 ms."""
    rows = ran(record, tmp_path).rows("nccl_wait")
    reductions, others = sum(4 * (1009 + i) for i in range(7)), 307 + 8 * 401 + 8 * 503 + 601 + 4 * 701 + 4 * 809
    found = Counter((row["pid"], row["stream"], row["calls"], row["bytes"]) for row in rows)
    assert Counter(counted[1:] for counted in found) == {
        (0x5000, 7, reductions): RANKS,
        (0, 3, 3 * 2 * 211): RANKS,
        (None, RANKS, RANKS * 8 * 1013): 1,  # for the device
        **{
            (0x5000, 9, others + (8 << 33) + 4 * (907 + rank) + 4 * (907 + (rank - 1) % RANKS)): 1
            for rank in range(RANKS)
        },
    }
    assert found.total() == len(found)
    assert all(row["duration_ns"] >= 3_000_000 for row in rows)


def test_the_summary(record: Record, tmp_path: Path) -> None:
    """Calls, failures and bytes by rank and function are those that the library itself tells; so is who is late."""
    rows = ran(record, tmp_path, mode="summary", interval_ms=ONE_INTERVAL_MS).rows("nccl_call_summary")
    told: Counter[tuple[str, ...]] = Counter()
    for line in (tmp_path / "told").read_text().replace("ncclBroadcast", "ncclBcast").splitlines():
        name, rank, _, size, *_, result = line.split()
        told[name, rank, "count"] += 1
        told[name, rank, "errors"] += result != "0"
        told[name, rank, "bytes"] += int(size) if result == "0" else 0
    found: Counter[tuple[str, ...]] = Counter()
    late: Counter[int] = Counter()
    for row in rows:
        late[row["rank"]] += row["late_ns"]
        for column in ("count", "errors", "bytes"):
            found[row["function"], str(row["rank"]), column] += row[column]
    assert {key: found[key] for key in told} == told
    assert late.most_common(1)[0][0] == LATE
    assert late[LATE] >= 17 * 20_000_000
    waits = ("cudaStreamSynchronize", "cuStreamSynchronize", "cudaDeviceSynchronize", "cuCtxSynchronize")
    assert [found[name, "None", "count"] for name in waits] == [2 * RANKS, RANKS, 1, 0]


@pytest.mark.timeout(600)  # downloads NCCL the first time
def test_nccl_itself(record: Record, tmp_path: Path) -> None:
    """In NCCL of a Python environment, loaded late, all functions are found, and calls that fail without a GPU have
    their results."""
    library = nccl(CACHE) / "lib" / "libnccl.so.2"
    names = [function.name for function in FUNCTIONS if function.name.startswith("nccl")]
    with library.open("rb", buffering=0) as file:
        assert sorted(ElfFile(file).functions(names)) == sorted(names)
    output = tmp_path / "output"
    recording = recorded_run(
        record, [sys.executable, str(WORKLOADS / "nccl_fails.py"), str(library)], output, probe="nccl"
    )
    told = [(name, int(result)) for name, result in map(str.split, output.read_text().splitlines())]
    rows = [row for row in recording.rows("nccl_call") if not row["nested"]]
    assert [(row["function"], row["result"]) for row in rows] == told
    assert [row["result_name"] for row in rows] == [RESULTS[result] for _, result in told]
    found = {row["function"]: row for row in rows}
    assert (found["ncclCommInitRank"]["rank"], found["ncclCommInitRank"]["nranks"]) == (1, 2)
    assert found["ncclCommInitRank"]["result_name"] == "ncclUnhandledCudaError"
    assert (found["ncclAllReduce"]["bytes"], found["ncclAllReduce"]["op"]) == (4 * 1009, "prod")
    assert (found["ncclSend"]["bytes"], found["ncclSend"]["peer"]) == (2 * 211, 3)


@pytest.mark.timeout(600)
def test_the_header(tmp_path: Path) -> None:
    """Numbers of results, types and operators are those of nccl.h."""
    source = tmp_path / "numbers.c"
    results = ", ".join(f"{name} == {number}" for number, name in enumerate(RESULTS))
    types = ("Int8", "Uint8", "Int32", "Uint32", "Int64", "Uint64", "Float16", "Float32", "Float64", "Bfloat16")
    expected = [
        *results.split(", "),
        f"ncclNumResults == {len(RESULTS)}",
        *(f"nccl{name} == {number}" for number, name in enumerate((*types, "Float8e4m3", "Float8e5m2"))),
        "ncclNumTypes == 12",
        *(f"nccl{name} == {number}" for number, name in enumerate(("Sum", "Prod", "Max", "Min", "Avg"))),
        "ncclNumOps == 5",
        "NCCL_UNIQUE_ID_BYTES == 128",
    ]
    checks = "".join(f'_Static_assert({each}, "{each}");\n' for each in expected)
    source.write_text(f"#include <nccl.h>\n{checks}")
    types_of_cuda = "typedef struct CUstream_st *cudaStream_t;\ntypedef struct CUevent_st *cudaEvent_t;\n"
    (tmp_path / "cuda_runtime.h").write_text(f"#include <stddef.h>\n{types_of_cuda}")
    (tmp_path / "cuda_fp16.h").touch()
    subprocess.run(
        ["gcc", "-fsyntax-only", "-I", str(tmp_path), "-I", str(nccl(CACHE) / "include"), str(source)], check=True
    )
