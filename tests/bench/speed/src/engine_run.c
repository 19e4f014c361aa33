/* What a request does: it waits, answers whole or chunk by chunk, and is noted in the log. */
#define _GNU_SOURCE
#include "engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOG_MOST 2000000
#define MARK_MOST 256
/* a marker is near the beginning, so that a body of 10 MB need not be searched */
#define SEARCHED 1000000
#define TEXT "@%ld@ %.*s"
#define CREATED "1700000000"

struct logged {
    long id;
    int64_t arrived, ended;
    int cancelled;
};

static struct logged *entries;
static size_t entry_count, entry_room;

/* ---- the log ---- */

char *run_log(size_t *length) {
    char *text = grown(NULL, entry_count * 80 + 16);
    size_t n = 0;
    text[n++] = '[';
    for (size_t i = 0; i < entry_count; i++) {
        struct logged *one = &entries[i];
        n += sprintf(text + n, "%s[%ld,%ld,%ld,%d]", i ? "," : "", one->id, (long)one->arrived, (long)one->ended,
                     one->cancelled);
    }
    text[n++] = ']';
    *length = n;
    return text;
}

void run_log_reset(void) {
    entry_count = 0;
}

void run_end(struct connection *c, int cancelled) {
    if (!c->running) {
        return;
    }
    c->running = 0;
    counts.concurrent--;
    counts.cancelled += cancelled;
    due_remove(c);
    if (entry_count == LOG_MOST) {
        return;
    }
    if (entry_count == entry_room) {
        entry_room = entry_room ? entry_room * 2 : 4096;
        entries = grown(entries, entry_room * sizeof *entries);
    }
    entries[entry_count++] = (struct logged){c->wish.id, c->arrived, now_ns(), cancelled};
}

/* ---- answers ---- */

static const char *padding(int length) {
    static char *text;
    static int room;
    if (length >= room) {
        room = length + 1;
        text = grown(text, room);
        memset(text, 'x', room);
    }
    return text;
}

static char *text_for(struct connection *c) {
    static char *text;
    static size_t room;
    size_t needed = 4096 + c->wish.pad;
    if (needed > room) {
        room = needed;
        text = grown(text, room);
    }
    return text;
}

static void answer_whole(struct connection *c) {
    static const char *const forms[] = {
        [CHAT] = "{\"id\":\"chatcmpl-%ld\",\"object\":\"chat.completion\",\"created\":" CREATED ",\"model\":\"%s\","
                 "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"" TEXT "\"},"
                 "\"finish_reason\":\"stop\"}],"
                 "\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":10,\"total_tokens\":20}}",
        [RESPONSES] =
            "{\"id\":\"resp_%ld\",\"object\":\"response\",\"created_at\":" CREATED ",\"status\":\"completed\","
            "\"model\":\"%s\",\"output\":[{\"type\":\"message\",\"id\":\"msg_1\",\"status\":\"completed\","
            "\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":\"" TEXT "\","
            "\"annotations\":[]}]}],"
            "\"usage\":{\"input_tokens\":10,\"output_tokens\":10,\"total_tokens\":20}}",
        [COMPLETIONS] = "{\"id\":\"cmpl-%ld\",\"object\":\"text_completion\",\"created\":" CREATED ",\"model\":\"%s\","
                        "\"choices\":[{\"index\":0,\"text\":\"" TEXT "\",\"finish_reason\":\"stop\"}],"
                        "\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":10,\"total_tokens\":20}}",
    };
    char *text = text_for(c);
    int n = sprintf(text, forms[c->kind], c->wish.id, model, (long)now_ns(), c->wish.pad, padding(c->wish.pad));
    run_end(c, 0);
    answer(c, 200, text, n);
}

static void append_chunk(struct connection *c, const char *data, size_t length) {
    char size[24];
    append(&c->out, size, sprintf(size, "%zx\r\n", length));
    append(&c->out, data, length);
    append(&c->out, "\r\n", 2);
}

static void begin_stream(struct connection *c) {
    static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
                               "Cache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n";
    append(&c->out, head, sizeof head - 1);
}

static void send_chunk(struct connection *c) {
    char *text = text_for(c);
    long now = now_ns();
    int n, pad = c->wish.pad;
    if (c->kind == RESPONSES) {
        n = sprintf(text,
                    "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\","
                    "\"sequence_number\":%d,\"item_id\":\"msg_1\",\"output_index\":0,\"content_index\":0,"
                    "\"delta\":\"" TEXT "\"}\n\n",
                    c->chunks_sent + 1, now, pad, padding(pad));
    } else {
        n = sprintf(text,
                    "data: {\"id\":\"chatcmpl-%ld\",\"object\":\"chat.completion.chunk\",\"created\":" CREATED ","
                    "\"model\":\"%s\",\"choices\":[{\"index\":0,\"delta\":{%s\"content\":\"" TEXT "\"},"
                    "\"finish_reason\":null}]}\n\n",
                    c->wish.id, model, c->chunks_sent ? "" : "\"role\":\"assistant\",", now, pad, padding(pad));
    }
    append_chunk(c, text, n);
    c->chunks_sent++;
    flush(c);
    if (c->closed) {
        return;
    }
    if (c->wish.pause_ms > 0) {
        c->due += (int64_t)(c->wish.pause_ms * 1e6);
        due_add(c);
    } else if (!c->blocked) {
        make_ready(c);
    }
}

static void end_stream(struct connection *c) {
    char *text = text_for(c);
    int n;
    if (c->kind == RESPONSES) {
        n = sprintf(text,
                    "event: response.completed\ndata: {\"type\":\"response.completed\",\"sequence_number\":%d,"
                    "\"response\":{\"id\":\"resp_%ld\",\"object\":\"response\",\"created_at\":" CREATED ","
                    "\"status\":\"completed\",\"model\":\"%s\",\"output\":[],"
                    "\"usage\":{\"input_tokens\":10,\"output_tokens\":%d,\"total_tokens\":20}}}\n\n",
                    c->chunks_sent + 1, c->wish.id, model, c->wish.chunks);
    } else {
        n = sprintf(text,
                    "data: {\"id\":\"chatcmpl-%ld\",\"object\":\"chat.completion.chunk\",\"created\":" CREATED ","
                    "\"model\":\"%s\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
                    "data: [DONE]\n\n",
                    c->wish.id, model);
    }
    append_chunk(c, text, n);
    append(&c->out, "0\r\n\r\n", 5);
    run_end(c, 0);
    flush(c);
}

void run_step(struct connection *c) {
    if (!c->stream) {
        answer_whole(c);
        return;
    }
    if (c->chunks_sent == 0) {
        begin_stream(c);
    }
    if (c->chunks_sent < c->wish.chunks) {
        send_chunk(c);
    } else {
        end_stream(c);
    }
}

/* ---- what a request asks for ---- */

static double number(const char *from, const char *end, const char *name, double otherwise) {
    size_t length = strlen(name);
    const char *found = from;
    while ((found = memmem(found, end - found, name, length))) {
        if (found[-1] == ' ' || found[-1] == '[') {
            return atof(found + length);
        }
        found += length;
    }
    return otherwise;
}

static void read_wish(struct wish *wish, const char *body, size_t length) {
    const char *end = body + length, *mark = body;
    while ((mark = memmem(mark, end - mark, "[[", 2)) && mark - body < SEARCHED) {
        size_t there = end - mark < MARK_MOST ? end - mark : MARK_MOST;
        const char *close = memmem(mark, there, "]]", 2);
        mark += 2;
        if (close && memchr(mark, '=', close - mark)) {
            wish->hold_ms = number(mark, close, "hold=", wish->hold_ms);
            wish->pause_ms = number(mark, close, "d=", wish->pause_ms);
            wish->chunks = number(mark, close, "n=", wish->chunks);
            wish->pad = number(mark, close, "sz=", wish->pad);
            wish->id = number(mark, close, "id=", wish->id);
            return;
        }
    }
}

static int wants_stream(const char *body, size_t length) {
    const char *end = body + length, *found = body;
    while ((found = memmem(found, end - found, "\"stream\"", 8))) {
        found += 8;
        while (found < end && (*found == ' ' || *found == ':')) {
            found++;
        }
        if (end - found >= 4 && !memcmp(found, "true", 4)) {
            return 1;
        }
    }
    return 0;
}

void run_start(struct connection *c, const char *body, size_t length) {
    counts.total++;
    counts.concurrent++;
    counts.bytes_in += length;
    if (counts.concurrent > counts.peak) {
        counts.peak = counts.concurrent;
    }
    c->running = 1;
    c->chunks_sent = 0;
    c->arrived = c->due = now_ns();
    c->kind = strstr(c->path, "responses") ? RESPONSES : strstr(c->path, "chat") ? CHAT : COMPLETIONS;
    c->stream = wants_stream(body, length);
    c->wish = usual;
    c->wish.id = counts.total;
    read_wish(&c->wish, body, length);
    if (c->wish.hold_ms > 0) {
        c->due += (int64_t)(c->wish.hold_ms * 1e6);
        due_add(c);
    } else {
        run_step(c);
    }
}
