"""The panels of Grafana's dashboards over a day of 10,000,000 rows: each query, as Grafana sends it."""

import statistics
import time
from datetime import datetime
from typing import Any

import psycopg
from deploy.grafana.generate import dashboards
from deploy.grafana.panels import Sql
from tests.integration.server.deployed.macros import Asked

from bench.filled import filled_server
from bench.measure import Result, at_most

ROWS = 10_000_000
_EVERYTHING = {"machine": ".*", "task": ".*", "comm": "'*'", "container": "'*'"}
_GOAL_MS = 300.0
_TIMES = 5


def run(rows: int = ROWS) -> list[Result]:
    """The median time of each query that misses the goal, or of the slowest."""
    with filled_server(rows) as filled, psycopg.connect(filled.server.conninfo, autocommit=True) as connection:
        day = Asked(datetime.fromisoformat(filled.since), datetime.fromisoformat(filled.until), _EVERYTHING)
        took = [
            (_median_ms(connection, day.query(query.text)), f"{board.title}: {panel.title}")
            for board in dashboards().values()
            for panel in board.panels
            for query in panel.queries
            if isinstance(query, Sql)
        ]
    slowest = sorted(took, reverse=True)
    told = [one for one in slowest if one[0] > _GOAL_MS] or slowest[:1]
    of = f"Grafana, of {len(took)} queries over {rows:,} rows"
    return [at_most(f"{of}: {panel}", median_ms, _GOAL_MS, " ms") for median_ms, panel in told]


def _median_ms(connection: psycopg.Connection[Any], query: str) -> float:
    took = []
    for _ in range(_TIMES):
        began = time.monotonic()
        connection.execute(query.encode()).fetchall()
        took.append((time.monotonic() - began) * 1000)
    return statistics.median(took)
