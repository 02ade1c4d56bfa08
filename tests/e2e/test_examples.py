"""The examples of each probe run. Stand-ins take the place of CUDA's libraries, of NVML and of llama-cli."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.llm.tiny_model import write
from tests.probes.cuda_programs import Nvcc, StandIn
from tests.probes.nvml import build_nvml

from scope_bpf.probes import probe_named, probes

STAND_INS = Path(__file__).with_name("stand_ins")
EXAMPLES = [
    pytest.param(example.command, id=f"{name}-{number}")
    for name in probes()
    for number, example in enumerate(probe_named(name).guide.examples)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the examples name: a CUDA program and a model."""
    folder = tmp_path_factory.mktemp("examples")
    StandIn(tmp_path_factory.mktemp("stand_in")).build(Nvcc(folder), "program", "cuda_memory.cu")
    write(folder / "model.gguf")
    return folder


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """`scope`, Python and the stand-ins come first."""
    nvml = build_nvml(tmp_path_factory.mktemp("nvml"))
    Path(nvml["NVML_PROCESSES"]).write_text(f"{os.getpid()} 1009\n")
    path = f"{Path(sys.executable).parent}:{STAND_INS}:{os.environ['PATH']}"
    return {**os.environ, **nvml, "PATH": path, "COLUMNS": "200"}


@pytest.mark.parametrize("command", EXAMPLES)
def test_an_example_works(folder: Path, environment: dict[str, str], command: str) -> None:
    """An example succeeds and prints something; one that traces a command records rows."""
    adapted = command.replace("/tmp/", f"{folder}/")
    ran = subprocess.run(adapted, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0, ran.stderr
    (rows,) = re.findall(r"([\d,]+) rows? in ", ran.stderr)
    assert ran.stdout or rows == "0"
    assert rows != "0" or " -- " not in command
    for written in re.findall(rf"{folder}/\S+\.\w+", adapted):
        assert Path(written).stat().st_size
