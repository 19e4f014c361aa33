/* Requests as HTTP/1.1: heads, bodies with a length or in chunks, and what is answered without running anything. */
#define _GNU_SOURCE
#include "engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#define KEPT_ROOM (1 << 20)

void answer(struct connection *c, int status, const char *body, size_t length) {
    char head[256];
    int n =
        snprintf(head, sizeof head, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n%s\r\n",
                 status, status == 200 ? "OK" : "Not Found", length, c->keep_alive ? "" : "Connection: close\r\n");
    append(&c->out, head, n);
    append(&c->out, body, length);
    c->close_after = !c->keep_alive;
    flush(c);
}

static int path_is(struct connection *c, const char *path) {
    return !strcmp(c->path, path);
}

static void answer_get(struct connection *c) {
    char body[512];
    int n;
    if (path_is(c, "/stats")) {
        n = snprintf(body, sizeof body,
                     "{\"concurrent\":%ld,\"peak\":%ld,\"total\":%ld,\"cancelled\":%ld,\"bytes_in\":%ld}",
                     counts.concurrent, counts.peak, counts.total, counts.cancelled, (long)counts.bytes_in);
    } else if (path_is(c, "/reset")) {
        counts = (struct counts){.concurrent = counts.concurrent, .peak = counts.concurrent};
        run_log_reset();
        n = snprintf(body, sizeof body, "{}");
    } else if (path_is(c, "/log")) {
        size_t length;
        char *log = run_log(&length);
        answer(c, 200, log, length);
        free(log);
        return;
    } else if (path_is(c, "/v1/models")) {
        n = snprintf(body, sizeof body,
                     "{\"object\":\"list\",\"data\":[{\"id\":\"%s\",\"object\":\"model\",\"created\":1700000000,"
                     "\"owned_by\":\"fake\",\"root\":\"%s\",\"max_model_len\":8192}]}",
                     model, model);
    } else if (path_is(c, "/get_model_info") || path_is(c, "/model_info")) {
        n = snprintf(body, sizeof body, "{\"model_path\":\"%s\",\"tokenizer_path\":\"%s\",\"is_generation\":true}",
                     model, model);
    } else if (path_is(c, "/get_server_info") || path_is(c, "/server_info")) {
        n = snprintf(body, sizeof body,
                     "{\"model_path\":\"%s\",\"served_model_name\":\"%s\",\"dp_size\":1,\"tp_size\":1}", model, model);
    } else if (!strncmp(c->path, "/health", 7) || path_is(c, "/version") || path_is(c, "/")) {
        n = snprintf(body, sizeof body, "{\"status\":\"ok\",\"version\":\"0.0\"}");
    } else {
        n = snprintf(body, sizeof body, "{\"error\":\"no such path\"}");
        answer(c, 404, body, n);
        return;
    }
    answer(c, 200, body, n);
}

/* Method and path of the first line; returns whether it is one. */
static int read_first_line(struct connection *c, const char *end) {
    const char *line = c->in.data, *space = memchr(line, ' ', end - line);
    if (!space || (size_t)(space - line) >= sizeof c->method) {
        return 0;
    }
    memcpy(c->method, line, space - line);
    c->method[space - line] = 0;
    const char *from = space + 1;
    if (!strncmp(from, "//", 2)) {
        from++; /* a base address that ends in a slash */
    }
    size_t length = strcspn(from, " ?\r");
    if (length >= sizeof c->path) {
        return 0;
    }
    memcpy(c->path, from, length);
    c->path[length] = 0;
    const char *line_end = memchr(line, '\r', end - line);
    c->keep_alive = !(line_end && line_end - line > 8 && !memcmp(line_end - 8, "HTTP/1.0", 8));
    return 1;
}

static void read_header(struct connection *c, const char *line, size_t length) {
    if (!strncasecmp(line, "content-length:", 15)) {
        c->body_length = atoll(line + 15);
    } else if (!strncasecmp(line, "transfer-encoding:", 18)) {
        c->chunked = memmem(line, length, "chunked", 7) != NULL;
    } else if (!strncasecmp(line, "expect:", 7)) {
        send(c->fd, "HTTP/1.1 100 Continue\r\n\r\n", 25, MSG_NOSIGNAL);
    } else if (!strncasecmp(line, "connection:", 11) && memmem(line, length, "close", 5)) {
        c->keep_alive = 0;
    }
}

/* Returns whether a whole head is there. */
static int read_head(struct connection *c) {
    const char *data = c->in.data;
    const char *blank = memmem(data + c->scanned, c->in.length - c->scanned, "\r\n\r\n", 4);
    if (!blank) {
        c->scanned = c->in.length > 3 ? c->in.length - 3 : 0;
        return 0;
    }
    c->body_at = c->chunk_at = blank - data + 4;
    c->body_length = c->chunked = c->unchunked.length = 0;
    const char *end = data + c->body_at;
    if (!read_first_line(c, end)) {
        connection_close(c);
        return 0;
    }
    for (const char *line = memchr(data, '\n', c->body_at); line && line < blank;
         line = memchr(line, '\n', end - line)) {
        line++;
        const char *line_end = memchr(line, '\r', end - line);
        read_header(c, line, line_end - line);
    }
    c->head_read = 1;
    return 1;
}

/* Collects chunks; returns whether the last one is there. */
static int read_chunks(struct connection *c) {
    for (;;) {
        const char *line = c->in.data + c->chunk_at;
        size_t there = c->in.length - c->chunk_at;
        const char *line_end = memmem(line, there, "\r\n", 2);
        if (!line_end) {
            return 0;
        }
        size_t length = strtoul(line, NULL, 16);
        size_t needed = (line_end - line) + 2 + length + 2;
        if (there < needed) {
            return 0;
        }
        append(&c->unchunked, line_end + 2, length);
        c->chunk_at += needed;
        if (length == 0) {
            return 1;
        }
    }
}

static void consume(struct connection *c, size_t length) {
    memmove(c->in.data, c->in.data + length, c->in.length - length);
    c->in.length -= length;
    c->head_read = 0;
    c->scanned = 0;
    if (c->in.room > KEPT_ROOM && c->in.length < 4096) {
        c->in.room = 8192;
        c->in.data = grown(c->in.data, c->in.room);
    }
}

void read_requests(struct connection *c) {
    while (!c->closed && !c->running && c->in.length > 0) {
        if (!c->head_read && !read_head(c)) {
            return;
        }
        if (c->chunked ? !read_chunks(c) : (int64_t)(c->in.length - c->body_at) < c->body_length) {
            return;
        }
        size_t used = c->chunked ? c->chunk_at : c->body_at + c->body_length;
        const char *body = c->chunked ? c->unchunked.data : c->in.data + c->body_at;
        if (!strcmp(c->method, "POST") && strstr(c->path, "/v1/")) {
            run_start(c, body, c->chunked ? c->unchunked.length : (size_t)c->body_length);
        } else {
            answer_get(c);
        }
        if (!c->closed) {
            consume(c, used);
        }
    }
}
