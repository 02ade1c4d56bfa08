"""`scope admin rotate-ca`: replaces the fleet's authority."""

import argparse
from typing import Any

from scope_cli.printable import print_json, print_line


def register(topics: Any) -> None:
    """Adds the topic to those of `scope admin`."""
    rotate = topics.add_parser(
        "rotate-ca",
        help="replace the fleet's authority",
        description="Shows which machines have the next root. --begin makes it: all trust both roots from then on. "
        "--finish ends the trust in the first one; it is refused while a connected agent lacks the next one. Machines "
        "that are away get the next root when they return. Tokens made before are of no use, and persons log in again.",
    )
    what = rotate.add_mutually_exclusive_group()
    what.add_argument("--begin", action="store_const", const="begin", dest="step", help="make the next root")
    what.add_argument("--finish", action="store_const", const="finish", dest="step", help="trust only the next root")
    rotate.add_argument("--json", action="store_true", help="as JSON")
    rotate.set_defaults(run=_rotate)


def _rotate(arguments: argparse.Namespace) -> None:
    from scope_cli.client import Client

    client = Client()
    steps = {"begin": client.begin_rotation, "finish": client.finish_rotation, None: client.get_rotation}
    found = steps[arguments.step]()
    if arguments.json:
        print_json(found)
        return
    if not found["rotates"]:
        print_line("the authority has one root; --begin makes the next one")
        return
    machines = found["machines"]
    have = sum(one["has_next"] for one in machines)
    print_line(f"{have} of {len(machines)} machines have the next root")
    for one in machines:
        if not one["has_next"]:
            state = "connected" if one["connected"] else "not connected"
            print_line(f"  {one['hostname']} ({one['machine_id'][:12]}), {state}, lacks it")
