"""Folded stacks as text for other tools: a line per stack, `FRAME;FRAME;... WEIGHT`."""

from collections.abc import Iterator, Mapping

from scope_views.flames.folded import Folded


def folded_lines(graphs: Mapping[str, Folded]) -> Iterator[str]:
    """The lines of these streams' stacks. With several streams, a stream's name is the outermost frame."""
    for name, folded in graphs.items():
        begin = [name] if len(graphs) > 1 else []
        for frames, weight in folded.stacks():
            yield f"{';'.join([*begin, *frames])} {weight}\n"
