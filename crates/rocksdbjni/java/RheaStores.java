// The programs of `cargo xtask cluster rheakv`: a store of three regions, and a client that keeps a
// record of what was acknowledged. Both obey lines of their standard input. Commands:
//   store PORTS NUMBER DIRECTORY   runs the store on the port of this number, until it is killed:
//     `state` prints the store's entries, their checksum, and the regions that the store leads;
//     `snapshot` writes a snapshot of each region; `lead PORT` hands leaders over to that store
//   client PORTS                   runs the client:
//     `load ROUNDS` lets writers write; `check` reads everything and compares it with the record

import com.alipay.sofa.jraft.Status;
import com.alipay.sofa.jraft.option.NodeOptions;
import com.alipay.sofa.jraft.rhea.RegionEngine;
import com.alipay.sofa.jraft.rhea.client.DefaultRheaKVStore;
import com.alipay.sofa.jraft.rhea.client.RheaIterator;
import com.alipay.sofa.jraft.rhea.options.RegionEngineOptions;
import com.alipay.sofa.jraft.rhea.options.RheaKVStoreOptions;
import com.alipay.sofa.jraft.rhea.options.configured.MultiRegionRouteTableOptionsConfigured;
import com.alipay.sofa.jraft.rhea.options.configured.PlacementDriverOptionsConfigured;
import com.alipay.sofa.jraft.rhea.options.configured.RheaKVStoreOptionsConfigured;
import com.alipay.sofa.jraft.rhea.options.configured.RocksDBOptionsConfigured;
import com.alipay.sofa.jraft.rhea.options.configured.StoreEngineOptionsConfigured;
import com.alipay.sofa.jraft.rhea.storage.KVEntry;
import com.alipay.sofa.jraft.rhea.storage.KVIterator;
import com.alipay.sofa.jraft.rhea.storage.RocksRawKVStore;
import com.alipay.sofa.jraft.rhea.storage.Sequence;
import com.alipay.sofa.jraft.storage.impl.RocksDBLogStorage;
import com.alipay.sofa.jraft.util.Endpoint;
import com.alipay.sofa.jraft.util.StorageOptionsFactory;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import java.util.zip.CRC32;

public final class RheaStores {
    // Each region has the keys that begin with its letter; the borders are the second and the third.
    private static final List<String> REGIONS = List.of("a", "k", "t");
    private static final int WRITERS = 6;
    // Rounds of one deletion, which keeps every tenth round.
    private static final int DELETED = 9;
    private static final AtomicLong CALLS = new AtomicLong();
    private static final AtomicLong REPEATED = new AtomicLong();
    private static DefaultRheaKVStore client;

    private RheaStores() {
    }

    public static void main(final String[] arguments) throws Exception {
        System.setProperty("org.slf4j.simpleLogger.defaultLogLevel", "error");
        final List<String> addresses = Arrays.stream(arguments[1].split(","))
            .map(port -> "127.0.0.1:" + port).collect(Collectors.toList());
        if (arguments[0].equals("store")) {
            final int number = Integer.parseInt(arguments[2]);
            store(addresses, Integer.parseInt(arguments[1].split(",")[number]), arguments[3]);
        } else {
            client(addresses);
        }
    }

    private static RheaKVStoreOptionsConfigured options(final List<String> addresses) {
        final MultiRegionRouteTableOptionsConfigured routes = MultiRegionRouteTableOptionsConfigured.newConfigured();
        for (int region = 0; region < REGIONS.size(); region++) {
            final long id = region + 1;
            routes.withInitialServerList(id, String.join(",", addresses));
            if (region > 0) {
                routes.withStartKey(id, REGIONS.get(region));
            }
            if (region + 1 < REGIONS.size()) {
                routes.withEndKey(id, REGIONS.get(region + 1));
            }
        }
        return RheaKVStoreOptionsConfigured.newConfigured()
            .withClusterName("esker")
            .withInitialServerList(String.join(",", addresses))
            .withPlacementDriverOptions(PlacementDriverOptionsConfigured.newConfigured()
                .withFake(true).withRegionRouteTableOptionsList(routes.config()).config());
    }

    private static DefaultRheaKVStore started(final RheaKVStoreOptions options) {
        final DefaultRheaKVStore store = new DefaultRheaKVStore();
        if (!store.init(options)) {
            throw new IllegalStateException("RheaKV does not start");
        }
        Runtime.getRuntime().addShutdownHook(new Thread(store::shutdown));
        return store;
    }

    private static void store(final List<String> addresses, final int port, final String directory)
            throws Exception {
        // Small memtables: tables are written and compacted in a run of a minute.
        for (final Class<?> user : List.of(RocksDBLogStorage.class, RocksRawKVStore.class)) {
            StorageOptionsFactory.registerRocksDBColumnFamilyOptions(user,
                StorageOptionsFactory.getDefaultRocksDBColumnFamilyOptions().setWriteBufferSize(128 << 10));
        }
        final List<RegionEngineOptions> regions = new ArrayList<>();
        for (int region = 0; region < REGIONS.size(); region++) {
            final RegionEngineOptions options = new RegionEngineOptions();
            options.setRegionId(region + 1L);
            options.setStartKey(region == 0 ? null : REGIONS.get(region));
            options.setEndKey(region + 1 < REGIONS.size() ? REGIONS.get(region + 1) : null);
            final NodeOptions node = new NodeOptions();
            node.setElectionTimeoutMs(2000);
            options.setNodeOptions(node);
            regions.add(options);
        }
        final DefaultRheaKVStore store = started(options(addresses)
            .withStoreEngineOptions(StoreEngineOptionsConfigured.newConfigured()
                .withRocksDBOptions(RocksDBOptionsConfigured.newConfigured().withDbPath(directory + "/db").config())
                .withRaftDataPath(directory + "/raft")
                .withServerAddress(new Endpoint("127.0.0.1", port))
                .withRegionEngineOptionsList(regions)
                .config())
            .config());
        System.out.println("ready");
        obey(words -> {
            final List<RegionEngine> engines = store.getStoreEngine().getAllRegionEngines();
            switch (words[0]) {
                case "state" -> System.out.println(state(store));
                case "snapshot" -> {
                    for (final RegionEngine engine : engines) {
                        final CompletableFuture<Status> done = new CompletableFuture<>();
                        engine.getNode().snapshot(done::complete);
                        if (!done.get(60, TimeUnit.SECONDS).isOk()) {
                            throw new IllegalStateException("snapshot: " + done.get());
                        }
                    }
                    System.out.println("snapshots written");
                }
                case "lead" -> engines.stream().filter(RegionEngine::isLeader).forEach(engine ->
                    engine.transferLeadershipTo(new Endpoint("127.0.0.1", Integer.parseInt(words[1]))));
                default -> throw new IllegalArgumentException(words[0]);
            }
        });
    }

    private static String state(final DefaultRheaKVStore store) throws Exception {
        final CRC32 checksum = new CRC32();
        long entries = 0;
        try (final KVIterator iterator = store.unsafeLocalIterator()) {
            for (iterator.seekToFirst(); iterator.isValid(); iterator.next()) {
                checksum.update(iterator.key());
                checksum.update(iterator.value());
                entries++;
            }
        }
        return "entries " + entries + " checksum " + Long.toHexString(checksum.getValue())
            + " leads " + store.getStoreEngine().getLeaderRegionCount();
    }

    private interface Command {
        void run(String[] words) throws Exception;
    }

    // Runs a command for each line, until the process at the other end has gone.
    private static void obey(final Command command) throws Exception {
        final BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            try {
                command.run(line.split(" "));
            } catch (final Exception | AssertionError error) {
                error.printStackTrace();
                System.out.println("failed: " + error);
            }
        }
        System.exit(0);
    }

    // What a writer has had acknowledged. Other writers write no key of it, except sequences.
    private static final class Writer {
        private final int number;
        private int rounds;
        private final TreeMap<String, String> entries = new TreeMap<>();
        private final long[] counters = new long[REGIONS.size()];
        private final List<Long> merged = new ArrayList<>();
        private final List<TreeMap<Long, Long>> sequences = new ArrayList<>();

        private Writer(final int number) {
            this.number = number;
            for (final String letter : REGIONS) {
                this.sequences.add(new TreeMap<>());
                repeat(() -> client.putIfAbsent(letter + "/counter/" + number, bytes("0")).join() == null);
            }
        }

        private void round() {
            final int region = this.rounds % REGIONS.size();
            final TreeMap<String, String> put = new TreeMap<>();
            for (final String letter : REGIONS) {
                final String key = key(letter, this.rounds);
                put.put(key, key + "-".repeat(100));
            }
            repeat(() -> {
                final CompletableFuture<?>[] calls = put.entrySet().stream()
                    .map(entry -> client.put(entry.getKey(), bytes(entry.getValue())))
                    .toArray(CompletableFuture<?>[]::new);
                return CompletableFuture.allOf(calls).get(20, TimeUnit.SECONDS);
            });
            CALLS.addAndGet(put.size() - 1);
            this.entries.putAll(put);
            count(region);
            final String letter = REGIONS.get(region);
            final Sequence numbers = repeat(() -> client.bGetSequence(letter + "/sequence", 3));
            this.sequences.get(region).put(numbers.getStartValue(), numbers.getEndValue());
            repeat(() -> client.bMerge(letter + "/merged/" + this.number, "" + this.rounds));
            this.merged.add((long) this.rounds);
            // The deleted rounds are not the last ones: a late repetition of a put has come by then.
            if (this.rounds % (DELETED + 1) == 0 && this.rounds > 3 * DELETED) {
                final String from = key(letter, this.rounds - 3 * DELETED);
                final String to = key(letter, this.rounds - 2 * DELETED);
                repeat(() -> client.bDeleteRange(from, to));
                this.entries.subMap(from, to).clear();
            }
            final String last = key(letter, this.rounds);
            if (!Arrays.equals(repeat(() -> client.bGet(last)), bytes(this.entries.get(last)))) {
                throw new AssertionError("another value than the acknowledged one: " + last);
            }
            this.rounds++;
        }

        private String key(final String letter, final int round) {
            return String.format("%s/put/%d/%06d", letter, this.number, round);
        }

        // Adds one. A compare-and-put may take effect although its answer is lost.
        private void count(final int region) {
            final String key = REGIONS.get(region) + "/counter/" + this.number;
            final long before = this.counters[region];
            final byte[] next = bytes("" + (before + 1));
            repeat(() -> {
                if (!client.bCompareAndPut(key, bytes("" + before), next)) {
                    equal(key, text(client.bGet(key)), text(next));
                }
                return true;
            });
            this.counters[region]++;
        }
    }

    private static byte[] bytes(final String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(final byte[] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
    }

    // Calls until there is an answer. RheaKV's client goes on calling a leader to which it cannot
    // connect, so that it is told to look for the leaders.
    private static <T> T repeat(final Callable<T> call) {
        CALLS.incrementAndGet();
        for (final long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(120); ; REPEATED.incrementAndGet()) {
            try {
                return call.call();
            } catch (final Exception error) {
                if (System.nanoTime() > end) {
                    throw new IllegalStateException("no answer for two minutes", error);
                }
                findLeaders();
            }
        }
    }

    private static void findLeaders() {
        for (int region = 0; region < REGIONS.size(); region++) {
            try {
                client.getPlacementDriverClient().getLeader(region + 1L, true, 2000);
            } catch (final RuntimeException error) {
                // An election goes on.
            }
        }
    }

    private static void client(final List<String> addresses) throws Exception {
        client = started(options(addresses).config());
        final List<Writer> writers = new ArrayList<>();
        for (int number = 0; number < WRITERS; number++) {
            writers.add(new Writer(number));
        }
        System.out.println("ready");
        obey(words -> {
            switch (words[0]) {
                case "load" -> load(writers, Integer.parseInt(words[1]));
                case "check" -> check(writers);
                default -> throw new IllegalArgumentException(words[0]);
            }
        });
    }

    // Lets all writers write at once. The command goes on while they do.
    private static void load(final List<Writer> writers, final int rounds) throws Exception {
        final long begin = System.nanoTime();
        final long calls = CALLS.get();
        final List<CompletableFuture<Void>> ends = new ArrayList<>();
        for (final Writer writer : writers) {
            final CompletableFuture<Void> end = new CompletableFuture<>();
            ends.add(end);
            new Thread(() -> {
                try {
                    for (int round = 0; round < rounds; round++) {
                        writer.round();
                        if (writer.number == 0 && round == rounds / 3) {
                            System.out.println("a third is written");
                        }
                    }
                    end.complete(null);
                } catch (final Throwable error) {
                    end.completeExceptionally(error);
                }
            }).start();
        }
        for (final CompletableFuture<Void> end : ends) {
            end.get();
        }
        final long made = CALLS.get() - calls;
        final long millis = (System.nanoTime() - begin) / 1_000_000;
        System.out.println("loaded: " + made + " calls in " + millis + " ms, " + 1000 * made / millis
            + " a second, " + REPEATED.getAndSet(0) + " repeated");
    }

    private static void equal(final String name, final Object found, final Object wanted) {
        if (!found.equals(wanted)) {
            throw new AssertionError(name + ": " + found + ", not " + wanted);
        }
    }

    private static void check(final List<Writer> writers) {
        final TreeMap<String, String> wanted = new TreeMap<>();
        writers.forEach(writer -> wanted.putAll(writer.entries));
        final TreeMap<String, String> found = new TreeMap<>();
        long counted = 0;
        long numbers = 0;
        long twice = 0;
        for (int region = 0; region < REGIONS.size(); region++) {
            final String letter = REGIONS.get(region);
            final List<KVEntry> entries = repeat(() -> client.bScan(letter + "/put/", letter + "/put0"));
            entries.forEach(entry -> found.put(text(entry.getKey()), text(entry.getValue())));
            final List<KVEntry> reverse = repeat(() -> client.bReverseScan(letter + "/put0", letter + "/put/"));
            Collections.reverse(reverse);
            equal("a reverse scan", keys(reverse), keys(entries));
            final TreeMap<Long, Long> sequences = new TreeMap<>();
            for (final Writer writer : writers) {
                sequences.putAll(writer.sequences.get(region));
                final String counter = text(repeat(() -> client.bGet(letter + "/counter/" + writer.number)));
                equal("a counter", counter, "" + writer.counters[region]);
                counted += writer.counters[region];
                final String list = text(repeat(() -> client.bGet(letter + "/merged/" + writer.number)));
                final int remainder = region;
                final List<Long> merged = Arrays.stream(list.split(",")).map(Long::parseLong).collect(Collectors.toList());
                final List<Long> acknowledged = writer.merged.stream()
                    .filter(round -> round % REGIONS.size() == remainder).collect(Collectors.toList());
                equal("merged values", new TreeSet<>(merged), new TreeSet<>(acknowledged));
                twice += merged.size() - acknowledged.size();
            }
            numbers += checkSequence(sequences, repeat(() -> client.bGetLatestSequence(letter + "/sequence")));
        }
        // Two calls that got the same numbers would be one entry of the map.
        equal("numbers of sequences", numbers, 3 * counted);
        final TreeSet<String> wrong = new TreeSet<>(wanted.keySet());
        wrong.addAll(found.keySet());
        wrong.removeIf(key -> Objects.equals(found.get(key), wanted.get(key)));
        equal("keys without the acknowledged value", wrong, new TreeSet<>());
        final List<String> iterated = new ArrayList<>();
        repeat(() -> {
            iterated.clear();
            final RheaIterator<KVEntry> iterator = client.iterator("a/put/", "a/put0", 100);
            while (iterator.hasNext()) {
                iterated.add(text(iterator.next().getKey()));
            }
            return true;
        });
        equal("an iterator", iterated, new ArrayList<>(wanted.subMap("a/put/", "a/put0").keySet()));
        System.out.println("checked: " + found.size() + " entries, counters " + counted
            + ", numbers " + numbers + ", merged twice " + twice);
    }

    // Checks that no number was given twice. A repeated call takes numbers that nobody gets.
    private static long checkSequence(final TreeMap<Long, Long> given, final long next) {
        long end = 0;
        long numbers = 0;
        for (final Map.Entry<Long, Long> range : given.entrySet()) {
            if (range.getKey() < end) {
                throw new AssertionError("a sequence gave " + range + " after " + end);
            }
            end = range.getValue();
            numbers += end - range.getKey();
        }
        if (next < end) {
            throw new AssertionError("a sequence gave numbers up to " + end + ", and goes on at " + next);
        }
        return numbers;
    }

    private static List<String> keys(final List<KVEntry> entries) {
        return entries.stream().map(entry -> text(entry.getKey())).collect(Collectors.toList());
    }
}
