"""A flame graph as one SVG file, which a browser shows without anything else: as wide as the page, its root at the top,
searchable, and every frame can be made the widest one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from importlib.resources import files
from xml.sax.saxutils import escape

from scope_views.flames.folded import Folded
from scope_views.quantities import duration, size

_WIDTH = 1200.0  # px
_ROW = 17  # px
_TITLE = 48  # px above each graph
_NARROWEST = 0.1  # px; frames that are narrower are not drawn
_CHARACTER = 7.3  # px; at this size of the text
_KERNEL = "_[k]"


@dataclass
class _Frame:
    name: str
    weight: int = 0
    inner: "dict[str, _Frame]" = field(default_factory=dict)

    def depth(self, per_unit: float) -> int:
        """Rows that this frame and those below it take."""
        shown = (one for one in self.inner.values() if one.weight * per_unit >= _NARROWEST)
        return 1 + max((one.depth(per_unit) for one in shown), default=0)


def picture(graphs: Sequence[Folded]) -> str:
    """The SVG with these graphs, one below the other; each is as wide as the picture."""
    parts, top = [], 0.0
    for graph in graphs:
        root = _tree(graph)
        height = _TITLE + root.depth(_WIDTH / root.weight) * _ROW
        parts.append(_graph(graph, root, top))
        top += height + _ROW
    if not graphs:
        parts, top = ['<text class="title" x="8" y="24">no stacks were recorded</text>'], 2 * _ROW
    script = files(__package__).joinpath("flames.js").read_text()
    style = files(__package__).joinpath("flames.css").read_text()
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:.0f} {top:.0f}" width="{_WIDTH:.0f}" '
        f'height="{top:.0f}">\n'
        f"<style>{escape(style)}</style>\n"
        '<text id="search" class="button right" x="1192" y="20">search (Ctrl-F)</text>\n'
        '<text id="found" class="found right" x="1192" y="38"></text>\n'
        f"{''.join(parts)}<script><![CDATA[\n{script}]]></script>\n</svg>\n"
    )


def _tree(graph: Folded) -> _Frame:
    root = _Frame("all")
    for frames, weight in graph.stacks():
        root.weight += weight
        at = root
        for name in frames:
            at = at.inner.setdefault(name, _Frame(name))
            at.weight += weight
    return root


def _graph(graph: Folded, root: _Frame, top: float) -> str:
    lines = [
        f'<g class="graph"><text class="title" x="8" y="{top + 20:.0f}">{escape(graph.title)}</text>\n'
        f'<text class="total" x="8" y="{top + 38:.0f}">{escape(_amount(root.weight, graph.unit))}</text>\n'
    ]
    for frame, begin, depth in _placed(root, _WIDTH / root.weight):
        lines.append(_drawn(frame, begin, top + _TITLE + depth * _ROW, root.weight, graph.unit))
    return "".join([*lines, "</g>\n"])


def _placed(root: _Frame, per_unit: float) -> Iterator[tuple[_Frame, float, int]]:
    """Every frame that is drawn, with its left end in px and its depth."""
    waiting = [(root, 0.0, 0)]
    while waiting:
        frame, begin, depth = waiting.pop()
        yield frame, begin, depth
        at = begin
        for one in frame.inner.values():
            if one.weight * per_unit >= _NARROWEST:
                waiting.append((one, at, depth + 1))
            at += one.weight * per_unit


def _drawn(frame: _Frame, begin: float, y: float, total: int, unit: str) -> str:
    width = frame.weight * _WIDTH / total
    inclusive, own = frame.weight, frame.weight - sum(one.weight for one in frame.inner.values())
    told = (
        f"{frame.name}\ninclusive: {_amount(inclusive, unit)}, {inclusive / total:.2%}\n"
        f"self: {_amount(own, unit)}, {own / total:.2%}"
    )
    letters = int(width / _CHARACTER)
    text = frame.name if len(frame.name) <= letters else f"{frame.name[: letters - 2]}.." if letters > 3 else ""
    return (
        f'<g class="frame" data-x="{begin:.2f}" data-w="{width:.2f}"><title>{escape(told)}</title>'
        f'<rect x="{begin:.2f}" y="{y:.0f}" width="{width:.2f}" height="{_ROW - 1}" fill="{_colour(frame.name)}"/>'
        f'<text x="{begin + 3:.2f}" y="{y + _ROW - 5:.0f}">{escape(text)}</text></g>\n'
    )


def _amount(weight: int, unit: str) -> str:
    return duration(weight) if unit == "ns" else size(weight) if unit == "bytes" else f"{weight:,}"


def _colour(name: str) -> str:
    """The same for the same name: orange for the kernel, green for Python, else red to yellow."""
    shade = blake2b(name.encode(), digest_size=1).digest()[0] / 255
    if name.endswith(_KERNEL):
        return f"hsl(30, 85%, {60 + 10 * shade:.0f}%)"
    if name.endswith(")") and " (" in name and ":" in name:
        return f"hsl(120, 40%, {60 + 15 * shade:.0f}%)"
    return f"hsl({50 * shade:.0f}, 75%, 68%)"
