"""`scope templates`: several probes with options that are started as one."""

import argparse
from typing import TYPE_CHECKING, Any, cast

from scope_cli.definition import add_filter, add_options, given_part, positional_option

if TYPE_CHECKING:
    from scope_cli.api import NewTemplate


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    parser = subcommands.add_parser("templates", help="list templates: several probes, started as one; keep your own")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.set_defaults(run=run)
    topics = parser.add_subparsers(metavar="TOPIC")
    keep = topics.add_parser("keep", help="keep a template, or replace your own of this name")
    keep.add_argument("name", metavar="NAME")
    keep.add_argument("probe", metavar="PROBE,...", help="its probes; all get the same options and filter")
    keep.add_argument("--meaning", default="", metavar="TEXT", help="what one learns with it")
    add_options(keep)
    add_filter(keep)
    keep.set_defaults(run=run_keep, takes_words=positional_option)
    delete = topics.add_parser("delete", help="delete a template")
    delete.add_argument("name", metavar="NAME")
    delete.set_defaults(run=run_delete)


def run(arguments: argparse.Namespace) -> None:
    """Prints a line per template."""
    from scope_cli.client import Client
    from scope_cli.printable import print_json, print_line

    templates = Client().get_templates()["templates"]
    if arguments.json:
        print_json(templates)
        return
    width = max((len(one["name"]) for one in templates), default=0)
    for one in templates:
        probes = ",".join(part["probe"] for part in one["parts"])
        print_line(f"{one['name']:{width}}  {probes}: {one['meaning']}")


def run_keep(arguments: argparse.Namespace) -> None:
    """Keeps a template; prints its name."""
    from scope_cli.client import Client
    from scope_cli.printable import print_line

    parts = [given_part(arguments, probe) for probe in arguments.probe.split(",")]
    wish = {"name": arguments.name, "meaning": arguments.meaning, "parts": parts}
    print_line(Client().keep_template(cast("NewTemplate", wish))["name"])


def run_delete(arguments: argparse.Namespace) -> None:
    """Deletes a template; prints its name."""
    from scope_cli.client import Client
    from scope_cli.printable import print_line

    print_line(Client().delete_template(arguments.name)["name"])
