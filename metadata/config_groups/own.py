"""Settings that Kafka does not have; all begin with ``stratalog.``."""

from __future__ import annotations

from typing import Final

from stratalog.metadata.config_definition import BOOLEAN, INT, LONG, STRING, ConfigDef, setting
from stratalog.metadata.config_validators import NonEmptyText, at_least

__all__ = ["OWN_SETTINGS"]

_MIB: Final = 1 << 20

# fmt: off
OWN_SETTINGS: Final[tuple[ConfigDef, ...]] = (
    setting("stratalog.bucket.url", STRING, None, NonEmptyText(),
            doc="Where history is archived: file:///path, s3://bucket/prefix, memory: or any fsspec URL; not set, the "
                "directory beside the first log directory whose name is that one's with -bucket behind it."),
    setting("stratalog.bucket.endpoint.url", STRING, None, NonEmptyText(),
            doc="Address of an S3 server that is not AWS."),
    setting("stratalog.bucket.region", STRING, None, NonEmptyText(), doc="Region of the bucket."),
    setting("stratalog.cache.bytes.max", LONG, 1 << 30, at_least(_MIB),
            doc="Disk for chunks fetched from the bucket."),
    setting("stratalog.cache.dir", STRING, None, NonEmptyText(),
            doc="Directory of these chunks; not set, the one beside the first log directory whose name is that one's "
                "with -cache behind it."),
    setting("stratalog.http.listener", STRING, "127.0.0.1:8080", NonEmptyText(),
            doc="host:port of health, readiness and metrics; port 0 is any free port."),
    setting("stratalog.incarnation", LONG, 0, at_least(0), internal=True,
            doc="Which life of the cluster writes to the bucket; kept among the cluster-wide defaults, raised only by a "
                "takeover, never set by hand."),
    setting("stratalog.read.only", BOOLEAN, False,
            doc="Serve the topics of the bucket for reading, and write nothing to it; log.dirs must be empty. `stratalog "
                "mount` sets it."),
    setting("stratalog.request.elements.max", INT, 10_000, at_least(1000),
            doc="Array elements one request may hold before its connection is closed. Ten thousand take the event "
                "loop about 20 ms."),
    setting("stratalog.request.tags.max", INT, 64, at_least(0),
            doc="Unknown tagged fields one structure may hold before its connection is closed."),
    setting("stratalog.unauthenticated.request.bytes.max", INT, 64 << 10, at_least(1024),
            doc="Largest request of a connection that must still authenticate."),
)
# fmt: on
