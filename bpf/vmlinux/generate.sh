#!/bin/sh
# Makes x86/vmlinux.h and arm64/vmlinux.h, the kernel's types in C, out of Debian's kernel packages.
# usage: generate.sh [SUITE]    (trixie; a suite whose kernel is older than 7.0, one package). Needs apt, bpftool, zstd
# and python3, but no root. The host's apt is left as it is.
#
# Which kernel they come from does not matter much: they are marked preserve_access_index, so a compiled program
# holds the names of the fields that it reads, not their offsets, and libbpf looks these up in the BTF of the kernel
# that it loads the program into (CO-RE). A field must only exist here under its name; what other kernels name or
# shape otherwise is in ../include/core_fixes.bpf.h. The architecture does matter: struct pt_regs differs, and
# arguments are read from it. So there is one header for each, of the same version.
set -eu

suite=${1:-trixie}
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

# An apt of its own: other sources, two architectures, and none of the host's lists, caches or installed packages.
mkdir -p lists/partial cache/archives/partial
cat >apt.conf <<CONF
Dir::Etc::sourcelist "$scratch/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::State::lists "$scratch/lists";
Dir::State::status "/dev/null";
Dir::Cache "$scratch/cache";
APT::Architectures { "amd64"; "arm64"; };
APT::Sandbox::User "root";
Acquire::Languages "none";
CONF
cat >sources.list <<LIST
deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $suite main
LIST
export APT_CONFIG="$scratch/apt.conf"
apt-get update -qq

# Writes the BTF inside vmlinuz $1 to file $2.
cut_btf() {
    python3 - "$1" "$2" <<'PYTHON'
import pathlib
import struct
import subprocess
import sys

image = pathlib.Path(sys.argv[1]).read_bytes()

# x86's bzImage says where its compressed kernel is (Documentation/arch/x86/boot.rst: setup_sects, payload_offset,
# payload_length, whose last 4 bytes are the size unpacked). Debian's arm64 image is not compressed.
if image[0x202:0x206] == b"HdrS":
    offset, length = struct.unpack_from("<II", image, 0x248)
    start = (image[0x1F1] + 1) * 512 + offset
    image = subprocess.run(["zstd", "-dc"], input=image[start : start + length - 4], capture_output=True, check=True).stdout

# struct btf_header: magic, version, flags, hdr_len, type_off, type_len, str_off, str_len. Two zero bytes frame the
# strings: the first is the empty name, the last ends the last name.
at = image.find(b"\x9f\xeb\x01\x00")
while at >= 0:
    header_len, type_off, type_len, str_off, str_len = struct.unpack_from("<5I", image, at + 4)
    blob = image[at : at + header_len + str_off + str_len]
    if header_len == 24 and type_off == 0 and str_off == type_len > 1 << 20 and blob[24 + str_off] == blob[-1] == 0:
        pathlib.Path(sys.argv[2]).write_bytes(blob)
        sys.exit()
    at = image.find(b"\x9f\xeb\x01\x00", at + 1)
sys.exit(f"no BTF in {sys.argv[1]}")
PYTHON
}

# Makes $2/vmlinux.h from the newest kernel of Debian's architecture $1.
generate() {
    image=$(apt-cache depends "linux-image-$1:$1" | sed -n 's/^ *Depends: \(linux-image-[^:]*\).*/\1/p' | head -n 1)
    apt-get download -qq "$image:$1"
    package=$(echo "${image}"_*_"$1".deb)
    dpkg -x "$package" "$1"
    cut_btf "$1"/boot/vmlinuz-* "$1.btf"
    {
        echo "/* DO NOT EDIT: made by bpf/vmlinux/generate.sh from $image $(dpkg-deb -f "$package" Version) ($1)" \
            "with bpftool $(bpftool version -j | sed 's/.*"version":"\([^"]*\)".*/\1/'):" \
            "bpftool btf dump file BTF format c */"
        bpftool btf dump file "$1.btf" format c
    } >vmlinux.h
    mkdir -p "$here/$2"
    mv vmlinux.h "$here/$2/vmlinux.h"
    head -n 1 "$here/$2/vmlinux.h"
}

generate amd64 x86
generate arm64 arm64
