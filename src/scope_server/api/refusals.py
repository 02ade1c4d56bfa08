"""What the API refuses, as OpenAPI describes it: the statuses of an operation, each with a problem document."""

from collections.abc import Set
from typing import Any

_MEDIA = "application/problem+json"
_SCHEMA = {
    "type": "object",
    "description": "A problem document (RFC 9457); `detail` names what is wrong, and the remedy",
    "required": ["status", "title", "detail"],
    "properties": {"status": {"type": "integer"}, "title": {"type": "string"}, "detail": {"type": "string"}},
}
_OF_ALL = {
    400: (
        "BadRequest",
        "A parameter or field is unknown, given twice, too long or not valid; or the query is too slow",
    ),
    401: ("Unauthorized", "The token is missing or wrong"),
    500: ("InternalError", "The server failed; its log says why"),
    503: ("Unavailable", "The database or the agent does not answer, or a table is locked; try again"),
}
_OF_NAMES = {404: ("NotFound", "Nothing has the name or id that is given")}
_OF_CHANGES = {
    404: _OF_NAMES[404],
    409: ("Conflict", "What is named does not allow this, or not on this server"),
    413: ("TooLarge", "The body is too large"),
    415: ("Unsupported", "The body is compressed; send plain JSON"),
}
_NAMES = frozenset({"task_id", "id", "name", "node", "machine"})  # parameters that may name nothing


def refusals(*, named: Set[str], changes: bool) -> dict[str, Any]:
    """The refusals of an operation, by status.

    Args:
        named: its parameters.
        changes: it has a body, if only an empty one.
    """
    found = _OF_ALL | (_OF_NAMES if named & _NAMES else {}) | (_OF_CHANGES if changes else {})
    return {str(status): {"$ref": f"#/components/responses/{name}"} for status, (name, _) in sorted(found.items())}


def described_refusals() -> dict[str, Any]:
    """The components that `refusals` refers to."""
    content = {_MEDIA: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    every = (_OF_ALL | _OF_NAMES | _OF_CHANGES).values()
    return {
        "schemas": {"Problem": _SCHEMA},
        "responses": {name: {"description": meaning, "content": content} for name, meaning in every},
    }
