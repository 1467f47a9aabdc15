"""A client whose credentials are found anew when the service says that they have expired.

boto3 renews by itself what has a known end: roles, web identities, credential processes, instance and container
metadata. It reads once and keeps the keys and tokens of the shared files, which agents rotate on disk, and of
anything whose clock differs from the service's. A call refused for that reason did nothing, so it is made once more
with a client made anew, from everything boto3 knows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from stratalog.tier.stores.ports import Timing

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

__all__ = ["RENEWAL_PAUSE_S", "RenewingClient", "says_expired"]

RENEWAL_PAUSE_S = 10.0
"""Credentials are not looked for again sooner than this: a client costs half a second of processor time."""

_EXPIRED = frozenset(
    {
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidAccessKeyId",
        "InvalidToken",
        "RequestExpired",
        "TokenRefreshRequired",
        "400",  # a HEAD has no body to name the code in
    }
)


def says_expired(code: str) -> bool:
    """Whether an S3 error code may mean that newer credentials would have been accepted."""
    return code in _EXPIRED


class RenewingClient:
    """The calls of the boto3 client that ``make`` makes; see the module. Thread-safe, like the client."""

    def __init__(self, make: Callable[[], S3Client], *, timing: Timing | None = None) -> None:
        self._make = make
        self._now_s = (timing or Timing()).now_s
        self._lock = threading.Lock()
        self._client = make()
        self._renewed_s: float | None = None

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        return partial(self._call, name) if callable(found) else found

    def _call(self, name: str, **arguments: Any) -> Any:
        from botocore.exceptions import ClientError  # noqa: PLC0415 - slow, so only where S3 is used

        client = self._client
        try:
            return getattr(client, name)(**arguments)
        except ClientError as error:
            if not says_expired(str(error.response.get("Error", {}).get("Code", ""))) or not self._renew(client):
                raise
        rewind = getattr(arguments.get("Body"), "seek", None)
        if rewind is not None:  # the refused call may have read it
            rewind(0)
        return getattr(self._client, name)(**arguments)

    def _renew(self, refused: S3Client) -> bool:
        """Make a new client unless that was done a moment ago; whether there is another than ``refused``."""
        with self._lock:
            if self._client is not refused:
                return True
            now_s = self._now_s()
            if self._renewed_s is not None and now_s - self._renewed_s < RENEWAL_PAUSE_S:
                return False
            self._renewed_s = now_s
            self._client = self._make()
            return True
