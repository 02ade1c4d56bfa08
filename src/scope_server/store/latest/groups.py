"""The query of the largest groups of states, which the API and the functions scope.STREAM_largest() ask."""

from psycopg import sql

from scope_server.store.latest.layout import Layout
from scope_server.store.latest.shown import joins, listed, of, readable, who
from scope_server.store.schema.columns import WHOLE

_LARGEST = (1 << 63) - 1  # larger sums are reported as this

_RANKED = """
SELECT {columns} FROM ranked.{stream} AS g
WHERE g.held > 0 AND g.day >= {day} AND {conditions} ORDER BY {order} LIMIT {most}"""
# Day by day, each from its largest group; other days are not read.
_BY_DAY = """
SELECT {columns}
FROM (SELECT generate_series(greatest({day}, min(day)), max(day), '1 day')::date AS day
      FROM ranked.{stream} WHERE held > 0) AS d
CROSS JOIN LATERAL (
    SELECT * FROM ranked.{stream} AS g
    WHERE g.held > 0 AND g.day = d.day AND {conditions} ORDER BY {order} LIMIT {most}
) AS g
ORDER BY {order} LIMIT {most}"""
_ADDED_UP = """
SELECT {who}{shown}, s.time, s.states, g.total AS bound
FROM ({groups}) AS g
CROSS JOIN LATERAL (
    SELECT {sums}, max(l.time) AS time, count(*) AS states
    FROM latest.{stream} AS l WHERE {same} AND {held} AND l.time >= {since}
) AS s
{joins}
ORDER BY {order}"""


def largest_groups(
    layout: Layout, *, most: sql.Composable, since: sql.Composable, conditions: sql.Composable, by_day: bool
) -> sql.Composed:
    """The largest groups by all of their states; those of ended processes come last.

    Args:
        most: how many.
        since: a time. Older states are not added up, though they count for a group's rank.
        conditions: on groups, `g`.
        by_day: whether to read the groups in the order of their rank; otherwise, all that meet the conditions are read.
    """
    latest = layout.latest
    given = {
        "stream": sql.Identifier(layout.stream),
        "since": since,
        "day": sql.SQL("({}::timestamptz AT TIME ZONE 'UTC')::date").format(since),
        "most": most,
        "order": listed([*(of("g", name) for name in layout.ended), sql.SQL("g.total DESC")]),
    }
    groups = sql.SQL(_BY_DAY if by_day else _RANKED).format(
        columns=listed([of("g", name) for name in ("machine", *layout.group, "total")]),
        conditions=conditions,
        **given,
    )
    return sql.SQL(_ADDED_UP).format(
        groups=groups,
        who=who(layout),
        shown=listed([*(readable(layout, "g", name) for name in latest.by), *_shown(layout)]),
        joins=joins(layout, "g", latest.by),
        sums=listed(_sums(layout)),
        same=sql.SQL(" AND ").join(sql.SQL("{} = {}").format(of("l", name), of("g", name)) for name in layout.group),
        held=layout.held("l"),
        **given,
    )


def _shown(layout: Layout) -> list[sql.Composed]:
    ended = [of("g", name) for name in layout.ended]
    return [*ended, *(of("s", name) for name in (*layout.latest.totals, *layout.latest.means))]


def _sums(layout: Layout) -> list[sql.Composed]:
    # Products of two 64-bit numbers are larger than 64 bits.
    total = sql.SQL("CASE WHEN sum({v}) > {most} THEN {most} ELSE sum({v}) END::bigint AS {name}")
    of_real = sql.SQL("sum({v}) AS {name}")
    mean = sql.SQL("(sum({v}::numeric * {w}) / nullif(sum({w}), 0))::bigint AS {name}")
    return [
        *(
            (total if layout.column(name).sql in WHOLE else of_real).format(
                v=of("l", name), most=_LARGEST, name=sql.Identifier(name)
            )
            for name in layout.latest.totals
        ),
        *(
            mean.format(v=of("l", name), w=of("l", weight), name=sql.Identifier(name))
            for name, weight in layout.latest.means.items()
        ),
    ]
