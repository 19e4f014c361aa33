/* A fake OpenAI engine: one thread, epoll, no dependencies.
 *
 *   engine PORT [--hold MS] [--n CHUNKS] [--d MS] [--sz PAD] [--name MODEL]
 *
 * POST /v1/chat/completions, /v1/completions, /v1/responses: JSON or SSE
 * GET  /v1/models, /health and what routers ask an engine
 * GET  /stats  {"concurrent","peak","total","cancelled","bytes_in"}
 * GET  /log    [[id, arrived_ns, ended_ns, cancelled], ...] since the last /reset
 * GET  /reset
 *
 * Latency, chunks and sizes come per request from a marker in the prompt, so that they survive every gateway:
 *   [[hold=500 n=100 d=20 sz=0 id=17]]   hold: ms before the first byte, n: chunks, d: ms between them, sz: padding
 * Each chunk's text is "@<CLOCK_MONOTONIC ns>@": a client on this machine reads from it how long the chunk was on its
 * way. A request runs from its last byte's arrival until just before the last byte of its answer, or until its peer
 * leaves.
 */
#define _GNU_SOURCE
#include "engine.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define EVENTS 512
#define READ_ROOM 4096

struct counts counts;
struct wish usual = {.chunks = 8};
const char *model = "fake-model";
int poll_fd;

/* Closed connections are freed after the events of a turn, which may still name them. */
static struct connection **closed;
static size_t closed_count, closed_room;

int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000LL + t.tv_nsec;
}

void *grown(void *memory, size_t size) {
    void *more = realloc(memory, size);
    if (!more) {
        fprintf(stderr, "engine: out of memory\n");
        exit(1);
    }
    return more;
}

void append(struct bytes *bytes, const char *data, size_t length) {
    if (bytes->length + length > bytes->room) {
        bytes->room = (bytes->length + length) * 2;
        bytes->data = grown(bytes->data, bytes->room);
    }
    memcpy(bytes->data + bytes->length, data, length);
    bytes->length += length;
}

void connection_close(struct connection *c) {
    if (c->closed) {
        return;
    }
    run_end(c, 1);
    c->closed = 1;
    epoll_ctl(poll_fd, EPOLL_CTL_DEL, c->fd, NULL);
    close(c->fd);
    if (closed_count == closed_room) {
        closed_room = closed_room ? closed_room * 2 : 1024;
        closed = grown(closed, closed_room * sizeof *closed);
    }
    closed[closed_count++] = c;
}

static void free_closed(void) {
    for (size_t i = 0; i < closed_count; i++) {
        struct connection *c = closed[i];
        free(c->in.data);
        free(c->out.data);
        free(c->unchunked.data);
        free(c);
    }
    closed_count = 0;
}

static void watch(struct connection *c, int blocked) {
    if (c->blocked == blocked) {
        return;
    }
    c->blocked = blocked;
    struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP | (blocked ? EPOLLOUT : 0), .data.ptr = c};
    epoll_ctl(poll_fd, EPOLL_CTL_MOD, c->fd, &e);
}

void flush(struct connection *c) {
    while (c->sent < c->out.length) {
        ssize_t n = send(c->fd, c->out.data + c->sent, c->out.length - c->sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) {
            watch(c, 1);
            return;
        }
        if (n < 0) {
            connection_close(c);
            return;
        }
        c->sent += n;
    }
    c->out.length = c->sent = 0;
    watch(c, 0);
    if (c->close_after && !c->running) {
        connection_close(c);
    }
}

static void accept_all(int listener) {
    for (;;) {
        int one = 1, fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
        if (fd < 0) {
            return;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        struct connection *c = calloc(1, sizeof *c);
        if (!c) {
            close(fd);
            return;
        }
        c->fd = fd;
        c->heap_index = -1;
        struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = c};
        epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &e);
    }
}

/* Reads what is there; returns whether the peer has left. */
static int receive(struct connection *c) {
    for (;;) {
        if (c->in.room - c->in.length < READ_ROOM) {
            c->in.room = c->in.room ? c->in.room * 2 : 2 * READ_ROOM;
            c->in.data = grown(c->in.data, c->in.room);
        }
        size_t room = c->in.room - c->in.length;
        ssize_t n = recv(c->fd, c->in.data + c->in.length, room, 0);
        if (n <= 0) {
            return n == 0 || errno != EAGAIN;
        }
        c->in.length += n;
        if ((size_t)n < room) {
            return 0;
        }
    }
}

static void handle(struct connection *c, uint32_t events) {
    if (c->closed) {
        return;
    }
    if (events & EPOLLIN) {
        int left = receive(c);
        read_requests(c);
        if (left) {
            connection_close(c);
        }
    } else if (events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP)) {
        connection_close(c);
    }
    if (!c->closed && (events & EPOLLRDHUP) && c->running && c->in.length == 0) {
        connection_close(c);
    }
    if (!c->closed && (events & EPOLLOUT)) {
        flush(c);
        if (!c->closed && !c->blocked && c->running && c->stream && c->wish.pause_ms <= 0 && c->chunks_sent > 0) {
            make_ready(c);
        }
    }
}

static int listen_on(int port) {
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_in here = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(listener, (void *)&here, sizeof here) || listen(listener, 4096)) {
        perror("engine");
        exit(1);
    }
    return listener;
}

static void read_options(int count, char **words) {
    for (int i = 2; i + 1 < count; i += 2) {
        const char *name = words[i], *value = words[i + 1];
        if (!strcmp(name, "--hold")) {
            usual.hold_ms = atof(value);
        } else if (!strcmp(name, "--n")) {
            usual.chunks = atoi(value);
        } else if (!strcmp(name, "--d")) {
            usual.pause_ms = atof(value);
        } else if (!strcmp(name, "--sz")) {
            usual.pad = atoi(value);
        } else if (!strcmp(name, "--name")) {
            model = value;
        } else {
            fprintf(stderr, "engine: unknown option %s\n", name);
            exit(2);
        }
    }
}

int main(int count, char **words) {
    if (count < 2) {
        fprintf(stderr, "engine PORT [--hold MS --n CHUNKS --d MS --sz PAD --name MODEL]\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    read_options(count, words);
    int listener = listen_on(atoi(words[1]));
    poll_fd = epoll_create1(0);
    struct epoll_event first = {.events = EPOLLIN, .data.ptr = NULL};
    epoll_ctl(poll_fd, EPOLL_CTL_ADD, listener, &first);
    for (;;) {
        static struct epoll_event events[EVENTS];
        int64_t wait = ns_until_due();
        struct timespec until = {wait / 1000000000, wait % 1000000000};
        int n = epoll_pwait2(poll_fd, events, EVENTS, wait < 0 ? NULL : &until, NULL);
        if (n < 0 && errno == ENOSYS) {
            perror("engine: epoll_pwait2 (Linux 5.11 or newer is needed)");
            return 1;
        }
        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr) {
                handle(events[i].data.ptr, events[i].events);
            } else {
                accept_all(listener);
            }
        }
        run_due();
        run_ready();
        free_closed();
    }
}
