"""A flame graph as one SVG file, which a browser shows without anything else: as wide as the page, its root at the top,
searchable, and every frame can be made the widest one."""

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from importlib.resources import files
from xml.sax.saxutils import escape

import numpy as np

from scope_views.flames.tree import Tree, shares
from scope_views.quantities import duration, size

_WIDTH = 1200.0  # px
_ROW = 17  # px
_TITLE = 48  # px above each graph
_NARROWEST = 0.1  # px; frames that are narrower are not drawn
_CHARACTER = 7.3  # px; at this size of the text
_KERNEL = "_[k]"


def picture(trees: Sequence[Tree]) -> str:
    """The SVG with these graphs, one below the other; each is as wide as the picture.

    Of two sides that are compared, a frame is as wide as its mean share, red if its share is larger on the first side,
    and blue if it is smaller.
    """
    parts, top = [], 0.0
    for tree in trees:
        height, drawn = _graph(tree, top)
        parts.append(drawn)
        top += height + _ROW
    if not trees:
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


def _graph(tree: Tree, top: float) -> tuple[float, str]:
    """The height of a graph, and the graph."""
    totals = " against ".join(_amount(int(total), tree.unit) for total in tree.value[:, 0])
    lines = [
        f'<g class="graph"><text class="title" x="8" y="{top + 20:.0f}">{escape(tree.title)}</text>\n'
        f'<text class="total" x="8" y="{top + 38:.0f}">{escape(totals)}</text>\n'
    ]
    depth = 0
    for frame, begin, width in _placed(tree):
        level = int(tree.level[frame])
        depth = max(depth, level + 1)
        lines.append(_drawn(tree, frame, begin, top + _TITLE + level * _ROW, width))
    return _TITLE + depth * _ROW, "".join([*lines, "</g>\n"])


def _placed(tree: Tree) -> Iterator[tuple[int, float, float]]:
    """Every frame that is drawn, with its left end and its width in px."""
    whole = shares(tree)[: tree.sides].sum(axis=0) / max(1, np.count_nonzero(tree.value[:, 0]))
    free = [0.0]  # the left end of the next frame of each level
    for frame, (level, width) in enumerate(zip(tree.level.tolist(), (whole * _WIDTH).tolist(), strict=True)):
        begin = free[level]
        free[level] += width
        free[level + 1 :] = [begin]
        if width >= _NARROWEST:
            yield frame, begin, width


def _drawn(tree: Tree, frame: int, begin: float, y: float, width: float) -> str:
    name = tree.labels[tree.label[frame]]
    letters = int(width / _CHARACTER)
    text = name if len(name) <= letters else f"{name[: letters - 2]}.." if letters > 3 else ""
    return (
        f'<g class="frame" data-x="{begin:.2f}" data-w="{width:.2f}"><title>{escape(_told(tree, frame, name))}</title>'
        f'<rect x="{begin:.2f}" y="{y:.0f}" width="{width:.2f}" height="{_ROW - 1}" fill="{_fill(tree, frame, name)}"/>'
        f'<text x="{begin + 3:.2f}" y="{y + _ROW - 5:.0f}">{escape(text)}</text></g>\n'
    )


def _told(tree: Tree, frame: int, name: str) -> str:
    """What a frame weighs, with the frames below it and alone; of two sides, on both."""
    lines = [name]
    for word, weights in (("inclusive", tree.value), ("self", tree.own)):
        each = [
            f"{_amount(int(weight), tree.unit)}, {weight / max(total, 1):.2%}"
            for weight, total in zip(weights[:, frame], tree.value[:, 0], strict=True)
        ]
        lines.append(f"{word}: {' against '.join(each)}")
    return "\n".join(lines)


def _fill(tree: Tree, frame: int, name: str) -> str:
    if tree.sides == 1:
        return _colour(name)
    one, other = (tree.value[:, frame] / np.maximum(tree.value[:, 0], 1)).tolist()
    grown = (one - other) / max(one, other, 1e-9)
    return f"hsl({0 if grown > 0 else 220}, 75%, {95 - 30 * abs(grown):.0f}%)"


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
