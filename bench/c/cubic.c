// LD_PRELOAD for programs that do not set their congestion control themselves: cubic on every TCP socket.
// Accepted sockets inherit it from the listening one.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

static void use_cubic(int socket_fd) { setsockopt(socket_fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5); }

int listen(int socket_fd, int backlog) {
    static int (*real)(int, int);
    if (!real) real = (int (*)(int, int))dlsym(RTLD_NEXT, "listen");
    use_cubic(socket_fd);
    return real(socket_fd, backlog);
}

int connect(int socket_fd, const struct sockaddr *address, socklen_t length) {
    static int (*real)(int, const struct sockaddr *, socklen_t);
    if (!real) real = (int (*)(int, const struct sockaddr *, socklen_t))dlsym(RTLD_NEXT, "connect");
    use_cubic(socket_fd);
    return real(socket_fd, address, length);
}
