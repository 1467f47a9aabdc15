"""How long a node of the quorum waits, by Kafka's settings."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

__all__ = ["REFUSED_MS", "REFUSED_STEP_MS", "RaftTimeouts"]

REFUSED_MS: Final = 50
"""As long as the first back-off of a link: by then every follower has tried to connect again."""
REFUSED_STEP_MS: Final = 150
"""Longer than an election of one candidate takes on a busy machine."""


class RaftTimeouts(Struct, frozen=True):
    """All in ms."""

    election_ms: int = 1000
    """``controller.quorum.election.timeout.ms``: an election takes this and up to as much again, by chance."""
    election_backoff_max_ms: int = 1000
    """``controller.quorum.election.backoff.max.ms``: the longest wait after a leader has said that it gives up."""
    fetch_ms: int = 2000
    """``controller.quorum.fetch.timeout.ms``: a follower without a good answer for so long looks for another leader."""
    retry_backoff_ms: int = 20
    """``controller.quorum.retry.backoff.ms``: the pause after a failed request to one node."""
    fetch_wait_ms: int = 500
    """How long a leader may hold back a Fetch that has no news; fixed in Kafka."""
    observer_session_ms: int = 300_000
    """A leader forgets an observer that has not fetched for so long; fixed in Kafka."""
    caught_up_ms: int = 3_600_000
    """A voter is added only if it has fetched within this time; fixed in Kafka."""

    @property
    def check_quorum_ms(self) -> int:
        """A leader that no majority has fetched from for so long gives up: 1.5 times the fetch time-out."""
        return self.fetch_ms * 3 // 2

    @property
    def begin_epoch_ms(self) -> int:
        """A leader tells voters that have been silent for so long that it leads: half the fetch time-out."""
        return self.fetch_ms // 2

    @property
    def refused_ms(self) -> int:
        """How long it counts that a host has refused a connection: twice the fetch time-out."""
        return 2 * self.fetch_ms

    @property
    def ask_again_ms(self) -> int:
        """An observer without a leader's answers asks the servers so often: an eighth of the fetch time-out.

        Servers name the silent leader until they have elected another one, which they begin at about the same time.
        """
        return self.fetch_ms // 8

    def follower_timeout_ms(self, place: int, count: int) -> int:
        """How long the voter at place ``place`` of ``count`` followers does without the leader: ``fetch_ms`` or less.

        The earlier ones wait shorter, by at most a quarter: two that stand together split the votes.
        """
        return self.fetch_ms - self.fetch_ms // 4 * (count - 1 - place) // count

    def refused_backoff_ms(self, place: int) -> int:
        """How long that voter waits before it stands when the leader's host refuses connections.

        The first of them waits until the others have noticed, too.
        """
        return REFUSED_MS + place * REFUSED_STEP_MS

    def election_timeout_ms(self, jitter: float) -> int:
        """The time-out that a number in [0, 1) chooses, in [election_ms, 2 * election_ms)."""
        return self.election_ms + int(self.election_ms * jitter)

    def successor_backoff_ms(self, rank: int, count: int) -> int:
        """How long the successor at place ``rank`` of ``count`` waits before it stands; no successor: rank -1.

        The first waits 0 ms, the others twice as long each, as `endEpochElectionBackoff` of Kafka has it.
        """
        longest = self.election_backoff_max_ms
        if rank == 0:
            return 0
        if rank < 0:
            return longest
        return min(longest, (longest >> (count - 1)) << (rank - 1))
