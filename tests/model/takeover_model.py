"""The part of ``replica_model.py`` in which a second cluster takes the archive over."""

from __future__ import annotations


class Takeovers:
    """The base that `Replicas` inherits."""

    def second_cluster(self, state):
        manifest = self.tools.manifest(state.manifest)
        if state.takeovers:
            after = self.tools.step(self._take_over, state.manifest, self.claimant((1, 1)))
            yield (
                "a second cluster takes over",
                state._replace(manifest=after, takeovers=0, second=(manifest.remote_end, ())),
            )
        if not state.second:
            return
        start, log = state.second
        end, remote_end = start + len(log), manifest.remote_end
        if end < self.records:
            acked = (*state.second_acked, (end, 101))
            yield f"C appends offset {end}", state._replace(second=(start, (*log, 101)), second_acked=acked)
        if start <= remote_end < end:
            values = log[remote_end - start :]
            after = self.tools.step(self._commit, state.manifest, self.claimant((1, 1)), remote_end, values)
            yield from self.swap(state, f"C archives [{remote_end}, {end})", after, (1, 1))
        if manifest.claimant.rank == (1, 1) and start < remote_end <= end:
            yield f"C evicts below {remote_end}", state._replace(second=(remote_end, log[remote_end - start :]))

    def second_fault(self, state):
        if not state.second:
            return None
        start, log = state.second
        if self.tools.manifest(state.manifest).remote_end > start + len(log):
            return "the archive runs past its owner's log end"
        for number, value in enumerate(log):
            if self.archived(state, start + number) not in (None, value):
                return f"offset {start + number} differs between archive and the second cluster"
        for offset, value in state.second_acked:
            if (log[offset - start] if offset >= start else self.archived(state, offset)) != value:
                return f"the second cluster's acknowledged offset {offset} is unreadable"
        return None
