"""One change of a consumer group: from what a member says to its new epoch, targets and assignment.

The steps are those of Kafka's ``GroupMetadataManager``, in its order, so that the records of a change stand in the log
as Kafka writes them. Each step applies its records at once. Sources: KIP-848, KIP-1101 (metadata hash), KIP-1263
(assignments are not computed more often than the interval allows).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import Final

from msgspec import Struct

from stratalog.metadata.coordination import CoordinatorRecord, Now
from stratalog.metadata.groups.assignors.registry import ASSIGNORS, MemberSpec
from stratalog.metadata.groups.consumer.member import ConsumerMember
from stratalog.metadata.groups.consumer.reconcile import Owned, Reconciliation
from stratalog.metadata.groups.consumer.state import ConsumerState, ResolvedPattern
from stratalog.metadata.groups.group_limits import GroupLimits
from stratalog.metadata.groups.surroundings import Surroundings
from stratalog.metadata.image.topics_image import TopicsImage
from stratalog.wire.records.group import ConsumerGroupPartitionMetadataKey
from stratalog.wire.topic import Uuid

__all__ = ["ConsumerUpdate", "TopicsSeen", "assignment_is_due", "metadata_hash", "patterns_outdated"]

_PATTERNS_REST_MS: Final = 10_000
"""Expressions are not resolved again more often than this, so that many new topics make one rebalance."""


class TopicsSeen(Struct):
    """The group's memory of the image's topics, so as to notice changes; empty after it was loaded."""

    topics: TopicsImage | None = None
    """Those that the group's hash was compared with."""
    patterns_checked: TopicsImage | None = None
    """Those that its expressions were compared with."""


def metadata_hash(topic_names: Iterable[str], topics: TopicsImage) -> int:
    """A number that changes when one of the topics appears, goes, is made anew or gets partitions; 0 for no topics.

    It is compared with itself only, so it need not be the number that Kafka computes.
    """
    found = sorted(name for name in topic_names if name in topics.by_name)
    if not found:
        return 0
    digest = blake2b(digest_size=8)
    for name in found:
        topic = topics.by_name[name]
        digest.update(topic.topic_id)
        digest.update(len(topic.partitions).to_bytes(4))
    return int.from_bytes(digest.digest(), signed=True)


def patterns_outdated(facts: ConsumerState, seen: TopicsSeen, surroundings: Surroundings, now: Now) -> bool:
    """Whether the group's expressions are to be resolved again: topics are new, or it is long ago.

    While it is not known what one of them matches, they are not: the group goes on with what it knows. One that came
    when that was not known is resolved as soon as it is: its members have nothing until then.
    """
    topics, interval_ms = surroundings.image.topics, surroundings.settings.consumer_regex_refresh_interval_ms
    if not facts.pattern_subscribers:
        return False
    ages_ms = {pattern: now.wall_ms - resolved.timestamp_ms for pattern, resolved in facts.patterns.items()}
    recent_ms = {pattern: age_ms for pattern, age_ms in ages_ms.items() if 0 <= age_ms <= interval_ms}
    wanted = facts.pattern_subscribers.keys() - recent_ms.keys()
    if any(surroundings.patterns.matching(pattern, topics) is not None for pattern in wanted):
        return True
    if recent_ms and max(recent_ms.values()) <= _PATTERNS_REST_MS:
        return False
    if seen.patterns_checked is topics:
        return False
    found = {pattern: surroundings.patterns.matching(pattern, topics) for pattern in facts.pattern_subscribers}
    outdated = any(
        matching is not None and (pattern not in facts.patterns or not matching <= facts.patterns[pattern].topics)
        for pattern, matching in found.items()
    )
    if not outdated and None not in found.values():
        seen.patterns_checked = topics
    return outdated


def assignment_is_due(facts: ConsumerState, limits: GroupLimits, now: Now) -> bool:
    """Whether new targets are wanted, and the interval since the last ones is over.

    A clock that was set back does not prolong it.
    """
    since_ms = now.wall_ms - facts.target_timestamp_ms
    return facts.epoch > facts.target_epoch and not 0 <= since_ms < limits.assignment_interval_ms


class ConsumerUpdate:
    """The records of one change, in ``records``; `finish` does all that follows from what a member has said."""

    def __init__(
        self,
        facts: ConsumerState,
        seen: TopicsSeen,
        surroundings: Surroundings,
        limits: GroupLimits,
        now: Now,
        may_see: Callable[[str], bool] | None = None,
    ) -> None:
        self.records: list[CoordinatorRecord] = []
        self._facts = facts
        self._seen = seen
        self._surroundings = surroundings
        self._settings = surroundings.settings
        self._image = surroundings.image
        self._limits = limits
        self._now = now
        self._may_see = may_see
        self._bump = facts.epoch == 0
        self._assignor = self._chosen_assignor()

    def replace(self, old: ConsumerMember, new: ConsumerMember) -> None:
        """A static member goes on under a new member id."""
        target = self._facts.target(old.member_id)
        self.records += self._facts.member_tombstones(old.member_id)
        self.records.append(self._facts.put_member(new))
        self.records.append(self._facts.put_target(new.member_id, target))
        self.records.append(self._facts.put_assignment(new))

    def say(self, old: ConsumerMember, new: ConsumerMember) -> None:
        """A member says something of itself, or joins; ``old`` is what was known of it."""
        if new == old and new.member_id in self._facts.members:
            return
        self.records.append(self._facts.put_member(new))
        if new.topic_names != old.topic_names:
            self._bump = True
        if new.topic_pattern != old.topic_pattern:
            self._change_pattern(old.topic_pattern, new.topic_pattern)

    def _change_pattern(self, old: str, new: str) -> None:
        if old and old not in self._facts.pattern_subscribers and old in self._facts.patterns:
            self.records.append(self._facts.delete_pattern(old))
        if new and new not in self._facts.patterns:
            self._resolve(new)
        self._bump = True

    def refresh_patterns(self) -> None:
        """Resolve the expressions again if they are outdated."""
        if patterns_outdated(self._facts, self._seen, self._surroundings, self._now):
            resolved = [self._resolve(pattern) for pattern in list(self._facts.pattern_subscribers)]
            if all(resolved):
                self._seen.patterns_checked = self._image.topics

    def _resolve(self, pattern: str) -> bool:
        """Write down what an expression matches; False if it is not known yet."""
        known = self._facts.patterns.get(pattern)
        matching = self._surroundings.patterns.matching(pattern, self._image.topics)
        if matching is None:
            return False
        if self._may_see is not None:
            matching = frozenset(filter(self._may_see, matching))
        resolved = ResolvedPattern(matching, max(self._image.provenance.offset, 0), self._now.wall_ms)
        self.records.append(self._facts.put_pattern(pattern, resolved))
        if known is None or known.topics != matching:
            self._bump = True
        return True

    def remove(self, members: Iterable[ConsumerMember]) -> None:
        """Members have left or were fenced: the group enters a new epoch, without a new assignment yet."""
        for member in members:
            self.records += self._facts.member_tombstones(member.member_id)
        for pattern in [name for name in self._facts.patterns if name not in self._facts.pattern_subscribers]:
            self.records.append(self._facts.delete_pattern(pattern))
        self.records.append(self._facts.put_epoch(self._facts.epoch + 1, self._hash()))

    def finish(self, member: ConsumerMember, owned: Owned | None) -> ConsumerMember:
        """New epoch if anything changed, new targets if there is one, and the member's next step. The member after it."""
        self._bump_epoch()
        if assignment_is_due(self._facts, self._limits, self._now):
            self._assign()
        return self.reconcile(member, owned)

    def reconcile(self, member: ConsumerMember, owned: Owned | None) -> ConsumerMember:
        """The member's next step towards the targets as they are. The member after it."""
        facts = self._facts
        step = Reconciliation(
            target_epoch=facts.target_epoch,
            target=facts.target(member.member_id),
            subscribed=_topic_ids(facts.topics_of(member), self._image.topics),
            owner=facts.owner,
            owned=owned,
        )
        after = step.step(member)
        if after is not member:
            self.records.append(facts.put_assignment(after))
        return after

    @property
    def bumps_epoch(self) -> bool:
        """Whether what was said so far asks for a new assignment."""
        return self._bump

    def _bump_epoch(self) -> None:
        topics = self._image.topics
        self._bump = self._bump or self._chosen_assignor() != self._assignor
        if not self._bump and self._seen.topics is topics:
            return
        number = self._hash()
        if self._bump or number != self._facts.metadata_hash:
            self.records.append(self._facts.put_epoch(self._facts.epoch + 1, number))
            self._bump = True
        if self._facts.has_partition_metadata:
            self.records.append(self._facts.delete(ConsumerGroupPartitionMetadataKey(group_id=self._facts.group_id)))
        self._seen.topics = topics

    def _hash(self) -> int:
        return metadata_hash(self._facts.topics(), self._image.topics)

    def _chosen_assignor(self) -> str:
        return self._facts.assignor(self._settings.consumer_assignors[0])

    def _assign(self) -> None:
        facts, topics = self._facts, self._image.topics
        ids: dict[frozenset[str], frozenset[Uuid]] = {}
        members: dict[str, MemberSpec] = {}
        for member_id, member in facts.members.items():
            names = facts.topics_of(member)
            if names not in ids:
                ids[names] = _topic_ids(names, topics)
            members[member_id] = MemberSpec(ids[names], facts.target(member_id), member.instance_id)
        counts = {topic: len(topics.by_id[topic].partitions) for subscribed in ids.values() for topic in subscribed}
        assign = ASSIGNORS.get(self._chosen_assignor(), ASSIGNORS["uniform"])
        for member_id, target in assign(members, counts).items():
            if facts.targets.get(member_id) != target:
                self.records.append(facts.put_target(member_id, target))
        self.records.append(facts.put_target_epoch(facts.epoch, self._now.wall_ms))


def _topic_ids(names: frozenset[str], topics: TopicsImage) -> frozenset[Uuid]:
    by_name = topics.by_name
    return frozenset(by_name[name].topic_id for name in names if name in by_name)
