#!/bin/sh
# Compares SCOPE's records with the programs' own accounts. Run this as root on a machine with an NVIDIA GPU. It needs
# Python 3.11 or newer with pip, preferably with PyTorch; PYTHON names another. It installs only to a temporary folder.
# usage: run.sh
set -eu
cd "$(dirname "$0")"

if [ "$(id -u)" -ne 0 ]; then
    echo "run this as root: eBPF needs it" >&2
    exit 2
fi

has='import sys
from importlib.util import find_spec
sys.exit(sys.version_info < (3, 11) or not all(map(find_spec, sys.argv[1:])))'

choose() { # the first Python that has these modules
    for python in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
        "$python" -c "$has" "$@" 2>/dev/null && return
    done
    return 1
}
if ! choose pip torch && ! choose pip; then
    echo "there is no Python from 3.11 on with pip" >&2
    exit 2
fi

installed=$(mktemp -d)
trap 'rm -rf "$installed"' EXIT
install() {
    "$python" -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --target "$installed" "$@"
}
install --no-index --no-deps --find-links wheels scope-observe cffi pycparser nvidia-ml-py
for module in numpy pyarrow; do
    "$python" -c "$has" "$module" || install "$module"
done
PYTHONPATH=$installed PYTHONDONTWRITEBYTECODE=1 "$python" -m tests.gpu.check programs "$@"
