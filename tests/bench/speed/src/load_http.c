/* What a client asks, and how it reads the answer. */
#define _GNU_SOURCE
#include "load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#define PICTURE_BYTES 100000
#define READ_BYTES 262144

static char *body_padding = "";

void prepare_body(void) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (options.body_bytes <= 0) {
        return;
    }
    body_padding = grown(NULL, options.body_bytes + 1);
    for (long i = 0; i < options.body_bytes; i++) {
        body_padding[i] = letters[(i * 7) & 63];
    }
    body_padding[options.body_bytes] = 0;
}

static void room_for(struct text *text, size_t size) {
    if (size > text->room) {
        text->room = size * 2;
        text->data = grown(text->data, text->room);
    }
}

void make_request(struct client *c) {
    static const char *const forms[] = {
        "{\"model\":\"%s\",%s\"messages\":[{\"role\":\"user\",\"content\":\"[[%s id=%ld]] hello %s\"}]}",
        "{\"model\":\"%s\",%s\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"[[%s id=%ld]] "
        "what "
        "is this\"},{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64,%s\"}}]}]}",
        "{\"model\":\"%s\",%s\"input\":\"[[%s id=%ld]] hello %s\"}",
    };
    static struct text body;
    int form = strstr(options.path, "responses") ? 2 : options.body_bytes > PICTURE_BYTES;
    size_t room = 4096 + options.body_bytes + strlen(options.mark);
    room_for(&body, room);
    room_for(&c->request, room);
    int length = sprintf(body.data, forms[form], options.model, options.stream ? "\"stream\":true," : "", options.mark,
                         c->result.id, body_padding);
    int head =
        sprintf(c->request.data,
                "POST %s HTTP/1.1\r\nHost: %s:%d\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\n"
                "Accept: */*\r\nContent-Length: %d\r\n%s\r\n",
                options.path, options.host, options.port, options.key, length,
                options.keep_alive ? "" : "Connection: close\r\n");
    memcpy(c->request.data + head, body.data, length);
    c->request.length = head + length;
}

/* A line of a stream; returns whether the client left because of it. */
static int read_line(struct client *c, const char *line, size_t length, int64_t now) {
    if (length < 5 || memcmp(line, "data:", 5)) {
        return 0;
    }
    if (memmem(line, length, "[DONE]", 6) || memmem(line, length > 80 ? 80 : length, "response.completed", 18)) {
        c->saw_end = 1;
        return 0;
    }
    const char *from = memchr(line, '@', length);
    const char *to = from ? memchr(from + 1, '@', line + length - from - 1) : NULL;
    if (!to || to - from <= 8 || to - from >= 24) {
        return 0;
    }
    c->result.chunks++;
    if (!c->result.first_chunk) {
        c->result.first_chunk = now;
    }
    add_number(&transit_us, (now - atoll(from + 1)) / 1e3);
    if (c->last_chunk) {
        add_number(&gaps_us, (now - c->last_chunk) / 1e3);
    }
    c->last_chunk = now;
    if (options.abort_after_chunks > 0 && c->result.chunks >= options.abort_after_chunks) {
        finish(c, ABORTED);
        return 1;
    }
    return 0;
}

/* Bytes of a body, without the framing; returns whether the client left because of them. */
static int read_body(struct client *c, const char *data, size_t length, int64_t now) {
    c->result.bytes += length;
    while (options.stream && length) {
        const char *end = memchr(data, '\n', length);
        size_t n = end ? (size_t)(end - data) : length;
        if (end && !c->line.length) {
            if (read_line(c, data, n, now)) {
                return 1;
            }
        } else {
            room_for(&c->line, c->line.length + n);
            memcpy(c->line.data + c->line.length, data, n);
            c->line.length += n;
            if (end) {
                size_t whole = c->line.length;
                c->line.length = 0;
                if (read_line(c, c->line.data, whole, now)) {
                    return 1;
                }
            }
        }
        if (!end) {
            return 0;
        }
        data = end + 1;
        length -= n + 1;
    }
    return 0;
}

static void answered(struct client *c) {
    int whole = !options.stream || c->saw_end;
    finish(c, c->result.status >= 400 ? HTTP_ERROR : whole ? OK : SHORT);
}

/* Returns how many of the bytes belong to the head; the rest is body once head_read is set. */
static size_t read_head(struct client *c, const char *data, size_t length) {
    size_t before = c->head.length;
    room_for(&c->head, before + length + 1);
    memcpy(c->head.data + before, data, length);
    c->head.length += length;
    char *blank = memmem(c->head.data, c->head.length, "\r\n\r\n", 4);
    if (!blank) {
        return length;
    }
    size_t used = blank + 4 - c->head.data - before;
    *blank = 0;
    c->head.length = 0;
    c->result.status = atoi(c->head.data + 9);
    if (c->result.status == 100) {
        return used + read_head(c, data + used, length - used);
    }
    c->body_left = -1;
    c->chunked = 0;
    for (char *line = strchr(c->head.data, '\n'); line; line = strchr(line, '\n')) {
        line++;
        if (!strncasecmp(line, "content-length:", 15)) {
            c->body_left = atoll(line + 15);
        } else if (!strncasecmp(line, "transfer-encoding:", 18)) {
            c->chunked = 1;
        } else if (!strncasecmp(line, "connection:", 11) && !strncasecmp(line + 12, "close", 5)) {
            c->closes = 1;
        }
    }
    c->head_read = 1;
    c->part = SIZE;
    c->size_length = 0;
    return used;
}

/* Chunks of a body; returns whether the request is over. */
static int read_chunks(struct client *c, const char *data, size_t length, int64_t now) {
    while (length) {
        size_t used = 1;
        switch (c->part) {
        case SIZE:
            if (*data == '\n') {
                c->size_text[c->size_length] = 0;
                c->chunk_left = strtoll(c->size_text, NULL, 16);
                c->size_length = 0;
                c->part = c->chunk_left ? DATA : TRAILER;
            } else if (c->size_length < (int)sizeof c->size_text - 1) {
                c->size_text[c->size_length++] = *data;
            }
            break;
        case DATA:
            used = (int64_t)length < c->chunk_left ? length : (size_t)c->chunk_left;
            if (read_body(c, data, used, now)) {
                return 1;
            }
            c->chunk_left -= used;
            if (!c->chunk_left) {
                c->part = DATA_END;
            }
            break;
        case DATA_END:
            if (*data == '\n') {
                c->part = SIZE;
            }
            break;
        case TRAILER:
            if (*data == '\n') {
                answered(c);
                return 1;
            }
            break;
        }
        data += used;
        length -= used;
    }
    return 0;
}

/* Bytes that came; returns whether the request is over. */
static int read_bytes(struct client *c, const char *data, size_t length, int64_t now) {
    if (!c->result.first_byte) {
        c->result.first_byte = now;
    }
    if (!c->head_read) {
        size_t used = read_head(c, data, length);
        if (!c->head_read) {
            return 0;
        }
        data += used;
        length -= used;
    }
    if (c->chunked) {
        return read_chunks(c, data, length, now);
    }
    if (read_body(c, data, length, now)) {
        return 1;
    }
    if (c->body_left >= 0) {
        c->body_left -= length;
        if (c->body_left <= 0) {
            answered(c);
            return 1;
        }
    }
    return 0;
}

void read_answer(struct client *c) {
    static char data[READ_BYTES];
    ssize_t n;
    do {
        n = recv(c->fd, data, sizeof data, 0);
        if (n < 0) {
            if (errno != EAGAIN) {
                finish(c, FAILED);
            }
            return;
        }
        if (n == 0) {
            c->closes = 1;
            if (c->head_read && !c->chunked && c->body_left < 0) {
                answered(c);
            } else {
                finish(c, FAILED);
            }
            return;
        }
        if (read_bytes(c, data, n, now_ns())) {
            return;
        }
    } while (n == sizeof data);
}
