"""The bytes of topics in Metadata answers, kept from one answer to the next.

The description of a topic changes only with the topic's image, with the brokers (which of its replicas are offline), or with
a log directory or a log that fails. So the bytes are kept by form and name and hold as long as the images are the same
objects; those of all topics together hold as long as the cluster's image does. A topic that this broker leads and cannot
serve just now is never kept.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable
from typing import Final

from stratalog.metadata.image.brokers_image import BrokersImage
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.image.topics_image import TopicImage
from stratalog.wire.messages.metadata import MetadataResponseTopic
from stratalog.wire.metadata_answer import EncodedTopics, topic_bytes

__all__ = ["MetadataFragments"]

_STALE_MAX: Final = 1000
"""Topics that are gone whose bytes may still lie here."""

_PARTITIONS_PER_PAUSE: Final = 50
"""A pause asks for the time: rarely enough where everything is kept, often enough where nothing is."""

Form = tuple[int, str]
"""The version of the request, and the listener that was asked: a broker without it cannot be reached there."""

Describe = Callable[[TopicImage], tuple[MetadataResponseTopic, bool]]
"""The answer for a topic, and whether it holds as long as the images do."""


class MetadataFragments:
    """One broker's. When the ``failures`` of a call (of directories and logs) or the brokers differ from those of the call
    before, nothing of before holds.
    """

    def __init__(self) -> None:
        self._topics: dict[Form, dict[str, tuple[TopicImage, bytes]]] = {}
        self._everything: dict[Form, tuple[int, EncodedTopics]] = {}
        self._failures: Hashable = None
        self._brokers = BrokersImage()

    def topic(
        self, topic: TopicImage, brokers: BrokersImage, form: Form, describe: Describe, *, failures: Hashable
    ) -> bytes:
        """The bytes of one topic; ``describe`` makes the answer where there are none."""
        self._check(brokers, failures)
        return self._topic(topic, brokers, form, describe)[0]

    def everything(
        self, image: ClusterImage, form: Form, describe: Describe, *, failures: Hashable
    ) -> Generator[None, None, EncodedTopics]:
        """The bytes of all topics of an image; pauses between topics whose bytes are not kept."""
        brokers = image.brokers
        self._check(brokers, failures)
        found = self._everything.get(form)
        if found is not None and found[0] == image.version:
            return found[1]
        topics = image.topics.by_name
        if len(self._topics.get(form, ())) > len(topics) + _STALE_MAX:
            del self._topics[form]
        pieces = []
        all_kept = True
        since_pause = 0
        for topic in topics.values():
            data, kept = self._topic(topic, brokers, form, describe)
            pieces.append(data)
            all_kept = all_kept and kept
            since_pause += len(topic.partitions)
            if since_pause >= _PARTITIONS_PER_PAUSE:
                since_pause = 0
                yield
        encoded = EncodedTopics(pieces)
        if all_kept and failures == self._failures and brokers is self._brokers:
            self._everything[form] = image.version, encoded
        return encoded

    def _check(self, brokers: BrokersImage, failures: Hashable) -> None:
        if brokers is not self._brokers or failures != self._failures:
            self._brokers = brokers
            self._failures = failures
            self._topics.clear()
            self._everything.clear()

    def _topic(self, topic: TopicImage, brokers: BrokersImage, form: Form, describe: Describe) -> tuple[bytes, bool]:
        """The bytes, and whether they are kept. Others may have asked for newer brokers during a pause."""
        current = brokers is self._brokers
        known = self._topics.setdefault(form, {})
        found = known.get(topic.name)
        if current and found is not None and found[0] is topic:
            return found[1], True
        answer, holds = describe(topic)
        data = topic_bytes(answer, form[0])
        kept = current and holds
        if kept:
            known[topic.name] = topic, data
        return data, kept
