"""Draws the pictures of README.md: `make pictures`, as root, with tmux.

flames.svg is a flame graph of busy.py, as `scope trace profile --flamegraph` writes it. up.svg is the screen of `scope
up`, taken from a terminal (tmux) after some seconds in which busy.py and a few commands ran; only its directory and its
port are replaced by the usual ones.

console.png is not drawn here: it is the upper part of build/console-pictures/why-of-one-dark.jpg of `make e2e`, with
other directories.
"""

import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.sax.saxutils import escape

from rich.console import Console
from rich.style import Style
from rich.terminal_theme import MONOKAI
from rich.text import Text

HERE = Path(__file__).parent
SCOPE = Path(sys.executable).with_name("scope")
PYTHON = "/usr/bin/python3"  # has the same paths everywhere
COLUMNS, LINES = 120, 34
DEADLINE_S = 180
WATCHED_S = 15
CELL, LINE, MARGIN = 8.4, 19, 12  # of the screen's picture, in pixels
COMMANDS = (
    "while sleep 0.2; do grep -rc main /usr/include/linux; ls -R /usr/share/doc | sort | tail -1; done >/dev/null"
)
HEAD = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">
<rect width="{width}" height="{height}" rx="8" fill="#1a1a1a"/>
<g font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14" fill="#d9d9d9">"""


def main() -> None:
    """Draws both."""
    with tempfile.TemporaryDirectory(prefix="scope") as name:
        folder = Path(name)
        shutil.copy(HERE / "busy.py", folder)
        with running([PYTHON, "busy.py"], folder) as busy:
            (HERE / "flames.svg").write_text(flames(folder, busy.pid))
        with running([PYTHON, "busy.py"], folder), running(["sh", "-c", COMMANDS], folder):
            (HERE / "up.svg").write_text(up(folder))


@contextmanager
def running(command: list[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program that runs meanwhile."""
    process = subprocess.Popen(command, cwd=folder)
    try:
        time.sleep(1)
        yield process
    finally:
        process.kill()
        process.wait()


def flames(folder: Path, pid: int) -> str:
    """A flame graph of three seconds of a process."""
    drawn = folder / "flames.svg"
    words = ("trace", "profile", "-o", "rate=299", "--pid", str(pid), "--duration", "3", "--flamegraph", str(drawn))
    subprocess.run([SCOPE, *words], check=True, stdout=subprocess.DEVNULL)
    return re.sub(rf"{folder}|{folder.parent}/(?:sc\w*)?(?=\.\.)", "/srv", drawn.read_text())  # a label may be cut


def up(folder: Path) -> str:
    """The screen of a `scope up` with a directory and ports of its own."""
    tmux = ["tmux", "-f", "/dev/null", "-S", str(folder / "tmux")]
    ports = [word for name in ("http", "ingest", "enrol", "control", "metrics") for word in (f"--{name}", free())]
    command = ["env", f"XDG_RUNTIME_DIR={folder}", str(SCOPE), "up", "--state-dir", str(folder / "state"), *ports]
    size = ("-x", str(COLUMNS), "-y", str(LINES))
    subprocess.run([*tmux, "new-session", "-d", *size, "-s", "t", *command, ";", "set", "status", "off"], check=True)
    try:
        wait_for_rows(tmux)
        time.sleep(WATCHED_S)
        screen = subprocess.run([*tmux, "capture-pane", "-epN", "-t", "t"], capture_output=True, text=True, check=True)
        subprocess.run([*tmux, "send-keys", "-t", "t", "C-c"], check=True)
        end = time.monotonic() + DEADLINE_S
        while subprocess.run([*tmux, "has-session"], check=False, stderr=subprocess.DEVNULL).returncode == 0:
            assert time.monotonic() < end, "scope up does not end"
            time.sleep(0.5)
    finally:
        subprocess.run([*tmux, "kill-server"], check=False, stderr=subprocess.DEVNULL)
    return as_svg(
        re.sub(r"127.0.0.1:\d+", "127.0.0.1:8470", screen.stdout.replace(f"{folder}/state", "/var/lib/scope"))
    )


def free() -> str:
    """A loopback address on which no process listens."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        return f"127.0.0.1:{one.getsockname()[1]}"


def wait_for_rows(tmux: list[str]) -> None:
    """Waits until `scope up` shows a task that has recorded rows."""
    end = time.monotonic() + DEADLINE_S
    show = [*tmux, "capture-pane", "-p"]
    while "syscalls" not in (shown := subprocess.run(show, capture_output=True, text=True, check=True).stdout):
        assert time.monotonic() < end, f"scope up shows no task:\n{shown}"
        time.sleep(0.5)


def as_svg(screen: str) -> str:
    """A screen with its colours, without fonts from the network."""
    lines = Console(width=COLUMNS, no_color=False).render_lines(Text.from_ansi(screen.rstrip("\n ")), pad=False)
    height = (len(lines) + 1) * LINE
    drawn = [HEAD.format(width=round(COLUMNS * CELL) + 2 * MARGIN, height=height)]
    for number, line in enumerate(lines, 1):
        column = 0
        for text, style, _ in line:
            for run in re.finditer(r"\S+( \S+)*", text):
                x, length = MARGIN + (column + run.start()) * CELL, len(run[0]) * CELL
                where = f'x="{x:.1f}" y="{number * LINE + 4}" textLength="{length:.1f}"'
                drawn.append(f"<text {where}{_look(style)}>{escape(run[0])}</text>")
            column += len(text)
    return "\n".join([*drawn, "</g>", "</svg>\n"])


def _look(style: Style | None) -> str:
    """The attributes of a text with this style."""
    if not style:
        return ""
    attributes = {"font-weight": style.bold and "bold", "font-style": style.italic and "italic"}
    attributes["opacity"] = style.dim and "0.6"
    if style.color and not style.color.is_default:
        attributes["fill"] = style.color.get_truecolor(MONOKAI).hex
    return "".join(f' {name}="{value}"' for name, value in attributes.items() if value)


if __name__ == "__main__":
    main()
