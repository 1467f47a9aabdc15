"""The object stores that run here without Docker: one module each, all started and stopped in the same way."""

from __future__ import annotations

from servers import azurite, fakegcs, localstack_core, minio, moto, seaweedfs, versitygw
from servers.errors import NotReady, StartError
from servers.process import Running, free_ports, is_free, start, stop_signal
from servers.recipe import Plan, Recipe, Service

__all__ = [
    "RECIPES",
    "NotReady",
    "Plan",
    "Recipe",
    "Running",
    "Service",
    "StartError",
    "free_ports",
    "is_free",
    "start",
    "stop_signal",
]

RECIPES: dict[str, Recipe] = {
    module.RECIPE.name: module.RECIPE
    for module in (moto, seaweedfs, versitygw, minio, localstack_core, azurite, fakegcs)
}
"""By the name that `run_s3.py` and `make test-s3` take."""
