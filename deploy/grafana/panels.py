"""Dashboards and panels as values, and their JSON as Grafana reads it (dashboards of schema version 39)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

POSTGRES = {"type": "grafana-postgresql-datasource", "uid": "scope-postgres"}
PROMETHEUS = {"type": "prometheus", "uid": "scope-prometheus"}
WIDTH = 24  # of a dashboard, in Grafana's columns
# Grafana is served below the console's address and takes a leading slash for its own root; browsers stop at the site's.
CONSOLE = "../../../.."
_RANGE = "since=${__from:date:iso}&until=${__to:date:iso}"

Kind = Literal["timeseries", "stat", "table", "piechart", "logs", "flamegraph"]


@dataclass(frozen=True)
class Sql:
    """A query of PostgreSQL.

    Attributes:
        series: it returns time, metric and value.
        console: the console's page of the same, if there is one.
    """

    text: str
    series: bool = False
    console: str = ""


@dataclass(frozen=True)
class PromQL:
    """A query of Prometheus; `legend` names a series by its labels, as in {{mode}}."""

    text: str
    legend: str = ""


@dataclass(frozen=True)
class Panel:
    """A panel.

    Attributes:
        unit: Grafana's name of the unit of all values: ns, bytes, Bps, percentunit, short, ...
        units: units of single columns of a table.
        links: columns of a table whose cells are links; in a URL, `${__data.fields.NAME}` is another cell.
        stacked: series are drawn on top of each other.
    """

    title: str
    kind: Kind
    queries: tuple[Sql | PromQL, ...]
    about: str = ""
    unit: str = "short"
    units: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    stacked: bool = False
    width: int = 12
    height: int = 8

    def json(self, number: int, x: int, y: int) -> dict[str, Any]:
        """The panel at a place of the grid."""
        source = POSTGRES if isinstance(self.queries[0], Sql) else PROMETHEUS
        return {
            "id": number,
            "type": self.kind,
            "title": self.title,
            "description": self.about,
            "gridPos": {"x": x, "y": y, "w": self.width, "h": self.height},
            "datasource": source,
            "links": self._pages(),
            # Steps of at least a minute, and few: then whole hours come from totals per hour.
            "maxDataPoints": 200,
            "interval": "1m",
            "targets": [_target(query, chr(ord("A") + place)) for place, query in enumerate(self.queries)],
            "fieldConfig": {"defaults": self._defaults(), "overrides": self._overrides()},
            "options": self._options(),
        }

    def _pages(self) -> list[dict[str, Any]]:
        pages = [query.console for query in self.queries if isinstance(query, Sql) and query.console]
        return [{"title": "Console", "url": f"{CONSOLE}{page}?{_RANGE}", "targetBlank": True} for page in pages[:1]]

    def _defaults(self) -> dict[str, Any]:
        if self.kind != "timeseries":
            return {"unit": self.unit}
        drawn = {"drawStyle": "line", "lineWidth": 1, "fillOpacity": 25 if self.stacked else 5, "showPoints": "never"}
        stacking = {"stacking": {"mode": "normal", "group": "A"}} if self.stacked else {}
        return {"unit": self.unit, "min": 0, "custom": {**drawn, **stacking, "spanNulls": False}}

    def _overrides(self) -> list[dict[str, Any]]:
        def of(column: str, property_: str, value: Any) -> dict[str, Any]:
            return {
                "matcher": {"id": "byName", "options": column},
                "properties": [{"id": property_, "value": value}],
            }

        linked = [
            of(column, "links", [{"title": column, "url": url, "targetBlank": url.startswith(CONSOLE)}])
            for column, url in self.links.items()
        ]
        return [*(of(column, "unit", unit) for column, unit in self.units.items()), *linked]

    def _options(self) -> dict[str, Any]:
        every = {"reduceOptions": {"values": True, "calcs": [], "fields": ""}}
        last = {"reduceOptions": {"values": False, "calcs": ["lastNotNull"], "fields": ""}}
        match self.kind:
            case "timeseries":
                legend = {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []}
                return {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}
            case "piechart":
                legend = {"displayMode": "table", "placement": "right", "showLegend": True, "values": ["percent"]}
                return {**every, "pieType": "donut", "legend": legend, "tooltip": {"mode": "single", "sort": "none"}}
            case "stat":
                return {**last, "colorMode": "value", "graphMode": "none", "textMode": "auto", "justifyMode": "auto"}
            case "logs":
                return {"showTime": True, "wrapLogMessage": True, "sortOrder": "Descending", "enableLogDetails": True}
            case _:
                return {}


@dataclass(frozen=True)
class Variable:
    """A variable with several values, chosen from a query; `every` stands for all, so that queries stay short."""

    name: str
    label: str
    query: str
    about: str = ""
    every: str = ".*"

    def json(self) -> dict[str, Any]:
        """The variable; it is asked again when the time range changes."""
        return {
            "type": "query",
            "name": self.name,
            "label": self.label,
            "description": self.about,
            "datasource": POSTGRES,
            "query": self.query,
            "definition": self.query,
            "refresh": 2,
            "sort": 1,
            "multi": True,
            "includeAll": True,
            "allValue": self.every,
            "current": {"text": ["All"], "value": ["$__all"]},
            "options": [],
            "hide": 0,
            "regex": "",
            "skipUrlSync": False,
        }


@dataclass(frozen=True)
class Annotation:
    """Marks on all panels, from a query that returns time, timeend, text and tags."""

    name: str
    query: str
    colour: str

    def json(self) -> dict[str, Any]:
        """The annotation."""
        return {
            "name": self.name,
            "datasource": POSTGRES,
            "enable": True,
            "hide": False,
            "iconColor": self.colour,
            "target": {
                "refId": "Anno",
                "format": "table",
                "rawQuery": True,
                "editorMode": "code",
                "rawSql": self.query,
            },
        }


@dataclass(frozen=True)
class Dashboard:
    """A dashboard: rows of panels."""

    uid: str
    title: str
    about: str
    rows: tuple[tuple[str, tuple[Panel, ...]], ...]
    variables: tuple[Variable, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    range: str = "now-15m"

    @property
    def panels(self) -> list[Panel]:
        """All panels."""
        return [panel for _, panels in self.rows for panel in panels]

    def json(self) -> dict[str, Any]:
        """The dashboard, as Grafana provisions it from a file."""
        return {
            "uid": self.uid,
            "title": self.title,
            "description": self.about,
            "tags": ["scope"],
            "schemaVersion": 39,
            "version": 1,
            "editable": True,
            "graphTooltip": 1,
            "timezone": "browser",
            "time": {"from": self.range, "to": "now"},
            "refresh": "30s",
            "fiscalYearStartMonth": 0,
            "links": [
                _others(),
                _page("Console", "/", "SCOPE's console: tasks, timelines, comparisons"),
                _page("Perfetto", f"/traces?{_RANGE}", "Save or open this time range as a trace for Perfetto"),
            ],
            "templating": {"list": [variable.json() for variable in self.variables]},
            "annotations": {"list": [annotation.json() for annotation in self.annotations]},
            "panels": list(_placed(self.rows)),
        }


def _placed(rows: Sequence[tuple[str, Sequence[Panel]]]) -> list[dict[str, Any]]:
    placed: list[dict[str, Any]] = []
    y = 0
    for title, panels in rows:
        at = {"x": 0, "y": y, "w": WIDTH, "h": 1}
        placed.append(
            {"id": len(placed) + 1, "type": "row", "title": title, "collapsed": False, "gridPos": at, "panels": []}
        )
        y += 1
        x = height = 0
        for panel in panels:
            if x + panel.width > WIDTH:
                x, y, height = 0, y + height, 0
            placed.append(panel.json(len(placed) + 1, x, y))
            x, height = x + panel.width, max(height, panel.height)
        y += height
    return placed


def _target(query: Sql | PromQL, ref: str) -> dict[str, Any]:
    if isinstance(query, Sql):
        form = "time_series" if query.series else "table"
        common = {"refId": ref, "datasource": POSTGRES, "editorMode": "code", "rawQuery": True}
        return {**common, "format": form, "rawSql": query.text}
    return {
        "refId": ref,
        "datasource": PROMETHEUS,
        "editorMode": "code",
        "expr": query.text,
        "legendFormat": query.legend or "__auto",
        "range": True,
    }


def _others() -> dict[str, Any]:
    return {
        "type": "dashboards",
        "title": "SCOPE",
        "tags": ["scope"],
        "asDropdown": True,
        "includeVars": True,
        "keepTime": True,
        "targetBlank": False,
        "icon": "external link",
        "tooltip": "",
        "url": "",
    }


def _page(title: str, path: str, about: str) -> dict[str, Any]:
    return {
        "type": "link",
        "title": title,
        "url": f"{CONSOLE}{path}",
        "icon": "external link",
        "tooltip": about,
        "tags": [],
        "asDropdown": False,
        "includeVars": False,
        "keepTime": False,
        "targetBlank": True,  # else, Grafana would look for the page in itself
    }


def stat(title: str, query: Sql | PromQL, unit: str = "short", about: str = "") -> Panel:
    """One number."""
    return Panel(title, "stat", (query,), about, unit, width=4, height=4)


def wide(panel: Panel) -> Panel:
    """The panel in the whole width."""
    return replace(panel, width=WIDTH)
