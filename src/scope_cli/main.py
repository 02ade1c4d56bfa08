"""`scope`: where Python enters. Nothing else is imported here, so that Ctrl-C is heard from the first moment on."""

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit status."""
    try:
        from scope_cli.command_line import run

        return run(arguments)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
