"""S3 settings of a Spark session in Hadoop's words (``fs.s3a.…``), as the options ``s3.…`` of this source.

Only the driver has a session: PySpark tells a Python source nothing but its own options. So the holder of the session
asks here, and gives the answer on.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from stratalog.tier.stores.s3.client import ENDPOINT_VARIABLES
from stratalog.wire.errors import Invalid

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["HADOOP_NAMES", "completed", "s3a_of_configuration", "s3a_of_session", "store_options"]

HADOOP_NAMES: Final = (
    "access.key",
    "secret.key",
    "session.token",
    "endpoint",
    "endpoint.region",
    "path.style.access",
    "connection.ssl.enabled",
)
"""Those behind ``fs.s3a.`` that count, also behind ``fs.s3a.bucket.NAME.``, which is stronger."""

_KEYS: Final = frozenset({"s3.access-key", "s3.secret-key", "s3.session-token"})
_PREFIX: Final = "fs.s3a."
_SPARK_PREFIX: Final = "spark.hadoop." + _PREFIX
_BUCKET: Final = "bucket."
_AMAZON: Final = re.compile(r"(?:https?://)?s3(?:[.-](?P<region>[a-z0-9-]+))?\.amazonaws\.com/?")


def s3a_of_session(spark: SparkSession) -> dict[str, str]:
    """The settings ``fs.s3a.…`` of a session, without that prefix: of ``core-site.xml``, ``spark.hadoop.…``, and what
    Spark itself puts there, the driver's ``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY`` and ``AWS_SESSION_TOKEN``.

    Empty for a session of Spark Connect, whose server keeps them to itself.
    """
    context = getattr(spark, "sparkContext", None)
    if context is None:
        return {}
    found = context._jsc.hadoopConfiguration().getPropsWithPrefix(_PREFIX)  # noqa: SLF001 - the only way to it
    return {name: str(value) for name, value in dict(found).items() if _is_ours(name)}


def s3a_of_configuration(configuration: Mapping[str, str]) -> dict[str, str]:
    """The same out of settings of Spark (``spark.hadoop.fs.s3a.…``), where there is no session yet."""
    return {
        name.removeprefix(_SPARK_PREFIX): value
        for name, value in configuration.items()
        if name.startswith(_SPARK_PREFIX) and _is_ours(name.removeprefix(_SPARK_PREFIX))
    }


def _is_ours(name: str) -> bool:
    return name in HADOOP_NAMES or (
        name.startswith(_BUCKET) and name.endswith(tuple(f".{each}" for each in HADOOP_NAMES))
    )


def completed(
    options: Mapping[str, str], s3a: Mapping[str, str], url: str, environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """``options`` of a read of ``url``, and what they leave open as ``s3a`` says it; see `store_options`.

    Keys are of one source: where options name one of them, none is taken from ``s3a``.
    """
    named = {name.lower() for name in options}
    taken = named | (_KEYS if named & _KEYS else frozenset())
    found = store_options(s3a, url, environment)
    return {**{name: value for name, value in found.items() if name not in taken}, **options}


def store_options(s3a: Mapping[str, str], url: str, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The options ``s3.…`` that ``s3a`` stands for at ``url``; none if that is not in S3.

    An endpoint that Hadoop has only from ``AWS_ENDPOINT_URL`` gives way to the stronger variables of ``environment``.
    Raises `Invalid` for one half of a pair of keys.
    """
    if not url.startswith(("s3://", "s3a://")):
        return {}
    bucket = url.partition("://")[2].partition("/")[0]
    given = {
        name: value
        for name in HADOOP_NAMES
        if (value := (s3a.get(f"{_BUCKET}{bucket}.{name}") or s3a.get(name) or "").strip())
    }
    options = _keys(given, bucket)
    endpoint, region = _endpoint(given, environment)
    if endpoint:
        options["s3.endpoint"] = endpoint
    if region:
        options["s3.region"] = region
    if given.get("path.style.access", "").lower() == "true":
        options["s3.addressing-style"] = "path"
    return options


def _keys(given: Mapping[str, str], bucket: str) -> dict[str, str]:
    access, secret = given.get("access.key"), given.get("secret.key")
    if (access is None) != (secret is None):
        there, missing = ("access.key", "secret.key") if access else ("secret.key", "access.key")
        raise Invalid(
            f"Hadoop's fs.s3a.{there} is set for the bucket {bucket}, but not fs.s3a.{missing}: set both or none"
        )
    if access is None or secret is None:
        return {}
    options = {"s3.access-key": access, "s3.secret-key": secret}
    if token := given.get("session.token"):
        options["s3.session-token"] = token
    return options


def _endpoint(given: Mapping[str, str], environment: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Endpoint and region. Amazon's own endpoints (Spark sets one by default) count as none: a region says more."""
    endpoint, region = given.get("endpoint"), given.get("endpoint.region")
    if endpoint is not None and (amazon := _AMAZON.fullmatch(endpoint)):
        endpoint, region = None, region or amazon["region"]
    if endpoint is None or endpoint == environment.get("AWS_ENDPOINT_URL"):
        endpoint = next((environment[name] for name in ENDPOINT_VARIABLES if environment.get(name)), None)
    if endpoint is not None and "://" not in endpoint:
        secured = given.get("connection.ssl.enabled", "true").lower() != "false"
        endpoint = f"{'https' if secured else 'http'}://{endpoint}"
    return endpoint, region or environment.get("AWS_REGION") or None
