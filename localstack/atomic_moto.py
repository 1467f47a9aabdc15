"""moto, with writes on a condition that are decided one at a time, as Amazon decides them.

moto looks whether an object is there and stores the new one in two steps. Two threads of its server that are between the
two let both writers win, which no S3 service may do. `decide_one_at_a_time` puts a lock around both steps.

    python localstack/atomic_moto.py -H 127.0.0.1 -p 5000      # the options of moto.server
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from moto.s3.responses import S3Response
from moto.server import main

DECIDING = ("put_object", "_key_response_post")
"""The methods of `S3Response` that look at a condition and store: a put, and the end of a multipart upload."""


def decide_one_at_a_time() -> None:
    """Put one lock around the writes of every S3 server that this process runs; a second call does nothing.

    A request's body has been read before, so a slow client holds no other one up.
    """
    if hasattr(S3Response.put_object, "__wrapped__"):
        return
    # A write may store by way of another one, in the same thread.
    deciding = threading.RLock()
    for name in DECIDING:
        setattr(S3Response, name, _locked(getattr(S3Response, name), deciding))


def _locked(method: Callable[..., Any], deciding: threading.RLock) -> Callable[..., Any]:
    @functools.wraps(method)
    def decide(*args: Any, **options: Any) -> Any:
        with deciding:
            return method(*args, **options)

    return decide


if __name__ == "__main__":
    decide_one_at_a_time()
    main()
