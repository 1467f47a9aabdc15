"""A deep verification of a bucket, its objects read by Spark's tasks instead of by this process.

Three steps. The driver reads the manifests for what there is to read; tasks read objects, each from the first byte to the
last; then the driver verifies the bucket as `stratalog tier verify --deep` does, but takes what the tasks found instead of
reading those objects. So a bucket that changes meanwhile is judged by the same rules: what left the archive since is not
missed, and what came since is read here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, NamedTuple, ParamSpec, TypeVar, cast

from stratalog.spark.archive_store import open_archive
from stratalog.tier.bucket.walk import PartitionFolder
from stratalog.tier.care.verify import iter_folders, verify_bucket
from stratalog.tier.care.verify_object import verify_object_bytes
from stratalog.tier.care.verify_partition import PartitionReport, VerifyOptions
from stratalog.tier.documents.keys import PartitionId
from stratalog.tier.manifests.anomaly import Anomaly, AnomalyKind
from stratalog.tier.manifests.entry import Entry
from stratalog.tier.manifests.loose_manifest import page_entries, read_loosely
from stratalog.tier.stores.store import NotFound, ObjectStore
from stratalog.wire.errors import Corrupt

if TYPE_CHECKING:
    from stratalog.spark.sessions.spark_tasks import SparkTasks

__all__ = ["KnownFindings", "ObjectToRead", "divide", "objects_to_read", "read_objects", "verify_on_spark"]

P = ParamSpec("P")
R = TypeVar("R")

_THREADS: Final = 16
_READERS: Final = 4
"""Objects that a task reads side by side: most of the time it waits for the store."""
_TASKS_PER_CORE: Final = 4
_TASK_BYTES_MIN: Final = 64 << 20
_TASK_BYTES_MAX: Final = 2 << 30
"""A task that is lost is read again: not more than this."""


class ObjectToRead(NamedTuple):
    """An object that a manifest names."""

    partition: PartitionId
    entry: Entry


def verify_on_spark(
    spark: SparkTasks,
    url: str,
    store_options: Mapping[str, str],
    options: VerifyOptions,
    *,
    topics: Collection[str] = (),
    on_progress: Callable[[int, int], object] = lambda _, __: None,
) -> Iterator[PartitionReport]:
    """A report for each partition of the bucket at ``url``, as `verify_bucket` gives it with ``deep``.

    ``store_options`` are those named ``s3.…``. ``on_progress`` hears of the bytes that tasks have read, and of all that
    they will. Raises `TaskFailed` where a task could not read (a damaged object is no failure), `NewerManifest`, and what
    the store raises.
    """
    store = open_archive(url, store_options)
    objects = objects_to_read(store, topics)
    tasks = divide(objects, spark.spark.sparkContext.defaultParallelism)
    total_bytes = sum(each.entry.size_bytes for each in objects)

    def read(task: Sequence[ObjectToRead]) -> list[list[Anomaly]]:
        return read_objects(open_archive(url, store_options), task)

    def ended(count: int) -> None:
        on_progress(total_bytes * count // len(tasks), total_bytes)

    found = spark.run(f"verification of {url}", tasks, read, ended) if tasks else []
    known = zip((each for task in tasks for each in task), (each for task in found for each in task), strict=True)
    with KnownFindings({each.entry.key: (each.entry, anomalies) for each, anomalies in known}) as readers:
        yield from verify_bucket(store, options._replace(deep=True), topics=topics, readers=readers)


def objects_to_read(store: ObjectStore, topics: Collection[str] = ()) -> list[ObjectToRead]:
    """Objects that the manifests name now, of ``topics`` or of all if there are none.

    A manifest or page that cannot be read is passed over: the verification itself tells of it. Raises `NewerManifest`,
    and what the store raises.
    """
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="stratalog-manifests") as pool:
        found = pool.map(lambda each: _named(store, *each), iter_folders(store, topics))
        return [each for objects in found for each in objects]


def _named(store: ObjectStore, folder: PartitionFolder, name: str) -> list[ObjectToRead]:
    partition = folder.identity(name)
    manifest = read_loosely(store, partition).manifest
    if manifest is None:
        return []
    entries: list[Entry] = []
    for ref in manifest.pages:
        try:
            entries += page_entries(store, manifest, ref)
        except (NotFound, Corrupt):
            continue
    return [ObjectToRead(partition, entry) for entry in (*entries, *manifest.entries)]


def divide(objects: Sequence[ObjectToRead], core_count: int) -> list[list[ObjectToRead]]:
    """Tasks of about equal bytes: some for each core, none too small to be worth one, none too large to be read again."""
    total_bytes = sum(each.entry.size_bytes for each in objects)
    share_bytes = total_bytes // (core_count * _TASKS_PER_CORE)
    task_bytes = min(max(share_bytes, _TASK_BYTES_MIN), _TASK_BYTES_MAX)
    tasks: list[list[ObjectToRead]] = []
    left_bytes = 0
    for each in objects:
        if not tasks or left_bytes < each.entry.size_bytes:
            tasks.append([])
            left_bytes = task_bytes
        tasks[-1].append(each)
        left_bytes -= each.entry.size_bytes
    return tasks


def read_objects(store: ObjectStore, objects: Sequence[ObjectToRead]) -> list[list[Anomaly]]:
    """Verify each of ``objects``; every byte is read. Raises what the store raises."""
    with ThreadPoolExecutor(_READERS, thread_name_prefix="stratalog-verify") as pool:
        return list(pool.map(lambda each: verify_object_bytes(store, each.partition, each.entry), objects))


class KnownFindings(Executor):
    """Stands for the threads that read objects: answers with what is known of an object, and reads those for which
    nothing is known, or which were not there when they were looked for.
    """

    def __init__(self, known: Mapping[str, tuple[Entry, list[Anomaly]]]) -> None:
        self._known = known
        self._pool = ThreadPoolExecutor(_READERS, thread_name_prefix="stratalog-verify")
        self.read_count = 0
        """Objects that were read here."""

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """The findings about the object, if ``fn`` is `verify_object_bytes`, which everything here is."""
        entry = cast("Entry", args[2])
        before, anomalies = self._known.get(entry.key, (None, []))
        if before != entry or any(each.kind is AnomalyKind.MISSING_OBJECT for each in anomalies):
            self.read_count += 1
            return self._pool.submit(fn, *args, **kwargs)
        future: Future[Any] = Future()
        future.set_result(anomalies)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the threads."""
        self._pool.shutdown(wait, cancel_futures=cancel_futures)
