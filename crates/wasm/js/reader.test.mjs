// Opens the databases in `fixtures` in WebAssembly, and compares them with what RocksDB read.
//
// `ESKER_WASM` names the module: `cargo xtask long portability` builds it and sets the variable.

import assert from "node:assert/strict";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { Reader } from "./esker.mjs";

const fixtures = join(dirname(fileURLToPath(import.meta.url)), "../../../fixtures");
const module = new WebAssembly.Module(readFileSync(process.env.ESKER_WASM));

/** Messages of features that the reader refuses. */
const REFUSED = /feature `zstd`|write-prepared|OPTIONS names no operator/;

function filesOf(name) {
  const directory = join(fixtures, name, "db");
  return readdirSync(directory).map((file) => [file, readFileSync(join(directory, file))]);
}

/** The families of `expected.txt`: for each, lines of key and value. */
function expectedOf(name) {
  const families = new Map();
  let pairs;
  for (const line of readFileSync(join(fixtures, name, "expected.txt"), "utf8").split("\n")) {
    const head = /^\[cf \d+ (.*)\]$/.exec(line);
    if (head) families.set(head[1], (pairs = []));
    else if (line) pairs.push(line.split(/ columns=| ts=/)[0].split(" : "));
  }
  return families;
}

const hex = (bytes) => `0x${Buffer.from(bytes).toString("hex").toUpperCase()}`;

/** A key or value as the list states it: in full, or long ones by length and checksum. The
 * checksum itself is left to the same test in Rust. */
function described(value, stated) {
  return stated.startsWith("#") ? `#${value.length} ${stated.split(" ")[1]}` : hex(value);
}

const names = readdirSync(fixtures).filter(
  (name) => name.startsWith("v") && existsSync(join(fixtures, name, "db")),
);
let read = 0;

for (const name of names) {
  test(name, async (context) => {
    try {
      const reader = await Reader.open(module, filesOf(name));
      const expected = expectedOf(name);
      assert.deepEqual(new Set(reader.families()), new Set(expected.keys()));
      for (const [family, pairs] of expected) {
        const found = reader.scan({ family, limit: 1_000_000 });
        assert.equal(found.length, pairs.length);
        found.forEach((pair, i) => assert.deepEqual(pair.map((part, j) => described(part, pairs[i][j])), pairs[i]));
        for (const [key, value] of found.slice(0, 50)) {
          assert.deepEqual(reader.get(key, family), value);
          assert.deepEqual(reader.scan({ family, from: key, limit: 1 }), [[key, value]]);
        }
      }
      read += 1;
    } catch (error) {
      if (!REFUSED.test(error.message)) throw error;
      context.skip(error.message);
    }
  });
}

test("most databases are read", () => assert.ok(read >= 100, `${read} of ${names.length}`));

test("an absent key has no value, and an absent family is an error", async () => {
  const reader = await Reader.open(module, filesOf("v11_9_default"));
  assert.equal(reader.get("no such key"), undefined);
  assert.throws(() => reader.get("key", "no such family"), /no column family/);
});

test("a read at a timestamp sees the value of that time", async () => {
  const reader = await Reader.open(module, filesOf("v11_9_udt_u64"));
  const at = (time) => Uint8Array.from([time, 0, 0, 0, 0, 0, 0, 0]);
  const text = (value) => value && Buffer.from(value).toString().slice(0, 7);
  const values = [undefined, 0x1e, 0x14, 0x0a, 0].map((time) => {
    reader.readAt(time === undefined ? undefined : at(time));
    return text(reader.get("key000005"));
  });
  assert.deepEqual(values, ["wal", "val305-", "val205-", "val105-", undefined]);
  reader.readAt(new Uint8Array(3));
  assert.throws(() => reader.get("key000005"), /a timestamp of 3 bytes/);
});

test("a flipped bit and a missing file are errors that name the file", async () => {
  const files = new Map(filesOf("v11_9_default"));
  const table = [...files.keys()].find((name) => name.endsWith(".sst"));
  const damaged = new Map(files).set(table, Buffer.from(files.get(table)));
  damaged.get(table)[10] ^= 1;
  const reader = await Reader.open(module, damaged);
  assert.throws(() => reader.scan(), new RegExp(table));
  files.delete(table);
  assert.throws((await Reader.open(module, files)).scan.bind(await Reader.open(module, files)), new RegExp(table));
});
