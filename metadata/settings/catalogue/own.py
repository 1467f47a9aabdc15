"""Settings that Kafka does not have; all begin with ``stratalog.``."""

from __future__ import annotations

from typing import Final

from stratalog.metadata.settings.catalogue.definition import (
    BOOLEAN,
    INT,
    LONG,
    LONG_MAX,
    STRING,
    WIDE,
    ConfigDef,
    setting,
)
from stratalog.metadata.settings.catalogue.validators import NonEmptyText, OneOf, Range, at_least

__all__ = ["OWN_SETTINGS"]

_MIB: Final = 1 << 20

# fmt: off
OWN_SETTINGS: Final[tuple[ConfigDef, ...]] = (
    setting("stratalog.ballast.bytes", LONG, 8 * _MIB, at_least(0),
            doc="File in each log directory that is given up when a start finds the disk full, so that checkpoints can be "
                "written; a sixteenth of the file system at most. 0 is none."),
    setting("stratalog.bucket.url", STRING, None, NonEmptyText(),
            doc="Where history is archived: file:///path, s3://bucket/prefix, memory: or any fsspec URL; not set, the "
                "directory beside the first log directory whose name is that one's with -bucket behind it."),
    setting("stratalog.bucket.endpoint.url", STRING, None, NonEmptyText(),
            doc="Address of an S3 server that is not AWS."),
    setting("stratalog.bucket.addressing.style", STRING, None, OneOf(("auto", "path", "virtual")),
            doc="How an S3 bucket is addressed: path is host/bucket, virtual is bucket.host; not set, path where an "
                "endpoint is named, else auto."),
    setting("stratalog.bucket.ca.bundle", STRING, None, NonEmptyText(),
            doc="File of the certificates that the S3 endpoint is checked with; not set, AWS_CA_BUNDLE or those that "
                "boto3 brings."),
    setting("stratalog.bucket.checksum", STRING, None, OneOf(("crc32c", "md5")),
            doc="Checksum that S3 objects are sent with: crc32c, the default, is kept and given back by services that know it; "
                "md5 is for those that refuse or mistake the newer headers."),
    setting("stratalog.bucket.kms.key.id", STRING, None, NonEmptyText(),
            doc="Key of the key management service for the encryptions aws:kms and aws:kms:dsse; not set, the "
                "account's own key for S3."),
    setting("stratalog.bucket.region", STRING, None, NonEmptyText(), doc="Region of the bucket."),
    setting("stratalog.bucket.server.side.encryption", STRING, None, OneOf(("AES256", "aws:kms", "aws:kms:dsse")),
            doc="Encryption asked of S3 for each new object; a service that does not do it is refused. Not set, "
                "the bucket's own default."),
    setting("stratalog.bucket.single.writer", BOOLEAN, False,
            doc="A promise that no other broker writes to this bucket: needed for stores without conditional writes "
                "(gs://, abfs:// and others through fsspec)."),
    setting("stratalog.cache.bytes.max", LONG, 1 << 30, at_least(_MIB),
            doc="Disk for chunks fetched from the bucket."),
    setting("stratalog.cache.dir", STRING, None, NonEmptyText(),
            doc="Directory of these chunks; not set, the one beside the first log directory whose name is that one's "
                "with -cache behind it."),
    setting("stratalog.cache.free.bytes.min", LONG, 1 << 30, at_least(0),
            doc="Space that the cache leaves free on its disk: where less is free its chunks go."),
    setting("stratalog.cache.topic.percent.max", INT, 50, Range(1, 100),
            doc="Share of the cache that one topic keeps when others need room; room that no other topic needs it may use, too."),
    setting("stratalog.group.members.max", INT, 100_000, at_least(1), mode=WIDE,
            doc="Members of all groups of a broker together, and member ids that were given out and not used yet; then no "
                "member can join (GROUP_MAX_SIZE_REACHED). A group whose subscriptions and assignments have more than 8 KiB a "
                "member counts once for each 8 KiB."),
    setting("stratalog.groups.max", INT, 100_000, at_least(1), mode=WIDE,
            doc="Groups of a broker, also those that only have offsets, of 2 KiB and more each; then none can be made "
                "(GROUP_MAX_SIZE_REACHED). A name counts once more for each 1,024 characters."),
    setting("stratalog.history.copies.min", INT, 16, at_least(1), mode=WIDE,
            doc="Copies of earlier manifests that an archive keeps at least; older ones leave the bucket through the trash "
                "when they are older than stratalog.trash.grace.ms, and no cut, lease or job needs them."),
    setting("stratalog.http.connections.max", INT, 64, at_least(1),
            doc="Connections of the HTTP port at one time."),
    setting("stratalog.http.connections.per.ip.max", INT, 16, at_least(1),
            doc="The same from one address. A browser opens at most six."),
    setting("stratalog.http.listener", STRING, "127.0.0.1:8080", NonEmptyText(),
            doc="host:port of health, readiness and metrics; port 0 is any free port."),
    setting("stratalog.incarnation", LONG, 0, at_least(-1), internal=True,
            doc="Which life of the cluster writes to the bucket; kept among the cluster-wide defaults, raised only by a "
                "takeover, never set by hand. -1: restored without a takeover, nothing is written to the bucket."),
    setting("stratalog.merge.bytes.max", INT, 64 * _MIB, Range(_MIB, 64 * _MIB),
            doc="Log bytes of the largest object that merging makes; objects of more than a quarter of it are left alone."),
    setting("stratalog.merge.interval.ms", LONG, 3_600_000, at_least(1000),
            doc="How long after its partition came here, or after the last merge, small objects are looked for."),
    setting("stratalog.merge.objects.min", INT, 32, at_least(0),
            doc="Small neighbouring objects that become one in the bucket; 0 merges never."),
    setting("stratalog.read.only", BOOLEAN, False,
            doc="Serve the topics of the bucket for reading, and write nothing to it; log.dirs must be empty. `stratalog "
                "mount` sets it."),
    setting("stratalog.remote.fetch.client.max.bytes.per.second", LONG, LONG_MAX, at_least(1), mode=WIDE,
            doc="Bytes a second that are read from the bucket for one client id of one user, over all its connections."),
    setting("stratalog.remote.fetch.topic.max.bytes.per.second", LONG, LONG_MAX, at_least(1), mode=WIDE,
            doc="Bytes a second that are read from the bucket for one topic, over all its readers."),
    setting("stratalog.request.elements.max", INT, 10_000, at_least(1000),
            doc="Array elements one request may hold before its connection is closed. Ten thousand take the event "
                "loop about 20 ms."),
    setting("stratalog.request.memory.per.ip.bytes", LONG, -1,
            doc="Bytes of queued.max.request.bytes that unfinished requests above 64 KiB from one address may hold; "
                "-1 is half. Where all clients come through one proxy, give it more."),
    setting("stratalog.request.shortcuts", BOOLEAN, True,
            doc="Whether requests like earlier ones of their connection (Produce, Fetch, heartbeats) are handled without "
                "decoding them. Answers are the same either way; false is for finding a fault, and costs throughput."),
    setting("stratalog.request.tags.max", INT, 64, at_least(0),
            doc="Unknown tagged fields one structure may hold before its connection is closed."),
    setting("stratalog.transactional.ids.max", INT, 100_000, at_least(1), mode=WIDE,
            doc="Transactional ids of a broker; then InitProducerId with another is POLICY_VIOLATION until some expire "
                "(transactional.id.expiration.ms). An id counts once more for each 1,024 characters."),
    setting("stratalog.trash.check.interval.ms", LONG, 180_000, at_least(1), mode=WIDE,
            doc="How often a partition looks whether objects in its archive's trash may be deleted now."),
    setting("stratalog.trash.grace.ms", LONG, 86_400_000, at_least(0), mode=WIDE,
            doc="How long an object stays in the bucket after retention, DeleteRecords, a merge or the deletion of its "
                "topic took it out of the archive. Longer than any read that takes no lease."),
    setting("stratalog.umask", STRING, "077", OneOf(("077", "027", "007", "022")),
            doc="Accounts that may read the broker's files beside its own, as umask(1) says it: 077 none, 027 "
                "the group. It holds for log directories, the cache and a bucket in a directory; what exists keeps its mode."),
    setting("stratalog.unauthenticated.request.bytes.max", INT, 64 << 10, at_least(1024),
            doc="Largest request of a connection that must still authenticate."),
)
# fmt: on
