"""Asking a store at start-up whether it keeps its promises.

Several S3-compatible services ignore ``If-None-Match`` and ``If-Match`` and answer success: two writers of one archive
would overwrite each other without an error. The probe writes a few tiny objects, tries what must fail, and removes
them again.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from stratalog.tier.stores.checked_read import READS_MAX
from stratalog.tier.stores.source import crc32c_of
from stratalog.tier.stores.store import (
    AlreadyExists,
    Capabilities,
    ChecksumMismatch,
    NotFound,
    ObjectStore,
    PreconditionFailed,
    StoreDenied,
    StoreError,
    StoreUnavailable,
    UnsafeStore,
    UnsupportedOperation,
)

__all__ = ["PROBE_PREFIX", "ProbeReport", "probe"]

PROBE_PREFIX = "stratalog-probe"

_ALWAYS_NEEDED = ("reads", "listing", "deletes")
_MULTI_WRITER_NEEDED = ("conditional create", "compare and swap")
_RACERS = 4
_BODY = bytes(range(256)) * 4
_BROKEN_ADVICE = (
    "This service cannot hold an archive: use another, or a newer version of it. Unless a proxy or a network on the way "
    "to it changes what passes."
)

T = TypeVar("T")


class ProbeReport(Struct, frozen=True):
    """Behaviour of the store at ``url``. ``problems`` describes its faults in words."""

    url: str
    claimed: Capabilities
    conditional_create: bool
    compare_and_swap: bool
    reads: bool
    ordered_list: bool
    checksums: bool
    deletes: bool
    metadata: bool
    problems: tuple[str, ...]

    @property
    def capabilities(self) -> Capabilities:
        """The claimed capabilities, less those that the store failed to show."""
        safe = self.conditional_create and self.compare_and_swap
        return replace(
            self.claimed,
            conditional_create=self.claimed.conditional_create and self.conditional_create,
            compare_and_swap=self.claimed.compare_and_swap and self.compare_and_swap,
            ordered_list=self.claimed.ordered_list and self.ordered_list,
            checksums=self.claimed.checksums and self.checksums,
            multi_writer=self.claimed.multi_writer and safe,
        )

    def require(self, *, multi_writer: bool) -> None:
        """Raise :class:`UnsafeStore` unless an archive may be written here.

        Exact reads and ordered listings are always needed; ``multi_writer`` asks for honoured conditions too.
        """
        needed = _ALWAYS_NEEDED + (_MULTI_WRITER_NEEDED if multi_writer else ())
        reasons = [problem for problem in self.problems if problem.startswith(needed)]
        if multi_writer and not self.claimed.multi_writer:
            reasons.append("the store makes no promise to more than one writer")
        if reasons:
            broken = any(reason.startswith(_ALWAYS_NEEDED) for reason in reasons)
            advice = _BROKEN_ADVICE if broken else ""
            raise UnsafeStore("probe", PROBE_PREFIX, self.url, "; ".join(reasons), advice)


def probe(store: ObjectStore, *, prefix: str = PROBE_PREFIX, racing: bool = True) -> ProbeReport:
    """Try the store out under ``prefix`` and report; about 40 small requests, cleaned up afterwards.

    ``racing`` also lets several threads write at once; a store that lives in this process needs no such proof.
    Raises :class:`StoreUnavailable` or :class:`StoreDenied` if the store cannot be reached or written at all.
    """
    trial = _Trial(store, f"{prefix}/{uuid.uuid4().hex}", racing=racing)
    try:
        report = _report(store, trial)
    except (StoreUnavailable, StoreDenied) as error:
        if trial.answered:
            try:
                trial.clean()
            except StoreError as other:
                error.add_note(f"What the probe had written could not be deleted either: {other}")
        raise
    trial.clean()
    return report


def _report(store: ObjectStore, trial: _Trial) -> ProbeReport:
    return ProbeReport(
        url=store.url,
        claimed=store.capabilities,
        conditional_create=trial.run("conditional create", trial.conditional_create),
        compare_and_swap=trial.run("compare and swap", trial.compare_and_swap),
        reads=trial.run("reads", trial.reads),
        ordered_list=trial.run("listing", trial.ordered_list),
        checksums=trial.run("checksums", trial.checksums),
        deletes=trial.run("deletes", trial.deletes),
        metadata=trial.run("metadata", trial.metadata),
        problems=tuple(trial.problems),
    )


class _Trial:
    """One run of the probe; each check returns what went wrong, or nothing."""

    def __init__(self, store: ObjectStore, prefix: str, *, racing: bool) -> None:
        self._store = store
        self._prefix = prefix
        self._racing = racing
        self.keys: set[str] = set()
        self.answered = False
        """Whether any check came to its end: else there is nothing to clean up."""
        self.problems: list[str] = []

    def run(self, name: str, check: Callable[[], str]) -> bool:
        """Return whether the check passed; note the problem if not."""
        try:
            problem = check()
        except (StoreUnavailable, StoreDenied):
            raise
        except UnsupportedOperation as error:
            problem = error.reason
        except StoreError as error:
            problem = str(error)
        self.answered = True
        if problem:
            self.problems.append(f"{name}: {problem}")
        return not problem

    def clean(self) -> None:
        """Delete what was written. Raises what the store raises."""
        self._store.delete_many(sorted(self.keys))

    def conditional_create(self) -> str:
        """Create twice: the second must be refused and the first must stay."""
        key = self._key("create")
        self._store.put_if_absent(key, b"first")
        try:
            self._store.put_if_absent(key, b"second")
        except AlreadyExists:
            if self._read(key, b"first", b"second") != b"first":
                return "a refused create replaced the object"
            return self._create_race() if self._racing else ""
        return "a second create of one key succeeded (If-None-Match is ignored)"

    def _create_race(self) -> str:
        """Let a few threads create one key together: some services refuse only creates that come one by one."""
        for turn in range(2):
            key = self._key(f"race-{turn}")
            with ThreadPoolExecutor(_RACERS) as pool:
                won = [one for one in pool.map(self._try_create, [key] * _RACERS, range(_RACERS)) if one is not None]
            if len(won) != 1:
                return f"{len(won)} of {_RACERS} creates of one key at the same time succeeded"
            if self._read(key, *(b"%d" % racer for racer in range(_RACERS))) != b"%d" % won[0]:
                return "the object is not the one of the create that succeeded"
        return ""

    def _try_create(self, key: str, racer: int) -> int | None:
        try:
            self._store.put_if_absent(key, b"%d" % racer)
        except AlreadyExists:
            return None
        return racer

    def compare_and_swap(self) -> str:
        """Swap with the right version, with a stale one, and where there is nothing."""
        key = self._key("swap")
        stale = self._store.put(key, b"first")
        self._store.compare_and_swap(key, b"second", stale)
        for target, situation in ((key, "a stale version"), (self._key("absent"), "no object")):
            try:
                self._store.compare_and_swap(target, b"third", stale)
            except PreconditionFailed:
                continue
            return f"a swap against {situation} succeeded (If-Match is ignored)"
        kept = self._read(key, b"first", b"second", b"third") == b"second"
        return "" if kept else "a refused swap replaced the object"

    def reads(self) -> str:
        """Read what was just replaced, a range, a suffix, and a suffix longer than the object."""
        key = self._key("read")
        self._store.put(key, b"older")
        self._store.put(key, _BODY)
        if self._read(key, b"older", _BODY) != _BODY:
            return "an object was not read as it had just been written"
        if _undamaged(lambda: self._store.get_range(key, 10, 300), [_BODY[10:310]]) != _BODY[10:310]:
            return "a range came back with other bytes"
        for length in (7, len(_BODY) + 1):
            suffix = _BODY[-length:], len(_BODY)
            if _undamaged(partial(self._store.get_suffix, key, length), [suffix]) != suffix:
                return "a suffix came back with other bytes or another size"
        try:
            self._store.get(self._key("missing"))
        except NotFound:
            return ""
        return "a missing object was read"

    def ordered_list(self) -> str:
        """List keys whose byte order differs from that of words, and from that of a walk through directories."""
        names = ["list/B", "list/a!", "list/a-b", "list/a/c", "list/ab", "list/~"]
        for name in reversed(names):
            self._store.put(self._key(name), b"")
        expected = [f"{self._prefix}/{name}" for name in names]
        found = self._listed(f"{self._prefix}/list/")
        if found != expected:
            return f"listed {found}, expected {expected}"
        rest = self._listed(f"{self._prefix}/list/", expected[2])
        return "" if rest == expected[3:] else f"after {expected[2]!r} listed {rest}, expected {expected[3:]}"

    def checksums(self) -> str:
        """Send a wrong CRC-32C: the object must be refused."""
        key = self._key("checksum")
        try:
            self._store.put(key, _BODY, crc32c=crc32c_of(_BODY) ^ 1)
        except ChecksumMismatch:
            self._store.put(key, _BODY, crc32c=crc32c_of(_BODY))
            kept = self._store.head(key).crc32c == crc32c_of(_BODY)
            return "" if kept else "the CRC-32C is not kept"
        return "a wrong CRC-32C was accepted (uploads must be read back)"

    def deletes(self) -> str:
        """Delete one of two objects: only that one is gone, for reads and listings."""
        names = [self._key("gone/1"), self._key("gone/2")]
        for name in names:
            self._store.put(name, b"1")
        self._store.delete_many(names[:1])
        found = self._listed(f"{self._prefix}/gone/")
        return "" if found == names[1:] else f"after a delete of {names[0]!r} listed {found}"

    def metadata(self) -> str:
        """User metadata comes back: a writer whose answer was lost knows its object by it."""
        key = self._key("metadata")
        self._store.put(key, b"1", metadata={"probe-mark": "a b=c/d"})
        if self._store.head(key).metadata.get("probe-mark") == "a b=c/d":
            return ""
        return "user metadata is not kept (a write whose answer is lost is taken for another writer's)"

    def _read(self, key: str, *written: bytes) -> bytes:
        """The object, which is one of those that were ``written``, unless it was damaged on its way each time."""
        return _undamaged(lambda: self._store.get(key)[0], written)

    def _listed(self, prefix: str, start_after: str = "") -> list[str]:
        """The keys that are listed: none but those of this trial, unless the listing was damaged on its way each time."""
        for _ in range(READS_MAX - 1):
            found = [info.key for info in self._store.list(prefix, start_after)]
            if self.keys.issuperset(found):
                return found
        return [info.key for info in self._store.list(prefix, start_after)]

    def _key(self, name: str) -> str:
        key = f"{self._prefix}/{name}"
        self.keys.add(key)
        return key


def _undamaged(read: Callable[[], T], possible: Collection[T]) -> T:
    """An answer that the store can give, be it right or wrong; what was damaged on its way is asked for again.

    An answer that is wrong is taken at once: a store that is right only now and then keeps no promise.
    """
    for _ in range(READS_MAX - 1):
        answer = read()
        if answer in possible:
            return answer
    return read()
