"""A certificate of a test's own, for servers other than ours."""

import subprocess
from pathlib import Path


def self_signed(folder: Path, name: str) -> tuple[Path, Path]:
    """Makes a certificate for one day, and its key.

    Args:
        name: whose it is, as OpenSSL writes it: `DNS:localhost`, `IP:127.0.0.1`.
    """
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    names = ["-subj", "/CN=test", "-addext", f"subjectAltName={name}"]
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1"]
    subprocess.run([*made, *names, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return certificate, key
