"""The part of ``replica_model.py`` in which the disk of a broker that is alone goes back to an earlier state."""

from __future__ import annotations

from stratalog.tier.manifests.second_timeline import MadeClaims, SecondTimeline, check_timeline

LIFE = 50
"""Records that a broker writes after its disk went back are this much above their epoch."""


class Rollbacks:
    """The base that `Replicas` inherits."""

    def going_back(self, state):
        """A copy of the disk of a broker that is alone, made while it is stopped; later it is put in its place."""
        broker = state.brokers[0]
        if not state.rollbacks:
            return
        if not state.copy:
            copied = broker._replace(leads=0, ready=False)
            yield "the disk is copied", state._replace(copy=(copied, state.epoch))
            return
        copied, epoch = state.copy
        back = copied._replace(life=1)
        yield (
            "the disk goes back to the copy",
            self.with_(
                state,
                0,
                back,
                epoch=epoch,
                rollbacks=0,
                elections=state.elections + 1,
                acked=self.surviving(state, back),
            ),
        )

    def reached(self, state, index, name, broker):
        """The bucket answers before the first claim: what it knows better costs what was acknowledged meanwhile."""
        seen = broker._replace(unseen=False)
        if self.second_timeline(state, broker):
            seen = seen._replace(ready=False, suspicious=True)
        yield f"{name} reaches the bucket", self.with_(state, index, seen)

    def second_timeline(self, state, broker):
        """Whether the bucket shows what this broker's disk does not know."""
        if not self.alone or self.dropped == "compare what the checkpoint does not know":
            return False
        return self.foreign(state, broker) or self.tools.manifest(state.manifest).remote_end > broker.checkpoint

    def foreign(self, state, broker):
        """Whether the bucket shows a claim of this broker that its disk does not know of."""
        if not self.alone:
            return False  # another broker's claim is no news: `check_timeline` tells them apart by their ids
        claimant = self.claimant(self.rank(state, broker), broker.life)
        try:
            check_timeline(self.tools.manifest(state.manifest), claimant, MadeClaims(broker.made, 0))
        except SecondTimeline:
            return True
        return False

    def diverged(self, state, broker):
        """Whether the last record that both hold is another one."""
        last = self.tools.manifest(state.manifest).remote_end - 1
        both = broker.start <= last < broker.end and self.dropped != "compare the last common batch"
        return both and self.archived(state, last) != broker.log[last - broker.start]
