#!/usr/bin/env node
// Reads a stratalog archive from a directory with nothing but Node's own modules.
//
// A second proof, in another language, that bucket.md says everything a reader needs. Usage:
//
//   node reader.mjs ARCHIVE [--topic NAME] [--partition N] [--from OFFSET] [--uncommitted]
//
// prints one JSON object per partition: the offsets of its records, as [first, last] spans, and a SHA-256 over all of
// the records (see `digest`). Damage ends it with exit code 1.
// zstd (in batches, and in the pages of old manifests) needs Node 22.15 or later; the other codecs are read here.

import { createHash } from "node:crypto";
import { closeSync, fstatSync, openSync, readFileSync, readSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";
import zlib from "node:zlib";

const [SUFFIX_BYTES, TRAILER_BYTES, CHUNK_BYTES, ABORTED_BYTES, BATCH_BYTES] = [65536, 32, 32, 34, 61];
const READS_VERSION = 2;

class Refused extends Error {}

function check(condition, message) {
  if (!condition) throw new Refused(`damaged: ${message}`);
}

// CRC-32C (Castagnoli), RFC 3720.
const CRC_TABLE = new Uint32Array(256).map((_, byte) => {
  for (let bit = 0; bit < 8; bit += 1) byte = (byte >>> 1) ^ (byte & 1 ? 0x82f63b78 : 0);
  return byte;
});

function crc32c(data) {
  let crc = 0xffffffff;
  for (let at = 0; at < data.length; at += 1) crc = (crc >>> 8) ^ CRC_TABLE[(crc ^ data[at]) & 0xff];
  return (crc ^ 0xffffffff) >>> 0;
}

function unzstd(data) {
  if (!zlib.zstdDecompressSync) throw new Refused(`zstd needs Node 22.15 or later, this is ${process.version}`);
  return zlib.zstdDecompressSync(data);
}

/** Copy a match from `distance` bytes back; it may overlap what it writes. */
function copyBack(out, at, distance, length) {
  check(distance > 0 && distance <= at && at + length <= out.length, "compressed data points outside itself");
  for (let end = at + length; at < end; at += 1) out[at] = out[at - distance];
  return at;
}

function unsnappyRaw(data) {
  let [[size, at], to] = [unsigned(data, 0), 0];
  const out = Buffer.alloc(size);
  while (at < data.length) {
    const tag = data[at++];
    let length = (tag >> 2) + 1;
    const take = (bytes) => data.readUIntLE((at += bytes) - bytes, bytes);
    if ((tag & 3) === 0) {
      if (length > 60) length = take(length - 60) + 1;
      check(to + length <= size && at + length <= data.length, "a snappy literal is too long");
      to += data.copy(out, to, at, (at += length));
    } else if ((tag & 3) === 1) to = copyBack(out, to, ((tag >> 5) << 8) | take(1), ((tag >> 2) & 7) + 4);
    else to = copyBack(out, to, take((tag & 3) === 2 ? 2 : 4), length);
  }
  check(to === size, "a snappy block is too short");
  return out;
}

/** Plain snappy, or in the blocks of snappy-java as Kafka's Java clients write it. */
function unsnappy(data) {
  if (data.toString("latin1", 0, 8) !== "\x82SNAPPY\0") return unsnappyRaw(data);
  const parts = [];
  for (let at = 16, size; at < data.length; at += 4 + size) {
    size = data.readUInt32BE(at);
    parts.push(unsnappyRaw(data.subarray(at + 4, at + 4 + size)));
  }
  return Buffer.concat(parts);
}

function unlz4Block(data, window, size) {
  const out = Buffer.concat([window, Buffer.alloc(size)]);
  for (let at = 0, to = window.length; ; ) {
    const token = data[at++];
    const more = (length) => {
      for (let byte = 255; length >= 15 && byte === 255; length += byte) byte = data[at++];
      return length;
    };
    const literals = more(token >> 4);
    check(at + literals <= data.length && to + literals <= out.length, "an LZ4 literal is too long");
    to += data.copy(out, to, at, (at += literals));
    if (at >= data.length) return out.subarray(window.length, to); // the last sequence has no match
    at += 2;
    to = copyBack(out, to, data.readUInt16LE(at - 2), more(token & 15) + 4);
  }
}

function unlz4(data) {
  check(data.readUInt32LE(0) === 0x184d2204, "this is no LZ4 frame");
  const flags = data[4];
  const blockBytes = 1 << (2 * ((data[5] >> 4) & 7) + 8);
  let [at, out] = [7 + (flags & 8 ? 8 : 0) + (flags & 1 ? 4 : 0), Buffer.alloc(0)];
  for (let word; (word = data.readUInt32LE(at)) !== 0; ) {
    const block = data.subarray(at + 4, (at += 4 + (word & 0x7fffffff)));
    const window = flags & 0x20 ? out.subarray(0, 0) : out.subarray(Math.max(0, out.length - 65536));
    out = Buffer.concat([out, word >>> 31 ? block : unlz4Block(block, window, blockBytes)]);
    at += flags & 0x10 ? 4 : 0;
  }
  return out;
}

const CODECS = [(data) => data, (data) => zlib.gunzipSync(data), unsnappy, unlz4, unzstd];

class Segment {
  constructor(path) {
    this.path = path;
    this.file = openSync(path, "r");
    this.size = fstatSync(this.file).size;
    const tail = this.read(Math.max(0, this.size - SUFFIX_BYTES), Math.min(this.size, SUFFIX_BYTES));
    check(tail.length >= TRAILER_BYTES, `${path} is too short`);
    const trailer = tail.subarray(tail.length - TRAILER_BYTES);
    check(trailer.toString("latin1", 24) === "\0\x01\0\0STRT", `${path} is no segment of version 1`);
    const [position, length] = [long(trailer, 0), trailer.readUInt32BE(8)];
    check(position + length + TRAILER_BYTES === this.size, `${path} has a wrong trailer`);
    const footer = this.read(position, length);
    check(crc32c(footer) === trailer.readUInt32BE(12), `${path}: the footer fails its CRC`);
    this.footer = JSON.parse(footer);
    check(this.footer.entry.data_len === long(trailer, 16), `${path}: footer and trailer differ`);
    this.chunks = rows(this.blob("chunks"), CHUNK_BYTES).map((row) => ({
      first: long(row, 0), position: long(row, 8), length: row.readUInt32BE(16), crc: row.readUInt32BE(20),
    }));
    this.aborted = rows(this.blob("aborted"), ABORTED_BYTES).map((row) => ({
      producer: row.readBigInt64BE(2), first: long(row, 10), last: long(row, 18),
    }));
  }

  read(position, length) {
    const data = Buffer.alloc(length);
    check(readSync(this.file, data, 0, length, position) === length, `${this.path} ends early`);
    return data;
  }

  blob(name) {
    const { pos, len, crc32c: crc } = this.footer.blobs[name];
    const data = this.read(pos, len);
    check(crc32c(data) === crc, `${this.path}: the part ${name} fails its CRC`);
    return data;
  }

  /** The batches from the one that holds `start` on. */
  *batches(start) {
    for (const [number, chunk] of this.chunks.entries()) {
      if (this.chunks[number + 1]?.first <= start) continue;
      const data = this.read(chunk.position, chunk.length);
      check(crc32c(data) === chunk.crc, `${this.path}: the chunk at ${chunk.position} fails its CRC`);
      for (let at = 0, end = 0; at < data.length; at = end) {
        const where = `${this.path}: the batch at ${chunk.position + at}`;
        check(at + BATCH_BYTES <= data.length, `${where} is torn`);
        end = at + 12 + data.readInt32BE(at + 8);
        check(data[at + 16] === 2 && end >= at + BATCH_BYTES && end <= data.length, `${where} is torn or no batch`);
        const batch = data.subarray(at, end);
        check(crc32c(batch.subarray(21)) === batch.readUInt32BE(17), `${where} fails its CRC`);
        if (long(batch, 0) + batch.readInt32BE(23) >= start) yield batch;
      }
    }
  }
}

function* records(batch) {
  const [base, attributes, baseTime, maxTime] = [long(batch, 0), batch[22], long(batch, 27), long(batch, 35)];
  const codec = CODECS[attributes & 7];
  check(codec, `codec ${attributes & 7} of the batch at offset ${base} is not defined`);
  const data = codec(batch.subarray(BATCH_BYTES));
  let at = 0;
  const number = () => {
    const [value, end] = unsigned(data, at);
    at = end;
    return value % 2 ? -(value + 1) / 2 : value / 2;
  };
  const field = () => {
    const length = number();
    return length < 0 ? null : data.subarray(at, (at += length));
  };
  for (let left = batch.readInt32BE(57); left > 0; left -= 1) {
    const end = number() + at; // `at` is behind the number by then
    at += 1; // the record's attributes
    const [time, delta, key, value] = [number(), number(), field(), field()];
    const headers = Array.from({ length: number() }, () => [field(), field()]);
    check(at === end, `a record of the batch at offset ${base} is not as long as its fields`);
    yield { offset: base + delta, timestamp: attributes & 8 ? maxTime : baseTime + time, key, value, headers };
  }
  check(at === data.length, `the batch at offset ${base} does not end with its last record`);
}

class Partition {
  constructor(path) {
    this.folder = dirname(path);
    const data = readFileSync(path);
    this.manifest = JSON.parse(data);
    check(this.manifest.format === "stratalog-manifest", `${path} is no manifest`);
    if (this.manifest.min_reader_version > READS_VERSION) throw new Refused(`${path} needs a newer reader`);
    const { crc32c: crc = null } = this.manifest; // absent: it was edited by hand
    const summed = data.subarray(0, data.lastIndexOf(',"crc32c":'));
    check(crc === null || crc32c(summed) === crc, `${path} fails its CRC`);
  }

  /** Relative to the manifest or, with a leading slash, to the archive. */
  path(loc) {
    return loc.startsWith("/") ? join(this.folder, "../../..", loc) : join(this.folder, loc);
  }

  /** The older ones are in pages, from which the first ones may have gone. */
  *listed() {
    for (const { loc, size, crc32c: crc, dead = 0 } of this.manifest.pages) {
      const data = readFileSync(this.path(loc));
      check(data.length === size && crc32c(data) === crc, `${loc} fails its CRC`);
      yield* JSON.parse(unzstd(data)).entries.slice(dead);
    }
    yield* this.manifest.entries;
  }

  *records(from, committed) {
    const start = Math.max(from, this.manifest.log_start_offset);
    let end = null;
    for (const { base, end: next, loc, uuid, size } of this.listed()) {
      check(end === null || end === base, `${this.folder}: the entries leave a hole at ${end}`);
      if ((end = next) <= start) continue;
      const segment = new Segment(this.path(loc));
      check(segment.footer.entry.uuid === uuid, `${loc} is another object`);
      check(segment.size === size, `${loc} has another size`);
      for (const batch of segment.batches(start)) {
        const [attributes, producer] = [batch.readInt16BE(21), batch.readBigInt64BE(43)];
        if (attributes & 0x20) continue; // a control batch
        const hidden = committed && attributes & 0x10;
        const aborted = segment.aborted.filter((one) => hidden && one.producer === producer);
        for (const record of records(batch)) {
          const gone = aborted.some(({ first, last }) => first <= record.offset && record.offset <= last);
          if (record.offset >= start && !gone) yield record;
        }
      }
      closeSync(segment.file);
    }
  }
}

const long = (data, at) => Number(data.readBigInt64BE(at));
const rows = (data, size) =>
  Array.from({ length: data.length / size }, (_, number) => data.subarray(number * size, (number + 1) * size));

function unsigned(data, at) {
  for (let value = 0, scale = 1; ; scale *= 128) {
    const byte = data[at++];
    check(byte !== undefined, "a number is cut off");
    value += (byte & 127) * scale;
    if (byte < 128) return [value, at];
  }
}

/** Offset and timestamp as int64, then key, value and each header's two parts as int32 length (-1: null) and bytes. */
function digest(hash, { offset, timestamp, key, value, headers }) {
  const numbers = Buffer.alloc(16);
  numbers.writeBigInt64BE(BigInt(offset), 0);
  numbers.writeBigInt64BE(BigInt(timestamp), 8);
  hash.update(numbers);
  for (const part of [key, value, ...headers.flat()]) {
    const length = Buffer.alloc(4);
    length.writeInt32BE(part === null ? -1 : part.length);
    hash.update(length).update(part ?? "");
  }
}

function partitions(root) {
  const names = readdirSync(join(root, "topics"), { recursive: true }).sort();
  return names.filter((name) => name.endsWith("manifest.json")).map((name) => new Partition(`${root}/topics/${name}`));
}

function main() {
  const text = { type: "string" };
  const options = { topic: text, partition: text, from: text, uncommitted: { type: "boolean" } };
  const { values, positionals } = parseArgs({ options, allowPositionals: true });
  for (const one of partitions(positionals[0])) {
    const { topic, partition } = one.manifest;
    if ((values.topic ?? topic) !== topic || Number(values.partition ?? partition) !== partition) continue;
    const [hash, offsets] = [createHash("sha256"), []];
    for (const record of one.records(Number(values.from ?? 0), !values.uncommitted)) {
      digest(hash, record);
      if (offsets.at(-1)?.[1] === record.offset - 1) offsets.at(-1)[1] = record.offset;
      else offsets.push([record.offset, record.offset]);
    }
    console.log(JSON.stringify({ topic, partition, offsets, sha256: hash.digest("hex") }));
  }
}

try {
  main();
} catch (error) {
  if (!(error instanceof Refused)) throw error;
  console.error(error.message);
  process.exitCode = 1;
}
