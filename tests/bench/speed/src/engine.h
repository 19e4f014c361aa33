/* A fake OpenAI engine: one thread, epoll, no dependencies. See engine.c. */
#ifndef ENGINE_H
#define ENGINE_H

#include <stddef.h>
#include <stdint.h>

enum kind { CHAT, RESPONSES, COMPLETIONS };

struct bytes {
    char *data;
    size_t length, room;
};

/* What a request asks for; the marker in its prompt may change it: [[hold=500 n=100 d=20 sz=0 id=17]] */
struct wish {
    double hold_ms, pause_ms;
    int chunks, pad;
    long id;
};

struct connection {
    int fd, closed;
    struct bytes in, out;
    size_t sent;     /* of out */
    int blocked;     /* the kernel takes no more of out for now */
    int close_after; /* once out is sent */

    /* the request that is being read */
    int head_read, keep_alive, chunked;
    size_t scanned, body_at, chunk_at;
    int64_t body_length;
    struct bytes unchunked;
    char method[8], path[128];

    /* the request that runs */
    int running, stream, chunks_sent;
    enum kind kind;
    struct wish wish;
    int64_t arrived, due;
    int heap_index; /* -1: not in the heap of what waits for its time */
    int is_ready;   /* in the list of streams that do not pause */
    struct connection *next_ready;
};

struct counts {
    long concurrent, peak, total, cancelled;
    int64_t bytes_in;
};

extern struct counts counts;
extern struct wish usual;
extern const char *model;
extern int poll_fd;

/* engine.c */
int64_t now_ns(void);
void *grown(void *memory, size_t size);
void append(struct bytes *bytes, const char *data, size_t length);
void connection_close(struct connection *c);
void flush(struct connection *c);

/* engine_http.c */
void read_requests(struct connection *c);
void answer(struct connection *c, int status, const char *body, size_t length);

/* engine_run.c */
void run_start(struct connection *c, const char *body, size_t length);
void run_end(struct connection *c, int cancelled);
void run_step(struct connection *c); /* sends what comes next */
char *run_log(size_t *length);
void run_log_reset(void);

/* engine_due.c */
void due_add(struct connection *c); /* c->due is its time */
void due_remove(struct connection *c);
void make_ready(struct connection *c);
void run_due(void);
void run_ready(void);
int64_t ns_until_due(void); /* -1: nothing waits for its time; 0: something is ready */

#endif
