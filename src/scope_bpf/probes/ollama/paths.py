"""Which requests are recorded, by the begin of their paths. The kernel compares eight bytes at once."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scope_catalogue.errors import InvalidOption
from scope_catalogue.options import Option

_MOST = 16  # PREFIXES in bpf/probes/ollama/requests.bpf.h
_WORDS = 4  # PREFIX_WORDS
_LONGEST = 8 * _WORDS

# Ollama's own interface without the calls that only ask for its state, OpenAI's, and those of llama-server.
_DEFAULT = (
    *("/api/chat", "/api/generate", "/api/embed", "/api/create", "/api/pull", "/api/push", "/v1/"),
    *("/chat/completions", "/completion", "/embedding", "/infill", "/rerank", "/responses"),
)


def _check(given: Sequence[str]) -> None:
    """Raises InvalidOption for what no path can begin with."""
    if len(given) > _MOST:
        raise InvalidOption(f"option 'paths': at most {_MOST} can be given, not {len(given)}")
    for text in given:
        if not text.startswith("/") or len(text.encode()) > _LONGEST or "?" in text:
            raise InvalidOption(
                f"option 'paths': {text!r} is not the begin of a path: a '/' and at most {_LONGEST - 1} more bytes, "
                "without a query"
            )


PATHS = Option(
    "paths",
    "names",
    _DEFAULT,
    f"only requests whose paths begin with one of these, such as /api/chat,/v1/; '/' is all. Default: "
    f"{','.join(_DEFAULT)}",
    check=_check,
)


def constants(options: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the programs' read-only variables: prefixes in words, and masks of the same shape."""
    given = options["paths"]
    texts = np.array([text.encode() for text in given], f"S{_LONGEST}")
    masks = np.array([b"\xff" * len(text.encode()) for text in given], f"S{_LONGEST}")
    return {
        "prefix_count": len(given),
        "prefixes": texts.view(np.uint64).reshape(-1, _WORDS),
        "prefix_masks": masks.view(np.uint64).reshape(-1, _WORDS),
    }
