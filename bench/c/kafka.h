// What the load generator and the limit server share: byte order, CRC-32C, record batches, sockets and clocks.
#pragma once
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#ifdef __SSE4_2__
#include <nmmintrin.h>
#endif

#define CLIENT_ID "bench"
#define CLIENT_ID_BYTES 5
#define BATCH_HEADER_BYTES 61
#define API_PRODUCE 0
#define API_FETCH 1

// Offsets of fields inside a record batch of format v2.
enum { BATCH_LENGTH = 8, BATCH_MAGIC = 16, BATCH_CRC = 17, BATCH_ATTRIBUTES = 21, BATCH_RECORD_COUNT = 57 };

static inline void die(const char *what) {
    perror(what);
    exit(1);
}

static inline uint8_t *put16(uint8_t *at, unsigned value) {
    at[0] = value >> 8;
    at[1] = value;
    return at + 2;
}

static inline uint8_t *put32(uint8_t *at, uint32_t value) {
    value = htonl(value);
    memcpy(at, &value, 4);
    return at + 4;
}

static inline uint8_t *put64(uint8_t *at, uint64_t value) { return put32(put32(at, value >> 32), value); }

static inline uint8_t *put_bytes(uint8_t *at, const void *bytes, size_t length) {
    memcpy(at, bytes, length);
    return at + length;
}

// A zigzag varint of a number that is not negative.
static inline uint8_t *put_varint(uint8_t *at, uint32_t value) {
    for (value <<= 1; value > 127; value >>= 7) *at++ = value | 128;
    *at++ = value;
    return at;
}

static inline uint32_t get32(const uint8_t *at) {
    uint32_t value;
    memcpy(&value, at, 4);
    return ntohl(value);
}

static inline uint64_t get64(const uint8_t *at) { return (uint64_t)get32(at) << 32 | get32(at + 4); }

// CRC-32C, to be continued: begin with `crc` 0.
static inline uint32_t crc32c(uint32_t crc, const uint8_t *data, size_t length) {
    crc = ~crc;
#ifdef __SSE4_2__
    uint64_t wide = crc;
    for (; length >= 8; data += 8, length -= 8) {
        uint64_t word;
        memcpy(&word, data, 8);
        wide = _mm_crc32_u64(wide, word);
    }
    crc = wide;
    while (length--) crc = _mm_crc32_u8(crc, *data++);
#else
    while (length--) {
        crc ^= *data++;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
#endif
    return ~crc;
}

static inline double now_seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

// A batch of real records (100 bytes of value each, the last one a little longer) of nearly `size_bytes`. Returns its
// length. The broker checks its header and CRC; Kafka itself, which iterates over the records, accepts it as well.
static inline size_t build_batch(uint8_t *batch, size_t size_bytes, uint32_t *record_count) {
    uint8_t *at = batch + BATCH_HEADER_BYTES;
    uint32_t count = 0;
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    uint64_t timestamp_ms = time.tv_sec * 1000ull + time.tv_nsec / 1000000;
    for (;; count++) {
        size_t left = at - batch < (ssize_t)size_bytes ? size_bytes - (at - batch) : 0;
        if (count && left < 120) break;
        uint8_t head[16];
        uint32_t value_bytes = left < 240 ? (left > 40 ? left - 20 : 20) : 100;
        uint8_t *end = put_varint(head + 2, count);
        head[0] = head[1] = 0;                     // attributes, timestamp delta
        *end++ = 1;                                // the key is null
        end = put_varint(end, value_bytes);
        at = put_varint(at, end - head + value_bytes + 1);
        at = put_bytes(at, head, end - head);
        for (uint32_t i = 0; i < value_bytes; i++) *at++ = 'a' + (i * 7 + count) % 26;
        *at++ = 0;                                 // no headers
    }
    size_t length = at - batch;
    put64(batch, 0);
    put32(batch + BATCH_LENGTH, length - 12);
    put32(batch + 12, 0);                          // partition leader epoch
    batch[BATCH_MAGIC] = 2;
    put32(put16(batch + BATCH_ATTRIBUTES, 0), count - 1);
    put64(put64(batch + 27, timestamp_ms), timestamp_ms);
    memset(batch + 43, 0xff, 14);                  // no producer
    put32(batch + BATCH_RECORD_COUNT, count);
    put32(batch + BATCH_CRC, crc32c(0, batch + BATCH_ATTRIBUTES, length - BATCH_ATTRIBUTES));
    *record_count = count;
    return length;
}

// Loopback without pacing: the host's default may be BBR, which makes large answers bimodal.
static inline void tune_socket(int socket_fd) {
    int one = 1;
    setsockopt(socket_fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(socket_fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
}
