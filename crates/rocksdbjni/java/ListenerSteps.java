// The steps of Differential for listeners of events.

import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.rocksdb.*;

final class ListenerSteps {
    private final Differential all;

    ListenerSteps(final Differential all) {
        this.all = all;
    }

    void run() {
        Differential.run("listeners of options", this::options);
        Differential.run("events of jobs", this::jobs);
        Differential.run("events that a listener wants", this::wanted);
        Differential.run("events of ingested files", this::ingestion);
        Differential.run("exceptions of listeners", this::exceptions);
        Differential.run("events of errors", this::errors);
        Differential.run("operations on files", this::fileOperations);
        Differential.run("statistics of compactions", this::statistics);
    }

    private static void say(final String line) {
        Differential.say(line);
    }

    private static byte[] bytes(final String text) {
        return Differential.bytes(text);
    }

    /** Notes events, by their kind. The databases of events must answer. */
    private static class Notes extends AbstractEventListener {
        private final Map<String, List<String>> events = new TreeMap<>();

        Notes(final EnabledEventCallback... wanted) {
            super(wanted);
        }

        Notes() {
        }

        final synchronized void note(final String kind, final String event) {
            events.computeIfAbsent(kind, unused -> new ArrayList<>()).add(event);
            notifyAll();
        }

        /** Waits until there are `count` events of a kind. */
        final synchronized void await(final String kind, final int count) throws InterruptedException {
            final long end = System.currentTimeMillis() + 60_000;
            while (events.getOrDefault(kind, Collections.emptyList()).size() < count && System.currentTimeMillis() < end) {
                wait(1000);
            }
        }

        /** Prints the events of each kind in the order of their texts: threads note them in any order. */
        final synchronized void print() {
            for (final Map.Entry<String, List<String>> kind : events.entrySet()) {
                kind.getValue().sort(null);
                for (final String event : kind.getValue()) {
                    say(kind.getKey() + ": " + event);
                }
            }
        }

        private static String seen(final RocksDB db) {
            try {
                return Differential.text(db.get(bytes("seen")));
            } catch (final RocksDBException e) {
                return Differential.status(e);
            }
        }

        private static String table(final String path) {
            return path.replaceAll(".*/[0-9]{6}\\.sst", "a table");
        }

        private static String properties(final TableProperties table) {
            return table.getNumEntries() + " entries, " + table.getNumDeletions() + " deletions, " + table.getNumMergeOperands() + " operands, "
                + table.getRawKeySize() + "+" + table.getRawValueSize() + " bytes, " + table.getNumDataBlocks() + " blocks, family "
                + table.getColumnFamilyId() + " " + Differential.text(table.getColumnFamilyName()) + ", " + table.getComparatorName() + " "
                + table.getMergeOperatorName() + " " + table.getPrefixExtractorName() + " '" + table.getFilterPolicyName() + "' "
                + table.getFixedKeyLen() + " " + table.getNumRangeDeletions() + " " + (table.getDataSize() > 0)
                + " " + (table.getIndexSize() > 0) + " " + table.getFilterSize() + " " + table.getReadableProperties().size();
        }

        private static String status(final Status status) {
            return status.getCode() + "/" + status.getSubCode();
        }

        private static String flush(final RocksDB db, final FlushJobInfo info) {
            return seen(db) + " " + info.getColumnFamilyId() + " " + info.getColumnFamilyName() + " " + info.getFlushReason() + " "
                + (info.getThreadId() != 0) + " " + (info.getJobId() > 0) + " " + info.isTriggeredWritesSlowdown() + " " + info.isTriggeredWritesStop();
        }

        @Override
        public void onFlushBegin(final RocksDB db, final FlushJobInfo info) {
            note("flush begins", flush(db, info));
        }

        @Override
        public void onFlushCompleted(final RocksDB db, final FlushJobInfo info) {
            note("flush ends", flush(db, info) + " " + table(info.getFilePath()) + " " + info.getSmallestSeqno() + " " + info.getLargestSeqno()
                + " " + properties(info.getTableProperties()));
        }

        @Override
        public void onTableFileDeleted(final TableFileDeletionInfo info) {
            note("table deleted", info.getDbName().replaceAll(".*/", "") + " " + table(info.getFilePath()) + " " + status(info.getStatus()));
        }

        private static String compaction(final RocksDB db, final CompactionJobInfo info) {
            return seen(db) + " " + Differential.text(info.columnFamilyName()) + " " + status(info.status()) + " " + (info.threadId() != 0) + " "
                + (info.jobId() > 0) + " levels " + info.baseInputLevel() + " " + info.outputLevel() + " " + info.inputFiles().size() + " inputs, "
                + info.compactionReason() + " " + info.compression() + " " + table(info.inputFiles().get(0));
        }

        @Override
        public void onCompactionBegin(final RocksDB db, final CompactionJobInfo info) {
            note("compaction begins", compaction(db, info));
        }

        @Override
        public void onCompactionCompleted(final RocksDB db, final CompactionJobInfo info) {
            final List<String> tables = new ArrayList<>();
            for (final String output : info.outputFiles()) {
                tables.add(table(output) + " " + properties(info.tableProperties().get(output)));
            }
            note("compaction ends", compaction(db, info) + " " + tables);
            try (final CompactionJobStats stats = info.stats()) {
                note("compaction ends", stats.numInputRecords() + " " + stats.numOutputRecords() + " " + stats.numInputFiles() + " " + stats.numOutputFiles()
                    + " " + stats.numInputFilesAtOutputLevel() + " " + stats.numRecordsReplaced() + " " + stats.numInputDeletionRecords() + " "
                    + stats.numExpiredDeletionRecords() + " " + stats.totalInputRawKeyBytes() + " " + stats.totalInputRawValueBytes() + " "
                    + (stats.totalOutputBytes() > 0) + " " + stats.numCorruptKeys() + " " + stats.isManualCompaction());
            }
        }

        private static String creation(final TableFileCreationBriefInfo info) {
            return info.getDbName().replaceAll(".*/", "") + " " + info.getColumnFamilyName() + " " + table(info.getFilePath()) + " " + info.getReason();
        }

        @Override
        public void onTableFileCreated(final TableFileCreationInfo info) {
            note("table created", creation(info) + " " + status(info.getStatus()) + " " + (info.getFileSize() > 0) + " "
                + info.getTableProperties().getNumEntries());
        }

        @Override
        public void onTableFileCreationStarted(final TableFileCreationBriefInfo info) {
            note("table begins", creation(info) + " " + (info.getJobId() > 0));
        }

        @Override
        public void onMemTableSealed(final MemTableInfo info) {
            note("memtable sealed", info.getColumnFamilyName() + " " + info.getFirstSeqno() + " " + info.getEarliestSeqno() + " "
                + info.getNumEntries() + " " + info.getNumDeletes());
        }

        @Override
        public void onColumnFamilyHandleDeletionStarted(final ColumnFamilyHandle family) {
            try {
                final String name = Differential.text(family.getName());
                // RocksDB makes and frees handles of the default family itself.
                if (!name.equals("default")) {
                    note("family's handle", name + " " + family.getID());
                }
            } catch (final RocksDBException e) {
                note("family's handle", Differential.status(e));
            }
        }

        @Override
        public void onExternalFileIngested(final RocksDB db, final ExternalFileIngestionInfo info) {
            note("ingested", seen(db) + " " + info.getColumnFamilyName() + " " + info.getExternalFilePath().replaceAll(".*/", "") + " "
                + table(info.getInternalFilePath()) + " " + info.getGlobalSeqno() + " " + properties(info.getTableProperties()));
        }

        @Override
        public void onBackgroundError(final BackgroundErrorReason reason, final Status status) {
            note("error", reason + " " + status(status));
        }

        @Override
        public void onStallConditionsChanged(final WriteStallInfo info) {
            note("stall", info.getColumnFamilyName() + " from " + info.getPreviousCondition() + " to " + info.getCurrentCondition());
        }

        @Override
        public boolean onErrorRecoveryBegin(final BackgroundErrorReason reason, final Status status) {
            note("recovery begins", reason + " " + status(status));
            return true;
        }

        @Override
        public void onErrorRecoveryCompleted(final Status status) {
            note("recovery ends", status(status));
        }

        @Override
        public void onFileWriteFinish(final FileOperationInfo info) {
            note("file", "written");
        }
    }

    /** Sums up operations on files, by their kind and the ending of the file's name. */
    private static final class FileNotes extends AbstractEventListener {
        private final boolean isWanted;
        private final Map<String, Long> lengths = new TreeMap<>();
        private final long begin = System.currentTimeMillis();
        private boolean areRight = true;

        FileNotes(final boolean isWanted, final EnabledEventCallback... enabled) {
            super(enabled);
            this.isWanted = isWanted;
        }

        FileNotes() {
            isWanted = true;
        }

        private synchronized void note(final String kind, final FileOperationInfo info) {
            final long began = info.getStartTimestamp() / 1_000_000;
            // RocksDB sets neither offset nor length for other kinds.
            final boolean hasPlace = kind.equals("written") || kind.equals("read");
            areRight &= info.getStatus().getCode() == Status.Code.Ok && info.getDuration() >= 0 && (!hasPlace || info.getOffset() >= 0)
                && began >= begin - 1000 && began <= System.currentTimeMillis() + 1000;
            lengths.merge(kind + " " + info.getPath().replaceAll(".*[/.]", "").replaceAll("-[0-9]+", ""), hasPlace ? info.getLength() : 0, Long::sum);
        }

        final synchronized boolean has(final String kind) {
            return lengths.containsKey(kind);
        }

        final synchronized long length(final String kind) {
            return lengths.getOrDefault(kind, 0L);
        }

        @Override
        public boolean shouldBeNotifiedOnFileIO() {
            return isWanted;
        }

        @Override
        public void onFileReadFinish(final FileOperationInfo info) {
            note("read", info);
        }

        @Override
        public void onFileWriteFinish(final FileOperationInfo info) {
            note("written", info);
        }

        @Override
        public void onFileFlushFinish(final FileOperationInfo info) {
            note("flushed", info);
        }

        @Override
        public void onFileSyncFinish(final FileOperationInfo info) {
            note("synced", info);
        }

        @Override
        public void onFileRangeSyncFinish(final FileOperationInfo info) {
            note("range synced", info);
        }

        @Override
        public void onFileTruncateFinish(final FileOperationInfo info) {
            note("truncated", info);
        }

        @Override
        public void onFileCloseFinish(final FileOperationInfo info) {
            note("closed", info);
        }
    }

    private void options() throws Exception {
        try (final Notes one = new Notes(); final Notes two = new Notes(); final Options options = new Options(); final DBOptions db = new DBOptions()) {
            say("none " + options.listeners().size() + " " + db.listeners().size());
            options.setListeners(Arrays.asList(one, two));
            say("two " + options.listeners().size() + " " + (options.listeners().get(0) == one) + " " + (options.listeners().get(1) == two));
            db.setListeners(Collections.singletonList(two));
            say("one " + db.listeners().size() + " " + (db.listeners().get(0) == two));
            try (final Options copy = new Options(options); final DBOptions of = new DBOptions(options);
                 final ColumnFamilyOptions cf = new ColumnFamilyOptions(); final Options both = new Options(db, cf)) {
                say("copies " + copy.listeners().size() + " " + of.listeners().size() + " " + both.listeners().size() + " " + (of.listeners().get(0) == one));
            }
            options.setListeners(Collections.emptyList());
            say("none " + options.listeners().size() + " " + db.listeners().size());
        }
    }

    private void jobs() throws Exception {
        final Notes notes = new Notes();
        try (final DBOptions options = new DBOptions().setCreateIfMissing(true).setCreateMissingColumnFamilies(true).setListeners(Collections.singletonList(notes));
             final ColumnFamilyOptions cf = new ColumnFamilyOptions().setCompressionType(CompressionType.NO_COMPRESSION).setLevel0FileNumCompactionTrigger(2)
                 .setLevel0SlowdownWritesTrigger(2).setMergeOperatorName("stringappend");
             final FlushOptions flush = new FlushOptions()) {
            final List<ColumnFamilyDescriptor> families =
                Arrays.asList(new ColumnFamilyDescriptor(RocksDB.DEFAULT_COLUMN_FAMILY, cf), new ColumnFamilyDescriptor(bytes("other"), cf));
            final List<ColumnFamilyHandle> handles = new ArrayList<>();
            try (final RocksDB db = RocksDB.open(options, all.path("events"), families, handles)) {
                db.put(bytes("seen"), bytes("here"));
                db.put(bytes("a"), bytes("1"));
                db.merge(bytes("list"), bytes("x"));
                db.flush(flush);
                db.put(bytes("a"), bytes("2"));
                db.put(bytes("b"), bytes("3"));
                db.flush(flush);
                notes.await("stall", 2);
                notes.await("compaction ends", 2);
                notes.await("table deleted", 2);
                final ColumnFamilyHandle other = handles.get(1);
                db.put(other, bytes("of other"), bytes("v"));
                db.flush(flush, other);
                db.compactRange(other);
                notes.await("compaction ends", 4);
                handles.forEach(ColumnFamilyHandle::close);
                db.put(bytes("unflushed"), bytes("v"));
            }
            notes.print();
        }
        notes.close();
    }

    /** Only events that the listener names reach it; a listener that is closed first hears all the same. */
    private void wanted() throws Exception {
        final Notes few = new Notes(AbstractEventListener.EnabledEventCallback.ON_MEMTABLE_SEALED, AbstractEventListener.EnabledEventCallback.ON_TABLE_FILE_CREATED,
            AbstractEventListener.EnabledEventCallback.ON_COLUMN_FAMILY_HANDLE_DELETION_STARTED);
        final Notes second = new Notes(AbstractEventListener.EnabledEventCallback.ON_FLUSH_BEGIN);
        try (final Options options = new Options().setCreateIfMissing(true).setDisableAutoCompactions(true).setListeners(Arrays.asList(few, second));
             final FlushOptions flush = new FlushOptions();
             final RocksDB db = RocksDB.open(options, all.path("few events"))) {
            few.close();
            db.put(bytes("seen"), bytes("v"));
            db.delete(bytes("gone"));
            db.flush(flush);
            db.createColumnFamily(new ColumnFamilyDescriptor(bytes("a family"))).close();
        }
        few.print();
        second.print();
        second.close();
    }

    private void ingestion() throws Exception {
        final String file = all.path("to ingest.sst");
        final Notes notes = new Notes(AbstractEventListener.EnabledEventCallback.ON_EXTERNAL_FILE_INGESTED);
        try (final Options options = new Options().setCreateIfMissing(true).setListeners(Collections.singletonList(notes)); final EnvOptions env = new EnvOptions();
             final IngestExternalFileOptions ingest = new IngestExternalFileOptions(); final RocksDB db = RocksDB.open(options, all.path("events of ingestion"))) {
            try (final SstFileWriter writer = new SstFileWriter(env, options)) {
                writer.open(file);
                writer.put(bytes("a"), bytes("1"));
                writer.put(bytes("seen"), bytes("2"));
                writer.finish();
            }
            db.put(bytes("seen"), bytes("before"));
            db.ingestExternalFile(Collections.singletonList(file), ingest);
        }
        notes.print();
        notes.close();
    }

    private void exceptions() throws Exception {
        final Notes notes = new Notes() {
            @Override
            public void onFlushBegin(final RocksDB db, final FlushJobInfo info) {
                note("throws", "at the begin of a flush");
                throw new IllegalStateException("thrown by a listener, as the test wants");
            }

            @Override
            public void onMemTableSealed(final MemTableInfo info) {
                note("throws at the seal", "of a memtable");
                throw new IllegalStateException("thrown by a listener, as the test wants");
            }
        };
        try (final Options options = new Options().setCreateIfMissing(true).setListeners(Collections.singletonList(notes)); final FlushOptions flush = new FlushOptions();
             final RocksDB db = RocksDB.open(options, all.path("exceptions of listeners"))) {
            db.put(bytes("seen"), bytes("v"));
            db.flush(flush);
            db.put(bytes("k"), bytes("v"));
            say(Differential.text(db.get(bytes("k"))) + " " + db.getProperty("rocksdb.num-files-at-level0"));
        }
        notes.print();
        notes.close();
    }

    /** A compaction fails because directories have the names of the next tables. */
    private void errors() throws Exception {
        final Notes notes = new Notes(AbstractEventListener.EnabledEventCallback.ON_BACKGROUND_ERROR, AbstractEventListener.EnabledEventCallback.ON_ERROR_RECOVERY_BEGIN,
            AbstractEventListener.EnabledEventCallback.ON_ERROR_RECOVERY_COMPLETED);
        try (final Options options = new Options().setCreateIfMissing(true).setDisableAutoCompactions(true).setListeners(Collections.singletonList(notes));
             final FlushOptions flush = new FlushOptions()) {
            try (final RocksDB db = RocksDB.open(options, all.path("events of errors"))) {
                for (int i = 0; i < 2; i++) {
                    db.put(bytes("a" + i), bytes("v"));
                    db.put(bytes("b" + i), bytes("v"));
                    db.flush(flush);
                }
                for (int number = 1; number < 60; number++) {
                    final Path table = Paths.get(all.path("events of errors"), String.format("%06d.sst", number));
                    if (!Files.exists(table)) {
                        Files.createDirectory(table);
                    }
                }
                Differential.fails("no table", db::compactRange);
                Differential.fails("afterwards", () -> db.put(bytes("k"), bytes("v")));
            }
        }
        notes.print();
        notes.close();
    }

    private long bytesOf(final String database, final String ending) throws Exception {
        long bytes = 0;
        try (final Stream<Path> files = Files.list(Paths.get(all.path(database)))) {
            for (final Path file : (Iterable<Path>) files::iterator) {
                bytes += file.toString().endsWith(ending) ? Files.size(file) : 0;
            }
        }
        return bytes;
    }

    private void fileOperations() throws Exception {
        final FileNotes notes = new FileNotes();
        final FileNotes unwanted = new FileNotes(false);
        final FileNotes unasked = new FileNotes(true, AbstractEventListener.EnabledEventCallback.ON_FILE_WRITE_FINISH);
        final FileNotes writes = new FileNotes(true, AbstractEventListener.EnabledEventCallback.ON_FILE_WRITE_FINISH,
            AbstractEventListener.EnabledEventCallback.SHOULD_BE_NOTIFIED_ON_FILE_IO);
        try (final Options options = new Options().setCreateIfMissing(true).setCompressionType(CompressionType.NO_COMPRESSION).setBytesPerSync(1 << 20)
                 .setListeners(Arrays.asList(notes, unwanted, unasked, writes));
             final WriteOptions sync = new WriteOptions().setSync(true); final FlushOptions flush = new FlushOptions()) {
            try (final RocksDB db = RocksDB.open(options, all.path("operations"))) {
                db.put(bytes("a"), bytes("unsynced"));
                say("log " + (notes.length("written log") > 0) + " " + notes.has("synced log") + " " + notes.has("synced sst"));
                db.put(sync, bytes("b"), bytes("synced"));
                say("log " + notes.has("synced log"));
                final byte[] large = new byte[4_000_000];
                db.put(bytes("large"), large);
                db.flush(flush);
                say("table " + (notes.length("written sst") == bytesOf("operations", ".sst")) + " " + notes.has("synced sst") + " " + notes.has("closed sst")
                    + " " + notes.has("range synced sst"));
                say("read " + db.get(bytes("large")).length + " " + (notes.length("read sst") >= large.length));
                db.put(bytes("c"), bytes("unflushed"));
            }
            say("manifest " + notes.has("written MANIFEST") + " " + notes.has("synced MANIFEST") + " " + notes.has("closed MANIFEST") + " " + notes.has("closed log"));
            say("right " + notes.areRight + ", unwanted " + unwanted.lengths + ", unasked " + unasked.lengths);
            say("writes " + (writes.length("written sst") == notes.length("written sst")) + " " + writes.has("closed sst") + " " + writes.has("read sst"));
        }
        for (final FileNotes closed : Arrays.asList(notes, unwanted, unasked, writes)) {
            closed.close();
        }
    }

    /** Objects that a program makes itself are empty. */
    private void statistics() throws Exception {
        try (final CompactionJobStats one = new CompactionJobStats(); final CompactionJobStats two = new CompactionJobStats();
             final CompactionJobInfo info = new CompactionJobInfo()) {
            one.add(two);
            one.reset();
            say(one.numInputRecords() + " " + one.elapsedMicros() + " " + one.isManualCompaction() + " " + one.fileRangeSyncNanos() + " "
                + one.filePrepareWriteNanos() + " " + one.smallestOutputKeyPrefix().length + " " + one.largestOutputKeyPrefix().length
                + " " + one.numSingleDelFallthru() + " " + one.numSingleDelMismatch() + " " + one.fileWriteNanos() + " " + one.fileFsyncNanos());
            say("'" + Differential.text(info.columnFamilyName()) + "' " + info.inputFiles() + " " + info.outputFiles() + " " + info.tableProperties());
        }
    }
}
