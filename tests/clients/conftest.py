"""A topic to write to with foreign clients, and what the broker has stored of it."""

import pytest

from stratalog.wire.batch import iter_headers
from stratalog.wire.compression import Codec

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(params=CODECS)
def codec(request) -> str:
    """Each codec by the name that Kafka's clients use."""
    return request.param


@pytest.fixture
def topic(start_node):
    """A running broker with the topic ``events`` of two partitions."""
    node = start_node()
    node.create("events", 2)

    def stored_codecs(partition: int) -> set[str]:
        """The codec bits of every batch in the log's own files."""
        log = node.partition("events", partition).log
        read = log.read(0, max_bytes=1 << 26, max_offset=log.log_end_offset)
        data = b"".join(part.file.pread(part.length, part.position) for part in read.parts)
        return {Codec(header.attributes & 7).name.lower() for _, header in iter_headers(data)}

    node.stored_codecs = lambda partition: node.run(stored_codecs, partition)
    return node


@pytest.fixture
def expected():
    """What is written: keys, values with nulls among them, and times in 2013."""
    return [
        (None if n % 5 == 0 else b"k%d" % n, None if n % 5 == 3 else b"value %d " % n * 20, 1_372_896_000_000 + n)
        for n in range(60)
    ]
