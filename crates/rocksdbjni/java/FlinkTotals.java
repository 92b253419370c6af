// The job of `cargo xtask cluster flink`: sums records by key in Flink's RocksDB state backend, with
// incremental checkpoints. Arguments: DIRECTORY RECORDS PERCENT MANAGERS
// It begins at the newest checkpoint below the directory, if there is one, with MANAGERS task
// managers. With 100 percent it runs to the end, and compares each key's sums with those of a plain
// loop. With fewer, it loses a task manager on the way there, and says "ready" after a checkpoint
// with that part of the records.

import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.time.Duration;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Comparator;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongSupplier;
import java.util.stream.Stream;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.CheckpointListener;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.StateDescriptor;
import org.apache.flink.api.common.state.StateTtlConfig;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.datagen.source.GeneratorFunction;
import org.apache.flink.core.execution.RecoveryClaimMode;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

public final class FlinkTotals {
    private static final int KEYS = 5000;
    /** Parts of the records, each in its order: as many as the first JVM has sources. */
    private static final int PARTS = 2;
    /** Windows of each part. */
    private static final int WINDOWS = 20;

    // Counts of this process, which are no state of the job.
    private static final AtomicLong PROCESSED = new AtomicLong();
    private static final AtomicLong REACHED = new AtomicLong();
    private static final AtomicLong EXPIRED = new AtomicLong();
    private static final AtomicLong CHECKPOINTS = new AtomicLong();
    private static final AtomicLong RESTORES = new AtomicLong();
    private static final Map<Long, long[]> RESULTS = new ConcurrentHashMap<>();

    private FlinkTotals() {
    }

    public static void main(final String[] arguments) throws Exception {
        final Path directory = Paths.get(arguments[0]);
        final long records = Long.parseLong(arguments[1]);
        final long percent = Long.parseLong(arguments[2]);
        final int managers = Integer.parseInt(arguments[3]);
        final Configuration settings = settings(directory, managers);
        final MiniCluster cluster = new MiniCluster(new MiniClusterConfiguration.Builder()
            .setConfiguration(settings).setNumTaskManagers(managers).setNumSlotsPerTaskManager(1)
            .withRandomPorts().build());
        cluster.start();
        final long end = records / PARTS * percent / 100;
        final JobGraph graph = job(settings, records, end);
        newestCheckpoint(directory).ifPresent(path -> graph.setSavepointRestoreSettings(
            SavepointRestoreSettings.forPath(path.toString(), false, RecoveryClaimMode.CLAIM)));
        final long begin = System.nanoTime();
        final JobID job = cluster.submitJob(graph).get().getJobID();
        if (percent < 100) {
            await(cluster, job, REACHED::get, end / 2);
            await(cluster, job, CHECKPOINTS::get, CHECKPOINTS.get() + 2 * managers);
            final long restores = RESTORES.get();
            cluster.terminateTaskManager(0).get();
            say("a task manager was lost after " + PROCESSED.get() + " records");
            cluster.startTaskManager();
            await(cluster, job, RESTORES::get, restores + managers);
            await(cluster, job, REACHED::get, end);
            await(cluster, job, CHECKPOINTS::get, CHECKPOINTS.get() + 2 * managers);
            say("ready after " + PROCESSED.get() + " records");
        }
        cluster.requestJobResult(job).get().toJobExecutionResult(FlinkTotals.class.getClassLoader());
        final double seconds = (System.nanoTime() - begin) / 1e9;
        cluster.closeAsync().get();
        final Duration cpu = ProcessHandle.current().info().totalCpuDuration().orElse(Duration.ZERO);
        say(String.format("%d records in %.1f s, of the processor %.1f s: %.0f records a second",
            PROCESSED.get(), seconds, cpu.toMillis() / 1e3, PROCESSED.get() / seconds));
        say("filters of compactions removed " + EXPIRED.get() + " expired entries");
        say(compared(records));
    }

    private static Configuration settings(final Path directory, final int managers) {
        final Configuration settings = new Configuration();
        final String[] pairs = {
            "parallelism.default", "" + managers,
            "io.tmp.dirs", directory.resolve("tmp").toString(),
            "taskmanager.memory.managed.size", "32mb",
            "state.backend.type", "rocksdb",
            // Small memtables and tables: compactions, and with them the filters, are frequent.
            "state.backend.rocksdb.writebuffer.size", "256kb",
            "state.backend.rocksdb.compaction.level.target-file-size-base", "256kb",
            "state.backend.rocksdb.compaction.level.max-size-level-base", "1mb",
            "state.backend.rocksdb.compaction.filter.query-time-after-num-entries", "100",
            "execution.checkpointing.dir", directory.resolve("checkpoints").toUri().toString(),
            "execution.checkpointing.incremental", "true",
            "execution.checkpointing.interval", "400ms",
            "execution.checkpointing.num-retained", "2",
            "execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION",
            "restart-strategy.type", "fixed-delay",
            "restart-strategy.fixed-delay.attempts", "5",
            "restart-strategy.fixed-delay.delay", "200ms",
        };
        for (int i = 0; i < pairs.length; i += 2) {
            settings.setString(pairs[i], pairs[i + 1]);
        }
        return settings;
    }

    // Record `i` is the number `i`. Each part of them has its own time, which begins at 0.

    private static long keyOf(final long record) {
        return ((record * 0x9E3779B97F4A7C15L) >>> 33) % KEYS;
    }

    private static long valueOf(final long record) {
        return record % 1009;
    }

    private static long timeOf(final long record, final long records) {
        return record % (records / PARTS);
    }

    private static long windowOf(final long time, final long records) {
        return time * WINDOWS / (records / PARTS);
    }

    /** The last moment of a window. */
    private static long endOf(final long window, final long records) {
        return (window + 1) * (records / PARTS) / WINDOWS - 1;
    }

    private static JobGraph job(final Configuration settings, final long records, final long end) {
        final StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment(settings);
        final GeneratorFunction<Long, Long> record = number -> {
            // Behind the end the job crawls, so that it still runs when the JVM is killed.
            if (timeOf(number, records) >= end) {
                Thread.sleep(20);
            }
            return number;
        };
        environment
            .fromSource(new DataGeneratorSource<>(record, records, Types.LONG),
                WatermarkStrategy.<Long>forMonotonousTimestamps()
                    .withTimestampAssigner((number, before) -> timeOf(number, records)), "records")
            .uid("records")
            .keyBy(FlinkTotals::keyOf, Types.LONG)
            .process(new Totals(records), Types.LONG).uid("totals")
            .sinkTo(new DiscardingSink<>()).uid("nothing");
        return environment.getStreamGraph().getJobGraph();
    }

    /** Sums the values of a key in states of each kind. */
    private static final class Totals extends KeyedProcessFunction<Long, Long, Long>
        implements CheckpointedFunction, CheckpointListener {

        private final long records;
        private transient ValueState<Long> total;
        /** Sums of the closed windows and of the notes, and the number of timers that fired. */
        private transient ValueState<long[]> closed;
        /** Sums by window. They and the notes live for a day, which no run takes. */
        private transient MapState<Long, Long> windows;
        private transient ListState<String> notes;
        /** States that expire after a millisecond. They are read until a compaction removes them. */
        private transient ValueState<Long> shortTotal;
        private transient ListState<Long> shortNotes;
        private transient ListState<String> shortTexts;

        Totals(final long records) {
            this.records = records;
        }

        @Override
        public void open(final OpenContext context) {
            final var here = getRuntimeContext();
            total = here.getState(new ValueStateDescriptor<>("total", Types.LONG));
            closed = here.getState(new ValueStateDescriptor<>("closed", long[].class));
            final Duration day = Duration.ofDays(1);
            final Duration moment = Duration.ofMillis(1);
            windows = here.getMapState(expiring(new MapStateDescriptor<>("windows", Types.LONG, Types.LONG), day));
            notes = here.getListState(expiring(new ListStateDescriptor<>("notes", Types.STRING), day));
            shortTotal = here.getState(expiring(new ValueStateDescriptor<>("shortTotal", Types.LONG), moment));
            shortNotes = here.getListState(expiring(new ListStateDescriptor<>("shortNotes", Types.LONG), moment));
            shortTexts = here.getListState(expiring(new ListStateDescriptor<>("shortTexts", Types.STRING), moment));
        }

        private static <T extends StateDescriptor<?, ?>> T expiring(final T descriptor, final Duration life) {
            descriptor.enableTimeToLive(StateTtlConfig.newBuilder(life).returnExpiredIfNotCleanedUp()
                .cleanupInRocksdbCompactFilter(100).build());
            return descriptor;
        }

        @Override
        public void processElement(final Long record, final Context context, final Collector<Long> out)
            throws Exception {
            final long value = valueOf(record);
            final long window = windowOf(timeOf(record, records), records);
            final Long before = total.value();
            total.update((before == null ? 0 : before) + value);
            final Long inWindow = windows.get(window);
            windows.put(window, (inWindow == null ? 0 : inWindow) + value);
            if (before != null && shortTotal.value() == null) {
                EXPIRED.incrementAndGet();
            }
            shortTotal.update(value);
            if (value % 8 == 0) {
                notes.add(Long.toString(value));
                shortNotes.add(value);
                shortTexts.add(Long.toString(value));
            }
            if (inWindow == null) {
                context.timerService().registerEventTimeTimer(endOf(window, records));
            }
            if (before == null) {
                context.timerService().registerEventTimeTimer(Long.MAX_VALUE);
            }
            PROCESSED.incrementAndGet();
            REACHED.accumulateAndGet(timeOf(record, records), Math::max);
        }

        @Override
        public void onTimer(final long time, final OnTimerContext context, final Collector<Long> out)
            throws Exception {
            long[] sums = closed.value();
            if (sums == null) {
                sums = new long[3];
            }
            if (time == Long.MAX_VALUE) {
                RESULTS.put(context.getCurrentKey(), new long[] {total.value(), sums[0], sums[1], sums[2]});
                return;
            }
            final long window = windowOf(time, records);
            sums[0] += windows.get(window);
            windows.remove(window);
            long count = 0;
            for (final String note : notes.get()) {
                sums[1] += Long.parseLong(note);
                count++;
            }
            sums[2]++;
            closed.update(sums);
            EXPIRED.addAndGet(2 * count - count(shortNotes) - count(shortTexts));
            notes.clear();
            shortNotes.clear();
            shortTexts.clear();
        }

        private static long count(final ListState<?> list) throws Exception {
            long count = 0;
            for (final Object ignored : list.get()) {
                count++;
            }
            return count;
        }

        @Override
        public void initializeState(final FunctionInitializationContext context) {
            if (context.isRestored()) {
                say("task " + getRuntimeContext().getTaskInfo().getIndexOfThisSubtask()
                    + " begins at checkpoint " + context.getRestoredCheckpointId().getAsLong());
                RESTORES.incrementAndGet();
            }
        }

        @Override
        public void snapshotState(final FunctionSnapshotContext context) {
        }

        @Override
        public void notifyCheckpointComplete(final long checkpoint) {
            CHECKPOINTS.incrementAndGet();
        }
    }

    /** Waits until `count` is `wanted`. */
    private static void await(
        final MiniCluster cluster, final JobID job, final LongSupplier count, final long wanted) throws Exception {
        while (count.getAsLong() < wanted) {
            if (cluster.getJobStatus(job).get().isGloballyTerminalState()) {
                cluster.requestJobResult(job).get().toJobExecutionResult(FlinkTotals.class.getClassLoader());
                throw new IllegalStateException("the job ended too early: it needs more records");
            }
            Thread.sleep(20);
        }
    }

    private static Optional<Path> newestCheckpoint(final Path directory) throws Exception {
        final Path checkpoints = directory.resolve("checkpoints");
        if (!Files.exists(checkpoints)) {
            return Optional.empty();
        }
        try (final Stream<Path> paths = Files.walk(checkpoints)) {
            return paths.filter(path -> path.endsWith("_metadata")).map(Path::getParent)
                .max(Comparator.comparingLong(path -> Long.parseLong(path.getFileName().toString().substring(4))));
        }
    }

    /** Compares the results with the sums of a plain loop. */
    private static String compared(final long records) {
        final long[][] wanted = new long[KEYS][4];
        final BitSet fired = new BitSet();
        for (long record = 0; record < records; record++) {
            final long[] sums = wanted[(int) keyOf(record)];
            final long value = valueOf(record);
            sums[0] += value;
            sums[1] += value;
            sums[2] += value % 8 == 0 ? value : 0;
            final int timer = (int) (keyOf(record) * WINDOWS + windowOf(timeOf(record, records), records));
            sums[3] += fired.get(timer) ? 0 : 1;
            fired.set(timer);
        }
        long sum = 0;
        for (int key = 0; key < KEYS; key++) {
            final long[] found = RESULTS.get((long) key);
            if (!Arrays.equals(wanted[key], found)) {
                return "key " + key + " has " + Arrays.toString(found) + ", not " + Arrays.toString(wanted[key]);
            }
            sum += found[0];
        }
        return "keys " + RESULTS.size() + " sum " + sum + " equal true";
    }

    private static void say(final String line) {
        System.out.println(line);
    }
}
