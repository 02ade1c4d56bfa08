"""The parts that `scope up` runs on this machine: PostgreSQL, server, agent.

In the order of a start: `place` locks the state directory, `left_behind` ends daemons of a killed `scope up`, `ports`
checks that ports are free, and `stack` runs the parts (`database` and `child`), each under a `supervisor`.
"""

from scope_cli.stack.stack import Stack

__all__ = ["Stack"]
