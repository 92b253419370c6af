// The steps of Differential for objects that no other step uses.

import java.nio.ByteBuffer;
import java.util.Collections;
import org.rocksdb.*;

final class ObjectSteps {
    private final Differential all;

    ObjectSteps(final Differential all) {
        this.all = all;
    }

    void run() {
        Differential.run("keys that exist", this::existing);
        Differential.run("secondary databases", this::secondary);
        Differential.run("environments", this::environments);
        Differential.run("partitions", this::partitions);
        Differential.run("indexed batches", this::indexed);
        Differential.run("caches and limits", this::caches);
        Differential.run("files", this::files);
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

    private void existing() throws Exception {
        try (final Options options = new Options().setCreateIfMissing(true); final ReadOptions reads = new ReadOptions();
             final RocksDB db = RocksDB.open(options, all.path("existing"))) {
            final ColumnFamilyHandle family = db.createColumnFamily(new ColumnFamilyDescriptor(bytes("f")));
            db.put(bytes("key"), bytes("v"));
            db.put(family, bytes("of f"), bytes("v"));
            say(db.keyExists(bytes("key")) + " " + db.keyExists(bytes("a key"), 2, 3) + " " + db.keyExists(bytes("none")));
            say(db.keyExists(family, bytes("of f")) + " " + db.keyExists(family, reads, bytes("key")) + " " + db.keyExists(Differential.direct("key"))
                + " " + db.keyExists(family, reads, Differential.direct("of f")));
        }
    }

    private void secondary() throws Exception {
        try (final Options options = new Options().setCreateIfMissing(true).setMaxOpenFiles(-1); final FlushOptions flush = new FlushOptions();
             final RocksDB db = RocksDB.open(options, all.path("primary"))) {
            db.put(bytes("k"), bytes("1"));
            db.flush(flush);
            try (final RocksDB second = RocksDB.openAsSecondary(options, all.path("primary"), all.path("of the secondary"))) {
                say(text(second.get(bytes("k"))));
                db.put(bytes("k"), bytes("2"));
                say(text(second.get(bytes("k"))));
                second.tryCatchUpWithPrimary();
                say(text(second.get(bytes("k"))));
                Differential.fails("write", () -> second.put(bytes("k"), bytes("3")));
            }
        }
    }

    private void environments() throws Exception {
        final Env env = Env.getDefault();
        env.setBackgroundThreads(3, Priority.BOTTOM);
        env.incBackgroundThreadsIfNeeded(2, Priority.BOTTOM);
        say("threads " + env.getBackgroundThreads(Priority.BOTTOM));
        env.incBackgroundThreadsIfNeeded(4, Priority.BOTTOM);
        say("threads " + env.getBackgroundThreads(Priority.BOTTOM));
        try (final EnvOptions options = new EnvOptions()) {
            options.setUseMmapReads(true).setUseDirectWrites(true).setBytesPerSync(5).setWritableFileMaxBufferSize(6).setAllowFallocate(false);
            say(options.useMmapReads() + " " + options.useMmapWrites() + " " + options.useDirectReads() + " " + options.useDirectWrites() + " " + options.bytesPerSync()
                + " " + options.writableFileMaxBufferSize() + " " + options.allowFallocate());
        }
    }

    private void partitions() throws Exception {
        try (final SstPartitionerFixedPrefixFactory factory = new SstPartitionerFixedPrefixFactory(1);
             final Options options = new Options().setCreateIfMissing(true).setSstPartitionerFactory(factory);
             final FlushOptions flush = new FlushOptions(); final RocksDB db = RocksDB.open(options, all.path("partitions"))) {
            for (int i = 0; i < 2; i++) {
                for (final String key : new String[] {"a", "b", "c"}) {
                    db.put(bytes(key + i), bytes("v"));
                }
                db.flush(flush);
            }
            db.compactRange();
            for (final LiveFileMetaData file : db.getLiveFilesMetaData()) {
                say("a table, level " + file.level());
            }
        }
    }

    private void indexed() throws Exception {
        try (final Options options = new Options().setCreateIfMissing(true); final DBOptions dbOptions = new DBOptions(); final ReadOptions reads = new ReadOptions();
             final WriteOptions writes = new WriteOptions(); final RocksDB db = RocksDB.open(options, all.path("indexed"));
             final WriteBatchWithIndex batch = new WriteBatchWithIndex(true)) {
            db.put(bytes("a"), bytes("old"));
            db.put(bytes("b"), bytes("old"));
            batch.put(bytes("a"), bytes("new"));
            batch.delete(bytes("b"));
            batch.put(bytes("c"), bytes("new"));
            say(batch.count() + " " + text(batch.getFromBatch(dbOptions, bytes("a"))) + " " + text(batch.getFromBatch(dbOptions, bytes("b"))));
            say(text(batch.getFromBatchAndDB(db, reads, bytes("a"))) + " " + text(batch.getFromBatchAndDB(db, reads, bytes("b"))));
            Differential.print(batch.newIteratorWithBase(db.newIterator()));
            batch.setSavePoint();
            batch.put(bytes("d"), bytes("undone"));
            batch.rollbackToSavePoint();
            db.write(writes, batch);
            Differential.print(db.newIterator());
            batch.clear();
            say("cleared " + batch.count());
        }
    }

    private void caches() throws Exception {
        try (final Cache clock = new ClockCache(1 << 20); final RateLimiter limiter = new RateLimiter(10 << 20, 100_000, 10, RateLimiterMode.ALL_IO, false);
             final Options options = new Options().setCreateIfMissing(true).setRateLimiter(limiter)
                 .setTableFormatConfig(new BlockBasedTableConfig().setBlockCache(clock)); final FlushOptions flush = new FlushOptions();
             final RocksDB db = RocksDB.open(options, all.path("caches"))) {
            db.put(bytes("k"), new byte[1000]);
            db.flush(flush);
            say(db.get(bytes("k")).length + " " + (clock.getUsage() > 0));
            final ByteBuffer buffer = Differential.direct("a slice");
            try (final DirectSlice slice = new DirectSlice(buffer); final DirectSlice same = new DirectSlice(buffer)) {
                say(slice.size() + " " + slice + " " + slice.compare(same) + " " + slice.startsWith(same) + " " + slice.empty());
            }
        }
    }

    private void files() throws Exception {
        try (final Options options = new Options().setCreateIfMissing(true); final FlushOptions flush = new FlushOptions();
             final RocksDB db = RocksDB.open(options, all.path("files"))) {
            db.put(bytes("k"), bytes("v"));
            db.flush(flush);
            db.pauseBackgroundWork();
            db.continueBackgroundWork();
            db.enableAutoCompaction(Collections.singletonList(db.getDefaultColumnFamily()));
            db.verifyChecksum();
            long tables = 0;
            for (final String file : db.getLiveFiles(false).files) {
                tables += file.endsWith(".sst") ? 1 : 0;
            }
            say("tables " + tables + " " + (db.getLiveFiles(true).manifestFileSize > 0) + " " + db.getMapProperty("rocksdb.cfstats").isEmpty());
        }
    }
}
