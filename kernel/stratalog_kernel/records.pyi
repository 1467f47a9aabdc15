from typing import Final

import numpy as np
import numpy.typing as npt

INTERFACE: Final[int]

def decode(
    payload: bytes,
    batches: npt.NDArray[np.int64],
    window: tuple[int, int] | None,
    depth: int,
    rows: npt.NDArray[np.int64],
    offsets: npt.NDArray[np.int64],
    times: npt.NDArray[np.int64],
    keys: npt.NDArray[np.uint8] | None,
    values: npt.NDArray[np.uint8] | None,
    ends: npt.NDArray[np.int32],
    valid: npt.NDArray[np.uint8],
    tails: npt.NDArray[np.int32],
) -> tuple[int, int, int] | None: ...
