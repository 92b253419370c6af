// The calls of Differential that RocksJava has had since release 8.10.

import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;
import org.rocksdb.*;

public final class Differential810 extends Differential88 {
    private Differential810(final Path directory) {
        super(directory);
    }

    public static void main(final String[] arguments) throws Exception {
        new Differential810(Paths.get(arguments[1])).start(arguments[0]);
    }

    @Override
    void writeAll() throws Exception {
        super.writeAll();
        run("exports", this::exports);
        run("buffers of transactions", this::buffersOfTransactions);
    }

    @Override
    List<String> databases() {
        final List<String> names = new ArrayList<>(super.databases());
        names.add("imported");
        return names;
    }

    private long filesIn(final String name) throws Exception {
        try (final Stream<Path> files = Files.list(Paths.get(path(name)))) {
            return files.filter(file -> file.toString().endsWith(".sst")).count();
        }
    }

    private static ColumnFamilyDescriptor family(final String name) {
        return new ColumnFamilyDescriptor(bytes(name));
    }

    /** Moves families as Flink does that restores from the state of several workers. */
    private void exports() throws Exception {
        try (final Options options = new Options().setCreateIfMissing(true);
             final RocksDB from = RocksDB.open(options, path("exporting"));
             final RocksDB into = RocksDB.open(options, path("imported"));
             final Checkpoint checkpoint = Checkpoint.create(from);
             final ImportColumnFamilyOptions copying = new ImportColumnFamilyOptions();
             final ImportColumnFamilyOptions moving = new ImportColumnFamilyOptions().setMoveFiles(true)) {
            say("moves " + copying.moveFiles() + " " + moving.moveFiles());
            final ColumnFamilyHandle first = from.createColumnFamily(family("first"));
            final ColumnFamilyHandle second = from.createColumnFamily(family("second"));
            final ColumnFamilyHandle empty = from.createColumnFamily(family("empty"));
            for (int i = 0; i < 10; i++) {
                from.put(first, bytes("a" + i), bytes("old" + i));
                from.put(second, bytes("b" + i), bytes("b" + i));
            }
            try (final FlushOptions flush = new FlushOptions()) {
                from.flush(flush, first);
            }
            from.put(first, bytes("a1"), bytes("new"));
            from.delete(first, bytes("a2"));
            final ExportImportFilesMetaData one = checkpoint.exportColumnFamily(first, path("exported1"));
            final ExportImportFilesMetaData two = checkpoint.exportColumnFamily(second, path("exported2"));
            final ExportImportFilesMetaData none = checkpoint.exportColumnFamily(empty, path("exported3"));
            say("files " + filesIn("exported1") + " " + filesIn("exported2") + " " + filesIn("exported3"));
            fails("the directory exists", () -> checkpoint.exportColumnFamily(first, path("exported1")));

            final ColumnFamilyHandle both = into.createColumnFamilyWithImport(family("both"), copying, Arrays.asList(one, two));
            print(into.newIterator(both));
            into.put(both, bytes("a5"), bytes("after"));
            into.clipColumnFamily(both, bytes("a3"), bytes("b2"));
            print(into.newIterator(both));
            fails("the family exists", () -> into.createColumnFamilyWithImport(family("both"), copying, one));
            fails("overlap", () -> into.createColumnFamilyWithImport(family("twice"), copying, Arrays.asList(one, one)));
            fails("no files", () -> into.createColumnFamilyWithImport(family("none"), copying, none));
            fails("one without files", () -> into.createColumnFamilyWithImport(family("half"), copying, Arrays.asList(one, none)));
            try (final ColumnFamilyOptions reverse = new ColumnFamilyOptions().setComparator(BuiltinComparator.REVERSE_BYTEWISE_COMPARATOR)) {
                final ColumnFamilyDescriptor other = new ColumnFamilyDescriptor(bytes("reverse"), reverse);
                fails("other order", () -> into.createColumnFamilyWithImport(other, copying, one));
            }
            say("left " + filesIn("exported2"));
            print(into.newIterator(into.createColumnFamilyWithImport(family("moved"), moving, two)));
            say("left " + filesIn("exported2"));
            for (final LiveFileMetaData file : from.getLiveFilesMetaData()) {
                say(text(file.columnFamilyName()) + " level " + file.level() + " " + text(file.smallestKey()) + " " + text(file.largestKey()));
                say("  " + file.numEntries() + " " + file.numDeletions() + " " + file.smallestSeqno() + " " + file.largestSeqno());
                say("  " + file.fileName().matches("/[0-9]{6}\\.sst") + " " + file.path().equals(path("exporting"))
                    + " " + (file.size() > 0) + " " + file.beingCompacted() + " " + file.fileChecksum().length);
            }
            for (final ExportImportFilesMetaData export : Arrays.asList(one, two, none)) {
                export.close();
            }
        }
    }

    /** Transactions with direct buffers, and reads into arrays. */
    private void buffersOfTransactions() throws Exception {
        try (final Options options = new Options().setCreateIfMissing(true).setMergeOperatorName("stringappend");
             final TransactionDBOptions locks = new TransactionDBOptions(); final WriteOptions writes = new WriteOptions();
             final ReadOptions reads = new ReadOptions();
             final TransactionDB db = TransactionDB.open(options, locks, path("buffers of transactions"));
             final Transaction transaction = db.beginTransaction(writes)) {
            final ColumnFamilyHandle family = db.getDefaultColumnFamily();
            transaction.put(direct("a"), direct("first"));
            transaction.put(family, direct("b"), direct("second"), false);
            transaction.put(family, direct("b"), direct("again"), true);
            transaction.merge(direct("m"), direct("x"));
            transaction.merge(family, direct("m"), direct("y"));
            transaction.mergeUntracked(direct("m"), direct("z"));
            final ByteBuffer value = ByteBuffer.allocateDirect(4);
            final GetStatus found = transaction.get(reads, direct("a"), value);
            value.flip();
            say(found.status.getCode() + " " + found.requiredSize + " " + text(value));
            value.clear();
            final GetStatus locked = transaction.getForUpdate(reads, family, direct("b"), value, true);
            value.flip();
            say(locked.status.getCode() + " " + locked.requiredSize + " " + text(value));
            final byte[] array = new byte[4];
            final GetStatus copied = transaction.get(reads, family, bytes("m"), array);
            say(copied.status.getCode() + " " + copied.requiredSize + " " + text(array));
            final GetStatus absent = transaction.getForUpdate(reads, bytes("absent"), array, true);
            say(absent.status.getCode() + " " + absent.requiredSize);
            print(transaction.getIterator());
            print(transaction.getIterator(family));
            transaction.commit();
            print(db.newIterator());
        }
    }
}
