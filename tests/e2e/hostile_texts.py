"""Has hostile texts in its name, its arguments, the paths of its files, and the path of a program that it starts.

usage: hostile_texts.py FOLDER TEXT...
"""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

NAME = "<img src=x>"  # of a program, at most 15 bytes
LONGEST_PATH = 4095  # bytes; of a part of it: 255


def main(folder: str, *texts: str) -> None:
    """Reads a file whose path has all texts in it, and runs a program there."""
    path = Path(folder, *(text.lstrip("/")[:200] for text in texts))
    while len(os.fsencode(path)) + 201 <= LONGEST_PATH - 10:
        path /= "x" * 200
    path.mkdir(parents=True)
    file, program = path / "data", path / "runs"
    file.write_bytes(bytes(1 << 20))
    file.read_bytes()
    shutil.copy("/bin/true", program)
    subprocess.run([program, *texts], check=True)


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(15, NAME.encode(), 0, 0, 0)  # PR_SET_NAME
    os.kill(os.getpid(), signal.SIGSTOP)
    main(*sys.argv[1:])
