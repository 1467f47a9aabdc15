"""LocalStack's S3 in host mode, in an environment of its own: no Docker, no account, 500 MB of memory."""

from __future__ import annotations

import sys
from pathlib import Path

from servers.recipe import Plan, Recipe, run_installer

_REQUIREMENTS = Path(__file__).resolve().parent.parent / "requirements-localstack.txt"
# Later ones need Python 3.12 (the requirements say the same).
VERSION = "4.9.2" if sys.version_info < (3, 12) else "2026.3.0"
_BY_HAND = "run this program with the python of an environment with localstack/requirements-localstack.txt in it"


def _find(directory: Path) -> Path | None:
    for python in (directory / "bin" / "python", Path(sys.executable)):
        if list(python.parent.parent.glob("lib/python3*/site-packages/localstack/runtime/main.py")):
            return python
    return None


def _install(directory: Path) -> None:
    run_installer([sys.executable, "-m", "venv", str(directory)], advice=_BY_HAND)
    pip = [str(directory / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run_installer([*pip, "--requirement", str(_REQUIREMENTS)], advice=_BY_HAND)


def _plan(program: Path, port: int, directory: Path) -> Plan:
    environment = {
        "SERVICES": "s3",
        "EAGER_SERVICE_LOADING": "1",
        "STRICT_SERVICE_LOADING": "1",
        "GATEWAY_LISTEN": f"127.0.0.1:{port}",
        "DNS_ADDRESS": "0",
        "SKIP_SSL_CERT_DOWNLOAD": "1",
        "DISABLE_EVENTS": "1",
        "FILESYSTEM_ROOT": str(directory),
        "LOCALSTACK_VOLUME_DIR": str(directory / "volume"),
    }
    return Plan([str(program), "-m", "localstack.runtime.main"], environment)


RECIPE = Recipe("localstack", VERSION, 1, _find, _install, _BY_HAND, _plan)
