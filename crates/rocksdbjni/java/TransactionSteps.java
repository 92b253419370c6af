// The steps of Differential for databases with transactions.

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.rocksdb.*;

final class TransactionSteps {
    private final Differential all;

    TransactionSteps(final Differential all) {
        this.all = all;
    }

    void run() {
        Differential.run("transaction options", this::options);
        Differential.run("transactions that lock", this::locking);
        Differential.run("conflicts of locks", this::conflicts);
        Differential.run("deadlocks", this::deadlocks);
        Differential.run("prepared transactions", this::prepared);
        Differential.run("optimistic transactions", this::optimistic);
        Differential.run("notifiers of snapshots", this::notifiers);
        Differential.run("batches for the commit", this::commitBatches);
    }

    private static void say(final String line) {
        Differential.say(line);
    }

    private static byte[] bytes(final String text) {
        return Differential.bytes(text);
    }

    private static byte[][] parts(final String... texts) {
        return Arrays.stream(texts).map(TransactionSteps::bytes).toArray(byte[][]::new);
    }

    private static String text(final byte[] bytes) {
        return Differential.text(bytes);
    }

    private static String texts(final byte[][] values) {
        final List<String> texts = new ArrayList<>();
        for (final byte[] value : values) {
            texts.add(text(value));
        }
        return texts.toString();
    }

    private void options() throws Exception {
        try (final TransactionDBOptions db = new TransactionDBOptions(); final TransactionOptions transaction = new TransactionOptions();
             final OptimisticTransactionOptions optimistic = new OptimisticTransactionOptions()) {
            say(db.getMaxNumLocks() + " " + db.getNumStripes() + " " + db.getTransactionLockTimeout() + " " + db.getDefaultLockTimeout() + " " + db.getWritePolicy());
            db.setMaxNumLocks(9).setNumStripes(8).setTransactionLockTimeout(7).setDefaultLockTimeout(6).setWritePolicy(TxnDBWritePolicy.WRITE_PREPARED);
            say(db.getMaxNumLocks() + " " + db.getNumStripes() + " " + db.getTransactionLockTimeout() + " " + db.getDefaultLockTimeout() + " " + db.getWritePolicy());
            say(transaction.isSetSnapshot() + " " + transaction.isDeadlockDetect() + " " + transaction.getLockTimeout() + " " + transaction.getExpiration()
                + " " + transaction.getDeadlockDetectDepth() + " " + transaction.getMaxWriteBatchSize());
            transaction.setSetSnapshot(true).setDeadlockDetect(true).setLockTimeout(5).setExpiration(4).setDeadlockDetectDepth(3).setMaxWriteBatchSize(2);
            say(transaction.isSetSnapshot() + " " + transaction.isDeadlockDetect() + " " + transaction.getLockTimeout() + " " + transaction.getExpiration()
                + " " + transaction.getDeadlockDetectDepth() + " " + transaction.getMaxWriteBatchSize());
            say(optimistic.isSetSnapshot() + " " + optimistic.setSetSnapshot(true).isSetSnapshot());
        }
    }

    private static String counts(final Transaction transaction) {
        return transaction.getNumPuts() + " puts, " + transaction.getNumDeletes() + " deletes, " + transaction.getNumMerges() + " merges";
    }

    /** Calls that both kinds of transactions answer alike. */
    private void calls(final RocksDB db, final Transaction transaction, final ColumnFamilyHandle family) throws Exception {
        try (final ReadOptions reads = new ReadOptions()) {
            transaction.put(bytes("a"), bytes("1"));
            transaction.put(family, bytes("a"), bytes("of family"));
            transaction.put(parts("b", "b"), parts("2", "2"));
            transaction.putUntracked(bytes("c"), bytes("3"));
            transaction.putUntracked(family, parts("c", "c"), parts("3", "3"));
            transaction.merge(bytes("list"), bytes("x"));
            transaction.merge(family, bytes("list"), bytes("y"));
            transaction.delete(bytes("old"));
            transaction.delete(family, parts("ol", "d"));
            transaction.singleDelete(bytes("single"));
            transaction.putLogData(bytes("a note"));
            say(counts(transaction) + ", " + transaction.getWriteBatch().count() + " in the batch");
            say(text(transaction.get(reads, bytes("a"))) + " " + text(transaction.get(family, reads, bytes("a"))) + " " + text(db.get(bytes("a"))));
            say(text(transaction.get(reads, bytes("old"))) + " " + text(db.get(bytes("old"))) + " " + text(transaction.get(reads, bytes("list"))));
            say(texts(transaction.multiGet(reads, parts("a", "bb", "absent", "list"))));
            say(texts(transaction.multiGet(reads, Arrays.asList(family, db.getDefaultColumnFamily()), parts("cc", "c"))));
            Differential.print(transaction.getIterator(reads));
            Differential.print(transaction.getIterator(reads, family));
            transaction.setSavePoint();
            transaction.put(bytes("undone"), bytes("v"));
            transaction.delete(bytes("a"));
            say(counts(transaction) + " " + text(transaction.get(reads, bytes("a"))));
            transaction.rollbackToSavePoint();
            say(counts(transaction) + " " + text(transaction.get(reads, bytes("a"))));
            Differential.fails("no save point", transaction::rollbackToSavePoint);
            try (final WriteBatch batch = new WriteBatch()) {
                batch.put(bytes("of a batch"), bytes("v"));
                batch.delete(family, bytes("list"));
                transaction.rebuildFromWriteBatch(batch);
            }
            say(text(transaction.getForUpdate(reads, bytes("a"), true)) + " " + text(transaction.getForUpdate(reads, family, bytes("a"), false))
                + " " + text(transaction.getForUpdate(reads, bytes("absent"), true)));
            say(texts(transaction.multiGetForUpdate(reads, parts("a", "absent"))));
            transaction.undoGetForUpdate(bytes("absent"));
            transaction.disableIndexing();
            transaction.enableIndexing();
            say("elapsed " + (transaction.getElapsedTime() >= 0) + " " + transaction.isDeadlockDetect() + " '" + transaction.getName() + "'");
            say("sync " + transaction.getWriteOptions().sync() + " snapshot " + (transaction.getSnapshot() == null));
            transaction.commit();
            say(counts(transaction) + " " + text(db.get(bytes("a"))));
            Differential.print(db.newIterator());
            Differential.print(db.newIterator(family));
        }
    }

    /** A snapshot of a transaction, and reads at it. */
    private static void snapshots(final RocksDB db, final Transaction transaction) throws Exception {
        try (final ReadOptions reads = new ReadOptions(); final ReadOptions latest = new ReadOptions()) {
            db.put(bytes("seen"), bytes("before"));
            transaction.setSnapshot();
            final Snapshot snapshot = transaction.getSnapshot();
            say("sequence " + (snapshot.getSequenceNumber() == db.getLatestSequenceNumber()));
            reads.setSnapshot(snapshot);
            db.put(bytes("seen"), bytes("after"));
            say(text(transaction.get(reads, bytes("seen"))) + " " + text(transaction.get(latest, bytes("seen"))) + " " + text(db.get(reads, bytes("seen"))));
            reads.setSnapshot(null);
            transaction.clearSnapshot();
            say("snapshot " + (transaction.getSnapshot() == null));
            transaction.setSnapshotOnNextOperation();
            say("snapshot " + (transaction.getSnapshot() == null));
            transaction.put(bytes("next"), bytes("v"));
            say("snapshot " + (transaction.getSnapshot() == null));
            transaction.rollback();
            say(counts(transaction) + " " + text(transaction.get(latest, bytes("next"))));
        }
    }

    private void locking() throws Exception {
        try (final StringAppendOperator append = new StringAppendOperator('+');
             final ColumnFamilyOptions cf = new ColumnFamilyOptions().setMergeOperator(append);
             final DBOptions options = new DBOptions().setCreateIfMissing(true).setCreateMissingColumnFamilies(true);
             final TransactionDBOptions locks = new TransactionDBOptions(); final WriteOptions writes = new WriteOptions()) {
            final List<ColumnFamilyDescriptor> families =
                Arrays.asList(new ColumnFamilyDescriptor(RocksDB.DEFAULT_COLUMN_FAMILY, cf), new ColumnFamilyDescriptor(bytes("f"), cf));
            final List<ColumnFamilyHandle> handles = new ArrayList<>();
            try (final TransactionDB db = TransactionDB.open(options, locks, all.path("locking"), families, handles)) {
                final ColumnFamilyHandle family = handles.get(1);
                db.put(bytes("old"), bytes("v"));
                db.put(family, bytes("old"), bytes("v"));
                db.merge(bytes("list"), bytes("first"));
                db.put(bytes("single"), bytes("v"));
                try (final WriteBatch batch = new WriteBatch()) {
                    batch.put(bytes("z"), bytes("batch"));
                    db.write(writes, batch);
                }
                try (final Transaction transaction = db.beginTransaction(writes)) {
                    say("id " + (transaction.getID() > 0) + " " + transaction.getState());
                    calls(db, transaction, family);
                    say("" + transaction.getState());
                    Differential.fails("it is committed", transaction::commit);
                    final long id = transaction.getID();
                    say("again " + (db.beginTransaction(writes, transaction) == transaction) + " " + transaction.getState() + " " + (transaction.getID() != id));
                    snapshots(db, transaction);
                    say("" + transaction.getState());
                    try (final TransactionOptions detecting = new TransactionOptions().setDeadlockDetect(true).setMaxWriteBatchSize(200)) {
                        db.beginTransaction(writes, detecting, transaction);
                    }
                    say("detects " + transaction.isDeadlockDetect());
                    Differential.fails("too large", () -> transaction.put(bytes("k"), new byte[300]));
                    try (final WriteOptions without = new WriteOptions().setDisableWAL(true)) {
                        transaction.setWriteOptions(without);
                    }
                    say("without WAL " + transaction.getWriteOptions().disableWAL());
                    transaction.getWriteOptions().setDisableWAL(false);
                    say("without WAL " + transaction.getWriteOptions().disableWAL());
                    transaction.put(bytes("logged"), bytes("v"));
                    transaction.commit();
                }
                final ColumnFamilyHandle made = db.createColumnFamily(new ColumnFamilyDescriptor(bytes("made")));
                try (final Transaction transaction = db.beginTransaction(writes)) {
                    transaction.put(made, bytes("k"), bytes("v"));
                    transaction.commit();
                    say(text(db.get(made, bytes("k"))));
                }
                db.dropColumnFamily(made);
                db.singleDelete(bytes("logged"));
                say(text(db.get(bytes("logged"))));
            }
        }
    }

    private void conflicts() throws Exception {
        try (final Options options = new Options().setCreateIfMissing(true).setMergeOperatorName("stringappend");
             final TransactionDBOptions locks = new TransactionDBOptions().setTransactionLockTimeout(20).setDefaultLockTimeout(20);
             final WriteOptions writes = new WriteOptions(); final ReadOptions reads = new ReadOptions();
             final TransactionDB db = TransactionDB.open(options, locks, all.path("conflicts"));
             final Transaction one = db.beginTransaction(writes); final Transaction two = db.beginTransaction(writes)) {
            final ColumnFamilyHandle family = db.getDefaultColumnFamily();
            one.put(bytes("k"), bytes("1"));
            Differential.fails("locked", () -> two.put(bytes("k"), bytes("2")));
            Differential.fails("locked for all", () -> db.put(bytes("k"), bytes("2")));
            Differential.fails("locked read", () -> two.getForUpdate(reads, bytes("k"), false));
            say("multi " + texts(two.multiGetForUpdate(reads, parts("k"))));
            say("keys " + one.getNumKeys() + " " + two.getNumKeys());
            for (final Map.Entry<Long, TransactionDB.KeyLockInfo> lock : db.getLockStatusData().entrySet()) {
                final TransactionDB.KeyLockInfo info = lock.getValue();
                say(lock.getKey() + " " + info.getKey() + " " + info.isExclusive() + " " + info.getTransactionIDs().length);
            }
            say("waits " + one.getWaitingTxns().getTransactionIds().length + " '" + one.getWaitingTxns().getKey() + "' " + one.getWaitingTxns().getColumnFamilyId());
            one.commit();
            say("locks " + db.getLockStatusData().size());
            two.getForUpdate(reads, bytes("shared"), false);
            db.beginTransaction(writes, one);
            say("shared " + text(one.getForUpdate(reads, family, bytes("shared"), false)));
            Differential.fails("shared", () -> one.put(bytes("shared"), bytes("v")));
            two.undoGetForUpdate(bytes("shared"));
            one.put(bytes("shared"), bytes("v"));
            one.put(family, bytes("shared"), bytes("w"), true);
            one.rollback();

            two.setSnapshot();
            db.put(bytes("k"), bytes("later"));
            Differential.fails("written since the snapshot", () -> two.put(bytes("k"), bytes("2")));
            Differential.fails("read since the snapshot", () -> two.getForUpdate(reads, bytes("k"), true));
            say("unchecked " + text(two.getForUpdate(reads, family, bytes("k"), true, false)));
            two.putUntracked(bytes("k"), bytes("untracked"));
            two.mergeUntracked(bytes("m"), bytes("x"));
            two.deleteUntracked(bytes("d"));
            two.commit();
            say(text(db.get(bytes("k"))));
            one.setLockTimeout(1);
            try (final TransactionOptions brief = new TransactionOptions().setExpiration(10); final Transaction expiring = db.beginTransaction(writes, brief)) {
                expiring.put(bytes("expired"), bytes("v"));
                Thread.sleep(100);
                one.put(bytes("expired"), bytes("stolen"));
                one.commit();
                Differential.fails("expired", expiring::commit);
                say(text(db.get(bytes("expired"))));
            }
        }
    }

    private void deadlocks() throws Exception {
        try (final Options options = new Options().setCreateIfMissing(true); final TransactionDBOptions locks = new TransactionDBOptions();
             final WriteOptions writes = new WriteOptions();
             final TransactionOptions detecting = new TransactionOptions().setDeadlockDetect(true).setLockTimeout(60000);
             final TransactionDB db = TransactionDB.open(options, locks, all.path("deadlocks"));
             final Transaction one = db.beginTransaction(writes, detecting); final Transaction two = db.beginTransaction(writes, detecting)) {
            db.setDeadlockInfoBufferSize(3);
            say("deadlocks " + db.getDeadlockInfoBuffer().length);
            one.put(bytes("a"), bytes("1"));
            two.put(bytes("b"), bytes("2"));
            final Thread waiting = new Thread(() -> {
                try {
                    one.put(bytes("b"), bytes("1"));
                    say("one goes on");
                } catch (final RocksDBException e) {
                    say("one fails: " + Differential.status(e));
                }
            });
            waiting.start();
            Transaction.WaitingTransactions waits = one.getWaitingTxns();
            while (waits.getTransactionIds().length == 0) {
                Thread.sleep(1);
                waits = one.getWaitingTxns();
            }
            say("one waits for " + waits.getKey() + " " + waits.getColumnFamilyId() + " " + (waits.getTransactionIds()[0] == two.getID()));
            Differential.fails("a circle", () -> two.put(bytes("a"), bytes("2")));
            two.rollback();
            waiting.join();
            one.commit();
            say(text(db.get(bytes("a"))) + " " + text(db.get(bytes("b"))));
        }
    }

    private void prepared() throws Exception {
        try (final Options options = new Options().setCreateIfMissing(true); final TransactionDBOptions locks = new TransactionDBOptions();
             final WriteOptions writes = new WriteOptions()) {
            try (final TransactionDB db = TransactionDB.open(options, locks, all.path("prepared"))) {
                try (final Transaction transaction = db.beginTransaction(writes); final Transaction other = db.beginTransaction(writes)) {
                    transaction.put(bytes("k"), bytes("v"));
                    Differential.fails("no name", transaction::prepare);
                    transaction.setName("first");
                    Differential.fails("named", () -> transaction.setName("again"));
                    Differential.fails("taken", () -> other.setName("first"));
                    say("'" + transaction.getName() + "' " + (db.getTransactionByName("first") != null) + " " + (db.getTransactionByName("none") == null));
                    say("prepared " + db.getAllPreparedTransactions().size());
                    transaction.prepare();
                    say(transaction.getState() + " " + db.getAllPreparedTransactions().size() + " " + text(db.get(bytes("k"))));
                    Differential.fails("prepared", transaction::prepare);
                    transaction.commit();
                    say(transaction.getState() + " " + db.getAllPreparedTransactions().size() + " " + text(db.get(bytes("k"))));
                    say("by name " + (db.getTransactionByName("first") == null));
                    other.setName("second");
                    other.put(bytes("k"), bytes("undone"));
                    other.prepare();
                    other.rollback();
                    say(other.getState() + " " + text(db.get(bytes("k"))));
                }
                for (final String name : new String[] {"kept", "lost"}) {
                    try (final Transaction transaction = db.beginTransaction(writes)) {
                        transaction.setName(name);
                        transaction.put(bytes(name), bytes("v"));
                        transaction.prepare();
                    }
                }
            }
            try (final TransactionDB db = TransactionDB.open(options, locks, all.path("prepared"))) {
                final List<String> names = new ArrayList<>();
                for (final Transaction transaction : db.getAllPreparedTransactions()) {
                    names.add(transaction.getName() + " " + transaction.getState());
                }
                names.sort(null);
                say("" + names);
                db.getTransactionByName("kept").commit();
                db.getTransactionByName("lost").rollback();
                say(db.getAllPreparedTransactions().size() + " " + text(db.get(bytes("kept"))) + " " + text(db.get(bytes("lost"))));
            }
        }
    }

    private void optimistic() throws Exception {
        try (final StringAppendOperator append = new StringAppendOperator('+');
             final ColumnFamilyOptions cf = new ColumnFamilyOptions().setMergeOperator(append).setWriteBufferSize(64 << 10);
             final DBOptions options = new DBOptions().setCreateIfMissing(true).setCreateMissingColumnFamilies(true);
             final WriteOptions writes = new WriteOptions(); final ReadOptions reads = new ReadOptions()) {
            final List<ColumnFamilyDescriptor> families =
                Arrays.asList(new ColumnFamilyDescriptor(RocksDB.DEFAULT_COLUMN_FAMILY, cf), new ColumnFamilyDescriptor(bytes("f"), cf));
            final List<ColumnFamilyHandle> handles = new ArrayList<>();
            try (final OptimisticTransactionDB db = OptimisticTransactionDB.open(options, all.path("optimistic"), families, handles)) {
                final ColumnFamilyHandle family = handles.get(1);
                db.put(bytes("old"), bytes("v"));
                db.put(bytes("single"), bytes("v"));
                try (final Transaction transaction = db.beginTransaction(writes)) {
                    say("id " + transaction.getID() + " " + transaction.getState());
                    calls(db, transaction, family);
                    transaction.put(bytes("after the commit"), bytes("v"));
                    transaction.commit();
                    say(text(db.get(bytes("after the commit"))) + " " + text(db.getBaseDB().get(bytes("after the commit"))));
                    snapshots(db, transaction);
                    Differential.fails("no name", () -> transaction.setName("name"));
                    Differential.fails("no two phases", transaction::prepare);

                    transaction.put(bytes("k"), bytes("1"));
                    db.put(bytes("k"), bytes("2"));
                    Differential.fails("written by others", transaction::commit);
                    transaction.rollback();
                    transaction.getForUpdate(reads, bytes("read"), true);
                    transaction.put(bytes("k"), bytes("3"));
                    db.put(bytes("read"), bytes("changed"));
                    Differential.fails("read by this one", transaction::commit);
                    transaction.rollback();
                    transaction.putUntracked(bytes("k"), bytes("4"));
                    db.put(bytes("k"), bytes("5"));
                    transaction.commit();
                    say(text(db.get(bytes("k"))));
                    try (final OptimisticTransactionOptions early = new OptimisticTransactionOptions().setSetSnapshot(true)) {
                        say("again " + (db.beginTransaction(writes, early, transaction) == transaction) + " " + (transaction.getSnapshot() != null));
                    }
                    db.put(bytes("since"), bytes("1"));
                    transaction.put(bytes("since"), bytes("2"));
                    Differential.fails("since the begin", transaction::commit);

                    db.beginTransaction(writes, transaction);
                    transaction.put(bytes("forgotten"), bytes("v"));
                    for (int i = 0; i < 400; i++) {
                        db.put(bytes("filler" + i), new byte[1000]);
                    }
                    try (final FlushOptions flush = new FlushOptions()) {
                        db.flush(flush);
                    }
                    Differential.fails("memtables are gone", transaction::commit);
                }
            }
            try (final Options plain = new Options().setCreateIfMissing(true);
                 final OptimisticTransactionDB db = OptimisticTransactionDB.open(plain, all.path("optimistic1"))) {
                try (final Transaction transaction = db.beginTransaction(writes)) {
                    transaction.put(bytes("k"), bytes("v"));
                }
                say("dropped " + text(db.get(bytes("k"))));
            }
        }
    }

    /** Notes the snapshots of a transaction. */
    private static final class Created extends AbstractTransactionNotifier {
        private final Transaction transaction;
        private int count;

        Created(final Transaction transaction) {
            this.transaction = transaction;
        }

        @Override
        public void snapshotCreated(final Snapshot snapshot) {
            count++;
            final Snapshot now = transaction.getSnapshot();
            say("a snapshot, " + (now != null && now.getSequenceNumber() == snapshot.getSequenceNumber()));
            if (count > 2) {
                throw new IllegalStateException("thrown by a notifier, as the test wants");
            }
        }
    }

    private static void notified(final Transaction transaction) throws Exception {
        try (final ReadOptions reads = new ReadOptions(); final Created created = new Created(transaction)) {
            transaction.setSnapshotOnNextOperation(created);
            say("read " + text(transaction.get(reads, bytes("k"))) + " " + created.count);
            transaction.put(bytes("k"), bytes("v"));
            transaction.put(bytes("l"), bytes("v"));
            say("written " + created.count + " " + (transaction.getSnapshot() != null));
            transaction.setSnapshotOnNextOperation(created);
            say("read " + text(transaction.getForUpdate(reads, bytes("k"), true)) + " " + created.count);
            transaction.setSnapshotOnNextOperation(created);
            transaction.clearSnapshot();
            transaction.put(bytes("m"), bytes("v"));
            say("cleared " + created.count + " " + (transaction.getSnapshot() != null));
            transaction.setSnapshotOnNextOperation(created);
            transaction.setSnapshot();
            transaction.put(bytes("n"), bytes("v"));
            say("set " + created.count);
            transaction.setSnapshotOnNextOperation(created);
            transaction.delete(bytes("n"));
            say("thrown " + created.count);
            transaction.commit();
            say("committed " + created.count);
        }
    }

    private void notifiers() throws Exception {
        try (final Options options = new Options().setCreateIfMissing(true); final TransactionDBOptions locks = new TransactionDBOptions();
             final WriteOptions writes = new WriteOptions()) {
            try (final TransactionDB db = TransactionDB.open(options, locks, all.path("notifiers")); final Transaction transaction = db.beginTransaction(writes)) {
                notified(transaction);
            }
            try (final OptimisticTransactionDB db = OptimisticTransactionDB.open(options, all.path("optimistic notifiers"));
                 final Transaction transaction = db.beginTransaction(writes)) {
                notified(transaction);
            }
        }
    }

    private void commitBatches() throws Exception {
        try (final Options options = new Options().setCreateIfMissing(true); final TransactionDBOptions locks = new TransactionDBOptions();
             final WriteOptions writes = new WriteOptions()) {
            try (final TransactionDB db = TransactionDB.open(options, locks, all.path("commit batches"));
                 final Transaction transaction = db.beginTransaction(writes); final Transaction plain = db.beginTransaction(writes)) {
                say("numbers " + transaction.getId() + " " + transaction.getLogNumber());
                transaction.setLogNumber(1);
                say("numbers " + transaction.getId() + " " + transaction.getLogNumber());
                transaction.setName("prepared");
                transaction.put(bytes("k"), bytes("v"));
                final WriteBatch late = transaction.getCommitTimeWriteBatch();
                say("late " + late.count());
                late.put(bytes("late"), bytes("v"));
                late.delete(bytes("absent"));
                say("late " + transaction.getCommitTimeWriteBatch().count() + " " + transaction.getNumPuts());
                transaction.prepare();
                say("numbers " + transaction.getId() + " " + (transaction.getLogNumber() > 1));
                say(text(db.get(bytes("late"))) + " " + text(db.get(bytes("k"))));
                transaction.commit();
                say(text(db.get(bytes("late"))) + " " + text(db.get(bytes("k"))) + " " + late.count());
                plain.put(bytes("plain"), bytes("v"));
                plain.getCommitTimeWriteBatch().put(bytes("never"), bytes("v"));
                Differential.fails("not prepared", plain::commit);
                say("kept " + plain.getCommitTimeWriteBatch().count());
                plain.rollback();
                say("rolled back " + plain.getCommitTimeWriteBatch().count());
                plain.put(bytes("plain"), bytes("v"));
                plain.commit();
                say(text(db.get(bytes("plain"))) + " " + text(db.get(bytes("never"))));
            }
            try (final TransactionDB db = TransactionDB.open(options, locks, all.path("commit batches"))) {
                Differential.print(db.newIterator());
            }
        }
    }
}
