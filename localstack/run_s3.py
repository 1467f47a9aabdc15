"""Start a local S3 service without Docker, wait until it answers, make a bucket, and stop it again.

::

    python localstack/run_s3.py moto                            # prints the settings, serves until Ctrl-C
    python localstack/run_s3.py seaweed --install -- pytest --store=s3://stratalog    # a command against it

From Python: ``with running("moto") as service: ... service.environment``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # this directory is no package: see README.md

from servers import RECIPES, Service, StartError, start, stop_signal


@contextmanager
def running(kind: str, *, bucket: str = "stratalog", port: int = 0, install: bool = False) -> Iterator[Service]:
    """Run a service of ``kind`` with an empty bucket until the block is left; its data goes with it."""
    started = start(RECIPES[kind], bucket=bucket, port=port, install=install)
    try:
        yield started.service
    finally:
        started.stop()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a service, and a command against it if one was given; return the command's exit status."""
    parser = argparse.ArgumentParser(description="Run a local S3 service without Docker.")
    parser.add_argument("kind", choices=sorted(RECIPES))
    parser.add_argument("--bucket", default="stratalog")
    parser.add_argument("--port", type=int, default=0, help="first port to use (default: free ones)")
    parser.add_argument("--install", action="store_true", help="install the pinned version if it is missing")
    parser.epilog = "after `--`: a command to run against the service"
    given = list(sys.argv[1:] if arguments is None else arguments)
    end = given.index("--") if "--" in given else len(given)
    options, command = parser.parse_args(given[:end]), given[end + 1 :]
    try:
        with running(options.kind, bucket=options.bucket, port=options.port, install=options.install) as service:
            if command:
                return subprocess.run(command, env={**os.environ, **service.environment}, check=False).returncode
            stop = stop_signal()
            for name, value in service.environment.items():
                print(f"export {name}='{value}'", flush=True)
            stop.wait()
    except StartError as error:
        print(f"run_s3: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
