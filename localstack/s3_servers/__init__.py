"""The S3 services that run here without Docker: one module each, all started and stopped in the same way."""

from __future__ import annotations

from s3_servers import localstack_core, minio, moto, seaweedfs, versitygw
from s3_servers.process import Running, free_ports, is_free, start
from s3_servers.recipe import ACCESS_KEY, REGION, SECRET_KEY, Plan, Recipe, Service, StartError

__all__ = [
    "ACCESS_KEY",
    "RECIPES",
    "REGION",
    "SECRET_KEY",
    "Plan",
    "Recipe",
    "Running",
    "Service",
    "StartError",
    "free_ports",
    "is_free",
    "start",
]

RECIPES: dict[str, Recipe] = {
    module.RECIPE.name: module.RECIPE for module in (moto, seaweedfs, versitygw, minio, localstack_core)
}
"""By the name that `run_s3.py` and `make test-s3` take."""
