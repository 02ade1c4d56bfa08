"""What compilers made before: below build/workloads, for all workers and later sessions, until `make clean`.

Each test gets copies of its own: an attached file must not be that of another test that runs at the same time.
"""

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

CACHE = Path(__file__).parents[1] / "build" / "workloads"


def compiled(output: Path, compiler: Path | str, words: Sequence[str], *sources: Path) -> Path:
    """Writes what a compiler makes of sources, unless `output` exists.

    Args:
        words: for the compiler, without `-o`.
        sources: these files and the headers beside them are all that may change.
    """
    if not output.exists():
        headers = sorted({header for source in sources for header in source.parent.glob("*.h")})
        kept = CACHE / digest(output.name, _told(compiler), *words, *sources, *headers)
        if not kept.exists():
            CACHE.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=CACHE) as folder:
                made = Path(folder) / output.name
                subprocess.run([compiler, *words, "-o", made, *sources], check=True)
                made.rename(kept)  # at once, so that nobody sees a part
        shutil.copy(kept, output)
    return output


@cache
def _told(compiler: Path | str) -> str:
    """Which version a compiler is."""
    return subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout


def digest(*parts: str | Path) -> str:
    """A digest of texts and of files' contents."""
    digest = hashlib.sha256()
    for part in parts:
        content = part.read_bytes() if isinstance(part, Path) else part.encode()
        digest.update(len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()
