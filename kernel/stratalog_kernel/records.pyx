# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The records of batches, read in one pass. Every byte that is read or written is checked to lie inside its buffer.

Odd input is refused, not explained: the caller has a slower path, which decides and finds the words. So a refusal
is always right, and a row is given only if it is beyond doubt. It runs without the GIL.
"""

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

INTERFACE = 1

cdef int64_t TIME_MS_MAX = 9223372036854775  # in microseconds it has 64 bits

cdef enum:
    RECORD_BYTES_MIN = 7
    SHIFT_MAX = 63
    SHORT_BYTES = 256
    AHEAD_BYTES = 2048
    LINE_BYTES = 64

cdef enum:
    TIMES = 0
    KEYS = 1
    VALUES = 2
    HEADERS = 3

cdef enum:
    BEGIN = 0
    END = 1
    COUNT = 2
    BASE_OFFSET = 3
    BASE_TIME = 4
    ONE_TIME = 5
    BATCH_FIELDS = 6


cdef struct Out:
    const uint8_t* payload_end
    int64_t* offsets
    int64_t* times
    uint8_t* keys
    uint8_t* keys_end
    int32_t* key_ends
    uint8_t* key_valid
    uint8_t* values
    uint8_t* values_end
    int32_t* value_ends
    uint8_t* value_valid
    int32_t* tails
    int32_t* record_ends


cdef struct Found:
    int64_t rows
    int64_t key_bytes
    int64_t value_bytes
    int64_t key_nulls
    int64_t value_nulls


cdef extern from *:
    """
    #if defined(__GNUC__)
    #define prefetch(address) __builtin_prefetch(address)
    #else
    #define prefetch(address) ((void) (address))
    #endif
    """
    void prefetch(const void* address) noexcept nogil


cdef struct Window:
    bint cut
    int64_t start_offset
    int64_t end_offset


cdef const uint8_t* long_varint(const uint8_t* at, const uint8_t* end, int64_t* value) noexcept nogil:
    """Behind the varint at ``at``, or NULL if it reaches ``end`` or does not fit into 64 bits."""
    cdef uint64_t raw = 0
    cdef uint64_t byte
    cdef int shift = 0
    while at < end:
        byte = at[0]
        at += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            if shift == SHIFT_MAX and byte > 1:
                return NULL
            value[0] = <int64_t> (raw >> 1) ^ -<int64_t> (raw & 1)
            return at
        shift += 7
        if shift > SHIFT_MAX:
            return NULL
    return NULL


cdef inline const uint8_t* varint(const uint8_t* at, const uint8_t* end, int64_t* value) noexcept nogil:
    """As `long_varint`, quick for one byte and for two."""
    cdef uint64_t raw
    if at < end and at[0] < 0x80:
        raw = at[0]
        value[0] = <int64_t> (raw >> 1) ^ -<int64_t> (raw & 1)
        return at + 1
    if end - at >= 2 and at[1] < 0x80:
        raw = (at[0] & 0x7F) | (<uint64_t> at[1] << 7)
        value[0] = <int64_t> (raw >> 1) ^ -<int64_t> (raw & 1)
        return at + 2
    return long_varint(at, end, value)


cdef inline void copy(
    uint8_t* to, const uint8_t* to_end, const uint8_t* source, const uint8_t* source_end, int64_t length
) noexcept nogil:
    """Copy ``length`` bytes, which both sides have.

    For short fields, one of a few fixed sizes is copied, where both sides have that many: a branch that depends on the length
    costs more than bytes that the next field overwrites.
    """
    if length > SHORT_BYTES or to_end - to < SHORT_BYTES or source_end - source < SHORT_BYTES:
        memcpy(to, source, length)
    elif length <= 16:
        memcpy(to, source, 16)
    elif length <= 64:
        memcpy(to, source, 64)
    elif length <= 128:
        memcpy(to, source, 128)
    else:
        memcpy(to, source, SHORT_BYTES)


cdef bint batch_rows(
    const uint8_t* payload, const int64_t* batch, Window window, int depth, const Out* out, Found* found
) noexcept nogil:
    """Append the rows of one batch; False if it is odd."""
    cdef const uint8_t* at = payload + batch[BEGIN]
    cdef const uint8_t* batch_end = payload + batch[END]
    cdef const uint8_t* end
    cdef int64_t length, delta, offset, time_ms
    cdef int64_t row = found.rows
    cdef int64_t key_bytes = found.key_bytes
    cdef int64_t value_bytes = found.value_bytes
    cdef int64_t number
    cdef bint one_time = batch[ONE_TIME]
    for number in range(batch[COUNT]):
        at = varint(at, batch_end, &length)
        if at == NULL or length < RECORD_BYTES_MIN - 1 or length > batch_end - at:
            return False
        end = at + length
        if out.payload_end - end > AHEAD_BYTES + LINE_BYTES:
            # Records lead to one another, so the processor would wait for the bytes of each in turn.
            prefetch(end + AHEAD_BYTES)
            prefetch(end + AHEAD_BYTES + LINE_BYTES)
        at = varint(at + 1, end, &delta)  # a byte of attributes that no version uses comes first
        if at == NULL:
            return False
        if one_time:
            delta = 0
        time_ms = <int64_t> (<uint64_t> batch[BASE_TIME] + <uint64_t> delta)
        if time_ms > TIME_MS_MAX:  # what Spark's timestamps hold, as `columns.timestamp_column` has it
            time_ms = TIME_MS_MAX
        elif time_ms < -TIME_MS_MAX:
            time_ms = -TIME_MS_MAX
        out.times[row] = time_ms * 1000
        at = varint(at, end, &delta)
        if at == NULL:
            return False
        offset = <int64_t> (<uint64_t> batch[BASE_OFFSET] + <uint64_t> delta)
        if window.cut and (offset < window.start_offset or offset >= window.end_offset):
            at = end
            continue
        out.offsets[row] = offset
        if depth >= KEYS:
            at = varint(at, end, &length)
            if at == NULL or length > end - at - 2:  # the value's length and the number of headers follow
                return False
            if length < 0:
                out.key_valid[row >> 3] &= ~(1 << (row & 7))
                found.key_nulls += 1
                length = 0
            if out.keys != NULL:
                copy(out.keys + key_bytes, out.keys_end, at, out.payload_end, length)
                key_bytes += length
                out.key_ends[row + 1] = <int32_t> key_bytes
            at += length
        if depth >= VALUES:
            at = varint(at, end, &length)
            if at == NULL or length > end - at - 1:
                return False
            if length < 0:
                out.value_valid[row >> 3] &= ~(1 << (row & 7))
                found.value_nulls += 1
                length = 0
            if out.values != NULL:
                copy(out.values + value_bytes, out.values_end, at, out.payload_end, length)
                value_bytes += length
                out.value_ends[row + 1] = <int32_t> value_bytes
            at += length
        if depth >= HEADERS:
            out.tails[row] = <int32_t> (at - payload)
            out.record_ends[row] = <int32_t> (end - payload)
        row += 1
        at = end
    found.rows = row
    found.key_bytes = key_bytes
    found.value_bytes = value_bytes
    return at == batch_end


def decode(
    const uint8_t[::1] payload not None,
    const int64_t[:, ::1] batches not None,
    window,
    int depth,
    int64_t[::1] rows not None,
    int64_t[::1] offsets not None,
    int64_t[::1] times not None,
    uint8_t[::1] keys,
    uint8_t[::1] values,
    int32_t[:, ::1] ends not None,
    uint8_t[:, ::1] valid not None,
    int32_t[:, ::1] tails not None,
):
    """Offsets, times, keys and values of the records of batches, in their order.

    For each batch ``batches`` has where its records begin and end in ``payload``, their number, the offset and the time in
    ms that their deltas count from, and 1 if that time is the time of all of them, else 0. With ``window``, as start and
    end, only records with an offset in it are rows. ``depth`` says how far into records to look: 0 for offsets and times
    alone, 1 for keys too, 2 for values too, 3 for where headers begin.

    Filled are ``rows`` of each batch; ``offsets`` and ``times`` (in microseconds) of each row; all keys behind one another
    in ``keys``, and values in ``values``, which may be None if they are not wanted; in ``ends`` a 0 and the bytes up to
    the end of each key (value); in ``tails`` where in ``payload`` the number of headers stands, and where the record ends.
    In ``valid`` a bit is cleared where key (value) is null.

    Returns the numbers of rows, null keys and null values; None if the records are in any way odd, which may leave
    anything in what was to be filled. Raises `ValueError` for batches outside ``payload``, and for arrays without room for all
    records; keys and values need as many bytes as the batches have.
    """
    cdef int64_t size = payload.shape[0]
    cdef int64_t total = 0
    cdef int64_t room = 0
    cdef Py_ssize_t number
    cdef Window cut = Window(window is not None, 0, 0)
    cdef Out out
    cdef Found found = Found(0, 0, 0, 0, 0)
    cdef int64_t before
    cdef bint sound = True
    memset(&out, 0, sizeof(Out))
    if window is not None:
        cut.start_offset, cut.end_offset = window
    if size > INT32_MAX:
        return None
    if depth < TIMES or depth > HEADERS or batches.shape[1] != BATCH_FIELDS or rows.shape[0] < batches.shape[0]:
        raise ValueError("depth, batches or rows are not as described")
    for number in range(batches.shape[0]):
        if not 0 <= batches[number, BEGIN] <= batches[number, END] <= size:
            raise ValueError(f"batch {number} lies outside the payload of {size} bytes")
        if not 0 <= batches[number, COUNT] <= (batches[number, END] - batches[number, BEGIN]) // RECORD_BYTES_MIN:
            return None
        total += batches[number, COUNT]
        room += batches[number, END] - batches[number, BEGIN]
    if room > INT32_MAX:
        return None
    if offsets.shape[0] < total or times.shape[0] < total or (
        depth == HEADERS and (tails.shape[0] < 2 or tails.shape[1] < total)
    ):
        raise ValueError(f"offsets, times or tails have less room than {total} records need")
    if depth >= KEYS and (
        ends.shape[0] < min(depth, VALUES) or ends.shape[1] <= total
        or valid.shape[0] < min(depth, VALUES) or valid.shape[1] < (total + 7) // 8
    ):
        raise ValueError(f"ends or valid have less room than {total} records need")
    if (keys is not None and keys.shape[0] < room) or (values is not None and values.shape[0] < room):
        raise ValueError(f"keys or values have less room than the {room} bytes of the batches")
    if depth >= KEYS:
        ends[:, 0] = 0
    if total == 0:
        for number in range(batches.shape[0]):
            rows[number] = 0
            sound &= batches[number, BEGIN] == batches[number, END]
        return (0, 0, 0) if sound else None
    out.payload_end = &payload[0] + size
    out.offsets = &offsets[0]
    out.times = &times[0]
    if depth >= KEYS:
        out.key_ends = &ends[0, 0]
        out.key_valid = &valid[0, 0]
        if keys is not None:
            out.keys = &keys[0]
            out.keys_end = out.keys + keys.shape[0]
    if depth >= VALUES:
        out.value_ends = &ends[1, 0]
        out.value_valid = &valid[1, 0]
        if values is not None:
            out.values = &values[0]
            out.values_end = out.values + values.shape[0]
    if depth == HEADERS:
        out.tails = &tails[0, 0]
        out.record_ends = &tails[1, 0]
    with nogil:
        for number in range(batches.shape[0]):
            before = found.rows
            sound = batch_rows(&payload[0], &batches[number, 0], cut, depth, &out, &found)
            if not sound:
                break
            rows[number] = found.rows - before
    return (found.rows, found.key_nulls, found.value_nulls) if sound else None
