"""MinIO from the last state of its public source, which is no longer maintained: a DELETE ignores If-Match there."""

from __future__ import annotations

from pathlib import Path

from servers.go_module import build, by_hand
from servers.recipe import Plan, Recipe, find_program
from servers.s3_protocol import ACCESS_KEY, SECRET_KEY

_MODULE = "github.com/minio/minio"
_COMMIT = "v0.0.0-20260212201848-7aac2a2c5b7c"  # its releases are no versions of the module
VERSION = "20260212"


def _plan(program: Path, port: int, directory: Path) -> Plan:
    addresses = ["--address", f"127.0.0.1:{port}", "--console-address", f"127.0.0.1:{port + 1}"]
    environment = {
        "MINIO_ROOT_USER": ACCESS_KEY,
        "MINIO_ROOT_PASSWORD": SECRET_KEY,
        "MINIO_BROWSER": "off",
        "MINIO_UPDATE": "off",
    }
    return Plan([str(program), "server", *addresses, str(directory / "drive")], environment)


RECIPE = Recipe(
    "minio",
    VERSION,
    2,
    lambda at: find_program("minio", at),
    lambda at: build(_MODULE, _COMMIT, at),
    by_hand(_MODULE, _COMMIT),
    _plan,
)
