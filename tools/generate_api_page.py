"""Writes docs/api.md, all routes of the API with their types, from the table of routes: `make docs`.

usage: generate_api_page.py [FILE]
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from scope_server.api.openapi import Operation, document, operations
from scope_server.api.routing.models import Nothing, Text
from scope_server.api.table import TABLE

FILE = Path(__file__).parents[1] / "docs/api.md"
HEAD = """# REST API

<!-- Written by `make docs` from `src/scope_server/api`: edit that instead. -->

All that the server serves over HTTP. `/api/v1/openapi.json` describes the same in OpenAPI 3.1, with a path for
each stream and the types of its columns.

A request shows who sends it: `Authorization: Bearer TOKEN`, or in the console by cookies; a change by cookies needs the
header `X-Scope-CSRF` with the value of the cookie that the login names (`csrf_cookie`). Pages of other origins may call
it where the setting `cors_origins` names them, with tokens only. Each route names the role that it needs; an operator
may do what a viewer may, and an admin everything. Each caller has a rate for each route; over it, the answer is
429, with `Retry-After`.

Every refusal is a problem document (RFC 9457, `application/problem+json`). `detail` says what is wrong and what to
do, and `errors` names each wrong `parameter`, or each wrong field of the body by a `pointer`:

```json
{"status": 400, "title": "Bad request", "detail": "limit: must be less than or equal to 1000, not '2000'",
 "errors": [{"detail": "must be less than or equal to 1000, not '2000'", "parameter": "limit"}]}
```

Parameters may be given once. Times are as `2026-01-31T12:00:00Z`; without a time zone, they are in UTC. Unknown
parameters and fields are refused. Long answers are compressed for callers that send `Accept-Encoding: gzip`.
"""


def main() -> None:
    """Writes the page."""
    (Path(sys.argv[1]) if len(sys.argv) > 1 else FILE).write_text(page())


def page() -> str:
    """The page."""
    described = document(TABLE)
    found = list(operations(TABLE))
    parts = [HEAD, _table(("route", "needs", "does"), (_row(one) for one in found))]
    for one in found:
        parts += _operation(one, described["paths"][one.path][one.route.method.lower()])
    parts.append("## Types")
    for name, schema in described["components"]["schemas"].items():
        parts += _type(name, schema)
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def _row(operation: Operation) -> tuple[str, str, str]:
    title = _title(operation)
    anchor = "".join(letter for letter in title.lower() if letter.isalnum() or letter in " -_").replace(" ", "-")
    return f"[`{title}`](#{anchor})", operation.route.needs, operation.summary


def _title(operation: Operation) -> str:
    return f"{operation.route.method} {operation.path}"


def _operation(operation: Operation, described: Mapping[str, Any]) -> Iterator[str]:
    route = operation.route
    yield f"## {_title(operation)}"
    yield route.meaning
    rate = f"{route.rate.burst:,} calls at once, then {route.rate.per_minute:,.0f} a minute"
    audited = f" In the audit log: `{route.audited}`." if route.audited else ""
    yield f"Needs {'no login' if route.role is None else f'the role {route.role}'}; {rate}.{audited}"
    if parameters := described.get("parameters"):
        rows = (
            (f"`{one['name']}`", one["in"], _shown(one["schema"]), one.get("description", "")) for one in parameters
        )
        yield _table(("parameter", "in", "type", "meaning"), rows)
    if route.body is not Nothing:
        yield f"Body: {_link(route.body.__name__)}."
    if issubclass(operation.answer, Text):
        yield f"Answer: {', '.join(f'`{media}`' for media in operation.answer.MEDIA)}."
    else:
        yield f"Answer ({route.status}): {_link(operation.answer.__name__)}."


def _type(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    yield f"### {name}"
    yield " ".join(schema["description"].split())
    if properties := schema.get("properties"):
        needed = schema.get("required", ())
        rows = (
            (f"`{field}`", _shown(kind) + ("" if field in needed else ", optional"), kind.get("description", ""))
            for field, kind in properties.items()
        )
        yield _table(("field", "type", "meaning"), rows)
    else:
        yield f"Type: {_shown(schema)}."


def _shown(schema: Mapping[str, Any]) -> str:
    """A type as people say it, with its bounds and default."""
    if "$ref" in schema:
        return _link(str(schema["$ref"].rpartition("/")[2]))
    bounds = [words.format(f"{schema[key]:,}") for key, words in _BOUNDS.items() if key in schema]
    bounds += [f"default {schema['default']}"] if schema.get("default") not in (None, [], {}) else []
    return ", ".join([_kind(schema), *bounds])


_BOUNDS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "above {}",
    "maximum": "at most {}",
    "maxLength": "at most {} characters",
    "maxProperties": "at most {} members",
}


def _kind(schema: Mapping[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_shown, schema["anyOf"])))
    if "const" in schema or "enum" in schema:
        return " or ".join(f"`{choice}`" for choice in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {_shown(schema['items'])}"
    if schema.get("type") == "object":
        values = schema.get("additionalProperties")
        return f"object of {_shown(values)}" if isinstance(values, Mapping) else "object"
    if isinstance(schema.get("type"), str):
        return {"date-time": "time", "date": "date", "uuid": "UUID"}.get(schema.get("format", ""), schema["type"])
    return "any JSON"


def _link(name: str) -> str:
    return f"[{name}](#{name.lower()})"


def _table(heading: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    escaped = ([cell.replace("|", "\\|") for cell in row] for row in rows)
    lines = [tuple(heading)]
    return "\n".join(f"| {' | '.join(row)} |" for row in [*lines, ["---"] * len(lines[0]), *escaped])


if __name__ == "__main__":
    main()
