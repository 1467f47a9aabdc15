"""Named crash points: every step of the archive after which a process may be killed or the power may go.

``UP`` is the way into the archive, ``DL`` the way out of it, ``RD`` reading it back. Each is a place in the shipped code:
before a function does its work, or after it and before a client hears of it. This is the one list: the simulation cuts
the power at each (`sim.power`), `tests/faults` kills real processes at each, ``docs/safety.md`` says what that shows, and
`tests/sim/test_points.py` compares the list with the code, so that a step without a point, or a point without a step, is
a failure.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

__all__ = ["POINTS", "Point", "trapped"]


class Point(NamedTuple):
    """``target`` is ``module:function`` or ``module:class.function`` below ``stratalog``.

    Only those passings count for which ``only`` holds: the name of an attribute of the result (``before`` a call: of
    its last argument) that is true, or false behind a ``!``; ``itself`` is the whole value.
    """

    what: str
    target: str
    before: bool = False
    only: str = ""
    nth: int = 1
    simulated: str = ""
    """The target where the bucket is the simulation's, in memory."""


def _before(what: str, target: str, **more: Any) -> Point:
    return Point(what, target, before=True, **more)


_ARCHIVE: Final = "broker.archive.partition_archive:Archive."
_REMOVAL: Final = "broker.archive.removal:ArchiveRemoval."
_DELETED: Final = "broker.archive.deleted_archives:DeletedArchives."
_CHUNKS: Final = "broker.cold.chunk_files:ChunkFiles."
_REMOTE: Final = "broker.cold.reader:RemotePartition."
_START: Final = "hot.log.start:LogStart."
_STORE: Final = "tier.stores.local_store:LocalStore."
_MEMORY: Final = "tier.stores.memory_store:MemoryStore."

POINTS: Final[dict[str, Point]] = {
    # -- into the archive ---------------------------------------------------------------------------------------------
    "UP1": Point("the claim is sent", f"{_ARCHIVE}_claim"),
    "UP2": Point("the claim is in the manifest, not reported", "tier.work.archive_commands:claim_archive"),
    "UP3": _before("the claim stands, unknown", f"{_ARCHIVE}_claimed"),
    "UP4": _before("an upload is chosen", f"{_ARCHIVE}_upload", nth=2),
    "UP5": Point("an upload is sent", f"{_ARCHIVE}_upload", nth=2),
    "UP6": _before("the worker has read the segment", "tier.objects.segment_upload:put_segment", nth=2),
    "UP7": _before(
        "the object is written, unnamed",
        "tier.stores.local_files:LocalFiles.link",
        nth=2,
        simulated=f"{_MEMORY}put_if_absent",
    ),
    "UP8": _before("the object is there, unchecked", "tier.objects.segment_upload:verify_object", nth=2),
    "UP9": Point("the object is checked, not reported", "tier.work.archive_commands:upload", nth=2),
    "UP10": _before("the upload is reported, unknown", f"{_ARCHIVE}_uploaded", nth=2),
    "UP11": Point("the commit is sent", f"{_ARCHIVE}_commit", nth=2),
    "UP12": Point("a page is written, no manifest names it", "tier.manifests.spill:write_page"),
    "UP13": Point("the copy for the history is written, no manifest names it", "tier.manifests.spill:_write_history"),
    "UP14": _before(
        "the manifest is about to be replaced",
        f"{_STORE}compare_and_swap",
        nth=2,
        simulated=f"{_MEMORY}compare_and_swap",
    ),
    "UP15": Point(
        "the manifest is replaced, unanswered",
        f"{_STORE}compare_and_swap",
        nth=2,
        simulated=f"{_MEMORY}compare_and_swap",
    ),
    "UP16": Point("the commit is done, not reported", "tier.work.archive_commands:commit_uploads", nth=2),
    "UP17": _before("the commit is reported, unknown", f"{_ARCHIVE}_committed", nth=2),
    "UP18": Point("the commit is known", f"{_ARCHIVE}_committed", nth=2),
    "UP19": Point("objects are read back, not reported", "tier.work.archive_commands:read_back", nth=2),
    "UP20": _before("the read-back is reported, unknown", f"{_ARCHIVE}_verified", nth=2),
    "UP21": _before("local files may go", f"{_START}delete_local_before", nth=2),
    "UP22": _before("the local start has moved, files are left", "hot.log.doomed_files:DoomedFiles.doom_log"),
    "UP23": Point("local files have their last names", f"{_START}delete_local_before", nth=2),
    "UP24": _before("local files go", "hot.storage.removal:FileRemoval.run", nth=2),
    "UP25": Point("local files are gone", "hot.storage.removal:FileRemoval.run"),
    "UP26": _before("what the archive holds is not checkpointed", "broker.archive.tiering:Tiering.checkpoint", nth=4),
    "UP27": Point("a description is written, not reported", "tier.messages.projection:write_projection"),
    "UP28": _before("a merge is listed, nothing of it is written", "tier.work.merge_commands:_request"),
    "UP29": _before("the merged object is there, not swapped in", "tier.work.merge_commands:_swapped"),
    "UP30": Point("objects are merged, not reported", "tier.work.merge_commands:merge_objects", only="object_count"),
    "UP31": Point("the bucket is signed, not reported", "tier.work.bucket_identity:sign_bucket"),
    # -- out of the archive -------------------------------------------------------------------------------------------
    "DL1": Point("a log start has moved in memory only", f"{_START}advance", only="itself"),
    "DL2": Point("a log start is written down, unanswered", "broker.replicas.record_deletion:_checkpoint"),
    "DL3": _before("the manifest is to hear of a log start", "tier.work.archive_commands:move_log_start"),
    "DL4": Point(
        "entries of a page are dropped, the manifest is not replaced", "tier.manifests.manifest:_drop_from_pages"
    ),
    "DL5": Point("what goes is in the trash, not reported", "tier.work.archive_commands:move_log_start"),
    "DL6": _before("the log start is reported, unknown", f"{_ARCHIVE}_log_start_moved"),
    "DL7": _before("the trash is looked at", "tier.work.removal_commands:_emptied"),
    "DL8": Point("a date for the trash is chosen, not written", "tier.bucket.trash:date_trash"),
    "DL9": _before("leases are to be listed", "tier.manifests.leases:list_leases"),
    "DL10": _before(
        "objects are to be deleted", f"{_STORE}delete_many", only="itself", simulated=f"{_MEMORY}delete_many"
    ),
    "DL11": Point(
        "one object is deleted, its neighbours are left",
        "tier.stores.local_files:LocalFiles.unlink",
        simulated=f"{_MEMORY}delete_many",
    ),
    "DL12": _before("objects are deleted, the trash still names them", "tier.bucket.trash:forget"),
    "DL13": Point(
        "objects are deleted and forgotten, not reported",
        "tier.work.removal_commands:empty_trash",
        only="removed_count",
    ),
    "DL14": _before("the emptied trash is reported, unknown", f"{_REMOVAL}_emptied", only="removed_count"),
    "DL15": _before("tiering is switched off, nothing is done", f"{_REMOVAL}_switch_off"),
    "DL16": Point(
        "the log start of the local disk is durable, the archive is live",
        "broker.archive.checkpoints:ArchiveCheckpoints.keep_log_start",
    ),
    "DL17": Point("an archive is moved to the trash, the manifest is not replaced", "tier.bucket.trash:trash_archive"),
    "DL18": Point("an archive is in the trash, not reported", "tier.work.removal_commands:trash_partition"),
    "DL19": _before("a switched-off archive is in the trash, unknown", f"{_REMOVAL}_trashed"),
    "DL20": _before("an archive is to begin again", "tier.work.removal_commands:archive_again"),
    "DL21": Point("an archive has begun again, not reported", "tier.work.removal_commands:archive_again"),
    "DL22": _before("a topic's deletion is to be noted", f"{_DELETED}note"),
    "DL23": Point("a topic's deletion is noted, not in the metadata log", f"{_DELETED}note"),
    "DL24": _before("a topic is deleted, its archive is not", f"{_DELETED}confirm", only="itself"),
    "DL25": _before("a deleted topic's archive is to go to the trash", "tier.work.removal_commands:trash_partition"),
    "DL26": _before("a deleted topic's archive is in the trash, unknown", f"{_DELETED}_trashed"),
    "DL27": _before("a deleted topic's archive is to be removed", "tier.work.removal_commands:remove_archive", nth=2),
    "DL28": Point(
        "a deleted topic's archive is gone, not reported",
        "tier.work.removal_commands:remove_archive",
        only="!left_count",
    ),
    "DL29": _before("a deleted topic's archive is gone, unknown", f"{_DELETED}_removed", only="!left_count"),
    "DL30": Point(
        "a deleted topic's description is gone, not reported", "tier.work.removal_commands:remove_topic_document"
    ),
    "DL31": _before("a deleted topic's description is gone, unknown", f"{_DELETED}_finish"),
    "DL32": _before("a removal is done, its note is on disk", f"{_DELETED}_write_now"),
    "DL33": _before("garbage is found", "tier.work.garbage_collection:_remove", only="garbage"),
    "DL34": Point("garbage is removed", "tier.work.garbage_collection:_remove"),
    # -- reading it back ----------------------------------------------------------------------------------------------
    "RD1": Point("the manifest is read for a reader, not reported", "tier.work.archive_commands:read_view"),
    "RD2": _before("the manifest is reported, unknown", f"{_REMOTE}_refreshed"),
    "RD3": Point("a chunk table is read, not reported", "tier.reading.fill:read_footer_of"),
    "RD4": _before("chunks are wanted", f"{_CHUNKS}_fill"),
    "RD5": Point("chunks are asked for", f"{_CHUNKS}_fill"),
    "RD6": _before("chunks are to be fetched", "tier.reading.fill:fill_chunks"),
    "RD7": _before("a chunk is fetched and checked, on no disk", "tier.reading.cache_files:write_chunk_file"),
    "RD8": _before("a cache file is written, unnamed", "tier.reading.cache_files:_name"),
    "RD9": Point("a cache file has its name, unsynced and not reported", "tier.reading.cache_files:write_chunk_file"),
    "RD10": Point("chunks are on the disk, not reported", "tier.reading.fill:fill_chunks"),
    "RD11": _before("a chunk is reported, not in the books", "tier.reading.cache:ChunkCache.filled"),
    "RD12": Point("a reader holds a chunk", f"{_CHUNKS}get", only="itself"),
    "RD13": _before("chunks are evicted from the books, files are left", f"{_CHUNKS}_remove", only="itself"),
    "RD14": Point("evicted files are handed over for removal", f"{_CHUNKS}_remove"),
    "RD15": _before("an earlier run's cache is to be looked through", "tier.reading.cache_files:scan_cache", nth=2),
    "RD16": Point(
        "an earlier run's cache is listed, not reported", "tier.reading.cache_files:scan_cache", only="files"
    ),
    "RD17": _before("an earlier run's cache is reported, not taken over", f"{_CHUNKS}_take_over", only="files"),
    "RD18": Point("an earlier run's cache is in the books, unchecked", f"{_CHUNKS}_take_over", nth=2),
    "RD19": Point("a chunk of an earlier run is checked, not reported", "tier.reading.fill:_cached", only="itself"),
}
"""By name. The number of a point is for the eye: nothing depends on the order."""


@contextmanager
def trapped(name: str, reached: Callable[[], object], *, simulated: bool = False, nth: int = 0) -> Iterator[None]:
    """While this is entered, the ``nth`` passing of a point (0: the point's own number) calls ``reached``, once.

    Raises `AttributeError` and `ImportError` if the code has no such place any more.
    """
    point = POINTS[name]
    target = (point.simulated if simulated else "") or point.target
    undo = _replace(target, functools.partial(_trap, point, _Count(nth or point.nth, reached)))
    try:
        yield
    finally:
        undo()


class _Count:
    """Counts passings down to the one that matters."""

    def __init__(self, left: int, reached: Callable[[], object]) -> None:
        self.left = left
        self.reached = reached

    def passed(self, point: Point, value: Any) -> None:
        if not _counts(point.only, value):
            return
        self.left -= 1
        if not self.left:
            self.reached()


def _counts(only: str, value: Any) -> bool:
    if only == "itself":
        return bool(value)
    if only.startswith("!"):
        return not getattr(value, only[1:], True)
    return not only or bool(getattr(value, only, False))


def _trap(point: Point, count: _Count, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def passing(*args: Any, **kwargs: Any) -> Any:
        if point.before:
            count.passed(point, args[-1])
            return function(*args, **kwargs)
        result = function(*args, **kwargs)
        count.passed(point, result)
        return result

    return passing


def _replace(target: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Callable[[], None]:
    """Put what ``wrap`` makes of a function in its place, wherever it was imported or listed; how to take it back."""
    owner, name, function = find(target)
    wrapped = wrap(function)
    modules = [module for key, module in list(sys.modules.items()) if key.startswith("stratalog")]
    undone: list[Callable[[], None]] = []
    for place in [owner, *(one for one in modules if one is not owner)]:
        if vars(place).get(name) is function:
            setattr(place, name, wrapped)
            undone.append(functools.partial(setattr, place, name, function))
        for table in list(vars(place).values()):
            if type(table) is not dict:
                continue
            for key in [key for key, value in table.items() if value is function]:
                table[key] = wrapped
                undone.append(functools.partial(table.__setitem__, key, function))

    def undo() -> None:
        for each in undone:
            each()

    return undo


def find(target: str) -> tuple[Any, str, Callable[..., Any]]:
    """Owner, name and function of a target. Raises `AttributeError`, `ImportError` if there is none."""
    importlib.import_module("stratalog.tier.work.work")
    module_name, _, path = target.partition(":")
    owner: Any = importlib.import_module(f"stratalog.{module_name}")
    *classes, name = path.split(".")
    for one in classes:
        owner = getattr(owner, one)
    if name not in vars(owner):
        raise AttributeError(f"{target}: {owner} has no function {name} of its own")
    return owner, name, vars(owner)[name]
