"""schemathesis: requests made from the OpenAPI document, good and bad; every answer must be as the document says."""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.server.records import rows, stacks
from tests.integration.server.running import Server, until
from tests.integration.server.stand_in_agent import StandInAgent
from tests.integration.server.test_app import STORED, answers, recorded, uploading

StartServer = Callable[..., Any]
PATIENCE_S = 1500
EXAMPLES = 3  # of each operation, besides those of each limit in the document
# Parameters and fields with a language of their own, or which others or the server's state must fit: filters, windows
# whose end comes after their begin, emails, certificates.
SAID_IN_WORDS = {
    *("since", "until", "where", "cells", "cursor", "columns", "streams", "parts", "options"),
    *("email", "password", "refresh_token", "signing_request"),
}
OF_A_STATE = {"logout", "delete_template", "make_token"}  # only a login ends; templates of SCOPE stay; names are taken
CONFIG = """
[[operations]]
include-operation-id = {operations}
[operations.phases.coverage.checks]
positive_data_acceptance.enabled = false
[operations.phases.fuzzing.checks]
positive_data_acceptance.enabled = false
"""


@pytest.mark.timeout(PATIENCE_S + 60)
async def test_answers_are_as_described(start_server: StartServer, tmp_path: Path) -> None:
    """No request, however strange, gets an answer that the document does not have: status, media type, schema.

    A request that is valid by its schema is accepted. Left out is what a schema cannot say: operations with a filter, a
    window or another language of their own, of which only the examples in the document must be accepted, and those
    that depend on a state. Live streams are left out because they do not end, and the stateful phase because the
    document has no links between operations.
    """
    agent = StandInAgent()
    async with start_server() as server, agent.attending(server) as channel, uploading(agent, channel) as call:
        await until(lambda: server.ask("GET", "probes"), lambda answer: answer[0] == 200)
        run = await recorded(server, agent)
        held = stacks(["main;small", "main;large"], live_count=[1, 3], live_bytes=[100, 700])
        sent = [run.batch(1, rows(101), 108, {("ring", "ring_full"): 7}), run.batch(1, held, stream="cuda_live")]
        assert await answers(call, *sent) == [STORED, STORED]
        described = await server.get("openapi.json")
        (tmp_path / "openapi.json").write_text(json.dumps(described))
        (tmp_path / "schemathesis.toml").write_text(
            CONFIG.format(operations=json.dumps(list(_said_in_words(described))))
        )
        ran = await asyncio.to_thread(_run, server, tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    tested = re.search(r"Tested: (\d+)", ran.stdout)
    assert tested
    assert int(tested[1]) == sum(len(methods) for path, methods in described["paths"].items() if "/live/" not in path)


def _said_in_words(described: Any) -> Iterator[str]:
    """The operations that may refuse what is valid by its schema."""
    for operation in (one for methods in described["paths"].values() for one in methods.values()):
        names = {one["name"] for one in operation.get("parameters", ())}
        if body := operation.get("requestBody"):
            model = body["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
            names |= described["components"]["schemas"][model].get("properties", {}).keys()
        if names & SAID_IN_WORDS or operation["operationId"] in OF_A_STATE:
            yield operation["operationId"]


def _run(server: Server, folder: Path) -> "subprocess.CompletedProcess[str]":
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "run", "openapi.json", "--url", f"http://{server.http}"),
        *("--header", f"Authorization: {server.authorization}", "--phases", "examples,coverage,fuzzing"),
        *("--generation-deterministic", "--max-examples", str(EXAMPLES), "--request-timeout", "60"),
        *("--exclude-path-regex", "/live/"),  # they do not end
        *("--no-color", "--continue-on-failure"),
    ]
    environment = {**os.environ, "COLUMNS": "160", "HYPOTHESIS_STORAGE_DIRECTORY": str(folder)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE_S)
