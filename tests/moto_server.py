"""moto's S3 server for tests: in this process, with writes on a condition that are decided one at a time."""

from __future__ import annotations

import importlib.util
import logging
from pathlib import Path

from moto.server import ThreadedMotoServer

PROGRAM = Path(__file__).resolve().parents[1] / "localstack" / "atomic_moto.py"
"""Runs the same server as a process of its own."""


def start_moto_server() -> ThreadedMotoServer:
    """Start a server without buckets on a free port. The caller calls its `stop`."""
    # localstack/ is no package: its name belongs to another one.
    spec = importlib.util.spec_from_file_location("stratalog_localstack_atomic_moto", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.decide_one_at_a_time()
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    return server
