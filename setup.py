"""What pyproject.toml cannot say: the cffi extension, and the other files that a build makes."""

import subprocess

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildPackage(build_py):
    """Makes the files that are shipped but not committed before the package is gathered."""

    def run(self) -> None:
        """Makes them with the Makefile's rules. The console is made by `make build` alone, since it needs Node."""
        subprocess.run(["make", "--no-print-directory", "objects", "hold", "stubs", "catalogue"], check=True)
        super().run()


setup(
    cffi_modules=["src/scope_bpf/binding/_ffi_build.py:ffi"],
    cmdclass={"build_py": BuildPackage},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
