// kafka_load: one thread that produces to or fetches from a broker as fast, or exactly as fast, as it is told.
//
// Produce v3 and Fetch v4 with real record batches; every answer is checked: length, correlation, error code, base
// offset, and while warming up the CRC of everything fetched. Prints MEASURE when the measured time begins, END when
// it ends (the caller then reads the server's CPU time), and one line of JSON.
#include "kafka.h"
#include <fcntl.h>
#include <getopt.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/timerfd.h>

#define RECEIVE_BYTES (1 << 18)
#define LATENCIES_MAX (1 << 23)
#define OUT_BYTES_MAX (4 << 20)
#define FRAME_HEAD_BYTES_MAX 512

enum phase { WARMING, MEASURING, DRAINING };

static struct {
    int port, connections, depth, partitions, acks;
    bool produce;
    size_t batch_bytes;
    double seconds, warm_seconds, requests_per_second;  // the rate of all connections together; 0 is no limit
    uint64_t requests_max;                              // 0 is no limit
    uint64_t batches;                                   // fetch: how many batches each partition has
    const char *topic;
} options = {.connections = 1, .depth = 1, .partitions = 1, .acks = 1, .batch_bytes = 200, .seconds = 2,
             .warm_seconds = 0.3, .batches = 256};

struct connection {
    int socket_fd, number, partition, in_flight;
    bool waits_for_room;
    uint32_t sent, answered;       // correlation ids
    double *sent_at;
    uint8_t *out;
    size_t out_bytes, out_done;
    uint8_t head[FRAME_HEAD_BYTES_MAX], records_head[BATCH_HEADER_BYTES];
    size_t head_bytes, records_bytes, records_done;
    uint32_t crc;
    uint64_t next_batch;           // fetch: to ask for
    uint64_t expected_batch;       // fetch: to be answered
    int64_t last_base_offset;      // produce
};

static struct {
    uint8_t head[FRAME_HEAD_BYTES_MAX], *batch;
    size_t head_bytes, frame_bytes, batch_bytes, partition_at, offset_at;
    uint32_t batch_records;
} request;

static struct {
    enum phase phase;
    double began_at, measured_from, ended_at, cpu_from, cpu_to;
    uint64_t sent, answered, measured, measured_bytes;
    float *latencies;
    size_t latency_count;
    int epoll_fd, timer_fd;
} run;

static size_t answer_head_bytes;   // of an answer, up to the records
static size_t answer_error_at;

static void fail(const struct connection *connection, const char *what, int64_t got, int64_t wanted) {
    fprintf(stderr, "connection %d, answer %u: %s is %lld, not %lld\n", connection->number, connection->answered, what,
            (long long)got, (long long)wanted);
    exit(3);
}

static double own_cpu_seconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

static void build_request(void) {
    size_t topic_bytes = strlen(options.topic);
    request.batch = malloc(options.batch_bytes + 512);
    request.batch_bytes = build_batch(request.batch, options.batch_bytes, &request.batch_records);
    uint8_t *at = put16(put16(request.head + 4, options.produce ? API_PRODUCE : API_FETCH), options.produce ? 3 : 4);
    at = put_bytes(put16(at + 4, CLIENT_ID_BYTES), CLIENT_ID, CLIENT_ID_BYTES);
    if (options.produce) {
        at = put32(put16(put16(at, -1), options.acks), 30000);          // no transaction, acks, timeout
    } else {
        at = put32(put32(put32(at, -1), 500), 1);                       // replica, wait, at least
        at = put32(at, request.batch_bytes);                            // at most
        *at++ = 0;                                                      // read_uncommitted
    }
    at = put_bytes(put16(put32(at, 1), topic_bytes), options.topic, topic_bytes);
    at = put32(at, 1);
    request.partition_at = at - request.head;
    at = put32(at, 0);
    request.offset_at = at - request.head;
    if (!options.produce) at = put64(at, 0);
    at = put32(at, request.batch_bytes);
    request.head_bytes = at - request.head;
    request.frame_bytes = request.head_bytes + (options.produce ? request.batch_bytes : 0);
    put32(request.head, request.frame_bytes - 4);
    answer_head_bytes = (options.produce ? 44 : 52) + topic_bytes;
    answer_error_at = (options.produce ? 22 : 26) + topic_bytes;
}

static void watch(struct connection *connection, bool for_room) {
    if (connection->waits_for_room == for_room) return;
    connection->waits_for_room = for_room;
    struct epoll_event event = {.events = EPOLLIN | (for_room ? EPOLLOUT : 0), .data.ptr = connection};
    epoll_ctl(run.epoll_fd, EPOLL_CTL_MOD, connection->socket_fd, &event);
}

// When the next request of a connection may leave; with a rate, the connections take turns.
static double due_at(const struct connection *connection) {
    if (options.requests_per_second == 0) return 0;
    double before = (double)connection->sent * options.connections + connection->number;
    return run.began_at + before / options.requests_per_second;
}

static void add_request(struct connection *connection, double sent_at) {
    uint8_t *frame = connection->out + connection->out_bytes;
    memcpy(frame, request.head, request.head_bytes);
    put32(frame + 8, connection->sent);
    put32(frame + request.partition_at, connection->partition);
    if (options.produce) {
        memcpy(frame + request.head_bytes, request.batch, request.batch_bytes);
    } else {
        put64(frame + request.offset_at, connection->next_batch * request.batch_records);
        connection->next_batch = (connection->next_batch + 1) % options.batches;
    }
    connection->sent_at[connection->sent % options.depth] = sent_at;
    connection->sent++;
    connection->in_flight++;
    connection->out_bytes += request.frame_bytes;
    run.sent++;
}

static bool may_send(const struct connection *connection, size_t capacity, double now) {
    return connection->in_flight < options.depth && connection->out_bytes + request.frame_bytes <= capacity &&
           run.phase != DRAINING && (!options.requests_max || run.sent < options.requests_max) &&
           due_at(connection) <= now;
}

static size_t out_capacity(void) {
    size_t wanted = request.frame_bytes * options.depth;
    return wanted > OUT_BYTES_MAX ? request.frame_bytes : wanted;
}

// Send as many requests as may be in flight now, in as few writes as the socket allows.
static void pump(struct connection *connection) {
    size_t capacity = out_capacity();
    for (;;) {
        if (connection->out_done == connection->out_bytes) {
            connection->out_done = connection->out_bytes = 0;
            double now = now_seconds();
            while (may_send(connection, capacity, now))
                add_request(connection, options.requests_per_second ? due_at(connection) : now);
            if (!connection->out_bytes) break;
        }
        ssize_t count = write(connection->socket_fd, connection->out + connection->out_done,
                              connection->out_bytes - connection->out_done);
        if (count < 0) {
            if (errno != EAGAIN) die("write");
            watch(connection, true);
            return;
        }
        connection->out_done += count;
    }
    watch(connection, false);
}

static void check_answer_head(struct connection *connection) {
    const uint8_t *head = connection->head;
    uint32_t correlation = get32(head + 4);
    if (correlation != connection->answered) fail(connection, "the correlation id", correlation, connection->answered);
    int error = (int16_t)(head[answer_error_at] << 8 | head[answer_error_at + 1]);
    if (error) fail(connection, "the error code", error, 0);
    connection->records_bytes = get32(head) + 4 - answer_head_bytes;
    connection->records_done = 0;
    connection->crc = 0;
    if (options.produce) {
        int64_t base = get64(head + answer_error_at + 2);
        if (base <= connection->last_base_offset)
            fail(connection, "the base offset", base, connection->last_base_offset + 1);
        connection->last_base_offset = base;
    }
    size_t wanted = options.produce ? 0 : request.batch_bytes;
    if (connection->records_bytes != wanted) fail(connection, "the length", connection->records_bytes, wanted);
}

// Take some of the records of a fetch answer: their header always, their CRC while warming up.
static void take_records(struct connection *connection, const uint8_t *data, size_t count) {
    size_t at = connection->records_done;
    if (at < BATCH_HEADER_BYTES) {
        size_t head = count < BATCH_HEADER_BYTES - at ? count : BATCH_HEADER_BYTES - at;
        memcpy(connection->records_head + at, data, head);
    }
    if (run.phase == WARMING && at + count > BATCH_ATTRIBUTES) {
        size_t skip = at < BATCH_ATTRIBUTES ? BATCH_ATTRIBUTES - at : 0;
        connection->crc = crc32c(connection->crc, data + skip, count - skip);
    }
    connection->records_done += count;
}

static void check_records(struct connection *connection) {
    int64_t base = get64(connection->records_head), wanted = connection->expected_batch * request.batch_records;
    if (base != wanted) fail(connection, "the base offset", base, wanted);
    size_t length = get32(connection->records_head + BATCH_LENGTH) + 12;
    if (length != request.batch_bytes) fail(connection, "the batch length", length, request.batch_bytes);
    uint32_t crc = get32(connection->records_head + BATCH_CRC);
    if (run.phase == WARMING && crc != connection->crc) fail(connection, "the CRC", connection->crc, crc);
    connection->expected_batch = (connection->expected_batch + 1) % options.batches;
}

static void answer_complete(struct connection *connection, double now) {
    if (!options.produce) check_records(connection);
    if (run.phase == MEASURING) {
        if (run.latency_count < LATENCIES_MAX)
            run.latencies[run.latency_count++] = now - connection->sent_at[connection->answered % options.depth];
        run.measured++;
        run.measured_bytes += request.batch_bytes;
    }
    connection->answered++;
    connection->in_flight--;
    connection->head_bytes = 0;
    run.answered++;
}

static void receive(struct connection *connection, uint8_t *buffer) {
    ssize_t left = read(connection->socket_fd, buffer, RECEIVE_BYTES);
    if (left == 0) fail(connection, "the connection", 0, 1);
    if (left < 0) {
        if (errno == EAGAIN) return;
        die("read");
    }
    double now = now_seconds();
    while (left > 0) {
        size_t count;
        if (connection->head_bytes < answer_head_bytes) {
            count = answer_head_bytes - connection->head_bytes;
            if (count > (size_t)left) count = left;
            memcpy(connection->head + connection->head_bytes, buffer, count);
            connection->head_bytes += count;
            if (connection->head_bytes == answer_head_bytes) check_answer_head(connection);
        } else {
            count = connection->records_bytes - connection->records_done;
            if (count > (size_t)left) count = left;
            take_records(connection, buffer, count);
        }
        buffer += count;
        left -= count;
        if (connection->head_bytes == answer_head_bytes && connection->records_done == connection->records_bytes)
            answer_complete(connection, now);
    }
}

static void open_connection(struct connection *connection, int number) {
    connection->number = number;
    connection->partition = number % options.partitions;
    connection->last_base_offset = -1;
    connection->next_batch = connection->expected_batch = options.batches * number / options.connections;
    connection->sent_at = calloc(options.depth, sizeof(double));
    connection->out = malloc(out_capacity());
    connection->socket_fd = socket(AF_INET, SOCK_STREAM, 0);
    tune_socket(connection->socket_fd);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(options.port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (connect(connection->socket_fd, (struct sockaddr *)&address, sizeof address)) die("connect");
    fcntl(connection->socket_fd, F_SETFL, O_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
    epoll_ctl(run.epoll_fd, EPOLL_CTL_ADD, connection->socket_fd, &event);
}

// With a rate: wake up when the earliest request is due.
static void arm_timer(const struct connection *connections) {
    double earliest = due_at(connections);
    for (int i = 1; i < options.connections; i++)
        if (due_at(connections + i) < earliest) earliest = due_at(connections + i);
    struct itimerspec when = {.it_value = {.tv_sec = earliest, .tv_nsec = (earliest - (time_t)earliest) * 1e9}};
    timerfd_settime(run.timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void announce(const char *what) {
    puts(what);
    fflush(stdout);
}

// Go on to the next phase when its time has come; false when everything is over.
static bool advance(double now) {
    bool enough = options.requests_max && run.answered >= options.requests_max;
    if (run.phase == WARMING && now >= run.began_at + options.warm_seconds) {
        announce("MEASURE");
        run.phase = MEASURING;
        run.measured_from = now_seconds();
        run.cpu_from = own_cpu_seconds();
    } else if (run.phase == MEASURING && (enough || now >= run.measured_from + options.seconds)) {
        run.phase = DRAINING;
        run.ended_at = now;
        run.cpu_to = own_cpu_seconds();
        announce("END");
    }
    if (now > run.measured_from + options.seconds + 30 && run.phase == DRAINING) {
        fprintf(stderr, "%llu answers missing after 30 s\n", (unsigned long long)(run.sent - run.answered));
        exit(4);
    }
    return run.phase != DRAINING || run.answered != run.sent;
}

static void serve_events(struct connection *connections, uint8_t *buffer) {
    struct epoll_event events[256];
    int count = epoll_wait(run.epoll_fd, events, 256, 50);
    for (int i = 0; i < count; i++) {
        struct connection *connection = events[i].data.ptr;
        if (!connection) continue;  // the timer
        if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) receive(connection, buffer);
        if (!options.requests_per_second) pump(connection);
    }
    if (!options.requests_per_second) return;
    for (int i = 0; i < options.connections; i++) pump(connections + i);
    arm_timer(connections);
}

static int by_size(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return x < y ? -1 : x > y;
}

static double percentile_us(double part) {
    return run.latency_count ? run.latencies[(size_t)((run.latency_count - 1) * part)] * 1e6 : 0;
}

static void print_result(void) {
    double seconds = run.ended_at - run.measured_from;
    qsort(run.latencies, run.latency_count, sizeof(float), by_size);
    printf("{\"seconds\": %.6f, \"requests\": %llu, \"bytes\": %llu, \"p50_us\": %.1f, \"p99_us\": %.1f, "
           "\"max_us\": %.1f, \"client_cores\": %.3f, \"batch_bytes\": %zu, \"batch_records\": %u, \"answered\": %llu}\n",
           seconds, (unsigned long long)run.measured, (unsigned long long)run.measured_bytes, percentile_us(0.5),
           percentile_us(0.99), percentile_us(1), (run.cpu_to - run.cpu_from) / seconds, request.batch_bytes,
           request.batch_records, (unsigned long long)run.answered);
}

static void usage(void) {
    fprintf(stderr, "kafka_load -p PORT -m produce|fetch -t TOPIC [-c connections] [-d depth] [-b batch bytes]\n"
                    "  [-n partitions] [-a acks] [-s seconds] [-w warm seconds] [-r requests per second]\n"
                    "  [-x requests at most] [-k batches a partition]\n");
    exit(2);
}

static void parse_options(int argc, char **argv) {
    for (int letter; (letter = getopt(argc, argv, "p:m:t:c:d:b:n:a:s:w:r:x:k:")) != -1;) {
        switch (letter) {
        case 'p': options.port = atoi(optarg); break;
        case 'm': options.produce = !strcmp(optarg, "produce"); break;
        case 't': options.topic = optarg; break;
        case 'c': options.connections = atoi(optarg); break;
        case 'd': options.depth = atoi(optarg); break;
        case 'b': options.batch_bytes = atoll(optarg); break;
        case 'n': options.partitions = atoi(optarg); break;
        case 'a': options.acks = atoi(optarg); break;
        case 's': options.seconds = atof(optarg); break;
        case 'w': options.warm_seconds = atof(optarg); break;
        case 'r': options.requests_per_second = atof(optarg); break;
        case 'x': options.requests_max = atoll(optarg); break;
        case 'k': options.batches = atoll(optarg); break;
        default: usage();
        }
    }
    if (!options.port || !options.topic) usage();
}

int main(int argc, char **argv) {
    parse_options(argc, argv);
    build_request();
    run.epoll_fd = epoll_create1(0);
    run.timer_fd = timerfd_create(CLOCK_MONOTONIC, 0);
    run.latencies = calloc(LATENCIES_MAX, sizeof(float));
    struct epoll_event timer = {.events = EPOLLIN | EPOLLET};
    epoll_ctl(run.epoll_fd, EPOLL_CTL_ADD, run.timer_fd, &timer);
    struct connection *connections = calloc(options.connections, sizeof *connections);
    uint8_t *buffer = malloc(RECEIVE_BYTES);
    for (int i = 0; i < options.connections; i++) open_connection(connections + i, i);
    run.began_at = now_seconds();
    for (int i = 0; i < options.connections; i++) pump(connections + i);
    if (options.requests_per_second) arm_timer(connections);
    while (advance(now_seconds())) serve_events(connections, buffer);
    print_result();
    return 0;
}
