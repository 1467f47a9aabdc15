"""Stores around stores: the port again, with something added.

:class:`StoreWrapper` sends every request of the port through one method, so that a wrapper that counts, retries or
breaks things says so once. A request is what a bucket would bill: a page of a listing, a batch of deletions.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from msgspec import Struct

from stratalog.tier.stores.file_backed import Look, SeenBytes, file_of, look_through
from stratalog.tier.stores.object_copy import CopiesItself
from stratalog.tier.stores.ports import Timing
from stratalog.tier.stores.source import source_length
from stratalog.tier.stores.store import (
    Buffer,
    Capabilities,
    Metadata,
    ObjectInfo,
    ObjectStore,
    Source,
    UploadInfo,
    Version,
)

__all__ = [
    "Call",
    "CountedRequest",
    "CountingStore",
    "StoreWrapper",
    "received_bytes",
]

T = TypeVar("T")

_PAGE_COUNT = 1000


class Call(Struct, frozen=True):
    """One request: the port's method, the key (or prefix), how many bytes it sends and how many it asks for.

    ``asked_bytes`` is 0 where the answer's size is not known beforehand.
    """

    operation: str
    key: str
    sent_bytes: int = 0
    asked_bytes: int = 0


def received_bytes(result: object) -> int:
    """Return how many object bytes an answer of the port carries."""
    if isinstance(result, tuple) and result and isinstance(result[0], bytes):
        return len(result[0])
    if isinstance(result, SeenBytes):
        return result.count
    return len(result) if isinstance(result, bytes) else 0


class StoreWrapper:
    """Every call goes to ``inner`` through :meth:`_around`, which a subclass overrides.

    ``run`` may be called again: it repeats the whole request (a listing goes on after the last key that was seen).
    """

    def __init__(self, inner: ObjectStore) -> None:
        self.inner = inner

    @property
    def url(self) -> str:
        """Where the wrapped store is."""
        return self.inner.url

    @property
    def capabilities(self) -> Capabilities:
        """The guarantees of the wrapped store."""
        return self.inner.capabilities

    def _around(self, call: Call, run: Callable[[], T]) -> T:
        del call
        return run()

    def put(
        self,
        key: str,
        data: Buffer | Sequence[Buffer],
        *,
        crc32c: int | None = None,
        metadata: Metadata | None = None,
    ) -> Version:
        """As the port's."""
        call = Call("put", key, source_length(data))
        return self._around(call, lambda: self.inner.put(key, data, crc32c=crc32c, metadata=metadata))

    def put_if_absent(
        self,
        key: str,
        data: Source,
        *,
        crc32c: int | None = None,
        metadata: Metadata | None = None,
    ) -> Version:
        """As the port's."""
        call = Call("put_if_absent", key, source_length(data))
        return self._around(call, lambda: self.inner.put_if_absent(key, data, crc32c=crc32c, metadata=metadata))

    def compare_and_swap(
        self,
        key: str,
        data: Buffer | Sequence[Buffer],
        expected: Version,
        *,
        crc32c: int | None = None,
        metadata: Metadata | None = None,
    ) -> Version:
        """As the port's."""
        call = Call("compare_and_swap", key, source_length(data))
        return self._around(
            call, lambda: self.inner.compare_and_swap(key, data, expected, crc32c=crc32c, metadata=metadata)
        )

    def put_large(self, key: str, source: Source, *, part_bytes: int, metadata: Metadata | None = None) -> Version:
        """As the port's; one call, however many parts."""
        call = Call("put_large", key, source_length(source))
        return self._around(call, lambda: self.inner.put_large(key, source, part_bytes=part_bytes, metadata=metadata))

    def get(self, key: str) -> tuple[bytes, Version]:
        """As the port's."""
        return self._around(Call("get", key), lambda: self.inner.get(key))

    def get_range(self, key: str, position: int, length: int) -> bytes:
        """As the port's."""
        call = Call("get_range", key, asked_bytes=length)
        return self._around(call, lambda: self.inner.get_range(key, position, length))

    def get_suffix(self, key: str, length: int) -> tuple[bytes, int]:
        """As the port's."""
        return self._around(Call("get_suffix", key, asked_bytes=length), lambda: self.inner.get_suffix(key, length))

    def head(self, key: str) -> ObjectInfo:
        """As the port's."""
        return self._around(Call("head", key), lambda: self.inner.head(key))

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """As the port's, a page of 1000 at a time."""
        while True:
            page = self._around(Call("list", prefix), self._page_reader(prefix, start_after))
            yield from page
            if len(page) < _PAGE_COUNT:
                return
            start_after = page[-1].key

    def _page_reader(self, prefix: str, start_after: str) -> Callable[[], tuple[ObjectInfo, ...]]:
        return lambda: tuple(islice(self.inner.list(prefix, start_after), _PAGE_COUNT))

    def delete_many(self, keys: Iterable[str]) -> None:
        """As the port's, 1000 at a time."""
        remaining = iter(keys)
        while batch := tuple(islice(remaining, _PAGE_COUNT)):
            self._around(Call("delete_many", batch[0]), self._deleter(batch))

    def _deleter(self, batch: Sequence[str]) -> Callable[[], None]:
        return lambda: self.inner.delete_many(batch)

    def list_uploads(self, prefix: str) -> Iterator[UploadInfo]:
        """As the port's."""
        yield from self._around(Call("list_uploads", prefix), lambda: tuple(self.inner.list_uploads(prefix)))

    def abort_upload(self, key: str, upload_id: str) -> None:
        """As the port's."""
        self._around(Call("abort_upload", key), lambda: self.inner.abort_upload(key, upload_id))

    def file_of(self, key: str) -> str | None:
        """As the wrapped store's; no request."""
        return file_of(self.inner, key)

    def look_through(self, key: str, position: int, length: int, look: Look) -> SeenBytes:
        """As the wrapped store's; a request like `get_range`."""
        call = Call("get_range", key, asked_bytes=length)
        return self._around(call, lambda: look_through(self.inner, key, position, length, look))

    def copy_inside(self, key: str, target_key: str) -> bool:
        """As the wrapped store's, if it copies by itself."""
        inner = self.inner
        if not isinstance(inner, CopiesItself):
            return False
        return self._around(Call("copy", key), lambda: inner.copy_inside(key, target_key))


class CountedRequest(Struct, frozen=True):
    """A request that was made: ``outcome`` is ``ok`` or the name of the error raised."""

    operation: str
    key: str
    sent_bytes: int
    received_bytes: int
    outcome: str
    duration_s: float


class CountingStore(StoreWrapper):
    """Counts requests and bytes, keeps the last ``log_count`` requests, and tells ``on_request`` (for metrics).

    ``on_request`` is called on the thread that made the request.
    """

    def __init__(
        self,
        inner: ObjectStore,
        *,
        log_count: int = 1000,
        on_request: Callable[[CountedRequest], None] | None = None,
        timing: Timing | None = None,
    ) -> None:
        super().__init__(inner)
        self._on_request = on_request
        self._now_s = (timing or Timing()).now_s
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str], int] = {}
        self.requests: deque[CountedRequest] = deque(maxlen=log_count)
        self.sent_bytes = 0
        self.received_bytes = 0

    def count(self, operation: str | None = None, outcome: str | None = None) -> int:
        """Return how many requests there were, of one operation or outcome where given."""
        with self._lock:
            return sum(
                number
                for (made, ended), number in self._counts.items()
                if operation in {None, made} and outcome in {None, ended}
            )

    def _around(self, call: Call, run: Callable[[], T]) -> T:
        started_s = self._now_s()
        try:
            result = run()
        except Exception as error:
            self._record(call, 0, type(error).__name__, started_s)
            raise
        self._record(call, received_bytes(result), "ok", started_s)
        return result

    def _record(self, call: Call, received: int, outcome: str, started_s: float) -> None:
        duration_s = self._now_s() - started_s
        request = CountedRequest(call.operation, call.key, call.sent_bytes, received, outcome, duration_s)
        with self._lock:
            at = (call.operation, outcome)
            self._counts[at] = self._counts.get(at, 0) + 1
            self.sent_bytes += call.sent_bytes
            self.received_bytes += received
            self.requests.append(request)
        if self._on_request is not None:
            self._on_request(request)
