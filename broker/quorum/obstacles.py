"""The obstacles between a node and its quorum, as sentences for the log: another cluster, no leader, another voter's id.

A refusal comes with every fetch, which may be fifty times a second: it is said at once, and again once a minute while it
lasts. An obstacle that may pass by itself, such as a server that does not answer yet, is said when no leader has been known
for a while.
"""

from __future__ import annotations

from typing import Final

from stratalog.broker.quorum.leadership import LeaderAndEpoch
from stratalog.metadata.raft.voter_set import ReplicaKey, VoterSet
from stratalog.wire.topic import uuid_text

__all__ = ["AGAIN_SECONDS", "PATIENCE_SECONDS", "Obstacles", "ahead_of_quorum"]

PATIENCE_SECONDS: Final = 10.0
"""Elections take a second or two: a time without a leader is said when it is longer than this."""
AGAIN_SECONDS: Final = 60.0
"""How often a sentence comes again while nothing changes."""

_ADDRESSES_MAX: Final = 64


def ahead_of_quorum(epoch: int, quorum_epoch: int) -> str:
    """The words about a server that has never had the epoch of this node's log."""
    return (
        f"is in epoch {quorum_epoch} and has never had epoch {epoch}: the metadata log here is ahead of its quorum. If the "
        "controllers were restored from a copy, this node's log is of the time after it: move its __cluster_metadata-0 away"
    )


class Obstacles:
    """Those of one node. Pure; times are monotonic seconds."""

    def __init__(
        self,
        me: ReplicaKey,
        cluster_id: str,
        *,
        is_controller: bool,
        now: float,
        address: tuple[str, int] | None = None,
    ) -> None:
        """``address`` is where the settings have other controllers reach this one."""
        self._me = me
        self._cluster_id = cluster_id
        self._is_controller = is_controller
        self._address = address
        self._last: dict[str, str] = {}
        """How each server answered last, by its address; nothing of those that answered well."""
        self._said: dict[str, float] = {}
        self._led_at = now

    def heard(self, server: str, problem: str | None = None) -> None:
        """The last request to ``server`` ended with this problem, or None for an answer that could be used."""
        if problem is None:
            self._last.pop(server, None)
            self._said.pop(server, None)
        elif server in self._last or len(self._last) < _ADDRESSES_MAX:
            self._last[server] = problem

    def is_news(self, server: str, now: float) -> bool:
        """Whether ``server`` is to be asked for its cluster, because it has refused this node for being of another one."""
        return self._is_due(server, now)

    def of_another_cluster(self, server: str, cluster_id: str | None) -> str:
        """The sentence about a server that refused this node; None for the id of a cluster that it did not tell."""
        theirs = "another cluster" if cluster_id is None else f"cluster {cluster_id}"
        self._last[server] = f"belongs to {theirs}"
        return (
            f"{server} belongs to {theirs}, and this node to cluster {self._cluster_id}, as meta.properties says: correct "
            "controller.quorum.bootstrap.servers or controller.quorum.voters, or name the directories of that cluster's node in "
            "log.dirs"
        )

    def look(self, leader: LeaderAndEpoch, voters: VoterSet, now: float) -> list[str]:
        """The sentences that are due, to be called from time to time."""
        sentences = []
        named = voters.voter(self._me.id)
        if self._is_controller and named is not None and not voters.has(self._me) and self._is_due("voter", now):
            sentences.append(self._other_directory(named.key))
        if leader.leader_id >= 0:
            self._led_at = now
            self._said.pop("leader", None)
        elif now - self._led_at >= PATIENCE_SECONDS and self._is_due("leader", now):
            sentences.append(self._leaderless(leader, voters, now))
        return sentences

    def _is_due(self, what: str, now: float) -> bool:
        at = self._said.get(what)
        if at is not None and now - at < AGAIN_SECONDS:
            return False
        self._said[what] = now
        return True

    def _other_directory(self, named: ReplicaKey) -> str:
        theirs, mine = uuid_text(named.directory_id), uuid_text(self._me.directory_id)
        return (
            f"node {self._me.id} is a voter of the metadata quorum with the directory {theirs}, and meta.properties here says "
            f"{mine}: this node does not vote. If the disk was replaced: stratalog quorum remove-controller --controller-id "
            f"{named.id} --controller-directory-id {theirs}, then add-controller on this node. Else another process is node "
            f"{named.id}, or another directory's meta.properties lies here"
        )

    def _leaderless(self, leader: LeaderAndEpoch, voters: VoterSet, now: float) -> str:
        answers = "; ".join(f"{server} {problem}" for server, problem in sorted(self._last.items()))
        known = ", ".join(f"{one.key.id} ({at.host}:{at.port})" for one in voters for at in one.endpoints[:1])
        return (
            f"node {self._me.id} has known no leader of the metadata quorum for {now - self._led_at:.0f} s, in epoch "
            f"{leader.epoch}. {f'Voters: {known}. ' if known else ''}{f'Last answers: {answers}. ' if answers else ''}"
            "See whether a majority of the voters runs, and whether controller.quorum.bootstrap.servers or "
            f"controller.quorum.voters names their controller listeners{self._moved(voters)}"
        )

    def _moved(self, voters: VoterSet) -> str:
        """The words about a voter whose settings give it an address that its quorum does not know."""
        named = voters.voter(self._me.id)
        if self._address is None or named is None or not named.endpoints:
            return ""
        if self._address in {(one.host, one.port) for one in named.endpoints}:
            return ""
        host, port = self._address
        return (
            f". The settings here give this voter another address, {host}:{port}. Voters ask each other at those above until a "
            "leader has taken in another one: start a majority of them at their old addresses, then move one after another"
        )
