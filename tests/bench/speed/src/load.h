/* A load tool for OpenAI-compatible gateways: one thread, epoll, no dependencies. See load.c. */
#ifndef LOAD_H
#define LOAD_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>

enum outcome { OK = 'o', HTTP_ERROR = 'h', SHORT = 's', FAILED = 'e', ABORTED = 'a', TIMED_OUT = 't' };
enum state { NEW, ASKING, IDLE, OVER };
enum part { SIZE, DATA, DATA_END, TRAILER };

struct options {
    const char *host, *path, *model, *key, *mark, *dump;
    int port, connections, stream, keep_alive, abort_after_chunks;
    long requests, body_bytes, gap_us;
    double seconds, limit_s, abort_after_ms;
};

/* One request; times in ns, 0: not seen. */
struct result {
    long id;
    int64_t started, sent, first_byte, first_chunk, ended, bytes;
    int status, chunks;
    enum outcome outcome;
};

struct text {
    char *data;
    size_t length, room;
};

struct client {
    int fd;
    enum state state;
    struct result result;

    struct text request;
    size_t written;

    /* the answer */
    struct text head, line;
    int head_read, chunked, closes, saw_end;
    int64_t body_left; /* -1: until the peer closes */
    enum part part;
    int64_t chunk_left;
    char size_text[24];
    int size_length;
    int64_t last_chunk;
};

struct numbers {
    double *values;
    size_t count, room;
};

extern struct options options;
extern struct numbers transit_us, gaps_us;
extern struct result *results;
extern size_t result_count;

/* load.c */
int64_t now_ns(void);
void *grown(void *memory, size_t size);
void add_number(struct numbers *numbers, double value);
void finish(struct client *c, enum outcome outcome);

/* load_http.c */
void prepare_body(void);
void make_request(struct client *c);
void read_answer(struct client *c);

/* load_result.c */
void print_results(double wall_s);
int dump_results(const char *path);

#endif
