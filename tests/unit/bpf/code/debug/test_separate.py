"""Debug files on this machine are used only if they are those of the stripped file."""

import os
import shutil
import subprocess
from io import FileIO
from pathlib import Path

import pytest

from scope_bpf.code.debug import separate
from scope_bpf.code.debug.separate import local_debug_file
from scope_bpf.code.elf import ElfFile

SOURCE = "static int inner(int a) { return a * 3; } int main(int argc, char **argv) { return inner(argc); }"


def build(folder: Path, *flags: str, source: str = SOURCE) -> tuple[Path, Path]:
    """A stripped program that names its debug file, and the debug file."""
    folder.mkdir(exist_ok=True)
    path, debug = folder / "program", folder / "program.debug"
    subprocess.run(["gcc", "-g", *flags, "-x", "c", "-", "-o", path], input=source, text=True, check=True)
    subprocess.run(["objcopy", "--only-keep-debug", path, debug], check=True)
    subprocess.run(["strip", path], check=True)
    subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", path], check=True)
    return path, debug


def found(path: Path) -> bool:
    with FileIO(path) as file:
        debug = local_debug_file(ElfFile(file), str(path))
        return bool(debug and debug.symbols and debug.symbols.addresses(["inner"]))


@pytest.fixture(params=["--build-id", "--build-id=none"])
def flag(request: pytest.FixtureRequest) -> str:
    return f"-Wl,{request.param}"


@pytest.mark.parametrize("place", ["", ".debug", "/usr"])
def test_the_file_that_is_named(tmp_path: Path, flag: str, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the file, in a directory there, or below the one of the whole machine."""
    path, debug = build(tmp_path / "a", flag)
    monkeypatch.setattr(separate, "_FOLDER", tmp_path / "usr")
    folder = tmp_path / "usr" / path.parent.relative_to("/") if place == "/usr" else path.parent / place
    folder.mkdir(parents=True, exist_ok=True)
    if place:
        shutil.move(debug, folder)
    assert found(path)


def test_by_build_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, debug = build(tmp_path / "a", "-Wl,--build-id")
    monkeypatch.setattr(separate, "_FOLDER", tmp_path)
    with FileIO(path) as file:
        build_id = ElfFile(file).build_id
    folder = tmp_path / ".build-id" / build_id[:2]
    folder.mkdir(parents=True)
    shutil.move(debug, folder / f"{build_id[2:]}.debug")
    assert found(path)


def test_another_build_is_not_used(tmp_path: Path, flag: str) -> None:
    """Its names would be wrong."""
    path, debug = build(tmp_path / "a", flag)
    _, other = build(tmp_path / "b", flag, source=SOURCE.replace("3", "5"))
    shutil.move(other, debug)
    assert not found(path)


def test_what_is_no_file_is_left(tmp_path: Path, flag: str) -> None:
    """A pipe without a writer, a directory, a file without symbols."""
    path, debug = build(tmp_path / "a", flag)
    debug.unlink()
    assert not found(path)
    os.mkfifo(debug)
    assert not found(path)
    debug.unlink()
    debug.mkdir()
    assert not found(path)
    debug.rmdir()
    shutil.copy(path, debug)
    assert not found(path)
