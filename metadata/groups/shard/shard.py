"""All groups of one partition of ``__consumer_offsets``, and their committed offsets: a coordinator shard.

The shard finds the group that a request is for, makes it where the request may do so, and sees to its deadlines.
A group exists while it has members, a record of its own, or offsets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from stratalog.metadata.clock_jumps import ClockJumps
from stratalog.metadata.coordination import Action, CoordinatorRecord, Now, Producer, Reply, Write
from stratalog.metadata.groups.classic.group import ClassicGroup
from stratalog.metadata.groups.deadlines import Deadlines
from stratalog.metadata.groups.group import Group, GroupRequest, GroupSettings
from stratalog.metadata.groups.group_events import ListGroups, SettingsChanged, TopicsChanged
from stratalog.metadata.groups.offsets.committed_offsets import CommittedOffsets
from stratalog.metadata.groups.offsets.records import is_offset_key
from stratalog.metadata.groups.offsets.requests import TransactionEnded
from stratalog.metadata.groups.shard import routes as group_routes
from stratalog.metadata.groups.shard.admin import listed
from stratalog.metadata.groups.shard.figures import GroupFigures
from stratalog.metadata.groups.surroundings import Surroundings
from stratalog.metadata.groups.topic_patterns import Patterns, TopicPatterns
from stratalog.metadata.image.image import ClusterImage
from stratalog.wire.errors import Corrupt, KafkaError
from stratalog.wire.messages.heartbeat import HeartbeatRequest
from stratalog.wire.messages.list_groups import ListGroupsResponse
from stratalog.wire.records.group import GroupMetadataKey, GroupMetadataValue, decode_key, decode_value
from stratalog.wire.schema import DecodeError

__all__ = ["GroupShard", "ListGroups", "SettingsChanged", "TopicsChanged"]

_GROUPS_AT_ONCE: Final = 500
"""How many deadlines are seen to before others have their turn, some milliseconds."""


class GroupShard:
    """The groups of one partition. Pure; see `CoordinatorShard`."""

    def __init__(
        self, number: int, settings: GroupSettings, image: ClusterImage, patterns: Patterns | None = None
    ) -> None:
        """``patterns`` tells which topics an expression matches; without it, that is found out in the step."""
        self.number = number
        self.patterns: Patterns = TopicPatterns() if patterns is None else patterns
        self.settings = settings
        self.image = image
        self.groups: dict[str, Group] = {}
        self.offsets = CommittedOffsets(settings)
        self.rebalances_completed = 0
        """Count of the classic groups that are gone; see `figures`."""
        self.sessions_expired = 0
        self.records_skipped = 0
        """Records of types that are not known, share and streams groups among them."""
        self._deadlines = Deadlines()
        self._next_expiry_ms: int | None = None
        self._jumps = ClockJumps()
        self._events: dict[type[Any], Callable[[Any, Now], list[Action]]] = {
            GroupRequest: self._request,
            TopicsChanged: self._topics_changed,
            SettingsChanged: self._settings_changed,
            TransactionEnded: self._transaction_ended,
            ListGroups: self._list,
        }

    @property
    def surroundings(self) -> Surroundings:
        """The surroundings its groups see: settings, image, and the matches of its expressions."""
        return self

    # -- groups -------------------------------------------------------------------------------------------------------

    def put(self, group: Group) -> None:
        """Keep a group, in the place of the one that had its id."""
        self._remember(self.groups.get(group.group_id))
        self.groups[group.group_id] = group
        self._deadlines.forget(group.group_id)
        self.look_after(group)

    def drop(self, group_id: str) -> None:
        """Forget a group; while it has offsets, one without members stays in its place."""
        self._remember(self.groups.pop(group_id))
        self._deadlines.forget(group_id)
        self.keep_offsets(group_id)

    def keep_offsets(self, group_id: str) -> None:
        """Make a group without members for offsets that have none."""
        if group_id not in self.groups and self._holds_offsets(group_id):
            self.groups[group_id] = ClassicGroup(group_id, self.settings)

    def _holds_offsets(self, group_id: str) -> bool:
        return self.offsets.has_offsets(group_id) or self.offsets.has_pending(group_id)

    def look_after(self, group: Group) -> None:
        """Something has happened to a group: see to its next deadline, and whether another takes its place."""
        successor = group.successor
        if successor is not None:
            self.put(successor)
            return
        moment_ms = group.deadline()
        if moment_ms is not None:
            self._deadlines.set(group.group_id, moment_ms)

    def _remember(self, group: Group | None) -> None:
        """A group goes: what has happened to it is still counted."""
        if isinstance(group, ClassicGroup):
            self.rebalances_completed += group.rebalances_completed
            self.sessions_expired += group.sessions_expired

    def figures(self) -> GroupFigures:
        """The present counts, and counts of events since the shard was loaded."""
        figures = GroupFigures(
            rebalances_completed=self.rebalances_completed,
            sessions_expired=self.sessions_expired,
            records_skipped=self.records_skipped,
        )
        for group in self.groups.values():
            figures.states[group.type.value, group.state] += 1
            figures.members += group.member_count
            if isinstance(group, ClassicGroup):
                figures.rebalances_completed += group.rebalances_completed
                figures.sessions_expired += group.sessions_expired
        return figures

    # -- the log ------------------------------------------------------------------------------------------------------

    def replay(self, key: bytes, value: bytes | None, *, offset: int, producer: Producer | None) -> None:
        """Apply a record of the log. Raises `Corrupt`."""
        if is_offset_key(key):
            group_id = self.offsets.replay(key, value, producer)
            if value is not None and group_id not in self.groups:
                self.groups[group_id] = ClassicGroup(group_id, self.settings)
            return
        try:
            message = decode_key(key)
            if message is None:
                self.records_skipped += 1
                return
            decoded = None if value is None else decode_value(message, value)
        except DecodeError as error:
            raise Corrupt(f"the record at offset {offset}: {error}") from error
        if isinstance(message, GroupMetadataKey):
            assert decoded is None or isinstance(decoded, GroupMetadataValue)
            self._replay_classic(message.group, decoded)
        else:
            group_routes.replay_consumer_record(self, message, decoded)

    def _replay_classic(self, group_id: str, value: GroupMetadataValue | None) -> None:
        if value is not None:
            self.groups[group_id] = ClassicGroup.restored_from(group_id, self.settings, value)
        elif isinstance(self.groups.get(group_id), ClassicGroup):
            self.drop(group_id)

    def replay_marker(self, producer: Producer, *, commit: bool, offset: int) -> None:
        """Apply the end of a producer's transaction."""
        del offset
        self.offsets.replay_marker(producer, commit=commit)

    def loaded(self, now: Now) -> list[Action]:
        """The log is applied: sessions begin, and the time until offsets are looked through for expired ones.

        A group of offsets alone is there only if some are left.
        """
        actions: list[Action] = []
        for group in list(self.groups.values()):
            if isinstance(group, ClassicGroup) and not group.persisted:
                if not self._holds_offsets(group.group_id):
                    self.drop(group.group_id)  # its offsets were deleted further on in the log, and it with them
                continue
            actions += group.loaded(now)
            self.look_after(group)
        self._next_expiry_ms = now.monotonic_ms + self.settings.offsets_retention_check_interval_ms
        self._jumps.believed_ms(now, self.settings.offsets_retention_ms)
        return actions

    # -- events -------------------------------------------------------------------------------------------------------

    def step(self, event: Any, now: Now) -> list[Action]:
        """A request for a group, or one of the events of ``group_events`` and ``offset_requests``."""
        return self._events[type(event)](event, now)

    def _request(self, event: GroupRequest, now: Now) -> list[Action]:
        serve = group_routes.ROUTES.get(type(event.request), group_routes.serve_member)
        try:
            actions = serve(self, event, now)
        except KafkaError as error:
            return [Reply(event.token, error)]
        group = self.groups.get(event.group_id)
        if group is not None:
            self.look_after(group)
        return actions

    def heartbeat(self, request: HeartbeatRequest, now: Now) -> int | None:
        """The error code of a classic member's heartbeat, without the way of an event; None if it has to go that way.

        It changes nothing but the end of the member's session, and that to a later moment than any that is waited for.
        """
        group = self.groups.get(request.group_id)
        if type(group) is not ClassicGroup:
            return None
        member = group.members.by_id.get(request.member_id)
        if member is None or now.monotonic_ms + member.session_timeout_ms < group.wake_ms:
            return None
        return group.heartbeat(request, now)

    def _topics_changed(self, event: TopicsChanged, _now: Now) -> list[Action]:
        self.image = event.image
        if not event.removed:
            return []
        records = self.offsets.topics_deleted({name: topic_id for topic_id, name in event.removed.items()})
        return [Write(records, divisible=True)] if records else []

    def _settings_changed(self, event: SettingsChanged, _now: Now) -> list[Action]:
        self.settings = event.settings
        for group in self.groups.values():
            if isinstance(group, ClassicGroup):
                group.settings = event.settings
        return []

    def _transaction_ended(self, event: TransactionEnded, _now: Now) -> list[Action]:
        self.offsets.transaction_ended(event)
        return []

    def _list(self, event: ListGroups, _now: Now) -> list[Action]:
        response = ListGroupsResponse(groups=listed(self.groups.values(), event.states, event.types))
        return [Reply(event.token, response, durable=True)]

    # -- time ---------------------------------------------------------------------------------------------------------

    def deadline(self) -> int | None:
        """The next moment at which a group or the offsets are to be looked at."""
        if self.offsets.deletion_under_way:
            return 0
        moment_ms = self._deadlines.next_ms()
        expiry_ms = self._next_expiry_ms
        if moment_ms is None or expiry_ms is None:
            return expiry_ms if moment_ms is None else moment_ms
        return min(moment_ms, expiry_ms)

    def due(self, now: Now) -> list[Action]:
        """The moment has come."""
        actions: list[Action] = []
        for group_id in self._deadlines.take(now.monotonic_ms, at_most=_GROUPS_AT_ONCE):
            group = self.groups.get(group_id)
            if group is not None:
                actions += group.due(now)
                self.look_after(group)
        if self.offsets.deletion_under_way and (records := self.offsets.delete_of_topics()):
            actions.append(Write(records, divisible=True))
        if self._next_expiry_ms is not None and self._next_expiry_ms <= now.monotonic_ms:
            records = self._expire(now)
            if records:
                actions.append(Write(records, divisible=True))
        return actions

    def _expire(self, now: Now) -> list[CoordinatorRecord]:
        """Delete offsets that have expired, and groups that hold nothing any more."""
        believed_ms = self._jumps.believed_ms(now, self.settings.offsets_retention_ms)
        expired = self.offsets.expire(self.groups, Now(now.monotonic_ms, believed_ms))
        records = list(expired.records)
        for group_id in expired.empty:
            group = self.groups[group_id]
            if group_routes.is_unused(group):
                records += group.tombstones()
                self.drop(group_id)
        wait_ms = 0 if expired.more else self.settings.offsets_retention_check_interval_ms
        self._next_expiry_ms = now.monotonic_ms + wait_ms
        return records

    def parked(self) -> list[Any]:
        """The tokens of all members that wait."""
        return [token for group in self.groups.values() for token in group.parked()]
