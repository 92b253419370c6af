// The program of `cargo xtask long jvm`. It prints what RocksJava answers; the lines must be the
// same with RocksDB's native library and with Esker's.
//
// Arguments: a command, `write` or `read`, and a directory. `write` makes a database in the
// directory and tries every call; `read` opens a database that another run has written.
// Differential88 and Differential810 have the calls that RocksJava 7.0 and 8.8 lack.

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.List;
import java.util.stream.Stream;
import org.rocksdb.*;

public class Differential {
    private final Path directory;

    Differential(final Path directory) {
        this.directory = directory;
    }

    public static void main(final String[] arguments) throws Exception {
        new Differential(Paths.get(arguments[1])).start(arguments[0]);
    }

    final void start(final String command) throws Exception {
        RocksDB.loadLibrary();
        if (command.equals("write")) {
            writeAll();
        } else {
            readAll();
        }
        say("done");
    }

    void writeAll() throws Exception {
        run("version", this::version);
        run("basics", this::basics);
        run("families", this::families);
        run("batches", this::batches);
        run("iterators", this::iterators);
        run("buffers", this::buffers);
        run("merges", this::merges);
        run("snapshots", this::snapshots);
        run("errors", this::errors);
        run("options", this::options);
        run("tables", this::tables);
        run("comparators", this::comparators);
        run("filters", this::filters);
        run("checkpoints", this::checkpoints);
        run("statistics", this::statistics);
        run("slices", this::slices);
        run("logs", this::logs);
        run("properties", this::properties);
        run("multi", this::multi);
        run("many", this::many);
        run("backups", this::backups);
        run("writers", this::writers);
        run("closing", this::closing);
        run("expiry", this::expiry);
        new ListenerSteps(this).run();
    }

    /** The databases that `read` opens. */
    List<String> databases() {
        return Arrays.asList("basics", "families", "batches", "merges", "tables", "many");
    }

    private void readAll() throws Exception {
        for (final String name : databases()) {
            run("read " + name, () -> dump(name));
        }
    }

    /** A step of the program. */
    interface Step {
        void run() throws Exception;
    }

    static void run(final String name, final Step step) {
        say("== " + name);
        try {
            step.run();
        } catch (final RocksDBException e) {
            say("failed: " + status(e));
        } catch (final Throwable e) {
            say("failed: " + e);
        }
    }

    static void say(final String line) {
        System.out.println(line);
    }

    static String status(final RocksDBException e) {
        final Status status = e.getStatus();
        return status == null ? "no status" : status.getCode() + "/" + status.getSubCode();
    }

    /** Says that `step` fails, and with which status. */
    static void fails(final String name, final Step step) throws Exception {
        try {
            step.run();
            say(name + ": no error");
        } catch (final RocksDBException e) {
            say(name + ": " + status(e));
        } catch (final IllegalArgumentException | IndexOutOfBoundsException e) {
            say(name + ": " + e.getClass().getSimpleName());
        }
    }

    static byte[] bytes(final String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(final byte[] bytes) {
        return bytes == null ? "null" : new String(bytes, StandardCharsets.UTF_8);
    }

    static ByteBuffer direct(final String text) {
        final byte[] bytes = bytes(text);
        final ByteBuffer buffer = ByteBuffer.allocateDirect(bytes.length);
        buffer.put(bytes);
        buffer.flip();
        return buffer;
    }

    static String text(final ByteBuffer buffer) {
        final byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return text(bytes);
    }

    String path(final String name) {
        return directory.resolve(name).toString();
    }

    private void version() {
        say("version " + RocksDB.rocksdbVersion());
    }

    private void basics() throws Exception {
        try (final Options options = new Options().setCreateIfMissing(true);
             final RocksDB db = RocksDB.open(options, path("basics"));
             final WriteOptions noWal = new WriteOptions().setDisableWAL(true);
             final WriteOptions sync = new WriteOptions().setSync(true);
             final ReadOptions reads = new ReadOptions()) {
            db.put(bytes("esker"), bytes("gravel"));
            db.put(noWal, bytes("moraine"), bytes("stones"));
            db.put(sync, bytes("drumlin"), bytes("till"));
            db.put(bytes("xxkettlexx"), 2, 6, bytes("yylakeyy"), 2, 4);
            db.put(bytes("empty"), new byte[0]);
            say(text(db.get(bytes("esker"))));
            say(text(db.get(reads, bytes("moraine"))));
            say(text(db.get(bytes("absent"))));
            say(text(db.get(bytes("..kettle.."), 2, 6)));
            say("empty has " + db.get(bytes("empty")).length);
            final byte[] small = new byte[3];
            say("length " + db.get(bytes("esker"), small) + " " + text(small));
            say("absent " + db.get(bytes("absent"), small));
            final byte[] offset = bytes("..........");
            say("length " + db.get(reads, bytes("kettle"), 0, 6, offset, 2, 8) + " " + text(offset));
            db.delete(bytes("drumlin"));
            say(text(db.get(bytes("drumlin"))));
            db.singleDelete(bytes("empty"));
            db.put(bytes("a1"), bytes("1"));
            db.put(bytes("a2"), bytes("2"));
            db.put(bytes("a3"), bytes("3"));
            db.deleteRange(bytes("a1"), bytes("a3"));
            say(text(db.get(bytes("a2"))) + " " + text(db.get(bytes("a3"))));
            say("may exist " + db.keyMayExist(bytes("esker"), null) + " " + db.keyMayExist(bytes("absent"), null));
            final Holder<byte[]> holder = new Holder<>();
            say("may exist " + db.keyMayExist(bytes("esker"), holder) + " " + text(holder.getValue()));
            try (final FlushOptions flush = new FlushOptions().setWaitForFlush(true)) {
                db.flush(flush);
            }
            say("sequence " + db.getLatestSequenceNumber());
            print(db.newIterator());
        }
    }

    static void print(final RocksIterator opened) throws Exception {
        try (final RocksIterator iterator = opened) {
            for (iterator.seekToFirst(); iterator.isValid(); iterator.next()) {
                say("  " + text(iterator.key()) + " = " + text(iterator.value()));
            }
            iterator.status();
        }
    }

    private void families() throws Exception {
        try (final Options options = new Options();
             final DBOptions dbOptions = new DBOptions().setCreateIfMissing(true).setCreateMissingColumnFamilies(true);
             final ColumnFamilyOptions cf = new ColumnFamilyOptions().setWriteBufferSize(1 << 20)) {
            final List<ColumnFamilyDescriptor> descriptors = new ArrayList<>();
            descriptors.add(new ColumnFamilyDescriptor(RocksDB.DEFAULT_COLUMN_FAMILY, cf));
            descriptors.add(new ColumnFamilyDescriptor(bytes("ice"), cf));
            final List<ColumnFamilyHandle> handles = new ArrayList<>();
            try (final RocksDB db = RocksDB.open(dbOptions, path("families"), descriptors, handles)) {
                final ColumnFamilyHandle ice = handles.get(1);
                say(text(ice.getName()) + " " + ice.getID());
                db.put(handles.get(0), bytes("k"), bytes("default"));
                db.put(ice, bytes("k"), bytes("ice"));
                say(text(db.get(bytes("k"))) + " " + text(db.get(ice, bytes("k"))));
                final ColumnFamilyHandle snow = db.createColumnFamily(new ColumnFamilyDescriptor(bytes("snow"), cf));
                db.put(snow, new WriteOptions(), bytes("k"), bytes("snow"));
                final List<ColumnFamilyHandle> more = db.createColumnFamilies(cf, Arrays.asList(bytes("one"), bytes("two")));
                say("made " + more.size() + " " + text(more.get(1).getName()));
                db.dropColumnFamily(more.get(0));
                db.delete(ice, bytes("none"));
                say(text(db.getDefaultColumnFamily().getName()));
                say(text(ice.getDescriptor().getName()) + " " + ice.getDescriptor().getOptions().writeBufferSize());
                db.compactRange(ice);
                print(db.newIterator(ice));
                final List<RocksIterator> iterators = db.newIterators(Arrays.asList(ice, snow));
                for (final RocksIterator iterator : iterators) {
                    print(iterator);
                }
            }
            for (final byte[] name : RocksDB.listColumnFamilies(options, path("families"))) {
                say("family " + text(name));
            }
        }
    }

    private void batches() throws Exception {
        try (final Options options = new Options().setCreateIfMissing(true);
             final RocksDB db = RocksDB.open(options, path("batches"));
             final WriteOptions writes = new WriteOptions();
             final WriteBatch batch = new WriteBatch()) {
            batch.put(bytes("a"), bytes("1"));
            batch.put(bytes("b"), bytes("2"));
            batch.delete(bytes("a"));
            batch.put(direct("c"), direct("3"));
            batch.setSavePoint();
            batch.put(bytes("d"), bytes("4"));
            batch.rollbackToSavePoint();
            batch.singleDelete(bytes("e"));
            batch.deleteRange(bytes("x"), bytes("z"));
            batch.putLogData(bytes("log"));
            say("count " + batch.count() + " size " + batch.getDataSize() + " " + batch.hasPut() + batch.hasMerge());
            say("data " + Arrays.hashCode(batch.data()));
            db.write(writes, batch);
            try (final WriteBatch copy = new WriteBatch(batch.data())) {
                say("copy " + copy.count() + " " + copy.hasDelete());
            }
            batch.clear();
            say("count " + batch.count());
            fails("rollback", batch::rollbackToSavePoint);
            print(db.newIterator());
        }
    }

    private void iterators() throws Exception {
        try (final Options options = new Options().setCreateIfMissing(true);
             final RocksDB db = RocksDB.open(options, path("iterators"))) {
            for (int i = 0; i < 10; i++) {
                db.put(bytes("k" + i), bytes("v" + i));
            }
            try (final RocksIterator iterator = db.newIterator()) {
                say("valid " + iterator.isValid());
                iterator.seek(bytes("k5"));
                say(text(iterator.key()) + " " + text(iterator.value()));
                iterator.prev();
                say(text(iterator.key()));
                iterator.seekForPrev(bytes("k55"));
                say(text(iterator.key()));
                iterator.seekToLast();
                say(text(iterator.key()));
                iterator.next();
                say("valid " + iterator.isValid());
                iterator.seek(direct("k3"));
                final ByteBuffer target = ByteBuffer.allocateDirect(16);
                say("key " + iterator.key(target) + " " + text(target));
                target.clear();
                say("value " + iterator.value(target) + " " + text(target));
                iterator.seek(bytes("zzz"));
                say("valid " + iterator.isValid());
                db.put(bytes("k99"), bytes("new"));
                iterator.refresh();
                iterator.seekToLast();
                say(text(iterator.key()));
                iterator.status();
            }
            try (final Slice upper = new Slice("k4"); final Slice lower = new Slice(bytes("k2"));
                 final ReadOptions bounded = new ReadOptions().setIterateUpperBound(upper).setIterateLowerBound(lower)) {
                print(db.newIterator(bounded));
            }
        }
    }

    private void buffers() throws Exception {
        try (final Options options = new Options().setCreateIfMissing(true);
             final RocksDB db = RocksDB.open(options, path("buffers"));
             final WriteOptions writes = new WriteOptions(); final ReadOptions reads = new ReadOptions()) {
            db.put(writes, direct("direct"), direct("buffer"));
            final ByteBuffer value = ByteBuffer.allocateDirect(32);
            say("got " + db.get(reads, direct("direct"), value) + " " + text(value));
            final ByteBuffer small = ByteBuffer.allocateDirect(3);
            say("got " + db.get(reads, direct("direct"), small) + " " + text(small));
            say("got " + db.get(reads, direct("absent"), small));
            final byte[] large = new byte[100000];
            Arrays.fill(large, (byte) 'x');
            db.put(bytes("large"), large);
            say("large " + db.get(bytes("large")).length);
            final byte[] longKey = new byte[1000];
            Arrays.fill(longKey, (byte) 'k');
            db.put(longKey, bytes("long"));
            say(text(db.get(longKey)));
        }
    }

    private void merges() throws Exception {
        try (final StringAppendOperator append = new StringAppendOperator('+');
             final Options options = new Options().setCreateIfMissing(true).setMergeOperator(append);
             final RocksDB db = RocksDB.open(options, path("merges"));
             final WriteOptions writes = new WriteOptions()) {
            db.merge(bytes("list"), bytes("a"));
            db.merge(writes, bytes("list"), bytes("b"));
            db.merge(bytes("list"), bytes("c"));
            say(text(db.get(bytes("list"))));
            try (final WriteBatch batch = new WriteBatch()) {
                batch.merge(bytes("list"), bytes("d"));
                db.write(writes, batch);
            }
            say(text(db.get(bytes("list"))));
        }
        try (final UInt64AddOperator add = new UInt64AddOperator();
             final Options options = new Options().setCreateIfMissing(true).setMergeOperator(add);
             final RocksDB db = RocksDB.open(options, path("adds"))) {
            db.merge(bytes("n"), new byte[] {1, 0, 0, 0, 0, 0, 0, 0});
            db.merge(bytes("n"), new byte[] {2, 1, 0, 0, 0, 0, 0, 0});
            say(Arrays.toString(db.get(bytes("n"))));
        }
        try (final Options options = new Options().setCreateIfMissing(true).setMergeOperatorName("stringappend");
             final RocksDB db = RocksDB.open(options, path("named"))) {
            db.merge(bytes("list"), bytes("a"));
            db.merge(bytes("list"), bytes("b"));
            say(text(db.get(bytes("list"))));
        }
    }

    private void snapshots() throws Exception {
        try (final Options options = new Options().setCreateIfMissing(true);
             final RocksDB db = RocksDB.open(options, path("snapshots"))) {
            db.put(bytes("k"), bytes("old"));
            final Snapshot snapshot = db.getSnapshot();
            db.put(bytes("k"), bytes("new"));
            say("sequence " + snapshot.getSequenceNumber());
            try (final ReadOptions reads = new ReadOptions().setSnapshot(snapshot)) {
                say(text(db.get(reads, bytes("k"))) + " " + text(db.get(bytes("k"))));
                say("named " + (reads.snapshot().getSequenceNumber()));
                reads.setSnapshot(null);
                say(text(db.get(reads, bytes("k"))) + " " + (reads.snapshot() == null));
            }
            db.releaseSnapshot(snapshot);
        }
    }

    private void errors() throws Exception {
        try (final Options options = new Options()) {
            say("families of none " + RocksDB.listColumnFamilies(options, path("none")).size());
            fails("absent database", () -> RocksDB.open(options, path("none")).close());
        }
        try (final Options options = new Options().setCreateIfMissing(true);
             final RocksDB db = RocksDB.open(options, path("errors"))) {
            fails("second open", () -> RocksDB.open(options, path("errors")).close());
            try (final Options strict = new Options().setErrorIfExists(true).setCreateIfMissing(true)) {
                fails("exists", () -> RocksDB.open(strict, path("basics")).close());
            }
            fails("unknown property", () -> say(db.getProperty("rocksdb.no-such-property")));
            fails("merge without operator", () -> {
                db.merge(bytes("k"), bytes("v"));
                db.get(bytes("k"));
            });
            fails("bounds", () -> db.put(bytes("key"), 1, 9, bytes("value"), 0, 5));
            fails("inverted range", () -> db.deleteRange(bytes("z"), bytes("a")));
        }
        try (final Options options = new Options();
             final RocksDB db = RocksDB.openReadOnly(options, path("basics"))) {
            say(text(db.get(bytes("esker"))));
            fails("read-only", () -> db.put(bytes("k"), bytes("v")));
        }
        try (final Options options = new Options().setCreateIfMissing(true); final DBOptions dbOptions = new DBOptions()) {
            try (final RocksDB db = RocksDB.open(options, path("logged"))) {
                db.put(bytes("k"), bytes("v"));
            }
            final List<ColumnFamilyDescriptor> all = Arrays.asList(new ColumnFamilyDescriptor(RocksDB.DEFAULT_COLUMN_FAMILY));
            fails("read-only with a WAL", () -> RocksDB.openReadOnly(dbOptions, path("logged"), all, new ArrayList<>(), true).close());
            fails("read-only, any WAL", () -> RocksDB.openReadOnly(dbOptions, path("logged"), all, new ArrayList<>(), false).close());
        }
        try (final DBOptions options = new DBOptions()) {
            final List<ColumnFamilyDescriptor> some = Arrays.asList(new ColumnFamilyDescriptor(RocksDB.DEFAULT_COLUMN_FAMILY));
            fails("families not named", () -> RocksDB.open(options, path("families"), some, new ArrayList<>()).close());
        }
    }

    private void options() throws Exception {
        try (final Options options = new Options(); final ColumnFamilyOptions cf = new ColumnFamilyOptions();
             final DBOptions db = new DBOptions(); final ReadOptions reads = new ReadOptions();
             final WriteOptions writes = new WriteOptions()) {
            say(options.writeBufferSize() + " " + options.maxWriteBufferNumber() + " " + options.createIfMissing());
            say(options.compressionType() + " " + options.bottommostCompressionType() + " " + options.compactionStyle());
            say(cf.targetFileSizeBase() + " " + cf.maxBytesForLevelBase() + " " + cf.numLevels() + " " + cf.ttl());
            say(cf.level0FileNumCompactionTrigger() + " " + cf.level0SlowdownWritesTrigger() + " " + cf.level0StopWritesTrigger());
            say(cf.levelCompactionDynamicLevelBytes() + " " + cf.arenaBlockSize() + " " + cf.compactionPriority());
            say(cf.maxCompactionBytes() + " " + cf.memtablePrefixBloomSizeRatio() + " " + cf.periodicCompactionSeconds());
            say(cf.forceConsistencyChecks() + " " + cf.enableBlobFiles() + " " + cf.blobFileSize() + " " + cf.minBlobSize());
            say(db.maxOpenFiles() + " " + db.maxBackgroundJobs() + " " + db.maxTotalWalSize() + " " + db.walRecoveryMode());
            say(db.infoLogLevel() + " " + db.keepLogFileNum() + " " + db.maxLogFileSize() + " " + db.useFsync());
            say(db.statsDumpPeriodSec() + " " + db.bytesPerSync() + " " + db.delayedWriteRate() + " " + db.atomicFlush());
            say(db.maxManifestFileSize() + " " + db.tableCacheNumshardbits() + " " + db.walTtlSeconds() + " " + db.allow2pc());
            say(reads.verifyChecksums() + " " + reads.fillCache() + " " + reads.totalOrderSeek() + " " + reads.readTier() + " " + reads.readaheadSize());
            say(writes.sync() + " " + writes.disableWAL() + " " + writes.noSlowdown() + " " + writes.lowPri());
            cf.setCompressionPerLevel(Arrays.asList(CompressionType.NO_COMPRESSION, CompressionType.LZ4_COMPRESSION));
            say("" + cf.compressionPerLevel());
            cf.setMaxBytesForLevelMultiplierAdditional(new int[] {2, 3, 5});
            say(Arrays.toString(cf.maxBytesForLevelMultiplierAdditional()));
            cf.setBottommostCompressionType(CompressionType.ZSTD_COMPRESSION).setCompactionPriority(CompactionPriority.OldestSmallestSeqFirst);
            say(cf.bottommostCompressionType() + " " + cf.compactionPriority());
            cf.setMaxCompactionBytes(-1).setTtl(77).setMemtablePrefixBloomSizeRatio(0.125);
            say(cf.maxCompactionBytes() + " " + cf.ttl() + " " + cf.memtablePrefixBloomSizeRatio());
            db.setMaxOpenFiles(-1).setWalRecoveryMode(WALRecoveryMode.AbsoluteConsistency).setInfoLogLevel(InfoLogLevel.ERROR_LEVEL);
            say(db.maxOpenFiles() + " " + db.walRecoveryMode() + " " + db.infoLogLevel());
            db.setWalDir("/somewhere").setDbLogDir("/elsewhere");
            say(db.walDir() + " " + db.dbLogDir());
            try (final ColumnFamilyOptions copy = new ColumnFamilyOptions(cf)) {
                say(copy.ttl() + " " + copy.bottommostCompressionType());
                copy.optimizeLevelStyleCompaction(512 << 20);
                say(copy.writeBufferSize() + " " + copy.minWriteBufferNumberToMerge() + " " + copy.maxWriteBufferNumber());
            }
            try (final Options both = new Options(db, cf)) {
                say(both.ttl() + " " + both.maxOpenFiles());
                both.setIncreaseParallelism(6);
                say("jobs " + both.maxBackgroundJobs());
            }
            try (final CompactionOptionsUniversal universal = new CompactionOptionsUniversal().setSizeRatio(7);
                 final CompactionOptionsFIFO fifo = new CompactionOptionsFIFO().setMaxTableFilesSize(99);
                 final CompressionOptions compression = new CompressionOptions().setLevel(3).setMaxDictBytes(4)) {
                cf.setCompactionOptionsUniversal(universal).setCompactionOptionsFIFO(fifo).setCompressionOptions(compression);
                say(universal.sizeRatio() + " " + universal.stopStyle() + " " + fifo.maxTableFilesSize() + " " + compression.level());
            }
            try (final CompactRangeOptions ranges = new CompactRangeOptions().setChangeLevel(true)) {
                say(ranges.changeLevel() + " " + ranges.targetLevel() + " " + ranges.bottommostLevelCompaction());
            }
        }
    }

    private void tables() throws Exception {
        try (final Cache cache = new LRUCache(8 << 20, 4, false, 0.2); final BloomFilter filter = new BloomFilter(10, false);
             final WriteBufferManager manager = new WriteBufferManager(4 << 20, cache);
             final Cache rows = new LRUCache(1 << 20);
             final Options options = new Options().setCreateIfMissing(true).setWriteBufferManager(manager).setRowCache(rows)) {
            final BlockBasedTableConfig table = new BlockBasedTableConfig().setBlockCache(cache).setFilterPolicy(filter)
                .setBlockSize(1024).setCacheIndexAndFilterBlocks(true).setPinTopLevelIndexAndFilter(true)
                .setIndexType(IndexType.kTwoLevelIndexSearch).setPartitionFilters(true).setMetadataBlockSize(512);
            options.setTableFormatConfig(table).setCompressionType(CompressionType.LZ4_COMPRESSION);
            try (final RocksDB db = RocksDB.open(options, path("tables"))) {
                for (int i = 0; i < 2000; i++) {
                    db.put(bytes(String.format("key%06d", i)), bytes("value " + i));
                }
                try (final FlushOptions flush = new FlushOptions()) {
                    db.flush(flush);
                }
                db.compactRange();
                for (int i = 0; i < 2000; i += 333) {
                    say(text(db.get(bytes(String.format("key%06d", i)))));
                }
                say("absent " + text(db.get(bytes("key9"))));
                say("cache used " + (cache.getUsage() > 0) + " " + (cache.getPinnedUsage() >= 0));
                say("rows used " + (rows.getUsage() > 0));
                say("levels " + db.getProperty("rocksdb.num-files-at-level0"));
            }
        }
        try (final Options options = new Options().setCreateIfMissing(true)) {
            options.setTableFormatConfig(new BlockBasedTableConfig().setNoBlockCache(true).setChecksumType(ChecksumType.kCRC32c));
            options.useFixedLengthPrefixExtractor(3).setCompressionType(CompressionType.ZSTD_COMPRESSION);
            try (final RocksDB db = RocksDB.open(options, path("plain"))) {
                db.put(bytes("prefix1"), bytes("a"));
                db.put(bytes("prefix2"), bytes("b"));
                db.compactRange();
                try (final ReadOptions reads = new ReadOptions().setPrefixSameAsStart(true)) {
                    final RocksIterator iterator = db.newIterator(reads);
                    iterator.seek(bytes("prefix"));
                    say(text(iterator.key()));
                    iterator.close();
                }
                for (final boolean withEnd : new boolean[] {false, true}) {
                    db.deleteFilesInRanges(null, Arrays.asList(bytes("x"), null, null, bytes("prefix2")), withEnd);
                    say("deleted " + (db.get(bytes("prefix1")) == null));
                }
            }
        }
    }

    /** Orders keys by their last byte, then backwards. */
    private static final class LastByte extends AbstractComparator {
        LastByte(final ComparatorOptions options) {
            super(options);
        }

        @Override
        public String name() {
            return "esker.LastByte";
        }

        @Override
        public int compare(final ByteBuffer a, final ByteBuffer b) {
            final int order = Byte.compare(a.get(a.limit() - 1), b.get(b.limit() - 1));
            return order != 0 ? order : b.compareTo(a);
        }
    }

    private void comparators() throws Exception {
        for (final boolean direct : new boolean[] {true, false}) {
            try (final ComparatorOptions kind = new ComparatorOptions().setUseDirectBuffer(direct);
                 final LastByte order = new LastByte(kind);
                 final Options options = new Options().setCreateIfMissing(true).setComparator(order);
                 final RocksDB db = RocksDB.open(options, path("ordered" + direct))) {
                for (final String key : new String[] {"ab", "bb", "aa", "ba", "zz", "az"}) {
                    db.put(bytes(key), bytes(key));
                }
                db.compactRange();
                say("direct " + order.usingDirectBuffers());
                print(db.newIterator());
                say(text(db.get(bytes("ba"))));
            }
        }
        try (final Options options = new Options().setCreateIfMissing(true).setComparator(BuiltinComparator.REVERSE_BYTEWISE_COMPARATOR);
             final RocksDB db = RocksDB.open(options, path("reverse"))) {
            db.put(bytes("a"), bytes("1"));
            db.put(bytes("b"), bytes("2"));
            print(db.newIterator());
        }
    }

    /** Makes filters that remove empty values. */
    private static final class EmptyValues extends AbstractCompactionFilterFactory<RemoveEmptyValueCompactionFilter> {
        @Override
        public RemoveEmptyValueCompactionFilter createCompactionFilter(final AbstractCompactionFilter.Context context) {
            say("full " + context.isFullCompaction() + " manual " + context.isManualCompaction());
            return new RemoveEmptyValueCompactionFilter();
        }

        @Override
        public String name() {
            return "esker.EmptyValues";
        }
    }

    private void filters() throws Exception {
        try (final RemoveEmptyValueCompactionFilter filter = new RemoveEmptyValueCompactionFilter();
             final ColumnFamilyOptions options = new ColumnFamilyOptions().setCompactionFilter(filter)) {
            filter("filter", options);
        }
        try (final EmptyValues factory = new EmptyValues();
             final ColumnFamilyOptions options = new ColumnFamilyOptions().setCompactionFilterFactory(factory)) {
            filter("factory", options);
        }
    }

    private void filter(final String name, final ColumnFamilyOptions family) throws Exception {
        try (final DBOptions all = new DBOptions().setCreateIfMissing(true);
             final Options options = new Options(all, family);
             final RocksDB db = RocksDB.open(options, path(name))) {
            for (final String key : new String[] {"a", "b", "c", "d"}) {
                db.put(bytes(key), bytes(key.compareTo("c") < 0 ? "" : key));
            }
            db.compactRange();
            print(db.newIterator());
        }
    }

    private void checkpoints() throws Exception {
        try (final Options options = new Options().setCreateIfMissing(true)) {
            try (final RocksDB db = RocksDB.open(options, path("source")); final Checkpoint checkpoint = Checkpoint.create(db)) {
                db.put(bytes("k"), bytes("kept"));
                checkpoint.createCheckpoint(path("copy"));
                db.put(bytes("k"), bytes("later"));
            }
            try (final Stream<Path> files = Files.list(Paths.get(path("copy")))) {
                say("empty files " + files.filter(file -> file.toFile().length() == 0).count());
            }
            try (final RocksDB copy = RocksDB.open(options, path("copy"))) {
                print(copy.newIterator());
            }
            RocksDB.destroyDB(path("copy"), options);
            say("there " + Files.exists(Paths.get(path("copy")).resolve("CURRENT")));
        }
    }

    private void statistics() throws Exception {
        try (final Statistics statistics = new Statistics();
             final Options options = new Options().setCreateIfMissing(true).setStatistics(statistics);
             final RocksDB db = RocksDB.open(options, path("statistics"))) {
            statistics.setStatsLevel(StatsLevel.ALL);
            db.put(bytes("k"), bytes("v"));
            db.get(bytes("k"));
            db.get(bytes("absent"));
            say("written " + statistics.getTickerCount(TickerType.NUMBER_KEYS_WRITTEN));
            say("read " + statistics.getTickerCount(TickerType.NUMBER_KEYS_READ));
            say("hits " + statistics.getTickerCount(TickerType.MEMTABLE_HIT) + " " + statistics.getTickerCount(TickerType.MEMTABLE_MISS));
            say("gets " + statistics.getHistogramData(HistogramType.DB_GET).getCount());
            say("taken " + statistics.getAndResetTickerCount(TickerType.NUMBER_KEYS_WRITTEN) + " " + statistics.getTickerCount(TickerType.NUMBER_KEYS_WRITTEN));
            say("level " + statistics.statsLevel() + " shared " + (options.statistics() != null));
        }
        try (final Statistics statistics = new Statistics(EnumSet.of(HistogramType.DB_GET));
             final Options options = new Options().setCreateIfMissing(true).setStatistics(statistics);
             final RocksDB db = RocksDB.open(options, path("ignored"))) {
            statistics.setStatsLevel(StatsLevel.ALL);
            db.put(bytes("k"), bytes("v"));
            db.get(bytes("k"));
            say("gets " + statistics.getHistogramData(HistogramType.DB_GET).getCount());
            say("writes " + statistics.getHistogramData(HistogramType.DB_WRITE).getCount());
        }
    }

    private void slices() {
        try (final Slice slice = new Slice("esker"); final Slice other = new Slice(bytes("xxesk"), 2)) {
            say(slice.size() + " " + slice.empty() + " " + slice + " " + other + " " + slice.toString(true));
            say(Integer.signum(slice.compare(other)) + " " + slice.startsWith(other) + " " + text(other.data()));
        }
    }

    private void logs() throws Exception {
        final List<String> lines = new ArrayList<>();
        try (final Options options = new Options().setCreateIfMissing(true).setInfoLogLevel(InfoLogLevel.INFO_LEVEL);
             final Logger logger = new Logger(options) {
                 @Override
                 protected void log(final InfoLogLevel level, final String line) {
                     synchronized (lines) {
                         lines.add(line);
                     }
                 }
             }) {
            options.setLogger(logger);
            try (final RocksDB db = RocksDB.open(options, path("logs")); final FlushOptions flush = new FlushOptions()) {
                db.put(bytes("k"), bytes("v"));
                db.flush(flush);
            }
            say("logged " + !lines.isEmpty() + " " + logger.infoLogLevel());
        }
        lines.clear();
        try (final Options options = new Options().setCreateIfMissing(true).setInfoLogLevel(InfoLogLevel.ERROR_LEVEL);
             final Logger logger = new Logger(options) {
                 @Override
                 protected void log(final InfoLogLevel level, final String line) {
                     synchronized (lines) {
                         lines.add(line);
                     }
                 }
             }) {
            options.setLogger(logger);
            RocksDB.open(options, path("logs")).close();
            say("errors logged " + lines.size());
        }
    }

    private void properties() throws Exception {
        try (final Options options = new Options().setCreateIfMissing(true);
             final RocksDB db = RocksDB.open(options, path("properties"))) {
            db.put(bytes("k"), bytes("v"));
            say(db.getLongProperty("rocksdb.estimate-num-keys") + " " + db.getProperty("rocksdb.num-entries-active-mem-table"));
            say(db.getLongProperty("rocksdb.num-live-versions") + " " + db.getAggregatedLongProperty("rocksdb.num-snapshots"));
            say("levels " + db.numberLevels() + " " + db.level0StopWriteTrigger());
            db.setOptions(MutableColumnFamilyOptions.builder().setWriteBufferSize(1 << 20).build());
            db.setDBOptions(MutableDBOptions.builder().setMaxOpenFiles(500).build());
            say("same name " + db.getName().equals(path("properties")));
            db.put(bytes("large"), new byte[200000]);
            try (final Slice begin = new Slice("a"); final Slice end = new Slice("z")) {
                final List<Range> ranges = Arrays.asList(new Range(begin, end));
                say("memory " + (db.getApproximateSizes(ranges, SizeApproximationFlag.INCLUDE_MEMTABLES)[0] > 100000));
                say("files " + (db.getApproximateSizes(ranges, SizeApproximationFlag.INCLUDE_FILES)[0] > 100000));
            }
            db.flushWal(true);
            db.syncWal();
            db.disableFileDeletions();
            db.cancelAllBackgroundWork(true);
        }
    }

    private void multi() throws Exception {
        try (final Options options = new Options().setCreateIfMissing(true);
             final RocksDB db = RocksDB.open(options, path("multi")); final ReadOptions reads = new ReadOptions()) {
            db.put(bytes("a"), bytes("1"));
            db.put(bytes("c"), bytes("3"));
            for (final byte[] value : db.multiGetAsList(Arrays.asList(bytes("a"), bytes("b"), bytes("c")))) {
                say(text(value));
            }
            final ColumnFamilyHandle family = db.getDefaultColumnFamily();
            for (final byte[] value : db.multiGetAsList(reads, Arrays.asList(family, family), Arrays.asList(bytes("c"), bytes("d")))) {
                say(text(value));
            }
            final List<ByteBuffer> keys = Arrays.asList(direct("a"), direct("b"));
            final List<ByteBuffer> values = Arrays.asList(ByteBuffer.allocateDirect(4), ByteBuffer.allocateDirect(4));
            for (final ByteBufferGetStatus got : db.multiGetByteBuffers(keys, values)) {
                say(got.status.getCode() + " " + got.requiredSize);
            }
            // More than the JVM's room for local references.
            final List<ByteBuffer> many = new ArrayList<>();
            final List<ByteBuffer> places = new ArrayList<>();
            for (int i = 0; i < 200; i++) {
                many.add(direct("absent" + i));
                places.add(ByteBuffer.allocateDirect(4));
            }
            say("many " + db.multiGetByteBuffers(many, places).size());
        }
    }

    private void many() throws Exception {
        try (final Options options = new Options().setCreateIfMissing(true).setWriteBufferSize(64 << 10);
             final RocksDB db = RocksDB.open(options, path("many")); final WriteOptions writes = new WriteOptions()) {
            long state = 42;
            for (int i = 0; i < 20000; i++) {
                state = state * 6364136223846793005L + 1442695040888963407L;
                final byte[] key = bytes("key" + (state >>> 48) % 5000);
                if ((state >>> 33) % 5 == 0) {
                    db.delete(writes, key);
                } else {
                    db.put(writes, key, bytes("value " + i + " of " + state));
                }
            }
            say("many " + digest(db));
        }
    }

    private void backups() throws Exception {
        Files.createDirectories(Paths.get(path("backups")));
        try (final Options options = new Options().setCreateIfMissing(true);
             final RocksDB db = RocksDB.open(options, path("backed"));
             final BackupEngineOptions backupOptions = new BackupEngineOptions(path("backups"));
             final BackupEngine backups = BackupEngine.open(options.getEnv(), backupOptions);
             final RestoreOptions restore = new RestoreOptions(false)) {
            for (int i = 1; i < 5; i++) {
                db.put(bytes("round"), bytes("" + i));
                if (i == 3) {
                    backups.createNewBackupWithMetadata(db, "the third", true);
                } else {
                    backups.createNewBackup(db, true);
                }
            }
            for (final BackupInfo info : backups.getBackupInfo()) {
                say("backup " + info.backupId() + " " + info.appMetadata() + " " + (info.size() > 0) + " " + (info.numberFiles() > 0));
            }
            say("damaged " + backups.getCorruptedBackups().length);
            backups.deleteBackup(2);
            backups.purgeOldBackups(2);
            backups.garbageCollect();
            say("left " + backups.getBackupInfo().size());
            fails("absent backup", () -> backups.deleteBackup(9));
            backups.restoreDbFromBackup(3, path("restored3"), path("restored3"), restore);
            backups.restoreDbFromLatestBackup(path("restored"), path("restored"), restore);
        }
        for (final String name : new String[] {"restored3", "restored"}) {
            try (final Options options = new Options(); final RocksDB db = RocksDB.open(options, path(name))) {
                print(db.newIterator());
            }
        }
    }

    private void writers() throws Exception {
        try (final ComparatorOptions kind = new ComparatorOptions(); final LastByte order = new LastByte(kind);
             final Options ordered = new Options().setCreateIfMissing(true).setComparator(order);
             final EnvOptions files = new EnvOptions(); final SstFileWriter writer = new SstFileWriter(files, ordered)) {
            writer.open(path("written.sst"));
            writer.put(bytes("za"), bytes("1"));
            writer.put(bytes("ab"), bytes("2"));
            writer.finish();
            try (final RocksDB db = RocksDB.open(ordered, path("ingested"));
                 final IngestExternalFileOptions ingest = new IngestExternalFileOptions()) {
                ingest.setMoveFiles(true);
                db.ingestExternalFile(Arrays.asList(path("written.sst")), ingest);
                print(db.newIterator());
            }
        }
        say("moved " + new java.io.File(path("written.sst")).exists());
        // RheaKV closes a table without entries, and expects an empty file.
        final java.io.File unfinished = new java.io.File(path("unfinished.sst"));
        try (final Options options = new Options(); final EnvOptions files = new EnvOptions();
             final SstFileWriter writer = new SstFileWriter(files, options)) {
            writer.open(unfinished.getPath());
            fails("no entries", writer::finish);
        }
        say("unfinished " + unfinished.isFile() + " " + unfinished.length());
    }

    private static int descriptors() {
        return new java.io.File("/proc/self/fd").list().length;
    }

    /** A database that is closed holds no file of its own, though Java does not free what it gave. */
    private void closing() throws Exception {
        int before = 0;
        for (int i = 0; i < 8; i++) {
            if (i == 2) {
                before = descriptors();
            }
            final List<ColumnFamilyHandle> handles = new ArrayList<>();
            final List<ColumnFamilyDescriptor> all = Arrays.asList(new ColumnFamilyDescriptor(RocksDB.DEFAULT_COLUMN_FAMILY));
            final RocksIterator iterator;
            try (final DBOptions options = new DBOptions().setCreateIfMissing(true);
                 final RocksDB db = RocksDB.open(options, path("closing"), all, handles)) {
                for (int call = 0; call < 10; call++) {
                    db.getDefaultColumnFamily();
                }
                iterator = db.newIterator();
                db.getSnapshot();
                say("default environment " + db.getEnv().equals(Env.getDefault()));
            }
            handles.get(0).close();
            iterator.close();
        }
        say("descriptors grow " + (descriptors() > before + 2));
    }

    /** Databases whose values expire. */
    private void expiry() throws Exception {
        try (final StringAppendOperator append = new StringAppendOperator('+');
             final Options options = new Options().setCreateIfMissing(true).setMergeOperator(append);
             final WriteOptions writes = new WriteOptions()) {
            try (final TtlDB db = TtlDB.open(options, path("expiry"), 100000, false)) {
                db.put(bytes("k"), bytes("value"));
                db.put(bytes("gone"), bytes("soon"));
                db.delete(bytes("gone"));
                db.merge(bytes("list"), bytes("a"));
                db.merge(bytes("list"), bytes("b"));
                try (final WriteBatch batch = new WriteBatch()) {
                    batch.put(bytes("of a batch"), bytes("value"));
                    batch.merge(bytes("list"), bytes("c"));
                    db.write(writes, batch);
                }
                db.compactRange();
                print(db.newIterator());
                say(text(db.get(bytes("k"))) + " " + text(db.get(bytes("list"))) + " " + text(db.get(bytes("gone"))));
                for (final byte[] value : db.multiGetAsList(Arrays.asList(bytes("of a batch"), bytes("gone")))) {
                    say(text(value));
                }
                final Holder<byte[]> holder = new Holder<>();
                say("may exist " + db.keyMayExist(bytes("k"), holder) + " " + text(holder.getValue()));
                try (final RocksIterator iterator = db.newIterator()) {
                    fails("refresh", iterator::refresh);
                }
                final ColumnFamilyHandle brief = db.createColumnFamilyWithTtl(new ColumnFamilyDescriptor(bytes("brief")), 3);
                final ColumnFamilyHandle lasting = db.createColumnFamily(new ColumnFamilyDescriptor(bytes("lasting")));
                db.put(brief, bytes("k"), bytes("v"));
                db.put(lasting, bytes("k"), bytes("v"));
                Thread.sleep(4500);
                db.put(brief, bytes("young"), bytes("v"));
                db.compactRange(brief);
                db.compactRange(lasting);
                print(db.newIterator(brief));
                print(db.newIterator(lasting));
            }
            final List<ColumnFamilyDescriptor> all = new ArrayList<>();
            for (final byte[] name : RocksDB.listColumnFamilies(options, path("expiry"))) {
                all.add(new ColumnFamilyDescriptor(name));
            }
            final List<ColumnFamilyHandle> handles = new ArrayList<>();
            try (final DBOptions dbOptions = new DBOptions();
                 final TtlDB db = TtlDB.open(dbOptions, path("expiry"), all, handles, Arrays.asList(1000, 1000, 0), true)) {
                say(handles.size() + " " + text(handles.get(1).getName()) + " " + text(db.get(handles.get(1), bytes("young"))));
                fails("read-only", () -> db.put(bytes("k"), bytes("v")));
            }
            // Behind each value is its time.
            try (final DBOptions dbOptions = new DBOptions();
                 final RocksDB db = RocksDB.openReadOnly(dbOptions, path("expiry"), all, new ArrayList<>())) {
                say("length " + db.get(bytes("k")).length);
            }
        }
    }

    /** The number of entries, and a hash of all of them. */
    private static String digest(final RocksDB db) throws Exception {
        int count = 0;
        int hash = 0;
        try (final RocksIterator iterator = db.newIterator()) {
            for (iterator.seekToFirst(); iterator.isValid(); iterator.next()) {
                count++;
                hash = 31 * hash + Arrays.hashCode(iterator.key()) + Arrays.hashCode(iterator.value());
            }
            iterator.status();
        }
        return count + " " + hash;
    }

    /** Opens a database of an earlier run, with all its families, and prints its contents. */
    private void dump(final String name) throws Exception {
        try (final Options options = new Options(); final StringAppendOperator append = new StringAppendOperator('+');
             final ColumnFamilyOptions cf = new ColumnFamilyOptions().setMergeOperator(append);
             final DBOptions dbOptions = new DBOptions()) {
            final List<ColumnFamilyDescriptor> descriptors = new ArrayList<>();
            for (final byte[] family : RocksDB.listColumnFamilies(options, path(name))) {
                descriptors.add(new ColumnFamilyDescriptor(family, cf));
            }
            final List<ColumnFamilyHandle> handles = new ArrayList<>();
            try (final RocksDB db = RocksDB.open(dbOptions, path(name), descriptors, handles)) {
                say("digest " + digest(db));
                for (final ColumnFamilyHandle handle : handles) {
                    say("family " + text(handle.getName()));
                    if (!name.equals("many") && !name.equals("tables")) {
                        print(db.newIterator(handle));
                    }
                }
            }
        }
    }
}
