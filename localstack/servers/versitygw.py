"""Versity's gateway over a directory: S3 objects are files, so the keys `a` and `a/b` cannot both exist."""

from __future__ import annotations

from pathlib import Path

from servers.go_module import build, by_hand
from servers.recipe import Plan, Recipe, find_program
from servers.s3_protocol import ACCESS_KEY, SECRET_KEY

_MODULE = "github.com/versity/versitygw/cmd/versitygw"
VERSION = "1.8.0"


def _plan(program: Path, port: int, directory: Path) -> Plan:
    objects = directory / "objects"
    objects.mkdir()
    command = [str(program), "--port", f"127.0.0.1:{port}", "--quiet", "posix", str(objects)]
    return Plan(command, {"ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY})


RECIPE = Recipe(
    "versitygw",
    VERSION,
    1,
    lambda at: find_program("versitygw", at),
    lambda at: build(_MODULE, f"v{VERSION}", at),
    by_hand(_MODULE, f"v{VERSION}"),
    _plan,
)
