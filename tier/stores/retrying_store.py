"""Retry with a deadline: the loop around a store whose single attempts may fail."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from msgspec import Struct

from stratalog.tier.stores.ports import Timing
from stratalog.tier.stores.s3.put_id import own_version, with_put_id
from stratalog.tier.stores.source import source_length
from stratalog.tier.stores.store import (
    PUT_ID,
    AlreadyExists,
    Buffer,
    Metadata,
    ObjectStore,
    PreconditionFailed,
    Source,
    StoreError,
    StoreUnavailable,
    Version,
)
from stratalog.tier.stores.wrappers import Call, StoreWrapper

__all__ = ["RetryPolicy", "RetryingStore"]

T = TypeVar("T")
SAY_AFTER_S: Final = 3.0
"""A call that has failed for this long says once that it is being repeated, and why."""

log = logging.getLogger(__name__)


class RetryPolicy(Struct, frozen=True):
    """How long to go on and how long to wait in between.

    Waits are chosen evenly between 0 and a bound that doubles from ``first_wait_s`` to ``longest_wait_s`` ("full
    jitter"), so that many clients of a struggling store do not return together. No attempt begins later than
    ``deadline_s`` after the first; ``math.inf`` never gives up. As long as the store has never answered,
    ``first_deadline_s`` counts instead, if it is shorter: a store that cannot be reached at all is reported soon.
    """

    deadline_s: float = 60.0
    first_wait_s: float = 0.1
    longest_wait_s: float = 5.0
    first_deadline_s: float = math.inf

    def wait_bound_s(self, failures: int) -> float:
        """Return the longest wait after the given number of failures (1 or more)."""
        doublings = min(failures - 1, 64)
        return min(self.longest_wait_s, math.ldexp(self.first_wait_s, doublings))


class RetryingStore(StoreWrapper):
    """Repeats what fails with :class:`StoreUnavailable`; every other error is final.

    Conditional writes keep one ``put-id`` over all attempts: a refusal after a failure is compared with what is
    there, so a lost answer does not turn into :class:`AlreadyExists`. A lost ``compare_and_swap`` that another writer
    has replaced meanwhile stays :class:`PreconditionFailed`: only the object's own content can tell.
    """

    def __init__(self, inner: ObjectStore, policy: RetryPolicy | None = None, *, timing: Timing | None = None) -> None:
        super().__init__(inner)
        self._policy = policy or RetryPolicy()
        self._timing = timing or Timing()
        self._silent_until_s = -math.inf
        self._answered = False

    def put_if_absent(
        self,
        key: str,
        data: Source,
        *,
        crc32c: int | None = None,
        metadata: Metadata | None = None,
    ) -> Version:
        """As the port's."""
        marked = with_put_id(metadata)
        return self._conditionally(
            Call("put_if_absent", key, source_length(data)),
            marked[PUT_ID],
            lambda: self.inner.put_if_absent(key, data, crc32c=crc32c, metadata=marked),
        )

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
        marked = with_put_id(metadata)
        return self._conditionally(
            Call("compare_and_swap", key, source_length(data)),
            marked[PUT_ID],
            lambda: self.inner.compare_and_swap(key, data, expected, crc32c=crc32c, metadata=marked),
        )

    def _conditionally(self, call: Call, put_id: str, write: Callable[[], Version]) -> Version:
        answer_lost = False

        def attempt() -> Version:
            nonlocal answer_lost
            try:
                return write()
            except StoreUnavailable:
                answer_lost = True
                raise
            except (AlreadyExists, PreconditionFailed):
                own = own_version(self.inner, call.key, put_id) if answer_lost else None
                if own is None:
                    raise
                return own

        return self._around(call, attempt)

    def _around(self, call: Call, run: Callable[[], T]) -> T:
        del call
        started_s = self._timing.now_s()
        failures = 0
        while True:
            try:
                result = run()
            except StoreUnavailable as error:
                failures += 1
                wait_s = self._timing.random.uniform(0.0, self._policy.wait_bound_s(failures))
                elapsed_s = self._timing.now_s() - started_s
                if elapsed_s + wait_s > self._deadline_s:
                    error.add_note(f"Gave up after {failures} attempts in {elapsed_s:.1f} s.")
                    raise
                self._say(error, elapsed_s + wait_s)
            except StoreError:
                self._answered = True
                raise
            else:
                self._answered = True
                return result
            self._timing.sleep_s(wait_s)

    @property
    def _deadline_s(self) -> float:
        policy = self._policy
        return policy.deadline_s if self._answered else min(policy.deadline_s, policy.first_deadline_s)

    def _say(self, error: StoreUnavailable, elapsed_s: float) -> None:
        """Log what is being waited for: once in the time that one call may take, however many calls wait at once."""
        now_s = self._timing.now_s()
        if elapsed_s < SAY_AFTER_S or now_s < self._silent_until_s:
            return
        self._silent_until_s = now_s + min(self._deadline_s, 60.0)
        limit = f", for at most {self._deadline_s:.0f} s in all" if math.isfinite(self._deadline_s) else ""
        log.warning("no success for %.0f s, trying again%s: %s", elapsed_s, limit, error)
