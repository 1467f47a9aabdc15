"""Stands between a broker and its bucket: before the first write of a run it checks the bucket's identity and signs it.

While the controller may have ended the broker's session no write begins: another broker may lead by now (rule 6 of the
tier's protocol). Writes are refused then, and tried again by those who want them.

A bucket that is not the one that the data directory remembers gets no command any more until it is replaced by the right
one; what would have gone there is answered as a lost archive. Reads pass as long as nothing speaks against the bucket, but for
those by which local records go: a broker that only follows writes nothing, and would believe any bucket. They wait for the look, and
the directory remembers the bucket that has what it let go. It remembers none in which its cluster has written nothing.

A bucket may be swapped later. So commands that make an archive, or find that there is none, name the bucket's identity, and
after each loss the bucket is looked at again, once in five seconds at most.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from stratalog.broker.archive.known_bucket import KnownBucket, read_known_bucket, write_known_bucket
from stratalog.broker.workers.io_worker import WRITES, Submit
from stratalog.hot.storage.filesystem import Filesystem
from stratalog.tier.manifests.second_timeline import MadeClaims
from stratalog.tier.messages import commands
from stratalog.tier.work.bucket_identity import Verdict, broker_name, judge_bucket
from stratalog.wire.errors import Invalid
from stratalog.wire.topic import uuid_parse, uuid_text

__all__ = ["BucketGate", "GatePorts"]

_UUID_BYTES: Final = 16
_LOOK_AGAIN_MS: Final = 5_000
START_SECONDS: Final = 5.0
"""How long a start waits for the bucket's identity. If none came, the gate asks again before the first write."""
_NO_CONTACT: Final = "the controller has not answered for a session: no write to the bucket begins until it does"
_OWN: Final = (commands.LookAtBucket, commands.SignBucket)
_NAMING: Final = (commands.Claim, commands.TrashArchive, commands.RemoveArchive)

log = logging.getLogger(__name__)

Answered = Callable[[commands.Report], None]


class GatePorts(Struct, frozen=True):
    """The broker's ports for the gate. ``incarnation`` is below 0 for a cluster that writes nothing to the bucket.

    ``second_timeline`` is called with a sentence when the bucket shows a start that this directory does not know.
    """

    submit: Submit
    files: Filesystem
    directory: str
    url: str
    cluster_id: str
    node_id: int
    incarnation: Callable[[], int]
    archives_known: Callable[[], bool]
    second_timeline: Callable[[str], None]
    in_contact: Callable[[], bool]
    """Whether the controller cannot have ended the broker's session; always, for a broker that is a cluster by itself."""
    now_ms: Callable[[], int]
    elapsed_ms: Callable[[], int]


class BucketGate:
    """One per run of a broker."""

    def __init__(self, ports: GatePorts, *, start_id: bytes | None = None) -> None:
        self._ports = ports
        self.start_uuid = os.urandom(_UUID_BYTES) if start_id is None else start_id
        """The id of this run, under which it claims archives."""
        self.wrong = ""
        """Why the bucket is the wrong one; empty if it is not known to be wrong."""
        self.known = self._read()
        self._made: tuple[KnownBucket, MadeClaims] | None = None
        self._open = False
        self._is_compared = False
        """Whether the bucket was looked at, and is the one that the directory remembers."""
        self._looking = False
        self._looked_ms = -_LOOK_AGAIN_MS
        self._waiting: list[tuple[commands.Command, Answered]] = []

    @property
    def made(self) -> MadeClaims:
        """The claims that this directory has made, this run's among them."""
        if self._made is None or self._made[0] is not self.known:
            ids = frozenset([*map(uuid_parse, self.known.starts), self.start_uuid])
            self._made = self.known, MadeClaims(ids, self.known.since_ms)
        return self._made[1]

    @property
    def equal_claims(self) -> MadeClaims:
        """The same, where a lower claim of another timeline is known already."""
        return replace(self.made, since_ms=-1)

    def _read(self) -> KnownBucket:
        ports = self._ports
        try:
            return read_known_bucket(ports.files, ports.directory) or KnownBucket()
        except ValueError as error:
            log.error(
                "%s: the notes about the bucket cannot be read: %s; the broker makes them anew", ports.directory, error
            )
            return KnownBucket()

    # -- commands -------------------------------------------------------------------------------------------------

    def submit(self, command: commands.Command, answered: Answered) -> None:
        """Pass a command on once the bucket is known to be the right one; else answer it with a refusal, later."""
        is_write = isinstance(command, WRITES)
        if is_write and not self._ports.in_contact():
            asyncio.get_running_loop().call_soon(answered, commands.FailedReport(_NO_CONTACT, retriable=True))
        elif isinstance(command, _OWN) or self._ports.incarnation() < 0:
            self._ports.submit(command, answered)
        elif self._open or (self._is_compared and not is_write):
            self._pass(command, answered)
        elif self.wrong:
            asyncio.get_running_loop().call_soon(answered, commands.LostReport(self.wrong))
            self._look()
        elif is_write or _lets_go(command):
            self._waiting.append((command, answered))
            self._look()
        else:
            self._ports.submit(command, answered)

    def _pass(self, command: commands.Command, answered: Answered) -> None:
        """Pass a command on with the identity of the bucket for which it is meant."""
        if isinstance(command, _NAMING):
            command = replace(command, bucket_id=self.known.bucket_id)
        self._ports.submit(command, lambda report: self._passed(report, answered))

    def _passed(self, report: commands.Report, answered: Answered) -> None:
        """Look at the bucket again after a loss; writes wait for it."""
        if isinstance(report, commands.LostReport) and self._ports.elapsed_ms() - self._looked_ms >= _LOOK_AGAIN_MS:
            self._open = self._is_compared = False
            self._look()
        answered(report)

    def _look(self) -> None:
        ports, now_ms = self._ports, self._ports.elapsed_ms()
        if self._looking or (self.wrong and now_ms - self._looked_ms < _LOOK_AGAIN_MS):
            return
        self._looking, self._looked_ms = True, now_ms
        ports.submit(self.command(), self._looked)

    def command(self) -> commands.LookAtBucket:
        """The command that reads the bucket's identity, and its note of this broker's last start."""
        ports = self._ports
        return commands.LookAtBucket(ports.cluster_id, broker_name(ports.node_id, ports.incarnation()))

    def _looked(self, report: commands.Report) -> None:
        if not isinstance(report, commands.BucketSeen):
            self._end(report)
            return
        before = self.wrong
        self.wrong = self._verdict(report)
        if self.wrong:
            if self.wrong != before:
                log.error("%s", self.wrong)
            self._end(commands.LostReport(self.wrong))
            return
        self._note_start(report)
        bucket_id = self.known.bucket_id or (report.bucket_id if report.cluster_known else "")
        if not self._waiting or any(isinstance(command, WRITES) for command, _ in self._waiting):
            self._sign(report)
        elif not bucket_id:  # no archive of the cluster is here: nothing goes by it, and nothing is to be remembered
            self._end(None)
        elif self._remember(bucket_id, report):
            self._is_compared = True
            self._end(None)

    def _verdict(self, seen: commands.BucketSeen) -> str:
        """Why this is not the right bucket; empty if it is."""
        ports, known = self._ports, self.known
        match judge_bucket(known.bucket_id, seen, archives_known=ports.archives_known()):
            case Verdict.OTHER:
                found = f"the identity {seen.bucket_id}" if seen.bucket_id else "no identity"
                why = f"it has {found}, not {known.bucket_id}, the one of {known.url or 'the bucket used so far'}"
            case Verdict.STRANGER:
                why = f"it knows nothing of the cluster {ports.cluster_id}, whose archive is in another one"
            case _:
                return ""
        return (
            f"the bucket {ports.url} is not the one that {ports.directory} archives to: {why}. Use the right --bucket; "
            f"to change buckets on purpose: stratalog tier adopt --data {ports.directory} --bucket {ports.url}"
        )

    def _note_start(self, seen: commands.BucketSeen) -> None:
        """Report a start that this directory does not know: it went back in time, or two brokers share its past."""
        if self.known.starts and seen.start_id and seen.start_id not in (*self.known.starts, self._start_id):
            ports = self._ports
            ports.second_timeline(
                f"the bucket has a note of the start {seen.start_id} of broker {ports.node_id}, which {ports.directory} "
                "does not know: the directory went back in time"
            )

    @property
    def _start_id(self) -> str:
        return uuid_text(self.start_uuid)

    def _sign(self, seen: commands.BucketSeen) -> None:
        """Store this start in the directory before the bucket, which must never have one that the directory lacks."""
        ports = self._ports
        bucket_id = self.known.bucket_id or seen.bucket_id
        if not self._remember(bucket_id, seen):
            return
        command = commands.SignBucket(
            ports.cluster_id,
            broker_name(ports.node_id, ports.incarnation()),
            bucket_id or uuid_text(os.urandom(_UUID_BYTES)),
            ports.incarnation(),
            self._start_id,
            (*self.known.starts, seen.start_id),
        )
        ports.submit(command, self._signed)

    def _signed(self, report: commands.Report) -> None:
        if not isinstance(report, commands.BucketSeen):
            self._end(report)
        elif report.start_id != self._start_id or (self.known.bucket_id or report.bucket_id) != report.bucket_id:
            self._end(commands.FailedReport("the bucket was signed by another broker meanwhile", retriable=True))
        elif self._remember(report.bucket_id, report):
            self._open = True
            self._end(None)

    def _remember(self, bucket_id: str, seen: commands.BucketSeen) -> bool:
        """Store the identity and this start on disk; False if the disk refuses."""
        ports = self._ports
        known = replace(self.known, bucket_id=bucket_id, url=ports.url if bucket_id else self.known.url)
        known = known.with_start(self._start_id, ports.now_ms(), noted=seen.start_id)
        known = replace(known, incarnation=ports.incarnation())
        if known == self.known:
            return True
        try:
            write_known_bucket(ports.files, ports.directory, known)
        except OSError as error:
            self._end(commands.FailedReport(f"{ports.directory}: the bucket cannot be noted: {error}", retriable=True))
            return False
        self.known = known
        return True

    def _end(self, refusal: commands.Report | None) -> None:
        """Pass on the waiting commands, or answer them with ``refusal``."""
        self._looking = False
        waiting, self._waiting = self._waiting, []
        for command, answered in waiting:
            if refusal is None:
                self._pass(command, answered)
            else:
                answered(refusal)

    # -- the start --------------------------------------------------------------------------------------------------

    async def look_at_start(self, seconds: float | None = None) -> None:
        """Compare the bucket with the remembered one, if it answers in time. Raises `Invalid` for another bucket."""
        if self._ports.incarnation() < 0 or not (self.known.bucket_id or self._ports.archives_known()):
            return
        found: asyncio.Future[commands.Report] = asyncio.get_running_loop().create_future()
        self._ports.submit(self.command(), lambda report: None if found.done() else found.set_result(report))
        await asyncio.wait({found}, timeout=START_SECONDS if seconds is None else seconds)
        if not found.done():
            found.cancel()
            return
        report = found.result()
        if not isinstance(report, commands.BucketSeen):
            log.warning("the bucket %s could not be looked at: %s", self._ports.url, getattr(report, "message", report))
            return
        wrong = self._verdict(report)
        if wrong:
            raise Invalid(wrong)
        self._note_start(report)


def _lets_go(command: commands.Command) -> bool:
    """Whether local records may go by the answer to a read: the bucket has to have them, and has to be the right one."""
    return isinstance(command, commands.ReadBack) or (isinstance(command, commands.ReadManifest) and command.lets_go)
