// Reads a database of RocksDB or Esker whose files lie in memory.
//
// In: the compiled module (`esker_wasm.wasm`) and the files of a directory. Out: families, values
// and runs of keys, as Uint8Array. `src/exports.rs` has the other side of the calls.

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** A database, read-only. */
export class Reader {
  #exports;

  /**
   * Opens a database.
   * @param {WebAssembly.Module} module the compiled module
   * @param {Iterable<[string, Uint8Array]>} files names in the directory, and contents
   * @returns {Promise<Reader>}
   */
  static async open(module, files) {
    const reader = new Reader();
    reader.#exports = (await WebAssembly.instantiate(module, {})).exports;
    for (const [name, contents] of files) {
      const length = reader.#input(encoder.encode(name), contents);
      reader.#call("esker_add_file", length);
    }
    reader.#call("esker_open");
    return reader;
  }

  /** The names of the column families. */
  families() {
    this.#call("esker_families");
    return this.#list().map((name) => decoder.decode(name));
  }

  /**
   * Lets later reads of families with user-defined timestamps see this timestamp and older ones;
   * `undefined` is the newest.
   */
  readAt(timestamp = undefined) {
    this.#input(timestamp ?? new Uint8Array(), new Uint8Array());
    this.#call("esker_set_timestamp", timestamp === undefined ? 0 : 1);
  }

  /** The value of a key; `undefined` if there is none. */
  get(key, family = "default") {
    const length = this.#input(encoder.encode(family), bytes(key));
    return this.#call("esker_get", length) === 1 ? this.#output() : undefined;
  }

  /** At most `limit` pairs of key and value, from the key `from` on. */
  scan({ family = "default", from = undefined, limit = 1000 } = {}) {
    const first = from === undefined ? new Uint8Array() : bytes(from);
    const length = this.#input(encoder.encode(family), first);
    this.#call("esker_scan", length, from === undefined ? 0 : 1, limit);
    const items = this.#list();
    const pairs = [];
    for (let i = 0; i < items.length; i += 2) pairs.push([items[i], items[i + 1]]);
    return pairs;
  }

  /** Copies both parts to the module. Returns the length of the first. */
  #input(first, second) {
    const address = this.#exports.esker_input(first.length + second.length) >>> 0;
    const memory = new Uint8Array(this.#exports.memory.buffer);
    memory.set(first, address);
    memory.set(second, address + first.length);
    return first.length;
  }

  #call(name, ...numbers) {
    const answer = this.#exports[name](...numbers);
    if (answer < 0) throw new Error(decoder.decode(this.#output()));
    return answer;
  }

  /** A copy of the last output. */
  #output() {
    const address = this.#exports.esker_output() >>> 0;
    const length = this.#exports.esker_output_length() >>> 0;
    return new Uint8Array(this.#exports.memory.buffer, address, length).slice();
  }

  #list() {
    const output = this.#output();
    const view = new DataView(output.buffer);
    const items = [];
    for (let at = 0; at < output.length; ) {
      const length = view.getUint32(at, true);
      items.push(output.slice(at + 4, at + 4 + length));
      at += 4 + length;
    }
    return items;
  }
}

function bytes(key) {
  return typeof key === "string" ? encoder.encode(key) : key;
}
