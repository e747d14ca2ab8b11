// The fold of features/ as a Kafka Streams application, for bench/kafka_streams_bench.py: sequences of users,
// the join of actions to impressions within ten minutes of event time, and decayed counters of three entities
// (user, item, author), frozen into an example that leaves when its window has closed.
//
//   java -cp … Fold BROKERS TOPIC_PREFIX EVENTS STATE_DIR SECONDS_MAX
//
// Defaults of Kafka Streams throughout: at-least-once, caches of 10 MB over every store, changelogs on, commits
// every 30 s. It is spared what the other side does besides: duplicates, validation, the catalog's other fields,
// seen sets, pairs of user and topic, dead letters. One partition each, so that nothing has to be repartitioned.
// Prints one JSON object when EVENTS records are through: seconds by the clock and of processor time, all threads, from
// the first record on. Ends with a message where SECONDS_MAX did not suffice.
import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.AutoOffsetReset;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;

public final class Fold {
  static final long WINDOW_MS = 600_000;
  static final int SEQUENCE_MAX = 512;
  static final int HISTORY_MAX = 128;
  static final double[] HALF_LIFE_MS = {3_600_000.0, 86_400_000.0, 2_592_000_000.0};
  static final int COUNTS = 2;  // shown, clicked

  enum Kind { ITEM, IMPRESSION, ACTION }

  static final class Event {
    Kind kind;
    long timeMs;
    String user, item, author, impressionId;
    String type = "click";
    List<String> items = new ArrayList<>(1);
  }

  static final class EventDeserializer implements Deserializer<Event> {
    private final JsonFactory json = new JsonFactory();

    @Override
    public Event deserialize(String topic, byte[] data) {
      Event event = new Event();
      event.kind = topic.endsWith("items") ? Kind.ITEM : topic.endsWith("clicks") ? Kind.ACTION : Kind.IMPRESSION;
      try (JsonParser in = json.createParser(data)) {
        if (in.nextToken() != JsonToken.START_OBJECT) throw new IOException("no object");
        while (in.nextToken() == JsonToken.FIELD_NAME) {
          String name = in.currentName();
          in.nextToken();
          switch (name) {
            case "timestamp" -> event.timeMs = in.getLongValue();
            case "user_id" -> event.user = in.getText();
            case "item_id" -> event.item = in.getText();
            case "author_id" -> event.author = in.getText();
            case "impression_id" -> event.impressionId = in.getText();
            case "type" -> event.type = in.getText();
            case "items" -> {
              while (in.nextToken() != JsonToken.END_ARRAY) event.items.add(in.getText());
            }
            default -> in.skipChildren();
          }
        }
      } catch (IOException error) {
        throw new IllegalArgumentException(topic, error);
      }
      return event;
    }
  }

  /** Two decayed counts with three half-lives each, as of the last change. */
  static final class Counter {
    long timeMs;
    final double[] value = new double[COUNTS * HALF_LIFE_MS.length];

    static Counter read(byte[] stored) {
      Counter counter = new Counter();
      if (stored == null) return counter;
      ByteBuffer in = ByteBuffer.wrap(stored);
      counter.timeMs = in.getLong();
      for (int i = 0; i < counter.value.length; i++) counter.value[i] = in.getDouble();
      return counter;
    }

    byte[] bytes() {
      ByteBuffer out = ByteBuffer.allocate(8 + 8 * value.length);
      out.putLong(timeMs);
      for (double v : value) out.putDouble(v);
      return out.array();
    }

    void add(int count, long nowMs) {
      double elapsed = Math.max(0, nowMs - timeMs);
      for (int c = 0; c < COUNTS && elapsed > 0; c++) {
        for (int h = 0; h < HALF_LIFE_MS.length; h++) {
          value[c * HALF_LIFE_MS.length + h] *= Math.pow(2, -elapsed / HALF_LIFE_MS[h]);
        }
      }
      timeMs = Math.max(timeMs, nowMs);
      for (int h = 0; h < HALF_LIFE_MS.length; h++) value[count * HALF_LIFE_MS.length + h] += 1;
    }
  }

  /** An impression whose window is open: what its example will hold, and the actions so far. */
  static final class Pending {
    String key, user;
    long timeMs;
    List<String> items;
    List<String> authors = new ArrayList<>(1);
    List<List<String>> actions = new ArrayList<>(1);
    byte[] features;

    byte[] bytes() {
      ByteBuffer out = ByteBuffer.allocate(features.length + 64 + 128 * items.size());
      out.putLong(timeMs).put(features);
      for (int i = 0; i < items.size(); i++) {
        out.put(items.get(i).getBytes(StandardCharsets.UTF_8)).put((byte) actions.get(i).size());
        out.put((byte) (actions.get(i).contains("click") ? 1 : 0));
      }
      return Arrays.copyOf(out.array(), out.position());
    }
  }

  static volatile long processed;
  static long exposures, actionsJoined, actionsUnjoined, examples, clickLabels, eventsExpected;
  static long firstNs, lastNs, firstCpuNs, lastCpuNs;
  static final CountDownLatch DONE = new CountDownLatch(1);

  static final class Folder implements Processor<String, Event, String, byte[]> {
    private ProcessorContext<String, byte[]> context;
    private KeyValueStore<String, byte[]> sequences, pendingStore, counters;
    private KeyValueStore<String, String> authors;
    private final Map<String, Pending> pending = new HashMap<>();
    private final ArrayDeque<Pending> order = new ArrayDeque<>();
    private long watermarkMs = Long.MIN_VALUE;

    @Override
    public void init(ProcessorContext<String, byte[]> context) {
      this.context = context;
      sequences = context.getStateStore("sequences");
      pendingStore = context.getStateStore("pending");
      counters = context.getStateStore("counters");
      authors = context.getStateStore("authors");
    }

    @Override
    public void process(Record<String, Event> record) {
      if (++processed == 1) {
        firstNs = System.nanoTime();
        firstCpuNs = cpuNs();
      }
      Event event = record.value();
      switch (event.kind) {
        case ITEM -> authors.put(event.item, event.author == null ? "" : event.author);
        case IMPRESSION -> impression(event);
        case ACTION -> action(event);
      }
      if (processed == eventsExpected) {
        close(Long.MAX_VALUE);
        lastNs = System.nanoTime();
        lastCpuNs = cpuNs();
        context.commit();
        DONE.countDown();
      }
    }

    private void impression(Event event) {
      Pending open = new Pending();
      open.user = event.user;
      open.timeMs = event.timeMs;
      open.key = event.user + "|" + event.impressionId;
      open.items = event.items;
      byte[] sequence = sequences.get(event.user);
      if (sequence == null) sequence = new byte[0];
      int history = Math.min(sequence.length, HISTORY_MAX * ENTRY_BYTES);
      ByteBuffer features = ByteBuffer.allocate(history + event.items.size() * 3 * 56);
      features.put(sequence, sequence.length - history, history);
      Counter user = Counter.read(counters.get("u" + event.user));
      for (String item : event.items) {
        String author = authors.get(item);
        open.authors.add(author == null ? "" : author);
        open.actions.add(new ArrayList<>(1));
        features.put(user.bytes());
        features.put(Counter.read(counters.get("i" + item)).bytes());
        features.put(Counter.read(counters.get("a" + author)).bytes());
      }
      open.features = features.array();
      for (int i = 0; i < event.items.size(); i++) {
        exposures++;
        count(0, event.user, event.items.get(i), open.authors.get(i), event.timeMs);
        sequence = append(sequence, event.items.get(i), event.timeMs);
      }
      sequences.put(event.user, sequence);
      watermarkMs = Math.max(watermarkMs, event.timeMs);
      close(watermarkMs);
      pending.put(open.key, open);
      order.add(open);
      pendingStore.put(open.key, open.bytes());
    }

    private void action(Event event) {
      watermarkMs = Math.max(watermarkMs, event.timeMs);
      close(watermarkMs);
      Pending open = pending.get(event.user + "|" + event.impressionId);
      int at = open == null ? -1 : open.items.indexOf(event.item);
      if (at < 0 || open.actions.get(at).contains(event.type)) {
        actionsUnjoined++;
        return;
      }
      actionsJoined++;
      open.actions.get(at).add(event.type);
      pendingStore.put(open.key, open.bytes());
      byte[] sequence = sequences.get(event.user);
      mark(sequence, event.item, open.timeMs, event.type);
      sequences.put(event.user, sequence);
      if (event.type.equals("click")) count(1, event.user, event.item, open.authors.get(at), event.timeMs);
    }

    private void count(int which, String user, String item, String author, long timeMs) {
      for (String key : new String[] {"u" + user, "i" + item, "a" + author}) {
        Counter counter = Counter.read(counters.get(key));
        counter.add(which, timeMs);
        counters.put(key, counter.bytes());
      }
    }

    /** Sends the examples of the windows that the watermark has passed. */
    private void close(long watermark) {
      while (!order.isEmpty() && order.peek().timeMs < watermark - WINDOW_MS) {
        Pending open = order.poll();
        pending.remove(open.key);
        pendingStore.delete(open.key);
        examples++;
        for (List<String> got : open.actions) clickLabels += got.contains("click") ? 1 : 0;
        context.forward(new Record<>(open.user, open.bytes(), Math.max(0, open.timeMs)));
      }
    }
  }

  static long cpuNs() {
    return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
  }

  static void giveUp(String why) {
    System.err.printf("Fold: %s; %d of %d events are through%n", why, processed, eventsExpected);
    Runtime.getRuntime().halt(1);
  }

  static final int ENTRY_BYTES = 17;  // hash of the item, time, bits of the actions

  static long hash(String text) {
    long hash = 0xcbf29ce484222325L;
    for (int i = 0; i < text.length(); i++) hash = (hash ^ text.charAt(i)) * 0x100000001b3L;
    return hash;
  }

  static byte[] append(byte[] sequence, String item, long timeMs) {
    int kept = Math.min(sequence.length, (SEQUENCE_MAX - 1) * ENTRY_BYTES);
    ByteBuffer out = ByteBuffer.allocate(kept + ENTRY_BYTES);
    out.put(sequence, sequence.length - kept, kept).putLong(hash(item)).putLong(timeMs).put((byte) 1);
    return out.array();
  }

  static void mark(byte[] sequence, String item, long timeMs, String type) {
    if (sequence == null) return;
    ByteBuffer in = ByteBuffer.wrap(sequence);
    long wanted = hash(item);
    for (int at = sequence.length - ENTRY_BYTES; at >= 0; at -= ENTRY_BYTES) {
      if (in.getLong(at + 8) < timeMs) return;
      if (in.getLong(at) == wanted && in.getLong(at + 8) == timeMs) {
        sequence[at + 16] |= type.equals("click") ? 2 : type.equals("long_view") ? 4 : 8;
        return;
      }
    }
  }

  static StoreBuilder<KeyValueStore<String, byte[]>> store(String name) {
    return Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore(name), Serdes.String(), Serdes.ByteArray())
        .withCachingEnabled();
  }

  public static void main(String[] arguments) throws Exception {
    String prefix = arguments[1];
    eventsExpected = Long.parseLong(arguments[2]);
    long secondsMax = Long.parseLong(arguments[4]);
    Properties config = new Properties();
    config.put(StreamsConfig.APPLICATION_ID_CONFIG, prefix + "fold");
    config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
    config.put(StreamsConfig.STATE_DIR_CONFIG, arguments[3]);
    config.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");

    Topology topology = new Topology();
    topology.addSource(AutoOffsetReset.earliest(), "in",
        (record, before) -> ((Event) record.value()).timeMs,
        new StringDeserializer(), new EventDeserializer(),
        prefix + "items", prefix + "impressions", prefix + "clicks");
    topology.addProcessor("fold", Folder::new, "in");
    for (String name : List.of("sequences", "pending", "counters")) topology.addStateStore(store(name), "fold");
    topology.addStateStore(
        Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("authors"), Serdes.String(), Serdes.String())
            .withCachingEnabled(), "fold");
    topology.addSink("out", prefix + "streams-examples", new StringSerializer(), new ByteArraySerializer(), "fold");

    KafkaStreams streams = new KafkaStreams(topology, config);
    streams.setUncaughtExceptionHandler(error -> {
      error.printStackTrace();
      Runtime.getRuntime().halt(1);
      return null;
    });
    streams.start();
    if (!DONE.await(secondsMax, TimeUnit.SECONDS)) giveUp("not done within " + secondsMax + " s");
    // Flushes stores and changelogs, commits.
    if (!streams.close(Duration.ofSeconds(secondsMax))) giveUp("not closed within " + secondsMax + " s");
    long committedNs = System.nanoTime();
    long committedCpuNs = cpuNs();
    System.out.printf(
        "{\"events\":%d,\"exposures\":%d,\"joined\":%d,\"unjoined\":%d,\"examples\":%d,\"click_labels\":%d,"
            + "\"seconds\":%.3f,\"seconds_committed\":%.3f,\"cpu_seconds\":%.3f,\"cpu_seconds_committed\":%.3f}%n",
        processed, exposures, actionsJoined, actionsUnjoined, examples, clickLabels, (lastNs - firstNs) / 1e9,
        (committedNs - firstNs) / 1e9, (lastCpuNs - firstCpuNs) / 1e9, (committedCpuNs - firstCpuNs) / 1e9);
    System.exit(0);  // whatever thread is left
  }
}
