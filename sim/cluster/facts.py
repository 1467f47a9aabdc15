"""The facts that administrators have heard. Every later image of the cluster has to agree with them."""

from __future__ import annotations

from msgspec import Struct, field

from sim.model import Violation
from stratalog.metadata.image.configs_image import ConfigResource
from stratalog.metadata.image.image import ClusterImage

__all__ = ["SETTING", "Facts", "TopicFacts"]

SETTING = "retention.ms"
"""The setting of topics that administrators change."""


class TopicFacts(Struct):
    """One name, which only one administrator uses. ``exists`` None: the outcome of its last command is not known."""

    name: str
    exists: bool | None = False
    is_changing: bool = False
    """A command about it is under way: nothing holds for sure."""
    topic_id: bytes | None = None
    """None if the answer that named it was lost."""
    partitions: int = 0
    setting: str | None = None
    knows_setting: bool = True

    def check(self, image: ClusterImage, where: str) -> None:
        """Look for it in an image that is later than its last answer. Raises `Violation`."""
        if self.exists is None or self.is_changing:
            return
        topic = image.topics.by_name.get(self.name)
        if not self.exists:
            if topic is not None:
                raise Violation(f"{where} has topic {self.name}, whose creation was refused or whose deletion answered")
            return
        if topic is None:
            raise Violation(f"{where} lacks topic {self.name}, whose creation was answered")
        if self.topic_id not in (None, topic.topic_id):
            raise Violation(f"{where} has topic {self.name} under another id than was answered")
        if len(topic.partitions) != self.partitions:
            raise Violation(f"{where} has {len(topic.partitions)} partitions of {self.name}, not {self.partitions}")
        setting = image.configs.of(ConfigResource.topic(self.name)).get(SETTING)
        if self.knows_setting and setting != self.setting:
            raise Violation(f"{where} has {SETTING}={setting} of {self.name}, not {self.setting}")


class Facts(Struct):
    """All of a run."""

    topics: dict[str, TopicFacts] = field(default_factory=dict)
    topic_ids: dict[bytes, str] = field(default_factory=dict)
    producer_ids: dict[int, str] = field(default_factory=dict)
    answered: int = 0
    """Commands with a known outcome."""
    unknown: int = 0

    def topic_id_told(self, topic_id: bytes, name: str) -> None:
        """An answer has named the id of a topic that was created. Raises `Violation`."""
        known = self.topic_ids.setdefault(topic_id, name)
        if known != name:
            raise Violation(f"topics {known} and {name} have one id")

    def producer_id_told(self, producer_id: int, who: str) -> None:
        """A client has got a producer id. Raises `Violation`."""
        known = self.producer_ids.setdefault(producer_id, who)
        if known != who:
            raise Violation(f"producer id {producer_id} was given to {known} and to {who}")

    def check(self, image: ClusterImage, where: str) -> None:
        """Compare an image of the present with all that was answered. Raises `Violation`."""
        for topic in self.topics.values():
            topic.check(image, where)
