"""`scope doctor`: checks which probes can run on this host."""

import argparse
import platform
import sys
from dataclasses import asdict
from typing import Any


def register(subcommands: Any) -> None:
    """Adds the subcommand."""
    parser = subcommands.add_parser("doctor", help="say which probes can run here, where they attach, and why")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.add_argument(
        "--options",
        action="store_true",
        help="also try each option that loads other programs; takes three times as long",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Checks every probe; status 1 if one cannot run, with an option that was tried or without, unless the host has no
    device for it."""
    from scope_bpf.capture.doctor import examine_all
    from scope_bpf.host import features
    from scope_bpf.probes import probes
    from scope_cli.findings import feature_line, probe_lines
    from scope_cli.printable import print_json, print_line

    if arguments.json:
        findings = list(examine_all(probes().values(), options=arguments.options))
        found = {
            "kernel": platform.release(),
            "architecture": platform.machine(),
            "host": [asdict(feature) for feature in features()],
            "probes": [asdict(finding) for finding in findings],
        }
        print_json(found)
    else:
        print_line(f"kernel {platform.release()} on {platform.machine()}")
        for feature in features():
            print_line(feature_line(feature.name, feature.reason, available=feature.available))
        sys.stdout.flush()  # the probes take seconds
        findings = []
        for finding in examine_all(probes().values(), options=arguments.options):
            findings.append(finding)
            for line in probe_lines(
                finding.probe,
                finding.reason,
                available=finding.available,
                no_device=finding.no_device,
                attach_point=finding.attach_point,
                unseen=finding.unseen,
                tried=[(one.option, one.reason) for one in finding.tried],
            ):
                print_line(line)
            sys.stdout.flush()
        if not arguments.options:
            print_line("each was tried with its default options; `scope doctor --options` tries the others, too")
    works = (one.available and not any(tried.reason for tried in one.tried) for one in findings if not one.no_device)
    return 0 if all(works) else 1
