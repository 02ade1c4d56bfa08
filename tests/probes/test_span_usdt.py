"""`span` with USDT probes: each hit is recorded with the arguments that the program passed."""

import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.probes.recording import ONE_INTERVAL_MS, Record

from scope_bpf.errors import FunctionNotFound

SOURCE = Path(__file__).parent / "workloads/marks.c"
SMALL = "marks:marks:wide i8=arg0:i8 u8=arg1:u8 i16=arg2 u16=arg3 i32=arg4 text=arg8:str"
LARGE = "marks:marks:wide i8=arg0 u32=arg5 i64=arg6 u64=arg7:u64 n=arg9->8:i32 text=arg9->16:str"


@pytest.fixture(scope="module")
def marks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program."""
    program = tmp_path_factory.mktemp("marks") / "marks"
    subprocess.run(["gcc", "-O1", "-o", program, SOURCE], check=True)
    return program


def args(row: dict[str, Any]) -> dict[str, str]:
    """The kept numbers of a row."""
    return dict(word.split("=") for word in (row["args"] or "").split())


def signed(number: int, bits: int) -> int:
    return (number + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def passed(i: int, declared: str) -> dict[str, str]:
    """What the program passes to `wide` in turn i, as far as it is declared."""
    expected = {
        "i8": signed(i * 7, 8),
        "u8": i * 7 % 256,
        "i16": signed(-i * 301, 16),
        "u16": i * 40009 % (1 << 16),
        "i32": signed(-i * 1000003, 32),
        "u32": i * 4000000007 % (1 << 32),
        "i64": -i * 10000000019,
        "u64": (i << 40) % (1 << 64),
        "n": i * 11,
    }
    return {name: str(value) for name, value in expected.items() if f" {name}=" in declared}


@pytest.mark.parametrize("declared", [SMALL, LARGE], ids=["small", "large"])
def test_arguments_of_every_size_are_the_programs_own(record: Record, marks: Path, declared: str) -> None:
    """Signed and unsigned arguments of 1 to 8 bytes, memory behind pointers, and texts."""
    recorded = record("span", [str(marks), "101"], functions=[declared])
    rows = recorded.rows("span")
    assert [args(row) for row in rows] == [passed(i, declared) for i in range(101)]
    assert [row["text"] for row in rows] == [f"mark {i} é" for i in range(101)]
    assert {(row["function"], row["file"], row["ended"], row["duration_ns"], row["depth"]) for row in rows} == {
        ("marks:wide", str(marks), "moment", None, 0)
    }
    assert recorded.accounts["span"].lost == {}
    assert recorded.places[0].hits == 101
    assert recorded.notes == []


def test_each_site_has_its_own_places_of_arguments(record: Record, marks: Path) -> None:
    """A probe's sites pass constants, registers, memory and global variables; each is read where it is there."""
    recorded = record("span", [str(marks), "17"], functions=["marks:marks:site site=arg0:i32 value=arg1:i32"])
    found = [(args(row)["site"], args(row)["value"]) for row in recorded.rows("span")]
    kept = [(i, -i, i * 2, -i * 2)[i & 3] for i in range(17)]
    expected = [[(1, -5), (2, i * 3), (3, kept[i]), (4, -7)] for i in range(17)]
    assert found == [(str(site), str(value)) for turn in expected for site, value in turn]


def test_a_semaphore_is_up_while_a_probe_is_attached(record: Record, marks: Path, tmp_path: Path) -> None:
    """A probe whose program asks the semaphore first is seen from its first hit; afterwards the program skips it."""
    out = tmp_path / "said"
    command = ["sh", "-c", f"exec {marks} 31 >{out}"]
    recorded = record("span", command, functions=[f"{marks}:marks:guarded i=arg0:i32 made=arg1:i32"])
    assert [args(row) for row in recorded.rows("span")] == [{"i": str(i), "made": str(i + 1)} for i in range(31)]
    assert out.read_text() == "0 0 1\n"
    record("span", command, functions=[f"{marks}:marks:site"])
    assert out.read_text() == "0 4 0\n", "each site of a probe counts"
    subprocess.run(command, check=True)
    assert out.read_text() == "0 0 0\n"


def test_patterns_of_probes(record: Record, marks: Path) -> None:
    """Provider and name may be patterns; a probe that another declaration names is left to it."""
    declared = ["marks:*:wide", "marks:marks:*", "marks:marks:silent"]
    recorded = record("span", [str(marks), "5"], functions=declared)
    assert Counter(row["function"] for row in recorded.rows("span")) == {
        "marks:wide": 5,
        "other:wide": 5,
        "marks:site": 20,
        "marks:guarded": 5,
        "marks:real": 5,
        "marks:silent": 5,
    }
    assert [place.hits for place in recorded.places] == [10, 30, 5]
    assert any("belong to another declaration" in note for note in recorded.notes)


def test_a_summary_counts_hits(record: Record, marks: Path) -> None:
    """The summary counts the hits of each probe, which have no durations."""
    recorded = record("span", [str(marks), "307"], functions=["marks:*:*"], mode="summary", interval_ms=ONE_INTERVAL_MS)
    counted: Counter[str] = Counter()
    for row in recorded.rows("span_summary"):
        counted[row["function"]] += row["count"]
        assert (row["timed"], row["total_ns"]) == (0, None)
    assert counted["marks:wide"] == 307
    assert counted["marks:site"] == 4 * 307


@pytest.mark.parametrize("flags", [(), ("-s",)], ids=["with symbols", "stripped"])
def test_a_library_that_is_opened_later(record: Record, tmp_path: Path, flags: tuple[str, ...]) -> None:
    """A library's probes are found without symbols; its functions beside them are recorded as ever."""
    library, program = tmp_path / "libmarks.so", tmp_path / "opens"
    subprocess.run(["gcc", "-O2", "-fPIC", "-shared", "-DLIBRARY", *flags, "-o", library, SOURCE], check=True)
    (tmp_path / "opens.c").write_text(
        f'#include <dlfcn.h>\n#include <unistd.h>\nint main(void) {{ void *l = dlopen("{library}", RTLD_NOW); '
        'sleep(3); ((void (*)(int))dlsym(l, "run"))(7); return 0; }'
    )
    subprocess.run(["gcc", "-o", program, tmp_path / "opens.c"], check=True)
    declared = [LARGE.replace("marks:", "libmarks:", 1), "libmarks:marks:guarded i=arg0", "libmarks:run n=arg0:i32"]
    recorded = record("span", [str(program)], functions=declared)
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in recorded.rows("span"):
        rows.setdefault(row["function"], []).append(row)
    assert [args(row) for row in rows["marks:wide"]] == [passed(i, LARGE) for i in range(7)]
    assert [args(row) for row in rows["marks:guarded"]] == [{"i": str(i)} for i in range(7)]
    assert [(row["ended"], args(row)["n"]) for row in rows["run"]] == [("returned", "7")]
    assert {row["depth"] for row in rows["marks:wide"]} == {1}, "within the call of run()"


def test_floating_point_numbers_in_memory(record: Record, marks: Path) -> None:
    """A floating-point argument in memory is read as f64."""
    recorded = record("span", [str(marks), "5"], functions=["marks:marks:real real=arg0:f64 fix=arg1"])
    assert [args(row) for row in recorded.rows("span")] == [{"real": str(pa_float(i)), "fix": "11"} for i in range(5)]


def pa_float(i: int) -> str:
    """A quarter as the columns show it."""
    return {0: "0", 1: "0.25", 2: "0.5", 3: "0.75", 4: "1"}[i]


def test_arguments_that_cannot_be_read_are_absent(record: Record, tmp_path: Path) -> None:
    """An argument in a floating-point register is absent, and a note says so; the others are there."""
    program = tmp_path / "floats"
    (tmp_path / "floats.c").write_text(
        "int main(void) {\n"
        'register double real __asm__("xmm3") = 0.5;\n'
        '__asm__ volatile("990: nop; .pushsection .note.stapsdt,\\"?\\",\\"note\\"; .balign 4\\n"\n'
        '".4byte 8, 994f-993f, 3; .asciz \\"stapsdt\\"; 993: .8byte 990b, 0, 0; .asciz \\"floats\\"\\n"\n'
        '".asciz \\"real\\"; .asciz \\"8f@%%xmm3 -4@$-3\\"; 994: .balign 4; .popsection" : : "x"(real));\n'
        "return 0; }"
    )
    subprocess.run(["gcc", "-O1", "-o", program, tmp_path / "floats.c"], check=True)
    recorded = record("span", [str(program)], functions=["floats:floats:real real=arg0:f64 fix=arg1:i32"])
    assert [args(row) for row in recorded.rows("span")] == [{"fix": "-3"}]
    assert recorded.notes == [
        "floats:floats:real: 1 USDT sites have arg0 in '8f@%xmm3', which cannot be read; it is absent"
    ]


def test_stacks_begin_in_the_function_with_the_site(record: Record, marks: Path) -> None:
    """With stacks=true a hit has the function it is in as its innermost frame."""
    recorded = record("span", [str(marks), "2"], functions=["marks:marks:wide"], stacks=True)
    assert {row["stack"].split(";")[-1] for row in recorded.rows("span")} == {"wide"}


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ("marks:marks:wyde", r"there is no USDT probe 'marks:wyde' \(did you mean 'marks:wide'"),
        ("marks:marks:site a=arg2 b=arg1", r"USDT probe 'marks:site' has 2 arguments, arg0 to arg1, and no arg2"),
        ("marks:other:wide a=arg1", r"USDT probe 'other:wide' has only arg0, and no arg1"),
        ("marks:marks:silent a=arg0", r"USDT probe 'marks:silent' has no arguments, and no arg0"),
        ("libc:nothing:nothing", r"libc.so.6: (it has no USDT probes|there is no USDT probe)"),
    ],
)
def test_a_probe_that_is_not_there(record: Record, marks: Path, declared: str, said: str) -> None:
    """A probe or argument that the command's files lack is an error at once, with the nearest names."""
    with pytest.raises(FunctionNotFound, match=said):
        record("span", [str(marks), "1"], functions=[declared])


def test_the_garbage_collector_of_python(record: Record) -> None:
    """Debian's Python tells its collections: exactly those that the program asks for, in its order."""
    code = "import gc; gc.disable(); [gc.collect(i % 3) for i in range(11)]"
    command = ["/usr/bin/python3.11", "-S", "-c", code]
    declared = ["python3.11:python:gc__start generation=arg0:i32", "python3.11:python:gc__done collected=arg0:i64"]
    rows = record("span", command, functions=declared).rows("span")
    generations = [args(row)["generation"] for row in rows if row["function"] == "python:gc__start"]
    wanted = [str(i % 3) for i in range(11)]
    begin = next(i for i in range(len(generations)) if generations[i : i + 11] == wanted)
    assert all(generation == "2" for generation in generations[begin + 11 :]), "at its end, Python collects all"
    assert len(rows) == 2 * len(generations)
