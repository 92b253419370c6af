// Samza's own stores on RocksJava 7.0.3, for `cargo xtask long jvm`. It prints what the stores
// answer; the lines must be the same with RocksDB's native library and with Esker's.
//
// Arguments: a command, `write` or `read`, and a directory. `write` makes stores in the directory;
// `read` opens the stores that another run has written.

import java.io.File;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.samza.SamzaException;
import org.apache.samza.checkpoint.CheckpointId;
import org.apache.samza.config.MapConfig;
import org.apache.samza.metrics.Gauge;
import org.apache.samza.metrics.MetricsRegistryMap;
import org.apache.samza.storage.StorageEngineFactory.StoreMode;
import org.apache.samza.storage.kv.Entry;
import org.apache.samza.storage.kv.KeyValueIterator;
import org.apache.samza.storage.kv.KeyValueSnapshot;
import org.apache.samza.storage.kv.KeyValueStoreMetrics;
import org.apache.samza.storage.kv.RocksDbKeyValueReader;
import org.apache.samza.storage.kv.RocksDbKeyValueStore;
import org.apache.samza.storage.kv.RocksDbOptionsHelper;
import org.rocksdb.FlushOptions;
import org.rocksdb.Options;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.WriteOptions;

public final class SamzaStores {
    private final Path directory;

    private SamzaStores(final Path directory) {
        this.directory = directory;
    }

    public static void main(final String[] arguments) {
        RocksDB.loadLibrary();
        final SamzaStores stores = new SamzaStores(Path.of(arguments[1]));
        if (arguments[0].equals("write")) {
            stores.write();
        } else {
            stores.read();
        }
        say("done");
    }

    private void write() {
        Differential.run("calls", this::calls);
        Differential.run("snapshots", this::snapshots);
        Differential.run("checkpoints", this::checkpoints);
        Differential.run("closed stores", this::closed);
        Differential.run("settings", this::settings);
        Differential.run("metrics", this::metrics);
        Differential.run("expiry", this::expiry);
        for (final String style : Arrays.asList("leveled", "universal", "fifo")) {
            Differential.run("load " + style, () -> load(style, "rocksdb.compaction.style", style));
        }
        for (final String codec : Arrays.asList("none", "bzip2", "zlib", "lz4", "lz4hc")) {
            Differential.run("load " + codec, () -> load(codec, "rocksdb.compression", codec));
        }
        Differential.run("bulk load", this::bulkLoad);
        Differential.run("readers", this::readers);
    }

    private void read() {
        for (final String name : Arrays.asList("calls", "copy", "logged", "leveled", "universal", "zlib", "bulk")) {
            Differential.run("read " + name, () -> dump(name));
        }
        Differential.run("readers", this::readers);
    }

    private static void say(final String line) {
        Differential.say(line);
    }

    private static byte[] bytes(final String text) {
        return Differential.bytes(text);
    }

    private static String text(final byte[] bytes) {
        return Differential.text(bytes);
    }

    private static MapConfig config(final String... pairs) {
        final Map<String, String> map = new HashMap<>();
        for (int i = 0; i < pairs.length; i += 2) {
            map.put(pairs[i], pairs[i + 1]);
        }
        return new MapConfig(map);
    }

    private File file(final String name) {
        return directory.resolve(name).toFile();
    }

    /** Opens a store as Samza's factory does: `config` is the part of the job's that belongs to it. */
    private RocksDbKeyValueStore open(final String name, final MapConfig config, final StoreMode mode, final MetricsRegistryMap registry) {
        final Options options = RocksDbOptionsHelper.options(config, 1, file(name), mode);
        final WriteOptions writes = new WriteOptions().setDisableWAL(!config.getBoolean("rocksdb.wal.enabled", false));
        return new RocksDbKeyValueStore(file(name), options, config, true, name, writes, new FlushOptions().setWaitForFlush(true),
            new KeyValueStoreMetrics(name, registry));
    }

    private RocksDbKeyValueStore open(final String name, final String... pairs) {
        return open(name, config(pairs), StoreMode.ReadWrite, new MetricsRegistryMap());
    }

    /** Prints entries, and closes. */
    private static void print(final KeyValueIterator<byte[], byte[]> entries) {
        while (entries.hasNext()) {
            final Entry<byte[], byte[]> entry = entries.next();
            say("  " + text(entry.getKey()) + " = " + text(entry.getValue()));
        }
        entries.close();
    }

    private void calls() throws Exception {
        final RocksDbKeyValueStore store = open("calls");
        store.put(bytes("esker"), bytes("gravel"));
        store.put(bytes("moraine"), bytes("stones"));
        store.put(bytes("moraine"), null);
        store.putAll(Arrays.asList(new Entry<>(bytes("drumlin"), bytes("till")), new Entry<>(bytes("esker"), bytes("sand")),
            new Entry<>(bytes("kame"), bytes("silt")), new Entry<>(bytes("kame"), null)));
        say(text(store.get(bytes("esker"))) + " " + text(store.get(bytes("moraine"))) + " " + text(store.get(bytes("kame"))));
        final Map<String, String> found = new TreeMap<>();
        store.getAll(Arrays.asList(bytes("drumlin"), bytes("none"), bytes("esker"))).forEach((key, value) -> found.put(text(key), text(value)));
        say("all of three " + found);
        for (int i = 0; i < 20; i++) {
            store.put(bytes(String.format("k%02d", i)), bytes("v" + i));
        }
        store.delete(bytes("k03"));
        store.deleteAll(Arrays.asList(bytes("k05"), bytes("k06"), bytes("none")));
        print(store.range(bytes("k02"), bytes("k09")));
        store.flush();
        store.put(bytes("k02"), bytes("after the flush"));
        store.flush();
        print(store.all());
        for (final String wrong : Arrays.asList("get", "put", "range")) {
            try {
                if (wrong.equals("get")) {
                    store.get(null);
                } else if (wrong.equals("put")) {
                    store.put(null, bytes("v"));
                } else {
                    store.range(null, bytes("z"));
                }
                say(wrong + ": no error");
            } catch (final RuntimeException e) {
                say(wrong + ": " + e.getClass().getSimpleName());
            }
        }
        store.close();
    }

    private void snapshots() {
        final RocksDbKeyValueStore store = open("snapshots");
        store.put(bytes("a"), bytes("1"));
        store.put(bytes("b"), bytes("2"));
        store.put(bytes("d"), bytes("3"));
        final KeyValueSnapshot<byte[], byte[]> snapshot = store.snapshot(bytes("a"), bytes("c"));
        store.put(bytes("a"), bytes("later"));
        store.delete(bytes("b"));
        store.flush();
        print(snapshot.iterator());
        print(snapshot.iterator());
        snapshot.close();
        print(store.all());
        store.close();
    }

    private void checkpoints() throws Exception {
        final RocksDbKeyValueStore store = open("original");
        store.put(bytes("in both"), bytes("1"));
        store.flush();
        final Path made = store.checkpoint(CheckpointId.create()).get();
        store.put(bytes("in the original"), bytes("2"));
        store.close();
        say("moved " + made.toFile().renameTo(file("copy")));
        dump("copy");
        dump("original");
    }

    private void closed() {
        final RocksDbKeyValueStore store = open("closed");
        store.put(bytes("k"), bytes("v"));
        final KeyValueIterator<byte[], byte[]> open = store.all();
        open.close();
        store.close();
        try {
            say(text(store.get(bytes("k"))));
        } catch (final RuntimeException e) {
            say(e.getClass().getSimpleName());
        }
        store.close();
        say("a store that was not flushed");
        dump("closed");
    }

    /** With a WAL, `flush` flushes the log alone. */
    private void settings() {
        final RocksDbKeyValueStore store = open("logged", "rocksdb.wal.enabled", "true", "rocksdb.max.log.file.size.bytes", "1000000",
            "rocksdb.keep.log.file.num", "3", "rocksdb.max.open.files", "50", "rocksdb.max.file.opening.threads", "2",
            "rocksdb.delete.obsolete.files.period.micros", "1000000", "rocksdb.max.manifest.file.size", "100000",
            "rocksdb.compaction.num.levels", "5", "rocksdb.compaction.level0.file.num.compaction.trigger", "3",
            "rocksdb.compaction.target.file.size.base", "5000000", "rocksdb.compaction.max.background.compactions", "2",
            "rocksdb.num.write.buffers", "4", "rocksdb.block.size.bytes", "8192", "container.cache.size.bytes", "4000000",
            "container.write.buffer.size.bytes", "2000000");
        final Options options = store.options();
        say(options.maxLogFileSize() + " " + options.keepLogFileNum() + " " + options.maxOpenFiles() + " " + options.maxFileOpeningThreads() + " "
            + options.deleteObsoleteFilesPeriodMicros() + " " + options.maxManifestFileSize() + " " + options.numLevels() + " "
            + options.level0FileNumCompactionTrigger() + " " + options.targetFileSizeBase() + " " + options.maxBackgroundCompactions() + " "
            + options.maxWriteBufferNumber() + " " + options.writeBufferSize() + " " + options.manualWalFlush() + " "
            + options.walRecoveryMode() + " " + options.compressionType() + " " + options.compactionStyle());
        store.put(bytes("logged"), bytes("yes"));
        store.flush();
        store.close();
        dump("logged");
    }

    private void metrics() {
        final MetricsRegistryMap registry = new MetricsRegistryMap();
        final String names = "rocksdb.estimate-num-keys,rocksdb.num-entries-active-mem-table,rocksdb.num-files-at-level0";
        final RocksDbKeyValueStore store = open("metrics", config("rocksdb.metrics.list", names), StoreMode.ReadWrite, registry);
        store.put(bytes("a"), bytes("1"));
        store.put(bytes("b"), bytes("2"));
        store.flush();
        store.put(bytes("c"), bytes("3"));
        registry.metrics().forEach((group, metrics) -> new TreeMap<>(metrics).forEach((name, metric) -> {
            String value = metric instanceof Gauge ? String.valueOf(((Gauge<?>) metric).getValue()) : metric.toString();
            // Memory that is used differs.
            value = name.matches(".*(size-|-mem).*") && !name.contains("num-entries") ? "" + (Long.parseLong(value) > 0) : value;
            say(group.replaceAll(".*[.]", "") + " " + name + " " + value);
        }));
        store.close();
        try {
            open("metrics", "rocksdb.metrics.list", "rocksdb.none").get(bytes("a"));
            say("no error");
        } catch (final SamzaException e) {
            say(e.getCause() instanceof RocksDBException ? Differential.status((RocksDBException) e.getCause()) : "" + e.getCause());
        }
    }

    private void expiry() throws Exception {
        final RocksDbKeyValueStore store = open("expiry", "rocksdb.ttl.ms", "1000");
        store.put(bytes("old"), bytes("v"));
        store.flush();
        say(text(store.get(bytes("old"))));
        Thread.sleep(2500);
        store.put(bytes("young"), bytes("v"));
        store.db().compactRange();
        print(store.all());
        store.close();
    }

    /** Changes 4,000 keys five times, with a small memtable. */
    private void load(final String name, final String option, final String value) {
        final String kept = option.equals("rocksdb.compaction.style") && value.equals("fifo") ? "100000000" : "100000";
        final RocksDbKeyValueStore store =
            open(name, option, value, "container.write.buffer.size.bytes", kept, "rocksdb.compaction.target.file.size.base", "50000");
        for (int round = 0; round < 5; round++) {
            final List<Entry<byte[], byte[]>> entries = new ArrayList<>();
            for (int i = 0; i < 4000; i++) {
                final boolean isDeleted = (i + round) % 7 == 0;
                entries.add(new Entry<>(bytes(String.format("key%05d", i)), isDeleted ? null : bytes("value " + i + " of round " + round)));
            }
            store.putAll(entries);
        }
        store.flush();
        say("loaded");
        sum(store);
        store.close();
    }

    private static void sum(final RocksDbKeyValueStore store) {
        int count = 0;
        int hash = 0;
        final KeyValueIterator<byte[], byte[]> all = store.all();
        while (all.hasNext()) {
            final Entry<byte[], byte[]> entry = all.next();
            count++;
            hash = hash * 31 + Arrays.hashCode(entry.getKey());
            hash = hash * 31 + Arrays.hashCode(entry.getValue());
        }
        all.close();
        say(count + " entries, hash " + hash);
    }

    /** A store that Samza fills from its changelog: nothing is compacted before the close. */
    private void bulkLoad() {
        final RocksDbKeyValueStore store =
            open("bulk", config("container.write.buffer.size.bytes", "100000"), StoreMode.BulkLoad, new MetricsRegistryMap());
        final Options options = store.options();
        say(options.disableAutoCompactions() + " " + options.level0FileNumCompactionTrigger() + " " + options.targetFileSizeBase());
        for (int i = 0; i < 20000; i++) {
            store.put(bytes(String.format("key%05d", i % 7000)), bytes("value " + i));
        }
        store.flush();
        store.close();
        dump("bulk");
    }

    private void readers() throws Exception {
        final MapConfig config = config("stores.calls.key.serde", "bytes", "stores.calls.msg.serde", "bytes", "serializers.registry.bytes.class",
            "org.apache.samza.serializers.ByteSerdeFactory");
        final RocksDbKeyValueReader reader = new RocksDbKeyValueReader("calls", file("calls").getPath(), config);
        say(text((byte[]) reader.get(bytes("esker"))) + " " + reader.get(bytes("none")));
        reader.stop();
    }

    /** Opens a store that is there, and prints its entries, or their sum. */
    private void dump(final String name) {
        final RocksDbKeyValueStore store = open(name);
        if (count(store) > 100) {
            sum(store);
        } else {
            print(store.all());
        }
        store.close();
    }

    private static int count(final RocksDbKeyValueStore store) {
        int count = 0;
        final KeyValueIterator<byte[], byte[]> all = store.all();
        for (; all.hasNext(); all.next()) {
            count++;
        }
        all.close();
        return count;
    }
}
