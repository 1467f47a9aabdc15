// Reads partitions 0 to a[2]-1 of topic a[1] at bootstrap a[0] from the beginning, a[3] records, without a group.
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;

public class Assign {
    public static void main(String[] a) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", a[0]);
        settings.put("enable.auto.commit", "false");
        settings.put("key.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        settings.put("value.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
            List<TopicPartition> partitions = new ArrayList<>();
            for (int number = 0; number < Integer.parseInt(a[2]); number++) {
                partitions.add(new TopicPartition(a[1], number));
            }
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            long wanted = Long.parseLong(a[3]), count = 0, began = 0, first = 0;
            while (count < wanted) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofSeconds(20));
                if (records.isEmpty()) {
                    break;
                }
                count += records.count();
                if (began == 0) {
                    began = System.nanoTime();
                    first = count;
                }
            }
            double seconds = (System.nanoTime() - began) / 1e9;
            System.out.printf("{\"count\": %d, \"per_second\": %.0f}%n", count, (count - first) / seconds);
        }
    }
}
