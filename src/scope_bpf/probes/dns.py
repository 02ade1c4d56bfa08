"""DNS: queries and answers on the wire, with the process that asked, and the lookups of programs by getaddrinfo()."""

from scope_bpf.catalogue.place import Place, Symbol
from scope_bpf.catalogue.probe import Alternative, Probe
from scope_bpf.catalogue.stream import Settled, Stream
from scope_catalogue.guide import Example, Guide
from scope_catalogue.options import Option
from scope_catalogue.shown import Flow, Rollup, Shown, Slices, Timeline
from scope_catalogue.stream import Column
from scope_catalogue.tables import Count, Failed, Quantiles, Sum, Table

_NS_PER_MS = 1_000_000
_BY_LOOKUP = ("tid", "lookup")

GUIDE = Guide(
    examples=(
        Example(
            "scope trace dns --lines -- getent hosts example.org || true",
            "the queries of a command, with answers and times",
        ),
        Example(
            "scope trace dns --duration 1",
            "queries of all processes",
        ),
    ),
    notes=(
        "A row is a query with its answer, over UDP or TCP, for the process that asked, whoever runs meanwhile.",
        "`code` is the server's answer: noerror, nxdomain, servfail, refused, ... A query without an answer within "
        "`timeout_ms` has the code timeout, and unanswered if the trace ended before that.",
        "A query that is sent again is one row: `attempts` counts.",
        "A row of `dns_lookup` is a call of getaddrinfo(), in any C library: what the program wanted, what it got, and "
        "how many queries its thread sent for that. None, although the call succeeded: the name came from a cache, a "
        "file, or another process, such as systemd-resolved, whose queries are rows of its own.",
        "`looked_up` tells which name a query was sent for. So `db` shows as a query for `db.example.org` for each "
        "domain that the resolver tried. `tid` and `lookup` join both streams; on timelines, an arrow leads from a "
        "lookup through its queries.",
    ),
    limits=(
        "Encrypted DNS (ports 443 and 853) and ports other than 53 are not recorded.",
        "Lookups without getaddrinfo(), such as gethostbyname() and those of Go's own resolver, show only as queries. "
        "A lookup that hands its queries to another thread has none of its own.",
        "Over TCP, a message is recorded if it begins a packet, with its length: of several messages in one packet "
        "only the first, and none that is sent apart from its length.",
        "`answer` is the first address among the first eight records.",
        "Its programs run for every packet of every socket. Loading them takes the capability CAP_NET_ADMIN, too. They "
        "are attached to the root of cgroup v2 as seen by SCOPE: in a container, that may be the container's.",
    ),
)

TIMEOUT_MS = Option("timeout_ms", "integer", 5000, "how long an answer may take, in ms", minimum=100, maximum=3_600_000)
LOOKUPS = Option("lookups", "boolean", True, "also record the calls of getaddrinfo()")

_PROGRAMS = ("dns_received", "dns_sent", "dns_lookup_abandon", "dns_lookup_replace")
_PLACES = (Place(Symbol(("getaddrinfo",)), "dns_lookup_enter", "dns_lookup_return"),)

PROBE = Probe(
    name="dns",
    meaning="DNS queries with their answers, times and servers; timeouts",
    streams=(
        Stream(
            "dns",
            "one row per query, timed when it was sent first",
            columns={
                "name": Column("the name that was asked for"),
                "looked_up": Column("the name that getaddrinfo() was called with; absent if it was not called"),
                "lookup": Column("number of that call, within its thread; absent if there was none", identity=True),
                "qtype": Column("what was asked for: a, aaaa, ptr, ...; a number if the type has no name here"),
                "code": Column(
                    "the answer's code: noerror, nxdomain, servfail, ...; timeout or unanswered without one"
                ),
                "failed": Column("1 if the code is not noerror"),
                "answer": Column("the first address in the answer; absent if there is none"),
                "answers": Column("how many records the answer has"),
                "duration_ns": Column("from the query until the answer; until the row if none came", "ns"),
                "attempts": Column("how often the query was sent"),
                "truncated": Column("1 if the answer did not fit into a datagram: clients ask again over TCP"),
                "server": Column("address of the server"),
                "server_port": Column("port of the server"),
                "protocol": Column("udp or tcp"),
            },
            failed="failed = 1",
            shown=Shown(
                tables=(
                    Table(
                        ("comm", "server", "name", "qtype"),
                        (Count(), Failed(), Sum("attempts"), Quantiles("duration_ns")),
                        title="queries by program and name",
                    ),
                ),
                line=("server", "qtype", "code", "answer", "duration_ns", "name"),
                timeline=Timeline(
                    slices=(
                        Slices(
                            named=("name", "qtype"),
                            below="dns",
                            flow=Flow("dns_lookup", _BY_LOOKUP, where="lookup is not null"),
                        ),
                    )
                ),
            ),
            rollup=Rollup(measured="duration_ns"),
            null_unless={"looked_up": "lookup", "lookup": "lookup"},
            settled=Settled("dns_settle"),
        ),
        Stream(
            "dns_lookup",
            "one row per call of getaddrinfo(), timed at its entry",
            columns={
                "name": Column("the name that the program wants; empty if it wants none"),
                "lookup": Column("number of the call, within its thread; its queries have it, too", identity=True),
                "family": Column("the addresses that it wants: any, ipv4 or ipv6"),
                "result": Column("what it got: ok, noname, again, ...: EAI_* of getaddrinfo(3)"),
                "failed": Column("1 if the result is not ok"),
                "answer": Column("the first address that it got; absent if it failed"),
                "queries": Column("queries that the thread sent during the call"),
                "duration_ns": Column("from entry to return", "ns"),
            },
            failed="failed = 1",
            shown=Shown(
                tables=(
                    Table(
                        ("comm", "name", "result"),
                        (Count(), Failed(), Sum("queries"), Quantiles("duration_ns")),
                        title="lookups by program and name",
                    ),
                ),
                line=("family", "result", "answer", "queries", "duration_ns", "name"),
                timeline=Timeline(
                    slices=(
                        Slices(
                            named=("name",),
                            below="lookups",
                            by_thread="",
                            flow=Flow("dns_lookup", _BY_LOOKUP, begins=True, where="queries > 0"),
                        ),
                    )
                ),
            ),
            rollup=Rollup(measured="duration_ns"),
        ),
    ),
    extra_options=(TIMEOUT_MS, LOOKUPS),
    alternatives=(
        Alternative("cgroup_skb: egress, ingress; uprobe_multi: getaddrinfo", _PROGRAMS, uprobe_multi=True),
        Alternative("cgroup_skb: egress, ingress; uprobe: getaddrinfo", _PROGRAMS),
    ),
    places=lambda options: _PLACES if options["lookups"] else (),
    libraries=("libc.so",),
    constants=lambda options: {"timeout_ns": options["timeout_ms"] * _NS_PER_MS},
    guide=GUIDE,
)
