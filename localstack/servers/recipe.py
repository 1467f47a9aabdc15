"""Describes how one service is started: its version, where its program comes from, its command line, its clients."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from servers.errors import StartError
from servers.s3_protocol import make_s3_bucket, s3_clients


@dataclass(frozen=True, slots=True)
class Plan:
    """Command to run, and the environment to add to our own."""

    command: Sequence[str]
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to get and start one service.

    ``port_count``  neighbouring ports it takes, the first of them for S3.
    ``find``        the program where it is installed already, or None.
    ``install``     puts the pinned version into a directory of its own; None where there is nothing to install.
    ``hint``        what to do by hand where the program is missing and may not be installed.
    ``plan``        from the program, the first port and an empty directory to what is run.
    ``clients``     from the endpoint to the environment variables with which clients find the service.
    ``make_bucket`` makes a bucket at an endpoint; raises `NotReady` until the service answers.
    ``scheme``      of the URLs of its buckets.
    """

    name: str
    version: str
    port_count: int
    find: Callable[[Path], Path | None]
    install: Callable[[Path], None] | None
    hint: str
    plan: Callable[[Path, int, Path], Plan]
    clients: Callable[[str], dict[str, str]] = s3_clients
    make_bucket: Callable[[str, str], None] = make_s3_bucket
    scheme: str = "s3"

    def program(self, *, install: bool) -> Path:
        """The program, installed into the cache first if it is missing and ``install`` says so. Raises `StartError`."""
        directory = cache_directory() / f"{self.name}-{self.version}"
        found = self.find(directory)
        if found is None and install and self.install is not None:
            directory.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=f".{self.name}-", dir=directory.parent) as staged:
                built = Path(staged) / "built"
                self.install(built)
                _move_into_place(built, directory)
            found = self.find(directory)
        if found is None:
            raise StartError(f"{self.name} {self.version} is not installed: {self.hint}, or run with --install")
        return found


@dataclass(frozen=True, slots=True)
class Service:
    """A running service: its endpoint, the bucket made in it, and its process."""

    kind: str
    version: str
    endpoint_url: str
    bucket: str
    process_id: int
    clients: Mapping[str, str]
    scheme: str

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which clients find the service, and two that say what it is and where its bucket."""
        return {**self.clients, "LOCAL_SERVER": f"{self.kind} {self.version}", "LOCAL_STORE_URL": self.url}

    @property
    def url(self) -> str:
        """The bucket, as a store's URL."""
        return f"{self.scheme}://{self.bucket}"


def cache_directory() -> Path:
    """Where installed services are kept between runs; ``LOCAL_S3_SERVERS`` names another place."""
    named = os.environ.get("LOCAL_S3_SERVERS")
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(named) if named else Path(caches) / "stratalog" / "s3-servers"


def run_installer(command: Sequence[str], *, advice: str, **environment: str) -> None:
    """Run a package client; its output is shown only if it fails. Raises `StartError`."""
    try:
        done = subprocess.run(
            command, env={**os.environ, **environment}, capture_output=True, text=True, check=False, cwd="/"
        )
    except FileNotFoundError as error:
        raise StartError(f"{command[0]} is not installed: {advice}") from error
    if done.returncode:
        raise StartError(f"{' '.join(command)} failed:\n{(done.stdout + done.stderr)[-2000:]}")


def _move_into_place(built: Path, directory: Path) -> None:
    """Make an installed directory visible under its name at once; the first one to do so wins."""
    try:
        built.rename(directory)
    except OSError:
        if not directory.is_dir():
            raise


def find_program(name: str, directory: Path) -> Path | None:
    """The program in the cache's ``directory``, beside this Python, or on the path: the first that there is."""
    places = [directory, directory / "bin", Path(sys.executable).parent, os.environ.get("PATH", "")]
    found = shutil.which(name, path=os.pathsep.join(str(place) for place in places))
    return None if found is None else Path(found)
