"""A flame graph as a file for speedscope (speedscope.app/file-format-schema.json). Two sides are two profiles."""

import json
from typing import Any

from scope_views.flames.tree import Tree

_UNITS = {"ns": "nanoseconds", "bytes": "bytes"}
SIDES = ("inside", "outside")


def speedscope(tree: Tree) -> bytes:
    """The JSON document."""
    stacks = list(tree.stacks())
    document = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": "scope",
        "name": tree.title,
        "activeProfileIndex": 0,
        "shared": {"frames": [{"name": label} for label in tree.labels]},
        "profiles": [_profile(tree, stacks, side) for side in range(tree.sides)],
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def _profile(tree: Tree, stacks: list[tuple[list[int], list[int]]], side: int) -> dict[str, Any]:
    its = [(frames, weights[side]) for frames, weights in stacks if weights[side]]
    return {
        "type": "sampled",
        "name": SIDES[side] if tree.sides > 1 else tree.title,
        "unit": _UNITS.get(tree.unit, "none"),
        "startValue": 0,
        "endValue": sum(weight for _, weight in its),
        "samples": [frames for frames, _ in its],
        "weights": [weight for _, weight in its],
    }
