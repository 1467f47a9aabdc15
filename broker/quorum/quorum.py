"""A node in the metadata quorum: carries out what `Raft` decides, with a log, a timer and links to the others.

.. code-block:: text

    events (requests, answers, syncs, ticks) --> Raft.step --> actions --> MetadataReplica, QuorumPeers, Publisher

One event is taken at a time, and the next one when all actions of the last are done. ``quorum-state`` is written by a
thread: events wait meanwhile, clients do not.

A proposal is written to the log before the machine hears of it, so that a full disk refuses one command and ends nothing.
Records of others that find no room stop this replica only: it begins anew from its disk, as after a restart.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from stratalog.broker.quorum.beginning_anew import BeginningAnew
from stratalog.broker.quorum.beside import Beside
from stratalog.broker.quorum.deadline import Deadline
from stratalog.broker.quorum.exchange import Exchange
from stratalog.broker.quorum.leadership import LeaderAndEpoch, LeaderListener, QuorumStatus
from stratalog.broker.quorum.leadership_news import LeadershipNews
from stratalog.broker.quorum.log_changes import LogChanges
from stratalog.broker.quorum.office import Office
from stratalog.broker.quorum.proposals import Proposal, Proposals
from stratalog.broker.quorum.quorum_parts import QuorumParts
from stratalog.broker.quorum.raft_figures import RaftFigures
from stratalog.broker.quorum.state_writing import StateWriting
from stratalog.broker.quorum.status import status_of
from stratalog.metadata.image.image import ClusterImage
from stratalog.metadata.raft import actions as act
from stratalog.metadata.raft.events import Event, HandOver, Proposed, Received, Shutdown, Tick, UpgradeProposed
from stratalog.metadata.raft.log_view import LogView
from stratalog.metadata.raft.messages import Answer, Request
from stratalog.metadata.raft.raft import Raft
from stratalog.metadata.raft.states import Leader
from stratalog.metadata.raft.voter_set import VoterSet
from stratalog.wire.errors import ErrorCode, KafkaError, StratalogError
from stratalog.wire.schema import Message

__all__ = ["Quorum"]

_ANSWER_SECONDS: Final = 0.2
"""A hand-over waits so long for the answers to proposals."""

log = logging.getLogger(__name__)


class Quorum:
    """The replica of the metadata log in this process, see `QuorumView`. Lives on the event loop."""

    def __init__(self, parts: QuorumParts) -> None:
        """Raises `Corrupt` for a log whose votes are lost."""
        self._parts = parts
        self.node_id, self.directory_id = parts.identity.key.id, parts.identity.key.directory_id
        """The replica that this node is."""
        self.cluster_id = parts.identity.cluster_id or ""
        self.replica, self.publisher, self.snapshotting = parts.replica, parts.publisher, parts.snapshotting
        """Its log, its image, its snapshots."""
        self._raft = self._machine(parts.view)
        self._events: deque[Event | Proposal] = deque()
        self._actions: deque[act.Action] = deque()
        self._busy = False
        """An action is under way in a thread, or actions are being carried out."""
        self._news = LeadershipNews()
        self._open: dict[asyncio.Future[Answer], None] = {}
        """Requests of others that have no answer yet."""
        self._state = StateWriting(parts.replica, self._stored)
        self._beside = Beside(self._failed_beside)
        self._office = Office(self.node_id, parts.publisher, self._beside, self._tell)
        self._failure: OSError | None = None
        self._deadline = Deadline(parts.clock.monotonic, lambda: self._take(Tick()))
        self.figures = RaftFigures()
        self._may_end: asyncio.Future[None] | None = None
        self._ended = self._closed = False
        self._exchange = Exchange(parts.peers, parts.replica, take=self._take, beside=self._beside)
        self._changes = LogChanges(
            parts.replica,
            parts.publisher,
            parts.snapshotting,
            parts.clock,
            take=self._take,
            beside=self._beside,
            on_refused=self._begin_anew,
            on_failed=parts.on_failed,
        )
        self._anew = BeginningAnew(parts, self._changes, self._state, beside=self._beside, begin=self._begin)
        self._proposals = Proposals(self._changes, parts.publisher, beside=self._beside)
        self._do = self._carriers()
        parts.replica.on_failed = self._disk_failed
        parts.publisher.on_published = parts.snapshotting.published
        parts.snapshotting.attach(self._take)

    def _machine(self, view: LogView) -> Raft:
        parts = self._parts
        return Raft(parts.identity, view, parts.state(view), timeouts=parts.timeouts)

    def _carriers(self) -> dict[type[act.Action], Callable[[Any], None]]:
        """The function that carries out each action; `StoreQuorumState` alone holds up what follows."""
        return {
            **self._exchange.carriers(),
            **self._changes.carriers(),
            act.Committed: self._committed,
            act.BecameLeader: self._became_leader,
            act.LostLeadership: self._lost_leadership,
            act.Accepted: self._proposals.accepted,
            act.Refused: self._proposals.refused,
            act.ShutDown: self._shut_down,
            act.Stop: self._stop,
        }

    # -- what others see -----------------------------------------------------------------------------------------------

    @property
    def image(self) -> ClusterImage:
        """The cluster as it is now."""
        return self._parts.publisher.image

    @property
    def leader(self) -> LeaderAndEpoch:
        """The leader, as this node knows it now."""
        return LeaderAndEpoch(*self._raft.leader)

    @property
    def is_active(self) -> bool:
        """Whether the controller of this node decides: the first record of its epoch is committed and applied."""
        return self._office.active_epoch is not None

    @property
    def active_epoch(self) -> int:
        """The epoch in which this controller decides. Raises `KafkaError` NOT_CONTROLLER if it is not active."""
        if self._office.active_epoch is None:
            raise self._not_controller("this node is not the active controller")
        return self._office.active_epoch

    @property
    def in_transaction(self) -> bool:
        """Whether the last applied record stands inside a metadata transaction."""
        return self._parts.publisher.in_transaction

    @property
    def is_voter(self) -> bool:
        """Whether this node votes."""
        return self._raft.is_voter

    @property
    def majority_is_gone(self) -> bool:
        """Whether no leader can be elected: the hosts of most voters refuse connections."""
        return self._closed or self._raft.majority_is_gone

    @property
    def voters(self) -> VoterSet:
        """The voters, as this node knows them now."""
        return self._raft.log.voters

    @property
    def high_watermark(self) -> int:
        """The records below this offset are committed."""
        return self._raft.high_watermark

    @property
    def kraft_version(self) -> int:
        """The committed level of ``kraft.version``: 0 static voters, 1 voters that change."""
        return self._raft.log.kraft_version_at(max(self._raft.high_watermark, 0))

    @property
    def log_end_offset(self) -> int:
        """The offset behind the last record of this node's log."""
        return self._raft.log.end_offset

    def on_leader_change(self, listener: LeaderListener) -> None:
        """Call ``listener`` whenever the leader, its epoch or `is_active` has changed."""
        self._news.follow(listener)

    def receive(self, request: Request) -> asyncio.Future[Answer]:
        """The answer to a request of another replica, or of an administrator. It may wait for news."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._open[answer] = None
        answer.add_done_callback(lambda done: self._open.pop(done, None))
        self._take(Received(answer, request))
        return answer

    def propose(self, records: Sequence[Message], *, epoch: int) -> asyncio.Future[int]:
        """Write records in the epoch in which they were decided, see `QuorumView.propose`."""
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._take(Proposal(tuple(records), epoch, done))
        return done

    def upgrade(self, level: int, *, validate_only: bool = False) -> asyncio.Future[int]:
        """Raise ``kraft.version``, see `QuorumView.upgrade`."""
        epoch, done = self.active_epoch, self._proposals.upgrade()
        self._take(UpgradeProposed(done, epoch, level, validate_only))
        return done

    def describe(self) -> QuorumStatus:
        """All replicas, and how far they are. Raises `KafkaError` NOT_LEADER_OR_FOLLOWER where this node does not lead."""
        if self._ended:  # or about to begin anew
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this node takes no part in the metadata quorum now")
        key, wall_ms = self._parts.identity.key, self._parts.clock.wall_ms()
        return status_of(self._raft, key, wall_ms=wall_ms, now_ms=self._deadline.now_ms())

    # -- life ----------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Take up the stored role. An only voter stands at once."""
        self._hear(self._raft.start, None)
        self._proceed()

    async def active(self) -> None:
        """Wait until this node's controller decides. Raises `OSError` if the node can take no part in the quorum."""
        while not self.is_active:
            if self._closed:
                raise self._failure or OSError(f"{self.replica.log.directory}: this node left the metadata quorum")
            await self._news.wait()

    async def hand_over(self, *, timeout_ms: int) -> None:
        """Have another voter lead, if this node does, and follow it. Waits for ``timeout_ms`` at most.

        No command begins here any more; those whose records are written are answered before.
        """
        if self._ended or not self._raft.can_hand_over:
            return
        log.info("node %d hands the metadata log over; its epoch is %d", self.node_id, self._raft.role.epoch)
        self._office.decide_no_more()
        self._tell()
        await self._proposals.wait_answered(_ANSWER_SECONDS)
        self._take(HandOver())
        await self._news.wait_until(
            lambda: self._ended or self._raft.follows or self.majority_is_gone, timeout_ms / 1000
        )

    async def stop(self, *, timeout_ms: int) -> None:
        """Hand the leadership over, for ``timeout_ms`` at most, and fall silent. The log is the caller's then."""
        if not self._ended:
            self._may_end = asyncio.get_running_loop().create_future()
            self._take(Shutdown(timeout_ms))
            await asyncio.wait({self._may_end}, timeout=timeout_ms / 1000 + 1)
        self.close()
        await self._beside.wait()

    def close(self) -> None:
        """Fall silent at once."""
        self._ended = self._closed = True
        self._drop_all()
        self._deadline.set(None)
        self._parts.publisher.close()
        self._parts.snapshotting.close()
        self._exchange.close()
        self._proposals.fail(self._not_controller("this node is stopping"))
        self._state.close()
        self._anew.close()
        self._beside.cancel()
        self._news.wake()

    # -- events, one at a time -----------------------------------------------------------------------------------------

    def _take(self, event: Event | Proposal) -> None:
        if self._ended:
            self._refuse(event)
            return
        self._events.append(event)
        self._proceed()

    def _proceed(self) -> None:
        """Carry out actions, then take the next event, until nothing is left or an action is under way elsewhere."""
        if self._busy:
            return
        self._busy, begun = True, self._parts.clock.monotonic()
        try:
            while not self._ended:
                if self._actions:
                    action = self._actions.popleft()
                    if isinstance(action, act.StoreQuorumState):
                        self._state.write(action)  # until it is on the disk nothing else happens
                        return
                    self._do[type(action)](action)
                elif self._events:
                    self._step(self._events.popleft())
                else:
                    break
        except Exception:
            log.critical("the metadata quorum cannot go on in this node, which ends", exc_info=True)
            self._parts.on_failed()
            self.close()
            raise
        finally:
            self.figures.busy(self._parts.clock.monotonic() - begun, self._deadline.now_ms())
        self._busy = False
        if not self._ended:
            self._deadline.set(self._raft.deadline_ms)
            self._tell()

    def _tell(self) -> None:
        self._news.announce(self.leader, self.is_active)

    def _step(self, event: Event | Proposal) -> None:
        taken = self._placed(event) if isinstance(event, Proposal) else event
        if taken is not None:
            self._hear(partial(self._raft.step, taken), taken)

    def _hear(self, machine: Callable[..., list[act.Action]], event: Event | None) -> None:
        """Have the machine decide, and keep what is to be done."""
        now_ms = self._deadline.now_ms()
        actions = machine(now_ms=now_ms, jitter=self._parts.dice.random())
        self._actions.extend(actions)
        self.figures.observe(event, actions, self._raft, now_ms)

    def _placed(self, proposal: Proposal) -> Proposed | None:
        """Write a proposal, if it was decided in the epoch that this node leads."""
        role = self._raft.role
        if proposal.done.cancelled():
            return None
        if not isinstance(role, Leader) or not self._office.active_epoch == proposal.epoch == role.epoch:
            proposal.done.set_exception(self._not_controller("the leadership has changed"))
            return None
        return self._proposals.place(proposal, self._raft.log.end_offset, self._parts.clock.wall_ms())

    def _not_controller(self, why: str) -> KafkaError:
        return KafkaError(ErrorCode.NOT_CONTROLLER, f"{why}: node {self.node_id}, epoch {self._raft.role.epoch}")

    def _refuse(self, event: Event | Proposal) -> None:
        if isinstance(event, Proposal | UpgradeProposed):
            done = event.done if isinstance(event, Proposal) else event.token
            if not done.done():
                done.set_exception(self._not_controller("this node is stopping"))
        elif isinstance(event, Received):
            event.token.cancel()

    def _failed_beside(self, error: BaseException) -> None:
        if not self._closed:
            told = isinstance(error, StratalogError | OSError)
            why = "the metadata quorum cannot go on in this node, which ends"
            log.critical("%s%s", why, f": {error}" if told else "", exc_info=None if told else error)
            self._parts.on_failed()
            self.close()

    # -- actions: what must be durable first ---------------------------------------------------------------------------

    def _stored(self, error: BaseException | None) -> None:
        if self._ended:
            return
        self._busy = False
        if isinstance(error, OSError):
            self._failure = error
            self._parts.replica.directory.report(error)
            log.critical("quorum-state cannot be written: %s. The node ends: it could vote twice in one epoch", error)
            self._parts.on_failed()
            self.close()
        elif error is not None:
            raise error
        else:
            self._proceed()

    # -- actions: the disk -------------------------------------------------------------------------------------------

    def _begin_anew(self, error: KafkaError) -> None:
        """The log has not what the machine believes: begin with what is on the disk, as after a restart."""
        if self._parts.replica.directory.offline is not None:
            return  # the node ends
        self._lost_leadership(act.LostLeadership(self._raft.role.epoch))
        self._exchange.forget()
        self._changes.forget()
        self._drop_all()
        self._deadline.set(None)
        self._ended = True
        self._shut_down(act.ShutDown())  # the machine that is asked to is gone
        self._news.announce(self.leader, False)
        self._anew.after(error)

    def _begin(self, view: LogView) -> None:
        self._raft = self._machine(view)
        self._ended = self._busy = False
        self.start()

    def _drop_all(self) -> None:
        """Forget events and actions; everyone who waits for an answer hears that there is none."""
        for event in self._events:
            self._refuse(event)
        self._events.clear()
        self._actions.clear()
        for answer in list(self._open):
            answer.cancel()

    def _disk_failed(self, error: OSError) -> None:
        self._failure = self._failure or error
        text = f"the directory of the metadata log has failed: {error}"
        self._proposals.fail(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, text))
        self._parts.on_failed()
        self.close()

    # -- actions: what is committed, and who leads ---------------------------------------------------------------------

    def _committed(self, action: act.Committed) -> None:
        self._parts.replica.high_watermark = action.high_watermark
        self._parts.publisher.committed(action.high_watermark)

    def _became_leader(self, action: act.BecameLeader) -> None:
        self._office.take(action.epoch, self._raft.high_watermark)

    def _lost_leadership(self, action: act.LostLeadership) -> None:
        self._office.leave(action.epoch)
        self._proposals.fail(self._not_controller("the leadership has changed; the outcome is not known"))

    def _shut_down(self, _action: act.ShutDown) -> None:
        if self._may_end is not None and not self._may_end.done():
            self._may_end.set_result(None)

    def _stop(self, action: act.Stop) -> None:
        log.critical("this node leaves the metadata quorum, and ends: %s", action.reason)
        self._parts.on_failed()
        self.close()
