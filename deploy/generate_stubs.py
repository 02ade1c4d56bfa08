"""Generates src/scope_proto from proto/: messages, services and their types.

The generated modules import each other as ``scope.v1...``; they live in ``scope_proto``, so the imports are rewritten.
"""

import os
import re
import sys
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "src" / "scope_proto"
HEADER = "# DO NOT EDIT: made by `make stubs` from proto/\n"


def main(protos: list[str]) -> int:
    """Runs protoc on these files and corrects the imports of the generated modules."""
    TARGET.mkdir(parents=True, exist_ok=True)
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # protoc looks for its plugins there
    arguments = [
        "protoc",
        f"-I{ROOT / 'proto'}",
        f"-I{files('grpc_tools') / '_proto'}",
        f"--python_out={TARGET}",
        f"--grpc_python_out={TARGET}",
        f"--mypy_out=quiet:{TARGET}",
        f"--mypy_grpc_out=quiet:{TARGET}",
    ]
    status = int(protoc.main([*arguments, *(str(ROOT / proto) for proto in protos)]))
    if status:
        return status
    for package in (TARGET, TARGET / "scope", TARGET / "scope" / "v1"):
        (package / "__init__.py").write_text(HEADER)
    for generated in (TARGET / "scope" / "v1").glob("*_pb2*.py*"):
        text = re.sub(r"\bfrom scope\.v1\b", "from scope_proto.scope.v1", generated.read_text())
        text = re.sub(r"\bimport scope\.v1\.(\w+)\b", r"import scope_proto.scope.v1.\1", text)
        text = re.sub(r"(?<!proto\.)\bscope\.v1\.(\w+_pb2)\b", r"scope_proto.scope.v1.\1", text)
        generated.write_text(text if text.startswith(HEADER) else HEADER + text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
