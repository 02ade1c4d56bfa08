"""Folded stacks as text for other tools: a line per stack, `FRAME;FRAME;... WEIGHT`.

Two sides that are compared have two weights a line, the second side's first, as difffolded.pl of Brendan Gregg's
FlameGraph writes them: before and after.
"""

from collections.abc import Iterator, Mapping

from scope_views.flames.tree import Tree


def folded_lines(trees: Mapping[str, Tree]) -> Iterator[str]:
    """The lines of these streams' stacks. With several streams, a stream's name is the outermost frame."""
    for name, tree in trees.items():
        begin = [name] if len(trees) > 1 else []
        labels = [label.replace(";", ":") for label in tree.labels]  # a semicolon would begin another frame
        for frames, weights in tree.stacks():
            told = " ".join(map(str, reversed(weights)))
            yield f"{';'.join([*begin, *(labels[frame] for frame in frames)])} {told}\n"
