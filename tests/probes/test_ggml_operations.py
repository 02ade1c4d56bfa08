"""`ggml`: operations of the CUDA backend and launches of CUDA graphs, of stand-ins with ggml's names and structs."""

import subprocess
from collections import Counter
from pathlib import Path

import pytest
from tests.probes.recording import Record, Recording

WORKLOADS = Path(__file__).parent / "workloads"
LAUNCH = "cuda_graph_launch"
RESULT = ("op", "data_type", "tensor", "ne0", "ne1", "ne2", "ne3")
NONE = (None,) * len(RESULT)
LONGEST = "0123456789012345678901234567890123456789012345678901234567890" + "12"


def build(folder: Path, *flags: str) -> str:
    """The program `ggml_cuda` with its libraries."""

    def compiled(compiler: str, output: str, source: str, *more: str) -> Path:
        words = [compiler, "-O2", "-fPIC", *flags, "-o", folder / output, WORKLOADS / source, *more]
        subprocess.run([str(word) for word in (*words, f"-Wl,--no-as-needed,-rpath={folder}")], check=True)
        return folder / output

    driver = compiled("gcc", "libcuda.so.1", "ggml_graphs.c", "-shared", "-DDRIVER")
    runtime = compiled("gcc", "libcudart.so.13", "ggml_graphs.c", "-shared", str(driver))
    base = compiled("gcc", "libggml-base.so", "ggml_base.c", "-shared")
    return str(compiled("g++", "ggml_cuda", "ggml_cuda.cpp", str(base), str(runtime)))


def operations(recording: Recording) -> Counter[tuple[object, ...]]:
    rows = recording.rows("ggml_operation")
    assert all(row["returned"] == 1 and row["duration_ns"] > 0 for row in rows)
    return Counter((row["function"], row["nested"], row["device"], *(row[name] for name in RESULT)) for row in rows)


@pytest.mark.parametrize("flags", [(), ("-DOLD",)])
def test_operations(record: Record, tmp_path: Path, flags: tuple[str, ...]) -> None:
    """Every call has its row, with the result's operation by this build's own numbers, its type, name and shape.

    Both layouts of struct ggml_tensor: an operation has another number in each, and the name another place.
    """
    recording = record("ggml", [build(tmp_path, *flags), "operations"])
    assert operations(recording) == {
        ("cuda_set_device", 0, 1, *NONE): 1,
        ("cuda_set_device", 1, 3, *NONE): 7,
        ("cuda_mul_mat_vec_q", 0, None, "MUL_MAT", "f32", "Qcur-0", 101, 2, 3, 4): 7,
        ("cuda_mul_mat_q", 0, None, "MUL_MAT", "f16", None, 211, 2, 3, 4): 5,
        ("cuda_op_mul_mat_q", 0, None, "MUL_MAT", "f16", None, 211, 2, 3, 4): 3,
        ("cuda_cpy", 0, None, "CPY", "q8_0", "é", 307, 2, 3, 4): 2,
        ("cuda_cpy", 0, None, *NONE): 1,  # its tensor was not readable
        ("cuda_flash_attn_ext", 0, None, "FLASH_ATTN_EXT", None, LONGEST, 401, 2, 3, 4): 1,
    }
    assert recording.accounts["ggml_operation"].lost == {}
    assert not [note for note in recording.notes if "tensors" in note]


def test_an_unknown_layout(record: Record, tmp_path: Path) -> None:
    """If members of tensors are at other places, nothing is said of results, and a note tells so."""
    recording = record("ggml", [build(tmp_path, "-DOTHER"), "operations"])
    counted = operations(recording)
    assert counted.total() == 27
    assert {key[3:] for key in counted} == {NONE}
    (note,) = [note for note in recording.notes if "tensors" in note]
    assert note == f"{tmp_path}/libggml-base.so: the layout of its tensors is unknown: members are at other places"


def test_operations_without_ggml_itself(record: Record, tmp_path: Path) -> None:
    """If no file tells the layout, nothing is said of results, and a note tells so."""
    program = build(tmp_path)
    source = (WORKLOADS / "ggml_base.c").read_text().replace("ggml_op_name", "hidden_name")
    (tmp_path / "base.c").write_text(source)
    command: list[str | Path] = ["gcc", "-O2", "-fPIC", "-shared", f"-I{WORKLOADS}", "-o", tmp_path / "libggml-base.so"]
    subprocess.run([*command, tmp_path / "base.c"], check=True)
    recording = record("ggml", [program, "operations"])
    assert {key[3:] for key in operations(recording)} == {NONE}
    said = f"process {recording.pid}: tensors are unknown: none of its files has ggml_op_name"
    assert said in recording.notes


@pytest.mark.parametrize("way", ["replays", "again"])
def test_replays(record: Record, tmp_path: Path, way: str) -> None:
    """Launches of graphs are rows, once each; a note tells of a process that has launched graphs only for a while."""
    recording = record("ggml", [build(tmp_path), way, "1.3"])
    counted = operations(recording)
    assert counted[LAUNCH, 0, None, *NONE] == 11
    assert counted[LAUNCH, 1, None, *NONE] == 11, "the driver's, inside the runtime's"
    assert counted.total() == 33 + 27 * (2 if way == "again" else 1), "with a cuda_set_device before each launch"
    notes = [note for note in recording.notes if "no hits" in note]
    if way == "again":
        assert not notes
        return
    (note,) = notes
    assert note.startswith(f"process {recording.pid}: attached to 5 functions of its CUDA backend, no hits in ")
    assert float(note.split("no hits in ")[1].split(" s")[0]) >= 1.3
    assert "in which ggml launched 11 CUDA graphs" in note


def test_graphs_of_others(record: Record, tmp_path: Path) -> None:
    """Launches outside of ggml's calls are not ggml's."""
    recording = record("ggml", [build(tmp_path), "alone"])
    assert recording.rows("ggml_operation") == []
    assert sum(place.hits for place in recording.places) == 0
    assert not [note for note in recording.notes if "no hits" in note]
    assert any("no watched process has called one" in note for note in recording.notes)
