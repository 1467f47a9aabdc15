"""Random histories of one replicated partition: the shipped controller, the shipped `ReplicaState`, brokers that copy.

A record is (leader epoch, number): two appends are never alike. ``shown`` is the longest log that a leader has shown below
its high watermark. Brokers hear of images late, requests for in-sync sets reach the controller late, a broker that stops dirty
has lost the end of its log, and one that is fenced may go on. Followers copy as by epochs: what they have in common with the leader.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from msgspec.structs import replace

from stratalog.hot.replica_state import ReplicaState
from stratalog.metadata.controller.alter_partition import Member, Proposal, alter_partitions
from stratalog.metadata.controller.broker_changes import fence_brokers
from stratalog.metadata.controller.cluster_view import ClusterView, topic_settings
from stratalog.metadata.controller.elections import balance_leaders, elect_uncleanly
from stratalog.metadata.controller.features import FeatureUpdate, UpgradeType, update_features
from stratalog.metadata.controller.min_in_sync import without_eligible
from stratalog.metadata.controller.reassign_partitions import Move, reassign_partitions
from stratalog.metadata.image.configs_image import CLUSTER_DEFAULT
from stratalog.metadata.image.partition_index import PartitionKey
from stratalog.metadata.image.topics_image import LeaderRecovery
from stratalog.metadata.settings.configs import ConfigResolver
from stratalog.wire.errors import KafkaError
from stratalog.wire.records.metadata import ConfigRecord
from stratalog.wire.topic import TopicPartition
from tests.metadata.controller.conftest import ELR, World

BROKERS = (1, 2, 3, 4)
MINIMUM = "min.insync.replicas"
LATE_MS = 1_000_000


@dataclass
class Copy:
    """A broker and its replica."""

    broker_id: int
    log: list = field(default_factory=list)
    mark: int = 0
    is_up: bool = True
    heard: int = 0
    """The number of the image that it has applied."""
    leading: ReplicaState | None = None
    following: tuple[int, int] | None = None
    """The leader and its epoch."""
    asked: list = field(default_factory=list)
    """Requests for in-sync sets that are on their way."""


class Configured(World):
    """The world of the controller's tests, whose settings stand in the image."""

    @property
    def view(self):
        resolver = ConfigResolver.for_topics({}, {}, self.image.configs.of(CLUSTER_DEFAULT))
        return ClusterView(image=self.image, settings=topic_settings(self.image, resolver), index=self.index)


def common(one: list, other: list) -> int:
    """How many records two logs begin with alike."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


class History:
    """One random history. ``unclean``: elections of replicas that may lack records are part of it."""

    def __init__(self, seed: int, *, unclean: bool = False) -> None:
        self.dice = random.Random(seed)
        self.unclean = unclean
        self.world = Configured(elr=True)
        self.world.start(*BROKERS)
        self.write_minimum(self.dice.choice((1, 2, 2, 3)))
        self.topic_id = self.world.topic("t", (1, 2, 3))
        self.images = [self.world.image]
        self.copies = {one: Copy(one) for one in BROKERS}
        self.were_in_sync = {1, 2, 3}
        """Those of the replicas that were so since they were assigned; the others may be as good as empty."""
        self.shown: list = []
        self.excused_below = 0
        """Leaders of lower epochs may show what an unclean election has dropped."""
        self.story: list[str] = []
        self.appended = 0
        self.clean_elections = 0

    # -- the controller ------------------------------------------------------------------------------------------------

    def commit(self, what: str, decision) -> object:
        before = self.world.state()
        result = self.world.do(decision)
        self.images.append(self.world.image)
        state = self.world.state()
        self.story.append(f"{what}: {self.world.sets()} epoch {state.leader_epoch} {state.leader_recovery.name}")
        self.changed(before, state)
        return result

    def changed(self, before, state) -> None:
        """A later state of the partition is committed."""
        self.were_in_sync &= set(state.replicas)
        if state.leader_epoch > before.leader_epoch and state.leader >= 0:
            self.elected(before, state)
        self.were_in_sync |= {*state.in_sync_replicas, *state.eligible_leader_replicas}

    def elected(self, before, state) -> None:
        """An unclean leader has what it has; a clean one has all that was ever shown."""
        log = self.copies[state.leader].log
        was_unclean = state.leader_recovery is LeaderRecovery.RECOVERING and before.leader != state.leader
        if was_unclean and state.leader not in {*before.in_sync_replicas, *before.eligible_leader_replicas}:
            assert state.leader in self.were_in_sync, f"{state.leader} leads and was never in sync: {self.told()}"
            self.shown = self.shown[: common(self.shown, log)]
            self.excused_below = state.leader_epoch
            return
        self.clean_elections += 1
        assert log[: len(self.shown)] == self.shown, (
            f"leader {state.leader} lacks records that were shown: {self.told()}"
        )

    def told(self) -> str:
        return "\n".join(self.story)

    def write_minimum(self, number: int, resource: tuple[int, str] = (4, "")) -> None:
        kind, name = resource
        record = ConfigRecord(resource_type=kind, resource_name=name, name=MINIMUM, value=str(number))
        self.world.write(without_eligible(self.world.image, [record]))

    # -- steps ---------------------------------------------------------------------------------------------------------

    def run(self, steps: int) -> None:
        """Take random steps; raises `AssertionError` with the story where a clean leader lacks what was shown."""
        frequent = (self.append, self.fetch, self.fetch, self.hear, self.hear, self.ask, self.answer)
        rare = (self.stop, self.start, self.start, self.fence, self.unfence, self.unfence, self.balance)
        rarest = (self.set_minimum, self.reassign, self.change_level, *([self.elect_uncleanly] if self.unclean else []))
        for _ in range(steps):
            self.dice.choice(self.dice.choices((frequent, rare, rarest), (70, 26, 4))[0])()
            self.look()

    def look(self) -> None:
        for copy in self.copies.values():
            if copy.leading is None or not copy.is_up or copy.leading.leader_epoch < self.excused_below:
                continue
            copy.mark = max(copy.mark, copy.leading.high_watermark)
            visible = copy.log[: copy.mark]
            assert common(self.shown, visible) == min(len(self.shown), len(visible)), f"two histories: {self.told()}"
            if len(visible) > len(self.shown):
                self.shown = visible
                self.story.append(f"{copy.broker_id} shows {len(visible)} records in epoch {copy.leading.leader_epoch}")

    def one(self, copies) -> Copy | None:
        found = list(copies)
        return self.dice.choice(found) if found else None

    def leaders(self):
        return (copy for copy in self.copies.values() if copy.is_up and copy.leading is not None)

    def append(self) -> None:
        copy = self.one(self.leaders())
        if copy is not None and len(copy.log) < 12:
            self.appended += 1
            copy.log.append((copy.leading.leader_epoch, self.appended))
            copy.leading.leader_advanced(len(copy.log))

    def fetch(self) -> None:
        copy = self.one(one for one in self.copies.values() if one.is_up and one.following)
        if copy is None:
            return
        leader_id, epoch = copy.following
        leader = self.copies[leader_id]
        state = leader.leading
        if not leader.is_up or state is None or state.leader_epoch != epoch or not state.is_follower(copy.broker_id):
            return
        del copy.log[common(copy.log, leader.log) :]
        copy.mark = min(copy.mark, len(copy.log))
        registered = self.images[copy.heard].brokers.brokers[copy.broker_id].epoch
        try:
            state.follower_fetched(
                copy.broker_id,
                len(copy.log),
                leader_log_end_offset=len(leader.log),
                now_ms=0,
                broker_epoch=registered,
            )
        except KafkaError:
            return
        copy.log[:] = leader.log
        copy.mark = max(copy.mark, min(state.high_watermark, len(copy.log)))

    def hear(self) -> None:
        copy = self.one(one for one in self.copies.values() if one.is_up and one.heard < len(self.images) - 1)
        if copy is None:
            return
        copy.heard = self.dice.randint(copy.heard + 1, len(self.images) - 1)
        image = self.images[copy.heard]
        state = image.topics.by_name["t"].partitions[0]
        settings = topic_settings(image, ConfigResolver.for_topics({}, {}, image.configs.of(CLUSTER_DEFAULT)))
        minimum = settings("t").min_in_sync_replicas
        if state.leader != copy.broker_id:
            copy.leading = None
            follows = state.leader >= 0 and copy.broker_id in state.replicas
            copy.following = (state.leader, state.leader_epoch) if follows else None
        elif copy.leading is not None and copy.leading.leader_epoch == state.leader_epoch:
            copy.leading.isr_changed(state.in_sync_replicas, state.partition_epoch, minimum, replicas=state.replicas)
        else:
            copy.following, copy.asked = None, []
            copy.leading = ReplicaState(
                copy.broker_id,
                replicas=state.replicas,
                in_sync=state.in_sync_replicas,
                leader_epoch=state.leader_epoch,
                epoch_start_offset=len(copy.log),
                leader_end_offset=len(copy.log),
                high_watermark=copy.mark,
                partition_epoch=state.partition_epoch,
                min_insync_replicas=minimum,
                local_broker_epoch=image.brokers.brokers[copy.broker_id].epoch,
            )

    def ask(self) -> None:
        copy = self.one(self.leaders())
        if copy is None:
            return
        state = copy.leading
        follower = self.one(one for one in state.replicas if one != copy.broker_id)
        change = None
        if follower is not None and follower not in state.in_sync:
            change = state.expansion(follower)
        elif follower is not None:
            change = state.shrinking(LATE_MS, 0)
        change = change or state.ask_again()
        if change is not None:
            copy.asked.append((state.leader_epoch, change))

    def answer(self) -> None:
        copy = self.one(one for one in self.copies.values() if one.is_up and one.asked)
        if copy is None:
            return
        epoch, change = copy.asked.pop(self.dice.randrange(len(copy.asked)))
        proposal = Proposal(
            PartitionKey(self.topic_id, 0), epoch, change.partition_epoch, tuple(Member(*one) for one in change.in_sync)
        )
        registered = self.images[copy.heard].brokers.brokers[copy.broker_id].epoch
        try:
            decision = alter_partitions(self.world.view, copy.broker_id, registered, [proposal])
        except KafkaError:
            return  # a registration of before
        (answer,) = self.commit(f"{copy.broker_id} asks for {change.broker_ids}", decision)
        if copy.leading is not None and copy.leading.leader_epoch == epoch and self.dice.random() < 0.8:
            copy.leading.isr_change_refused(change, answer.code)

    def stop(self) -> None:
        """A broker stops; with it goes what no sync has saved, or the whole disk."""
        copy = self.one(one for one in self.copies.values() if one.is_up)
        if copy is None:
            return
        copy.is_up, copy.leading, copy.following, copy.asked = False, None, None, []
        self.story.append(f"{copy.broker_id} stops")

    def start(self) -> None:
        copy = self.one(one for one in self.copies.values() if not one.is_up)
        if copy is None:
            return
        me = copy.broker_id
        registered = self.world.image.brokers.brokers[me]
        if not registered.is_fenced:
            self.fence(me)
        is_clean = self.dice.random() < 0.5
        if not is_clean:
            del copy.log[self.dice.randint(0, len(copy.log)) :]
            copy.mark = min(copy.mark, len(copy.log))
        asked = self.world.registration(me, previous_broker_epoch=registered.epoch if is_clean else -1)
        before = self.world.state()
        self.world.register(asked)
        self.images.append(self.world.image)
        self.story.append(f"{me} starts {'clean' if is_clean else f'dirty with {len(copy.log)}'}: {self.world.sets()}")
        self.changed(before, self.world.state())
        copy.is_up, copy.heard = True, len(self.images) - 1

    def fence(self, broker_id: int | None = None) -> None:
        """Also a broker that lives."""
        active = [one for one, broker in self.world.image.brokers.brokers.items() if not broker.is_fenced]
        me = broker_id or (self.dice.choice(active) if active else None)
        if me is not None:
            self.commit(f"{me} is fenced", fence_brokers(self.world.view, (me,)))

    def unfence(self) -> None:
        brokers = self.world.image.brokers.brokers
        copy = self.one(one for one in self.copies.values() if one.is_up and brokers[one.broker_id].is_fenced)
        if copy is None:
            return
        before = self.world.state()
        self.world.beat(copy.broker_id)
        self.images.append(self.world.image)
        state = self.world.state()
        self.story.append(f"{copy.broker_id} is unfenced: {self.world.sets()} {state.leader_recovery.name}")
        self.changed(before, state)

    def balance(self) -> None:
        self.commit("balance", balance_leaders(self.world.view))

    def set_minimum(self) -> None:
        number = self.dice.choice((1, 2, 3))
        self.write_minimum(number, self.dice.choice(((4, ""), (2, "t"))))
        self.images.append(self.world.image)
        self.story.append(f"{MINIMUM}={number}: {self.world.sets()}")

    def reassign(self) -> None:
        """To any brokers; no leader comes of it that lacks records, also where the topic allows such ones."""
        replicas = tuple(self.dice.sample(BROKERS, self.dice.choice((2, 3, 3))))
        move, had_leader = Move(TopicPartition("t", 0), replicas), self.world.state().leader >= 0
        view = self.allowing() if self.unclean else self.world.view
        self.commit(f"reassign to {replicas}", reassign_partitions(view, [move]))
        assert had_leader or self.world.state().leader < 0, f"a move elects: {self.told()}"

    def change_level(self) -> None:
        level = 0 if self.world.view.has_eligible else 1
        kind = UpgradeType.UPGRADE if level else UpgradeType.SAFE_DOWNGRADE
        update = FeatureUpdate(ELR, level, kind)
        self.commit(f"level {level}", update_features(self.world.image, [update], node_id=100))

    def elect_uncleanly(self) -> None:
        self.commit("unclean election", elect_uncleanly(self.allowing()))

    def allowing(self) -> ClusterView:
        """The view in which the topic allows unclean elections."""
        view = self.world.view
        settings = view.settings
        return replace(view, settings=lambda name: settings(name)._replace(unclean_allowed=True))
