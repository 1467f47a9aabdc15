// kafka_limit DIRECTORY TOPIC: the least that a broker can do for `kafka_load`, as a physical limit to compare with.
//
// One epoll thread. Produce v3: check the CRC, set the offset, append to one file, answer. Fetch v4: answer from that
// file by sendfile. It knows one topic and one batch size, keeps no index, and neither syncs nor replicates.
#include "kafka.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>

#define FILE_BYTES_MAX (4ull << 30)
#define ANSWERS_BYTES (1 << 20)
#define REQUEST_HEADER_BYTES (4 + 2 + 2 + 4 + 2 + CLIENT_ID_BYTES)  // with the frame's length

struct connection {
    int socket_fd;
    uint8_t *buffer;
    size_t filled, capacity;
};

struct log_file {
    int file_fd;
    uint64_t next_offset, size_bytes;
    uint32_t batch_records;  // of every batch: all are alike
    size_t batch_bytes;
};

static const char *topic;
static size_t topic_bytes;
static struct log_file appended = {.batch_records = 1, .batch_bytes = 1};
static uint8_t answers[ANSWERS_BYTES];

static void send_all(int socket_fd, const uint8_t *data, size_t length, int flags) {
    while (length) {
        ssize_t sent = send(socket_fd, data, length, flags);
        if (sent < 0) {
            if (errno != EAGAIN) return;  // the client is gone; the next read says so
            struct pollfd writable = {socket_fd, POLLOUT, 0};
            poll(&writable, 1, 1000);
            continue;
        }
        data += sent;
        length -= sent;
    }
}

static uint8_t *put_topic(uint8_t *at) {
    at = put_bytes(put16(put32(at, 1), topic_bytes), topic, topic_bytes);
    return put32(put32(at, 1), 0);  // one partition, number 0
}

// Append the batch of a Produce request; returns the end of its answer.
static uint8_t *produce(const uint8_t *request, size_t frame_bytes, uint8_t *answer) {
    size_t before = REQUEST_HEADER_BYTES + 2 + 2 + 4 + 4 + 2 + topic_bytes + 4 + 4 + 4;
    uint8_t *batch = (uint8_t *)request + before;
    size_t batch_bytes = frame_bytes - before;
    if (crc32c(0, batch + BATCH_ATTRIBUTES, batch_bytes - BATCH_ATTRIBUTES) != get32(batch + BATCH_CRC)) abort();
    put64(batch, appended.next_offset);
    if (appended.size_bytes > FILE_BYTES_MAX) {
        if (ftruncate(appended.file_fd, 0)) die("ftruncate");
        appended.size_bytes = 0;
    }
    if (write(appended.file_fd, batch, batch_bytes) != (ssize_t)batch_bytes) die("write");
    appended.size_bytes += batch_bytes;
    appended.batch_bytes = batch_bytes;
    appended.batch_records = get32(batch + BATCH_RECORD_COUNT);
    uint8_t *at = put_topic(put_bytes(answer + 4, request + 8, 4));
    at = put32(put64(put64(put16(at, 0), appended.next_offset), -1), 0);  // no error, base, append time, throttle
    put32(answer, at - answer - 4);
    appended.next_offset += appended.batch_records;
    return at;
}

// Answer a Fetch request with as many bytes as it asks for, from where its offset lies.
static void fetch(int socket_fd, const uint8_t *request) {
    const uint8_t *asked = request + REQUEST_HEADER_BYTES + 4 + 4 + 4 + 4 + 1 + 4 + 2 + topic_bytes + 4 + 4;
    uint32_t left = get32(asked + 8);
    off_t position = get64(asked) / appended.batch_records * appended.batch_bytes;
    uint8_t head[512];
    uint8_t *at = put_topic(put32(put_bytes(head + 4, request + 8, 4), 0));
    at = put64(put64(put16(at, 0), appended.next_offset), appended.next_offset);
    at = put32(put32(at, -1), left);
    put32(head, at - head - 4 + left);
    send_all(socket_fd, head, at - head, MSG_MORE);
    while (left) {
        ssize_t sent = sendfile(socket_fd, appended.file_fd, &position, left);
        if (sent < 0 && errno == EAGAIN) {
            struct pollfd writable = {socket_fd, POLLOUT, 0};
            poll(&writable, 1, 1000);
            continue;
        }
        if (sent <= 0) return;
        left -= sent;
    }
}

static void close_connection(struct connection *connection) {
    close(connection->socket_fd);
    free(connection->buffer);
    free(connection);
}

// Make room for a frame of `frame_bytes` that begins at `begin`, and move it to the front.
static void grow(struct connection *connection, size_t begin, size_t frame_bytes) {
    uint8_t *larger = malloc(connection->capacity = frame_bytes * 2);
    memcpy(larger, connection->buffer + begin, connection->filled - begin);
    free(connection->buffer);
    connection->buffer = larger;
    connection->filled -= begin;
}

static void receive(struct connection *connection) {
    ssize_t count = read(connection->socket_fd, connection->buffer + connection->filled,
                         connection->capacity - connection->filled);
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) {
        close_connection(connection);
        return;
    }
    connection->filled += count;
    size_t begin = 0;
    uint8_t *answer_end = answers;
    while (connection->filled - begin >= 4) {
        size_t frame_bytes = get32(connection->buffer + begin) + 4;
        if (connection->filled - begin < frame_bytes) {
            if (frame_bytes > connection->capacity) {
                grow(connection, begin, frame_bytes);
                begin = 0;
            }
            break;
        }
        const uint8_t *request = connection->buffer + begin;
        begin += frame_bytes;
        if (request[5] == API_PRODUCE)
            answer_end = produce(request, frame_bytes, answer_end);
        else
            fetch(connection->socket_fd, request);
        if (answer_end > answers + ANSWERS_BYTES - 512) {
            send_all(connection->socket_fd, answers, answer_end - answers, 0);
            answer_end = answers;
        }
    }
    connection->filled -= begin;
    memmove(connection->buffer, connection->buffer + begin, connection->filled);
    if (answer_end > answers) send_all(connection->socket_fd, answers, answer_end - answers, 0);
}

static void accept_connection(int epoll_fd, int listener_fd) {
    int socket_fd = accept4(listener_fd, NULL, NULL, SOCK_NONBLOCK);
    if (socket_fd < 0) return;
    tune_socket(socket_fd);
    struct connection *connection = calloc(1, sizeof *connection);
    connection->socket_fd = socket_fd;
    connection->buffer = malloc(connection->capacity = 65536);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, socket_fd, &event);
}

// A listener on a free port of the loopback; its number goes to stdout.
static int listen_on_loopback(void) {
    int listener_fd = socket(AF_INET, SOCK_STREAM, 0);
    tune_socket(listener_fd);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    if (bind(listener_fd, (struct sockaddr *)&address, length) || listen(listener_fd, 512)) die("listen");
    getsockname(listener_fd, (struct sockaddr *)&address, &length);
    printf("ready kafka=127.0.0.1:%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return listener_fd;
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "kafka_limit DIRECTORY TOPIC\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    if (chdir(argv[1])) die(argv[1]);
    topic = argv[2];
    topic_bytes = strlen(topic);
    appended.file_fd = open("limit.log", O_RDWR | O_CREAT | O_APPEND | O_TRUNC, 0644);
    if (appended.file_fd < 0) die("limit.log");
    unlink("limit.log");
    int epoll_fd = epoll_create1(0), listener_fd = listen_on_loopback();
    struct epoll_event events[256], listening = {.events = EPOLLIN};
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener_fd, &listening);
    for (;;) {
        int count = epoll_wait(epoll_fd, events, 256, -1);
        for (int i = 0; i < count; i++) {
            if (events[i].data.ptr)
                receive(events[i].data.ptr);
            else
                accept_connection(epoll_fd, listener_fd);
        }
    }
}
