"""The bytes of topics in Metadata answers, kept from one answer to the next.

The description of a topic changes only with the topic's image, or with a log directory or a log that fails. So the bytes
are kept by version and name and hold as long as the image is the same object; those of all topics together hold as
long as the cluster's image does. A topic that cannot be served just now is never kept.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable
from typing import Final

from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.image.topics_image import TopicImage
from stratalog.wire.messages.metadata import MetadataResponseTopic
from stratalog.wire.metadata_answer import EncodedTopics, topic_bytes

__all__ = ["MetadataFragments"]

_STALE_MAX: Final = 1000
"""Topics that are gone whose bytes may still lie here."""

_PARTITIONS_PER_PAUSE: Final = 50
"""A pause asks for the time: rarely enough where everything is kept, often enough where nothing is."""

Describe = Callable[[TopicImage], MetadataResponseTopic]


class MetadataFragments:
    """One broker's. ``failures`` of every call are directories and logs: when they change, nothing of before holds."""

    def __init__(self) -> None:
        self._topics: dict[int, dict[str, tuple[TopicImage, bytes]]] = {}
        self._everything: dict[int, tuple[int, EncodedTopics]] = {}
        self._failures: Hashable = None

    def topic(self, topic: TopicImage, version: int, describe: Describe, *, failures: Hashable) -> bytes:
        """The bytes of one topic; ``describe`` makes the answer where there are none."""
        self._check(failures)
        return self._topic(topic, version, describe)[0]

    def everything(
        self, image: ClusterImage, version: int, describe: Describe, *, failures: Hashable
    ) -> Generator[None, None, EncodedTopics]:
        """The bytes of all topics of an image; pauses between topics whose bytes are not kept."""
        self._check(failures)
        found = self._everything.get(version)
        if found is not None and found[0] == image.version:
            return found[1]
        topics = image.topics.by_name
        if len(self._topics.get(version, ())) > len(topics) + _STALE_MAX:
            del self._topics[version]
        pieces = []
        all_kept = True
        since_pause = 0
        for topic in topics.values():
            data, kept = self._topic(topic, version, describe)
            pieces.append(data)
            all_kept = all_kept and kept
            since_pause += len(topic.partitions)
            if since_pause >= _PARTITIONS_PER_PAUSE:
                since_pause = 0
                yield
        encoded = EncodedTopics(pieces)
        if all_kept and failures == self._failures:
            self._everything[version] = image.version, encoded
        return encoded

    def _check(self, failures: Hashable) -> None:
        if failures != self._failures:
            self._failures = failures
            self._topics.clear()
            self._everything.clear()

    def _topic(self, topic: TopicImage, version: int, describe: Describe) -> tuple[bytes, bool]:
        """The bytes, and whether they are kept."""
        known = self._topics.setdefault(version, {})
        found = known.get(topic.name)
        if found is not None and found[0] is topic:
            return found[1], True
        answer = describe(topic)
        data = topic_bytes(answer, version)
        kept = not any(partition.error_code for partition in answer.partitions)
        if kept:
            known[topic.name] = topic, data
        return data, kept
