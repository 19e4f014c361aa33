/* A load tool for OpenAI-compatible gateways on loopback: one thread, epoll, no dependencies; prints one JSON object.
 *
 *   load HOST PORT [options]
 *     -c N      clients, each with one request at a time         -n N     requests in all (as many as clients)
 *     -t SEC    instead of -n: ask again and again for so long   -T SEC   limit for everything, after -t (120)
 *     -p PATH   (/v1/chat/completions)   -m MODEL   -k KEY (bearer)
 *     -x MARK   put [[MARK id=<i>]] into the prompt, see engine.c
 *     -s 1      stream                                           -b BYTES pad the prompt, as a picture above 100000
 *     -a K      leave after K chunks                             -A MS    leave so long after the request was sent
 *     -g US     time between the first requests of two clients   -K 0     a new connection for each request
 *     -D FILE   a line per request: id started sent first_byte first_chunk ended (ns) status chunks bytes outcome
 *
 * Outcomes: o whole, h status of 400 or more, s stream without its end, e broken, a left on purpose, t out of time.
 */
#define _GNU_SOURCE
#include "load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define EVENTS 1024
#define TICK_NS 5000000
#define DESCRIPTORS 65535

struct options options = {
    .path = "/v1/chat/completions",
    .model = "fake-model",
    .key = "sk-test",
    .mark = "",
    .connections = 1,
    .keep_alive = 1,
    .requests = -1,
    .limit_s = 120,
    .abort_after_ms = -1,
};
struct numbers transit_us, gaps_us;
struct result *results;
size_t result_count;

static size_t result_room;
static struct sockaddr_in address;
static struct client *clients;
static int poll_fd, begun_clients;
static long begun_requests;
static int64_t stop_at;

int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000LL + t.tv_nsec;
}

void *grown(void *memory, size_t size) {
    void *more = realloc(memory, size);
    if (!more) {
        fprintf(stderr, "load: out of memory\n");
        exit(1);
    }
    return more;
}

void add_number(struct numbers *numbers, double value) {
    if (numbers->count == numbers->room) {
        numbers->room = numbers->room ? numbers->room * 2 : 65536;
        numbers->values = grown(numbers->values, numbers->room * sizeof *numbers->values);
    }
    numbers->values[numbers->count++] = value;
}

static void hang_up(struct client *c) {
    if (c->fd >= 0) {
        close(c->fd);
        c->fd = -1;
    }
}

/* The client goes on with its next request in the next turn of the loop. */
void finish(struct client *c, enum outcome outcome) {
    c->result.ended = now_ns();
    c->result.outcome = outcome;
    if (result_count == result_room) {
        result_room = result_room ? result_room * 2 : 4096;
        results = grown(results, result_room * sizeof *results);
    }
    results[result_count++] = c->result;
    c->state = IDLE;
    if (outcome != OK || c->closes || !options.keep_alive) {
        hang_up(c);
    }
}

static void watch(struct client *c, int operation, uint32_t events) {
    struct epoll_event e = {.events = events, .data.ptr = c};
    epoll_ctl(poll_fd, operation, c->fd, &e);
}

static void dial(struct client *c) {
    int one = 1;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (c->fd < 0) {
        finish(c, FAILED);
        return;
    }
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(c->fd, (void *)&address, sizeof address) < 0 && errno != EINPROGRESS) {
        finish(c, FAILED);
        return;
    }
    watch(c, EPOLL_CTL_ADD, EPOLLIN | EPOLLOUT);
}

static void send_request(struct client *c) {
    while (c->written < c->request.length) {
        ssize_t n = send(c->fd, c->request.data + c->written, c->request.length - c->written, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) {
            watch(c, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
            return;
        }
        if (n < 0) {
            finish(c, FAILED);
            return;
        }
        c->written += n;
    }
    c->result.sent = now_ns();
    watch(c, EPOLL_CTL_MOD, EPOLLIN);
}

static int enough(void) {
    return options.seconds > 0 ? now_ns() >= stop_at : begun_requests >= options.requests;
}

static void begin(struct client *c) {
    if (enough()) {
        hang_up(c);
        c->state = OVER;
        return;
    }
    c->result = (struct result){.id = begun_requests++};
    c->state = ASKING;
    c->written = c->head.length = c->line.length = 0;
    c->head_read = c->closes = c->saw_end = 0;
    c->last_chunk = 0;
    make_request(c);
    c->result.started = now_ns();
    if (c->fd < 0) {
        dial(c);
    } else {
        send_request(c);
    }
}

static void handle(struct client *c, uint32_t events) {
    if (c->fd < 0) {
        return;
    }
    if ((events & EPOLLERR) && !(events & EPOLLIN)) {
        if (c->state == ASKING) {
            finish(c, FAILED);
        }
    } else {
        if ((events & EPOLLOUT) && c->state == ASKING && c->written < c->request.length) {
            send_request(c);
        }
        if (c->fd >= 0 && (events & (EPOLLIN | EPOLLHUP))) {
            if (c->state == ASKING) {
                read_answer(c);
            } else {
                hang_up(c); /* nothing was asked: the other side closes, or says too much */
            }
        }
    }
    if (c->state == IDLE) {
        begin(c);
    }
}

/* What is due by time; returns whether there is anything left to wait for. */
static int turn(int64_t *next_start) {
    int64_t now = now_ns();
    while (begun_clients < options.connections && now >= *next_start) {
        begin(&clients[begun_clients++]);
        *next_start += options.gap_us * 1000;
        now = now_ns();
    }
    int live = begun_clients < options.connections;
    for (int i = 0; i < begun_clients; i++) {
        struct client *c = &clients[i];
        if (c->state == ASKING && options.abort_after_ms >= 0 && c->result.sent &&
            now - c->result.sent >= (int64_t)(options.abort_after_ms * 1e6)) {
            finish(c, ABORTED);
        }
        if (c->state == IDLE) {
            begin(c);
        }
        live |= c->state == ASKING || c->state == IDLE;
    }
    return live;
}

static void run(void) {
    int64_t next_start = now_ns(), hard_end = stop_at + (int64_t)(options.limit_s * 1e9);
    while (turn(&next_start)) {
        int64_t now = now_ns(), wait = TICK_NS;
        if (now > hard_end) {
            for (int i = 0; i < begun_clients; i++) {
                if (clients[i].state == ASKING) {
                    finish(&clients[i], TIMED_OUT);
                }
            }
            return;
        }
        if (begun_clients < options.connections && next_start - now < wait) {
            wait = next_start > now ? next_start - now : 0;
        }
        static struct epoll_event events[EVENTS];
        int n = epoll_pwait2(poll_fd, events, EVENTS, &(struct timespec){0, wait}, NULL);
        if (n < 0 && errno == ENOSYS) {
            perror("load: epoll_pwait2 (Linux 5.11 or newer is needed)");
            exit(1);
        }
        for (int i = 0; i < n; i++) {
            handle(events[i].data.ptr, events[i].events);
        }
    }
}

static int set_option(char name, const char *value) {
    switch (name) {
    case 'c': options.connections = atoi(value); break;
    case 'n': options.requests = atol(value); break;
    case 't': options.seconds = atof(value); break;
    case 'T': options.limit_s = atof(value); break;
    case 'p': options.path = value; break;
    case 'm': options.model = value; break;
    case 'k': options.key = value; break;
    case 'x': options.mark = value; break;
    case 's': options.stream = atoi(value); break;
    case 'b': options.body_bytes = atol(value); break;
    case 'a': options.abort_after_chunks = atoi(value); break;
    case 'A': options.abort_after_ms = atof(value); break;
    case 'g': options.gap_us = atol(value); break;
    case 'K': options.keep_alive = atoi(value); break;
    case 'D': options.dump = value; break;
    default: return 0;
    }
    return 1;
}

static void read_options(int count, char **words) {
    options.host = words[1];
    options.port = atoi(words[2]);
    address.sin_family = AF_INET;
    address.sin_port = htons(options.port);
    if (inet_pton(AF_INET, options.host, &address.sin_addr) != 1 || ntohl(address.sin_addr.s_addr) >> 24 != 127) {
        fprintf(stderr, "load: %s is not on loopback\n", options.host);
        exit(2);
    }
    for (int i = 3; i < count; i += 2) {
        if (words[i][0] != '-' || i + 1 == count || !set_option(words[i][1], words[i + 1])) {
            fprintf(stderr, "load: unknown option %s\n", words[i]);
            exit(2);
        }
    }
    if (options.requests < 0) {
        options.requests = options.connections;
    }
}

int main(int count, char **words) {
    if (count < 3) {
        fprintf(stderr, "load HOST PORT [options]: see the head of load.c\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){DESCRIPTORS, DESCRIPTORS});
    read_options(count, words);
    prepare_body();
    poll_fd = epoll_create1(0);
    clients = calloc(options.connections, sizeof *clients);
    for (int i = 0; i < options.connections; i++) {
        clients[i].fd = -1;
    }
    int64_t began = now_ns();
    stop_at = began + (int64_t)(options.seconds * 1e9);
    run();
    print_results((now_ns() - began) / 1e9);
    return options.dump ? dump_results(options.dump) : 0;
}
