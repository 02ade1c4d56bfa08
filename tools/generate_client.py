"""Writes src/scope_cli/api.py, the command line's typed calls of the API, from the table of routes: `make client`.

usage: generate_client.py [FILE]
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

from scope_server.api.openapi import Operation, document, operations
from scope_server.api.routing.models import Live, Nothing, Text
from scope_server.api.routing.route import PREFIX
from scope_server.api.routing.tables import TableQuery
from scope_server.api.table import TABLE

FILE = Path(__file__).parents[1] / "src/scope_cli/api.py"
HEAD = '''"""Calls of the server's API, with the types of bodies and answers.

DO NOT EDIT: made by `make client` from the routes in src/scope_server/api.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, BinaryIO, Literal, NotRequired, TypedDict

from scope_cli.server_events import ServerEvent


'''
CALLS = '''class Api(ABC):
    """A method for each route."""

    @abstractmethod
    def get(self, *path: str, **query: object) -> Any:
        """The answer to GET /api/v1/PATH; None and empty values of `query` are left out."""

    @abstractmethod
    def post(self, *path: str, body: object = None) -> Any:
        """The answer to POST /api/v1/PATH with a JSON body."""

    @abstractmethod
    def save(self, file: BinaryIO, *path: str, **query: object) -> str:
        """Writes the answer to GET /api/v1/PATH to a file; returns what was lost of it, empty: nothing."""

    @abstractmethod
    def watch(self, *path: str, **query: object) -> Iterator[ServerEvent]:
        """The events of GET /api/v1/PATH as they come."""

'''
_WIDTH = 110  # of a docstring
_REF = re.compile("#/components/schemas/([A-Za-z]+)")
_SCALARS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}

_ERRORS = ("Problem", "WrongPart")  # the client turns them into exceptions


def main() -> None:
    """Writes the module."""
    (Path(sys.argv[1]) if len(sys.argv) > 1 else FILE).write_text(module())


def module() -> str:
    """The module, as ruff formats it."""
    described = document(TABLE)
    schemas = described["components"]["schemas"]
    calls = [one for one in operations(TABLE) if one.path.startswith(PREFIX)]
    wanted = {name: schema for name, schema in schemas.items() if name not in _ERRORS}
    types = "\n\n".join(_type(name, wanted[name]) for name in _ordered(wanted))
    methods = "\n".join(_method(one, described["paths"][one.path][one.route.method.lower()]) for one in calls)
    ruff = shutil.which("ruff", path=str(Path(sys.executable).parent)) or "ruff"
    text = f"{HEAD}{types}\n\n{CALLS}{methods}"
    return subprocess.run(
        [ruff, "format", "--stdin-filename", FILE, "-"], input=text, capture_output=True, text=True, check=True
    ).stdout


def _ordered(schemas: Mapping[str, Any]) -> Iterator[str]:
    """The names of schemas, each after those that it refers to."""
    refers = {name: set(_REF.findall(json.dumps(schema))) for name, schema in schemas.items()}
    yield from TopologicalSorter({name: sorted(refers[name]) for name in sorted(refers)}).static_order()


def _type(name: str, schema: Mapping[str, Any]) -> str:
    meaning = " ".join(schema["description"].split())
    if len(meaning) > _WIDTH:
        meaning = f"{meaning.partition('. ')[0].removesuffix('.')}."
    if "properties" not in schema:
        return f"{name} = {_python(schema)}\n"
    needed = schema.get("required", ())
    fields = (
        f"    {field}: {kind}" if field in needed else f"    {field}: NotRequired[{kind}]"
        for field, kind in ((field, _python(kind)) for field, kind in schema["properties"].items())
    )
    return f'class {name}(TypedDict):\n    """{meaning}"""\n\n' + "\n".join(fields) + "\n"


def _python(schema: Mapping[str, Any]) -> str:
    """The type of a schema's values."""
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(map(_python, schema["anyOf"])))
    if "const" in schema or "enum" in schema:
        return f"Literal[{', '.join(map(repr, schema.get('enum', [schema.get('const')])))}]"
    kind = schema.get("type")
    if kind == "array":
        return f"list[{_python(schema['items'])}]"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"dict[str, {_python(values) if isinstance(values, Mapping) else 'Any'}]"
    return _SCALARS[kind] if isinstance(kind, str) else "Any"


def _method(operation: Operation, described: Mapping[str, Any]) -> str:
    route = operation.route
    given = described.get("parameters", ())
    path = [one["name"] for one in given if one["in"] == "path"]
    as_file = {"format"} if issubclass(operation.query, TableQuery) else set()  # the answer here is JSON
    query = {
        one["name"]: _python(one["schema"]) for one in given if one["in"] == "query" and one["name"] not in as_file
    }
    of_text = issubclass(operation.answer, Text) and not issubclass(operation.answer, Live)
    signature = [
        "self",
        *["file: BinaryIO"] * of_text,
        *(f"{name}: str" for name in path),
        *([f"body: {route.body.__name__}"] if _body(operation) else []),
    ]
    signature += ["*", *(f"{name}: {kind} | None = None" for name, kind in query.items())] if query else []
    words = ["file"] * of_text + list(_words(route.path))
    words += [f"{name}={name}" for name in query] + (["body=body"] if _body(operation) else [])
    if issubclass(operation.answer, Text):
        kind, way = ("str", "save") if of_text else ("Iterator[ServerEvent]", "watch")
        return f'''
    def {operation.name}({", ".join(signature)}) -> {kind}:
        """{route.meaning}"""
        return self.{way}({", ".join(words)})
'''
    answer = operation.answer.__name__
    return f'''
    def {operation.name}({", ".join(signature)}) -> {answer}:
        """{route.meaning}"""
        answer: {answer} = self.{route.method.lower()}({", ".join(words)})
        return answer
'''


def _body(operation: Operation) -> bool:
    return operation.route.body is not Nothing


def _words(path: str) -> Iterator[str]:
    for part in path.removeprefix(PREFIX).strip("/").split("/"):
        yield part.strip("{}") if part.startswith("{") else repr(part)


if __name__ == "__main__":
    main()
