"""fake-gcs-server: Google's cloud storage, for `gs://`. Built from source by Go."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path

from servers.errors import NotReady
from servers.go_module import build, by_hand
from servers.recipe import Plan, Recipe, find_program

_MODULE = "github.com/fsouza/fake-gcs-server"
VERSION = "1.56.1"


def _plan(program: Path, port: int, directory: Path) -> Plan:
    where = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-public-host", f"127.0.0.1:{port}"]
    kept = ["-backend", "filesystem", "-filesystem-root", str(directory), "-external-url", f"http://127.0.0.1:{port}"]
    return Plan([str(program), *where, *kept], {})


def _clients(endpoint_url: str) -> dict[str, str]:
    # gcsfs would ask over gRPC what kind of bucket it is, and wait a minute for the answer.
    return {"STORAGE_EMULATOR_HOST": endpoint_url, "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false"}


def _make_bucket(endpoint_url: str, bucket: str) -> None:
    body = json.dumps({"name": bucket}).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{endpoint_url}/storage/v1/b?project=stratalog", body, headers)
    try:
        urllib.request.urlopen(request, timeout=5).close()
    except urllib.error.HTTPError as error:
        with error:
            if error.code != 409:  # it is there
                raise NotReady(str(error)) from error
    except OSError as error:
        raise NotReady(str(error)) from error


RECIPE = Recipe(
    "fakegcs",
    VERSION,
    1,
    lambda at: find_program("fake-gcs-server", at),
    lambda at: build(_MODULE, f"v{VERSION}", at),
    by_hand(_MODULE, f"v{VERSION}"),
    _plan,
    _clients,
    _make_bucket,
    "gs",
)
