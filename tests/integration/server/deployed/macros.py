"""Expands a dashboard's queries as Grafana does: variables in the browser, then the macros of its PostgreSQL source.

After Grafana 11: public/app/features/templating (formats `sqlstring` and `pipe`; a custom value for all stays as it
is), and pkg/tsdb/grafana-postgresql-datasource/macros.go.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

_MACRO = re.compile(r"\$__(\w+)\(\)")
MOST_POINTS, LEAST_STEP_S = 200, 60
_STEPS = (60, 120, 300, 600, 900, 1200, 1800, 3600, 7200, 10800, 21600, 43200, 86400)


@dataclass(frozen=True)
class Asked:
    """A time range, and the chosen values of variables; a text in place of a list is the custom value for all."""

    since: datetime
    until: datetime
    values: Mapping[str, Sequence[str] | str] = field(default_factory=dict)

    @property
    def step_s(self) -> int:
        """$__interval_ms in s: at least a minute, so that there are at most `MOST_POINTS`."""
        least = max(LEAST_STEP_S, (self.until - self.since).total_seconds() / MOST_POINTS)
        return next(step for step in _STEPS if step >= least or step == _STEPS[-1])

    def query(self, text: str) -> str:
        """The query as PostgreSQL gets it."""
        return _MACRO.sub(self._macro, self._with_variables(text))

    def promql(self, text: str) -> str:
        """The query as Prometheus gets it."""
        return self._with_variables(text).replace("$__rate_interval", f"{4 * self.step_s}s")

    def _with_variables(self, text: str) -> str:
        for name, value in {
            "$__interval_ms": str(self.step_s * 1000),
            "$__from": str(int(self.since.timestamp() * 1000)),
            "$__to": str(int(self.until.timestamp() * 1000)),
        }.items():
            text = text.replace(name, value)
        return re.sub(r"\$\{(\w+):(\w+)\}", lambda found: self._variable(found[1], found[2]), text)

    def _variable(self, name: str, form: str) -> str:
        value = self.values[name]
        if isinstance(value, str):
            return value
        quoted = ["'" + one.replace("'", "''") + "'" for one in value]
        return {"sqlstring": ",".join(quoted), "pipe": "|".join(value)}[form]

    def _macro(self, found: re.Match[str]) -> str:
        at = {"timeFrom": self.since, "timeTo": self.until}[found[1]]
        return f"'{at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}'"


def last(length: timedelta, **values: Sequence[str] | str) -> Asked:
    """The last time of this length."""
    until = datetime.now(UTC) + timedelta(seconds=5)
    return Asked(until - length, until, values)
