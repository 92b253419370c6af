// The job of `cargo xtask cluster kafka-streams`: counts records by key in a RocksDB store, exactly
// once. Commands:
//   topics BROKER                        makes the topics
//   produce BROKER ROUNDS                writes ROUNDS records for each of the keys
//   app BROKER DIRECTORY                 runs an instance of the job, until it is killed
//   totals BROKER ROUNDS SECONDS         waits until each key's total is ROUNDS, and prints the sum
//                                        and the seconds that it waited

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.LongSerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

public final class KafkaTotals {
    private static final int KEYS = 100;
    private static final int PARTITIONS = 4;

    private KafkaTotals() {
    }

    public static void main(final String[] arguments) throws Exception {
        switch (arguments[0]) {
            case "topics" -> topics(arguments[1]);
            case "produce" -> produce(arguments[1], Integer.parseInt(arguments[2]));
            case "app" -> app(arguments[1], arguments[2]);
            case "totals" -> totals(arguments[1], Long.parseLong(arguments[2]), Long.parseLong(arguments[3]));
            default -> throw new IllegalArgumentException(arguments[0]);
        }
    }

    private static Properties properties(final String broker) {
        final Properties properties = new Properties();
        properties.put("bootstrap.servers", broker);
        return properties;
    }

    private static void topics(final String broker) throws Exception {
        try (final Admin admin = Admin.create(properties(broker))) {
            final List<NewTopic> topics = List.of("records", "totals").stream()
                .map(name -> new NewTopic(name, PARTITIONS, (short) 1)).collect(Collectors.toList());
            admin.createTopics(topics).all().get();
        }
        System.out.println("topics made");
    }

    private static void produce(final String broker, final int rounds) {
        final Properties properties = properties(broker);
        properties.put("enable.idempotence", "true");
        properties.put("linger.ms", "5");
        try (final KafkaProducer<String, Long> producer =
                 new KafkaProducer<>(properties, new StringSerializer(), new LongSerializer())) {
            for (int round = 0; round < rounds; round++) {
                for (int key = 0; key < KEYS; key++) {
                    producer.send(new ProducerRecord<>("records", "key" + key, 1L));
                }
            }
        }
        System.out.println("produced " + rounds * KEYS);
    }

    private static void app(final String broker, final String directory) {
        final Properties properties = properties(broker);
        properties.put("application.id", "totals");
        properties.put("state.dir", directory);
        properties.put("processing.guarantee", "exactly_once_v2");
        properties.put("num.standby.replicas", "1");
        properties.put("num.stream.threads", "1");
        properties.put("replication.factor", "1");
        properties.put("commit.interval.ms", "200");
        properties.put("consumer.session.timeout.ms", "6000");
        properties.put("consumer.auto.offset.reset", "earliest");
        final StreamsBuilder builder = new StreamsBuilder();
        builder.stream("records", Consumed.with(Serdes.String(), Serdes.Long()))
            .groupByKey(Grouped.with(Serdes.String(), Serdes.Long()))
            .reduce(Long::sum, Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("store")
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
            .toStream()
            .to("totals", Produced.with(Serdes.String(), Serdes.Long()));
        final KafkaStreams streams = new KafkaStreams(builder.build(), properties);
        streams.setStateListener((now, before) -> System.out.println("state " + now));
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            return org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler
                .StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(20))));
        streams.start();
    }

    private static void totals(final String broker, final long rounds, final long seconds) {
        final Properties properties = properties(broker);
        properties.put("isolation.level", "read_committed");
        final Map<String, Long> totals = new HashMap<>();
        final long begin = System.nanoTime();
        final long end = begin + seconds * 1_000_000_000L;
        final double waited;
        try (final KafkaConsumer<String, Long> consumer =
                 new KafkaConsumer<>(properties, new StringDeserializer(), new LongDeserializer())) {
            final List<TopicPartition> partitions = IntStream.range(0, PARTITIONS)
                .mapToObj(partition -> new TopicPartition("totals", partition)).collect(Collectors.toList());
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            while (System.nanoTime() < end && !isDone(totals, rounds)) {
                for (final ConsumerRecord<String, Long> record : consumer.poll(Duration.ofMillis(200))) {
                    totals.put(record.key(), record.value());
                }
            }
            waited = (System.nanoTime() - begin) / 1e9;
            // Records that would make a total too large come later.
            for (int i = 0; i < 5; i++) {
                for (final ConsumerRecord<String, Long> record : consumer.poll(Duration.ofMillis(200))) {
                    totals.put(record.key(), record.value());
                }
            }
        }
        final long sum = totals.values().stream().mapToLong(Long::longValue).sum();
        System.out.println("keys " + totals.size() + " sum " + sum + " equal " + isDone(totals, rounds)
            + " after " + waited + " seconds");
    }

    private static boolean isDone(final Map<String, Long> totals, final long rounds) {
        return totals.size() == KEYS && totals.values().stream().allMatch(total -> total == rounds);
    }
}
