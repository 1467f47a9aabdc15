"""The sub-model of the metadata quorum: three nodes over the shipped machine, every order of their events.

Each transition is a step of `stratalog.metadata.raft.raft.Raft`; the model has only what lies between the nodes. Votes
that are asked for, votes that are granted and "node n leads epoch e" are facts that may reach anyone at any later time,
once, twice or never. A fetch is one step, or its request is delayed and counted late. Time stands still: anybody may
stand for election at any moment, so pre-votes and time-outs are left out. Memories are interned, so that a state is
small and each step is computed once.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from stratalog.metadata.raft import actions as act
from stratalog.metadata.raft.core import Identity
from stratalog.metadata.raft.events import Answered, Flushed, Proposed, Received, Tick, UpgradeProposed
from stratalog.metadata.raft.log_view import BEFORE_THE_LOG, LogView
from stratalog.metadata.raft.messages import (
    NO_LEADER,
    BeginQuorumEpochRequest,
    FetchAnswer,
    FetchRequest,
    RemoveVoterRequest,
    VoteAnswer,
    VoteRequest,
)
from stratalog.metadata.raft.raft import Raft
from stratalog.metadata.raft.states import Candidate, Follower, Leader, Prospective, Votes
from stratalog.metadata.raft.voter_set import Endpoint, ReplicaKey, Voter, VoterSet
from stratalog.wire.errors import ErrorCode, Invalid

ADDRESS = (Endpoint("CONTROLLER", "n", 1),)


class Memory(NamedTuple):
    """Everything of one node: what its process and its disk hold."""

    disk: int
    role: object
    log: LogView
    high_watermark: int
    stored: object
    batches: tuple


class State(NamedTuple):
    nodes: tuple
    asked: frozenset = frozenset()  # numbers of requests
    granted: frozenset = frozenset()  # (number of a request, voter)
    led: tuple = ()  # (epoch, leader)
    done: int = 0  # number of the committed records
    flying: frozenset = frozenset()  # (leader, number of a delayed fetch)
    powers: int = 0
    wipes: int = 0
    delays: int = 0
    writes: int = 0
    removals: int = 0
    upgrades: int = 0
    wrong: str = ""


def key_of(node, disk=0):
    """The replica of a node's n-th disk."""
    return ReplicaKey(node, bytes([node + 1, disk]) * 8)


def records_of(batches):
    """The records of a log, one for each offset."""
    return tuple(
        (batch.epoch, at, batch.data or batch.control[:1])
        for batch in batches
        for at in range(batch.base_offset, batch.end_offset)
    )


class QuorumModel:
    """The sub-model. ``epochs``: the highest; the others count how often each event may happen.

    With ``upgrades`` the voters are static at first.
    """

    def __init__(self, tools, *, epochs=3, powers=0, wipes=0, delays=0, writes=1, removals=0, upgrades=0, voters=3):
        self.tools, self.epochs, self.voters = tools, epochs, voters
        self._values, self._numbers, self._steps, self._answers = [], {}, {}, {}
        self.number(())  # the committed records of the beginning
        keys = [ReplicaKey(node) if upgrades else key_of(node) for node in range(voters)]
        first = VoterSet(tuple(Voter(key, ADDRESS) for key in keys))
        level = 0 if upgrades else 1
        view = LogView(voter_sets=((BEFORE_THE_LOG, first),), kraft_versions=((BEFORE_THE_LOG, level),))
        nodes = tuple(self.started(node, 0, view, None, ()) for node in range(3))
        start = State(
            nodes, powers=powers, wipes=wipes, delays=delays, writes=writes, removals=removals, upgrades=upgrades
        )
        self.initial = self.first_epoch(start) if voters > 1 else self.noted(start)

    def check(self, limit):
        """Search it, up to so many states."""
        return self.tools.search(self.initial, self.successors, lambda state: state.wrong, limit, bounded=True)

    def first_epoch(self, state):
        """Node 0 leads epoch 1, and all have its first records."""
        state = self.stand(state, 0)
        (request,) = [each for each in state.asked if self.value(each).voter.id == 1]
        state = self.vote(state, 1, request)
        state = self.count(state, 0, (request, 1))
        state = self.flush(state, 0)
        for node in (1, 2, 1):
            state = self.learn(state, node, 1, 0)
            state = self.fetch(state, node)
            state = self.fetch(state, node)
        return state._replace(asked=frozenset(), granted=frozenset())

    # -- memories ------------------------------------------------------------------------------------------------------

    def number(self, value):
        """The number of a memory, a request or a list of records: equal ones have one."""
        found = self._numbers.get(value)
        if found is None:
            found = self._numbers[value] = len(self._values)
            self._values.append(value)
        return found

    def value(self, number):
        return self._values[number]

    def machine(self, node, memory):
        """The shipped machine with this memory, owing and awaiting nothing."""
        raft = Raft(Identity(key_of(node, memory.disk), ADDRESS, "c"), LogView(), None)
        core = raft._core
        core.role, core.log, core.high_watermark, core.stored = memory[1:5]
        core.sync_asked = memory.log.end_offset
        return raft

    def started(self, node, disk, view, stored, batches):
        """A node after its start."""
        raft = Raft(Identity(key_of(node, disk), ADDRESS, "c"), view, stored)
        return self.kept(raft, Memory(disk, None, view, 0, stored, batches), raft.start(now_ms=0, jitter=0.0))[0]

    def kept(self, raft, before, actions):
        """The number of the memory after these actions, and the actions."""
        stored, batches = before.stored, before.batches
        for action in actions:
            if isinstance(action, act.StoreQuorumState):
                stored = action.state
            elif isinstance(action, act.Append):
                batches += action.batches
            elif isinstance(action, act.Truncate):
                batches = tuple(each for each in batches if each.end_offset <= action.offset)
        core = raft._core
        memory = Memory(before.disk, core.role, core.log, core.high_watermark, stored, batches)
        return self.number(memory), tuple(actions)

    def step(self, node, number, name, make_event, *, expected=None):
        """The shipped step: the number of the memory after it, and its actions. Computed once for each ``name``."""
        key = node, number, name
        if key not in self._steps:
            memory = self.value(number)
            raft = self.machine(node, memory)
            if expected is not None:
                raft._core.in_flight[expected[0]] = expected[1]
            try:
                actions = raft.step(make_event(), now_ms=0, jitter=0.0)
            except Invalid as error:
                actions = [act.Stop(f"{error}")]
            self._steps[key] = self.kept(raft, memory, actions)
        return self._steps[key]

    # -- what a step means for the whole -------------------------------------------------------------------------------

    def put(self, state, node, stepped):
        """The state after a step of a node, with all that is wrong in it."""
        number, actions = stepped
        nodes = (*state.nodes[:node], number, *state.nodes[node + 1 :])
        state = state._replace(nodes=nodes)
        for action in actions:
            if isinstance(action, act.Send) and isinstance(action.request, VoteRequest) and not action.request.pre_vote:
                state = state._replace(asked=state.asked | {self.number(action.request)})
            elif isinstance(action, act.Stop):
                return state._replace(wrong=f"{node} stops: {action.reason}")
            elif isinstance(action, act.Committed):
                state = self.committed(state, node, action.high_watermark)
        return state if state.wrong else self.noted(state, node)

    def noted(self, state, node=0):
        """Note a new leader, and whether it may be one."""
        memory = self.value(state.nodes[node])
        role = memory.role
        if not isinstance(role, Leader) or (role.epoch, node) in state.led:
            return state
        if any(epoch == role.epoch for epoch, _ in state.led):
            return state._replace(wrong=f"epoch {role.epoch} has two leaders")
        older = tuple(record for record in self.value(state.done) if record[0] < role.epoch)
        if records_of(memory.batches)[: len(older)] != older:
            return state._replace(wrong=f"{node} leads epoch {role.epoch} without a committed record")
        return state._replace(led=(*state.led, (role.epoch, node)))

    def committed(self, state, node, end):
        memory = self.value(state.nodes[node])
        mine, done = records_of(memory.batches)[:end], self.value(state.done)
        if not isinstance(memory.role, Leader) and memory.role.leader_id != node and end > len(done):
            return state._replace(wrong=f"{node} acts on a record that is not committed")
        if mine[: len(done)] != done[:end]:
            return state._replace(wrong=f"{node} has another record than the committed one below {end}")
        return state._replace(done=self.number(done + mine[len(done) :]))

    # -- events --------------------------------------------------------------------------------------------------------

    def stand(self, state, node):
        """Become a candidate, as with a majority of pre-votes."""
        memory = self.value(state.nodes[node])
        votes = Votes(granted=memory.log.voters.ids)
        ready = memory._replace(role=Prospective(memory.role.epoch, 1000, votes, voted=memory.role.voted))
        return self.put(state, node, self.step(node, self.number(ready), "tick", Tick))

    def vote(self, state, node, asked):
        number, actions = self.step(node, state.nodes[node], ("asked", asked), lambda: Received("t", self.value(asked)))
        answers = [each.answer for each in actions if isinstance(each, act.Reply) and each.token == "t"]
        state = self.put(state, node, (number, actions))
        return state._replace(granted=state.granted | {(asked, node)}) if any(one.granted for one in answers) else state

    def count(self, state, node, grant):
        request, voter = self.value(grant[0]), grant[1]
        answer = VoteAnswer(ErrorCode.NONE, request.epoch, granted=True)
        stepped = self.step(
            node, state.nodes[node], grant, lambda: Answered(voter, request, answer), expected=(voter, request)
        )
        return self.put(state, node, stepped)

    def learn(self, state, node, epoch, leader):
        key = key_of(node, self.value(state.nodes[node]).disk)
        request = BeginQuorumEpochRequest(epoch, leader, key, ADDRESS, "c")
        return self.put(
            state, node, self.step(node, state.nodes[node], ("led", epoch, leader), lambda: Received("b", request))
        )

    def flush(self, state, node):
        end = self.value(state.nodes[node]).log.end_offset
        return self.put(state, node, self.step(node, state.nodes[node], "flushed", lambda: Flushed(end, 0)))

    def request(self, state, node):
        """The state after what a fetch needs, and the fetch; a machine that waits for its sync gets it."""
        for _ in range(2):
            number, actions = self.step(node, state.nodes[node], "tick", Tick)
            for each in actions:
                if isinstance(each, act.Send) and isinstance(each.request, FetchRequest):
                    return self.put(state, node, (number, ())), replace(each.request, max_wait_ms=0)
            state = self.flush(state, node)
        return state, None

    def serve(self, state, leader, request):
        """The leader's side of a fetch: the state after it, and the answer with its records."""
        name = "fetch", self.number(request)
        key = leader, state.nodes[leader], name
        stepped = self.step(leader, state.nodes[leader], name, lambda: Received("f", request))
        if key not in self._answers:
            self._answers[key] = self.answer(*stepped)
        return self.put(state, leader, stepped), self._answers[key]

    def answer(self, number, actions):
        """The answer to a fetch among the leader's actions, with the records put in; None if the leader has stopped."""
        for action in actions:
            if isinstance(action, act.ReplyWithRecords):
                batches = self.value(number).batches
                return replace(action.answer, batches=tuple(b for b in batches if b.base_offset >= action.offset))
            if isinstance(action, act.Reply) and isinstance(action.answer, FetchAnswer):
                return action.answer
        return None

    def fetch(self, state, node):
        leader = self.value(state.nodes[node]).role.leader_id
        state, request = self.request(state, node)
        if request is None or state.wrong:
            return state
        asked_of = state.nodes[leader]
        state, answer = self.serve(state, leader, request)
        if answer is None or state.wrong:
            return state
        name = "answer", self.number(request), asked_of
        stepped = self.step(
            node, state.nodes[node], name, lambda: Answered(leader, request, answer), expected=(leader, request)
        )
        return self.put(state, node, stepped)

    def upgrade(self, state, node):
        """Raise ``kraft.version`` to 1, as after every voter has told the leader its disk."""
        memory = self.value(state.nodes[node])
        told = tuple(Voter(key_of(each.key.id), ADDRESS) for each in memory.log.voters)
        ready = self.number(memory._replace(role=replace(memory.role, told=told)))
        event = UpgradeProposed("u", memory.role.epoch, 1)
        return self.put(state, node, self.step(node, ready, "upgrade", lambda: event))

    def lose_power(self, state, node):
        memory = self.value(state.nodes[node])
        end = memory.log.flushed_offset
        batches = tuple(each for each in memory.batches if each.end_offset <= end)
        number = self.started(node, memory.disk, memory.log.truncated(end), memory.stored, batches)
        return self.noted(self.put(state, node, (number, ())), node)

    def lose_disk(self, state, node):
        number = self.started(node, self.value(state.nodes[node]).disk + 1, LogView(), None, ())
        return self.put(state, node, (number, ()))

    # -- successors ----------------------------------------------------------------------------------------------------

    def successors(self, state):
        for leader, late in state.flying:
            if isinstance(self.value(state.nodes[leader]).role, Leader):
                request = self.value(late)
                after, _ = self.serve(state._replace(flying=state.flying - {(leader, late)}), leader, request)
                yield f"late fetch of {request.replica.id} at {request.offset}", after
        for node in range(3):
            memory = self.value(state.nodes[node])
            yield from self.elections(state, node, memory)
            if isinstance(memory.role, Follower) and memory.role.leader_id != node:
                yield f"{node} fetches", self.fetch(state, node)
                if state.delays:
                    after, request = self.request(state, node)
                    if request is not None:
                        late = after.flying | {(memory.role.leader_id, self.number(request))}
                        yield f"{node}'s fetch is delayed", after._replace(flying=late, delays=state.delays - 1)
            if isinstance(memory.role, Leader):
                yield from self.leader(state, node, memory)
            if state.powers:
                yield f"{node} loses power", self.lose_power(state._replace(powers=state.powers - 1), node)
            if state.wipes and memory.batches:
                yield f"{node} loses its disk", self.lose_disk(state._replace(wipes=state.wipes - 1), node)

    def elections(self, state, node, memory):
        key, epoch = key_of(node, memory.disk), memory.role.epoch
        if not isinstance(memory.role, Leader) and epoch < self.epochs and memory.log.voters.has(key):
            yield f"{node} stands", self.stand(state, node)
        for asked in state.asked:
            request = self.value(asked)
            if request.voter.id == node and request.epoch >= epoch:
                yield f"{node} is asked by {request.candidate.id} in {request.epoch}", self.vote(state, node, asked)
        if isinstance(memory.role, Candidate):
            for asked, voter in state.granted:
                request = self.value(asked)
                if request.candidate == key and request.epoch == epoch and voter not in memory.role.votes.granted:
                    yield f"{node} has the vote of {voter}", self.count(state, node, (asked, voter))
        for led, leader in state.led:
            unknown = led == epoch and memory.role.leader_id == NO_LEADER
            if leader != node and (led > epoch or unknown):
                yield f"{node} learns that {leader} leads {led}", self.learn(state, node, led, leader)

    def leader(self, state, node, memory):
        if memory.log.flushed_offset < memory.log.end_offset:
            yield f"{node} syncs", self.flush(state, node)
        if state.writes and memory.role.is_active:
            value = f"{state.powers}.{state.writes}"
            event = Proposed("p", memory.role.epoch, 1, value)
            stepped = self.step(node, state.nodes[node], ("append", value), lambda: event)
            yield f"{node} appends", self.put(state._replace(writes=state.writes - 1), node, stepped)
        if state.upgrades and memory.role.is_active and memory.log.kraft_version == 0:
            yield f"{node} upgrades", self.upgrade(state._replace(upgrades=state.upgrades - 1), node)
        if state.removals:
            for voter in memory.log.voters:
                event = Received("r", RemoveVoterRequest(voter.key))
                stepped = self.step(node, state.nodes[node], ("remove", voter.key), lambda event=event: event)
                yield (
                    f"{node} removes {voter.key.id}",
                    self.put(state._replace(removals=state.removals - 1), node, stepped),
                )
