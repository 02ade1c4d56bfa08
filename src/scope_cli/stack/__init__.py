"""Everything on this machine, run by `scope up`: PostgreSQL, server, agent.

In the order of a start: `place` owns the state directory - `left_behind` ends what a killed one left - `ports` are
free - `stack` composes the parts, `database` and each `child`, under a `supervisor` each.
"""

from scope_cli.stack.stack import Stack

__all__ = ["Stack"]
