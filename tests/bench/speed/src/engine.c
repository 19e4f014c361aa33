/* engine.c - a very light fake OpenAI engine: one thread, epoll, no dependencies.
 * Usage: engine PORT [--hold MS] [--n CHUNKS] [--d MS] [--sz PAD] [--name MODEL]
 * POST /v1/chat/completions, /v1/completions, /v1/responses  (JSON or SSE)
 * GET /v1/models /health /health_generate /get_model_info /get_server_info /server_info
 * GET /stats  -> {"concurrent","peak","total","cancelled","bytes_in"}   GET /reset  GET /log ->
 * [[id,arrive_ns,end_ns,cancelled],..] Per-request overrides travel in the prompt, so that they survive every
 * gateway:
 *   [[hold=500 n=100 d=20 sz=0 id=17]]   hold, d in ms (floats); sz = pad bytes in each chunk/answer.
 * Each SSE chunk's text is "@<CLOCK_MONOTONIC ns>@" so a client on this machine can read the transit time.
 * A request counts as running from "body complete" until just before its last byte is sent (or its peer
 * closed).
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

typedef struct conn {
    int fd;
    char *in;
    size_t len, cap;
    char *out;
    size_t olen, ocap, ooff;
    int want_out;
    int close_after;
    /* running request */
    int run, stream, kind; /* kind 0 chat 1 responses 2 completions */
    double hold, d;
    int n, sz, sent;
    long id;
    int64_t t0, due;
    int heap;
    int ready;
    int ka;
    struct conn *rnext;
    int inready;
    int dead;
    size_t scan; /* header scan offset */
    size_t body_at;
    int64_t clen;
    int chunked;
    char *dec;
    size_t declen, deccap;
    size_t cpos;
    int hdr_done;
    char path[128];
    char meth[8];
} conn;

static int ep;
static double D_hold = 0, D_d = 0;
static int D_n = 8, D_sz = 0;
static const char *model = "fake-model";
static long concurrent, peak, total, cancelled;
static int64_t bytes_in;

typedef struct {
    long id;
    int64_t a, e;
    int c;
} ev;

static ev *evs;
static long nev, evcap;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* heap */
static conn **H;
static int hn, hcap;

static void hswap(int a, int b) {
    conn *t = H[a];
    H[a] = H[b];
    H[b] = t;
    H[a]->heap = a;
    H[b]->heap = b;
}

static void hup(int i) {
    while (i && H[(i - 1) / 2]->due > H[i]->due) {
        hswap(i, (i - 1) / 2);
        i = (i - 1) / 2;
    }
}

static void hdown(int i) {
    for (;;) {
        int l = 2 * i + 1, r = l + 1, m = i;
        if (l < hn && H[l]->due < H[m]->due) {
            m = l;
        }
        if (r < hn && H[r]->due < H[m]->due) {
            m = r;
        }
        if (m == i) {
            return;
        }
        hswap(i, m);
        i = m;
    }
}

static void hpush(conn *c) {
    if (hn == hcap) {
        hcap = hcap ? hcap * 2 : 1024;
        H = realloc(H, hcap * sizeof *H);
    }
    H[hn] = c;
    c->heap = hn++;
    hup(c->heap);
}

static void hdel(conn *c) {
    int i = c->heap;
    if (i < 0) {
        return;
    }
    hn--;
    if (i != hn) {
        hswap(i, hn);
        hup(i);
        hdown(i);
    }
    c->heap = -1;
}

/* ready list: streams with d=0 */
static conn *rhead, *rtail;

static void rpush(conn *c) {
    if (c->inready) {
        return;
    }
    c->inready = 1;
    c->rnext = NULL;
    if (rtail) {
        rtail->rnext = c;
    } else {
        rhead = c;
    }
    rtail = c;
}

static void logev(conn *c, int canc) {
    if (nev == evcap) {
        evcap = evcap ? evcap * 2 : 4096;
        evs = realloc(evs, evcap * sizeof *evs);
    }
    evs[nev++] = (ev){c->id, c->t0, now_ns(), canc};
}

static void end_run(conn *c, int canc) {
    if (!c->run) {
        return;
    }
    c->run = 0;
    concurrent--;
    if (canc) {
        cancelled++;
    }
    hdel(c);
    if (nev < 2000000) {
        logev(c, canc);
    }
}

static void cclose(conn *c) {
    if (c->dead) {
        return;
    }
    if (c->run) {
        end_run(c, 1);
    }
    c->dead = 1;
    epoll_ctl(ep, EPOLL_CTL_DEL, c->fd, 0);
    close(c->fd);
    c->fd = -1;
}

static void cfree(conn *c) {
    free(c->in);
    free(c->out);
    free(c->dec);
    free(c);
}

static void oflush(conn *c) {
    while (c->ooff < c->olen) {
        ssize_t w = send(c->fd, c->out + c->ooff, c->olen - c->ooff, MSG_NOSIGNAL);
        if (w < 0) {
            if (errno == EAGAIN) {
                if (!c->want_out) {
                    c->want_out = 1;
                    struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP | EPOLLOUT, .data.ptr = c};
                    epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &e);
                }
                return;
            }
            cclose(c);
            return;
        }
        c->ooff += w;
    }
    c->olen = c->ooff = 0;
    if (c->want_out) {
        c->want_out = 0;
        struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = c};
        epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &e);
    }
    if (c->close_after && !c->run) {
        cclose(c);
    }
}

static void oput(conn *c, const char *s, size_t n) {
    if (c->olen + n > c->ocap) {
        c->ocap = (c->olen + n) * 2;
        c->out = realloc(c->out, c->ocap);
    }
    memcpy(c->out + c->olen, s, n);
    c->olen += n;
}

static void reply(conn *c, int st, const char *ct, const char *b, size_t n) {
    char h[256];
    int k = snprintf(h, sizeof h, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%s\r\n", st,
                     st == 200 ? "OK" : "Not Found", ct, n, c->ka ? "" : "Connection: close\r\n");
    oput(c, h, k);
    oput(c, b, n);
    if (!c->ka) {
        c->close_after = 1;
    }
    oflush(c);
}

static char *padbuf;
static int padcap;

static const char *pad(int n) {
    if (n > padcap) {
        padcap = n;
        padbuf = realloc(padbuf, n + 1);
        memset(padbuf, 'x', n);
    }
    return padbuf ? padbuf : "";
}

static char *tmp;
static size_t tmpcap;

static void chunkput(conn *c, const char *s, size_t n) {
    char h[16];
    int k = snprintf(h, sizeof h, "%zx\r\n", n);
    oput(c, h, k);
    oput(c, s, n);
    oput(c, "\r\n", 2);
}

static void ensure_tmp(size_t n) {
    if (n > tmpcap) {
        tmpcap = n;
        tmp = realloc(tmp, n);
    }
}

static void finish_json(conn *c) {
    ensure_tmp(4096 + c->sz);
    int k;
    int64_t t = now_ns();
    if (c->kind == 1) {
        k = sprintf(
            tmp,
            "{\"id\":\"resp_%ld\",\"object\":\"response\",\"created_at\":1700000000,\"status\":\"completed\","
            "\"model\":\"%s\",\"output\":[{\"type\":\"message\",\"id\":\"msg_1\",\"status\":\"completed\","
            "\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":\"@%ld@ "
            "%.*s\",\"annotations\":[]}]}],\"usage\":{\"input_tokens\":10,\"output_tokens\":10,\"total_"
            "tokens\":20}}",
            c->id, model, (long)t, c->sz, pad(c->sz));
    } else if (c->kind == 2) {
        k = sprintf(tmp,
                    "{\"id\":\"cmpl-%ld\",\"object\":\"text_completion\",\"created\":1700000000,\"model\":\"%"
                    "s\",\"choices\":[{\"index\":0,\"text\":\"@%ld@ "
                    "%.*s\",\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":10,\"completion_"
                    "tokens\":10,\"total_tokens\":20}}",
                    c->id, model, (long)t, c->sz, pad(c->sz));
    } else {
        k = sprintf(
            tmp,
            "{\"id\":\"chatcmpl-%ld\",\"object\":\"chat.completion\",\"created\":1700000000,\"model\":\"%s\","
            "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"@%ld@ "
            "%.*s\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":10,"
            "\"total_tokens\":20}}",
            c->id, model, (long)t, c->sz, pad(c->sz));
    }
    end_run(c, 0);
    reply(c, 200, "application/json", tmp, k);
}

static void stream_head(conn *c) {
    const char *h = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nCache-Control: "
                    "no-cache\r\nTransfer-Encoding: chunked\r\n\r\n";
    oput(c, h, strlen(h));
}

static void parse_more(conn *c);

static void stream_step(conn *c) { /* sends one chunk */
    ensure_tmp(4096 + c->sz);
    int k;
    int64_t t = now_ns();
    if (c->sent == 0) {
        stream_head(c);
    }
    if (c->sent < c->n) {
        if (c->kind == 1) {
            k = sprintf(tmp,
                        "event: response.output_text.delta\ndata: "
                        "{\"type\":\"response.output_text.delta\",\"sequence_number\":%d,\"item_id\":\"msg_"
                        "1\",\"output_index\":0,\"content_index\":0,\"delta\":\"@%ld@ %.*s\"}\n\n",
                        c->sent + 1, (long)t, c->sz, pad(c->sz));
        } else {
            k = sprintf(tmp,
                        "data: "
                        "{\"id\":\"chatcmpl-%ld\",\"object\":\"chat.completion.chunk\",\"created\":"
                        "1700000000,\"model\":\"%s\",\"choices\":[{\"index\":0,\"delta\":{%s\"content\":\"@%"
                        "ld@ %.*s\"},\"finish_reason\":null}]}\n\n",
                        c->id, model, c->sent ? "" : "\"role\":\"assistant\",", (long)t, c->sz, pad(c->sz));
        }
        chunkput(c, tmp, k);
        c->sent++;
        oflush(c);
        if (c->dead) {
            return;
        }
        if (c->d > 0) {
            c->due = (c->due ? c->due : now_ns()) + (int64_t)(c->d * 1e6);
            if (c->heap >= 0) {
                hdel(c);
            }
            hpush(c);
        } else if (!c->want_out) {
            rpush(c);
        }
    } else {
        if (c->kind == 1) {
            k = sprintf(tmp,
                        "event: response.completed\ndata: "
                        "{\"type\":\"response.completed\",\"sequence_number\":%d,\"response\":{\"id\":\"resp_"
                        "%ld\",\"object\":\"response\",\"created_at\":1700000000,\"status\":\"completed\","
                        "\"model\":\"%s\",\"output\":[],\"usage\":{\"input_tokens\":10,\"output_tokens\":%d,"
                        "\"total_tokens\":20}}}\n\n",
                        c->sent + 1, c->id, model, c->n);
        } else {
            k = sprintf(tmp,
                        "data: "
                        "{\"id\":\"chatcmpl-%ld\",\"object\":\"chat.completion.chunk\",\"created\":"
                        "1700000000,\"model\":\"%s\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_"
                        "reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
                        c->id, model);
        }
        chunkput(c, tmp, k);
        oput(c, "0\r\n\r\n", 5);
        end_run(c, 0);
        oflush(c);
        if (!c->dead) {
            parse_more(c);
        }
    }
}

static double num(const char *b, const char *e, const char *key, double def) {
    size_t kl = strlen(key);
    const char *p = b;
    while ((p = memmem(p, e - p, key, kl))) {
        if (p == b || p[-1] == ' ' || p[-1] == '[') {
            return atof(p + kl);
        }
        p += kl;
    }
    return def;
}

static void start_run(conn *c, const char *body, size_t n) {
    total++;
    concurrent++;
    if (concurrent > peak) {
        peak = concurrent;
    }
    c->run = 1;
    c->t0 = now_ns();
    c->sent = 0;
    c->heap = -1;
    c->due = 0;
    c->hold = D_hold;
    c->d = D_d;
    c->n = D_n;
    c->sz = D_sz;
    c->id = total;
    bytes_in += n;
    c->kind = strstr(c->path, "responses") ? 1 : (strstr(c->path, "chat") ? 0 : 2);
    const char *m = memmem(body, n, "[[", 2);
    while (m) {
        const char *e = memmem(m, (body + n - m) < 256 ? (size_t)(body + n - m) : 256, "]]", 2);
        if (e && (memmem(m, e - m, "=", 1))) {
            c->hold = num(m + 1, e, "hold=", c->hold);
            c->d = num(m + 1, e, "d=", c->d);
            c->n = num(m + 1, e, "n=", c->n);
            c->sz = num(m + 1, e, "sz=", c->sz);
            c->id = num(m + 1, e, "id=", c->id);
            break;
        }
        if ((size_t)(body + n - m) <= 2) {
            break;
        }
        m = memmem(m + 2, body + n - m - 2, "[[", 2);
        if (m && m - body > 1000000) {
            break;
        }
    }
    c->stream = 0;
    const char *p = body, *e = body + n;
    while ((p = memmem(p, e - p, "\"stream\"", 8))) {
        p += 8;
        while (p < e && (*p == ' ' || *p == ':')) {
            p++;
        }
        if (e - p >= 4 && !memcmp(p, "true", 4)) {
            c->stream = 1;
            break;
        }
    }
    if (c->hold > 0) {
        c->due = c->t0 + (int64_t)(c->hold * 1e6);
        hpush(c);
    } else if (c->stream) {
        c->due = c->t0;
        stream_step(c);
    } else {
        finish_json(c);
    }
}

static void get(conn *c) {
    char b[512];
    int k;
    if (!strcmp(c->path, "/stats")) {
        k = snprintf(b, sizeof b,
                     "{\"concurrent\":%ld,\"peak\":%ld,\"total\":%ld,\"cancelled\":%ld,\"bytes_in\":%ld}",
                     concurrent, peak, total, cancelled, (long)bytes_in);
    } else if (!strcmp(c->path, "/reset")) {
        peak = concurrent;
        total = 0;
        cancelled = 0;
        bytes_in = 0;
        nev = 0;
        k = snprintf(b, sizeof b, "{}");
    } else if (!strcmp(c->path, "/log")) {
        size_t cap = nev * 80 + 16, o = 0;
        char *s = malloc(cap);
        s[o++] = '[';
        for (long i = 0; i < nev; i++) {
            o += sprintf(s + o, "%s[%ld,%ld,%ld,%d]", i ? "," : "", evs[i].id, (long)evs[i].a, (long)evs[i].e,
                         evs[i].c);
        }
        s[o++] = ']';
        reply(c, 200, "application/json", s, o);
        free(s);
        return;
    } else if (!strcmp(c->path, "/v1/models")) {
        k = snprintf(b, sizeof b,
                     "{\"object\":\"list\",\"data\":[{\"id\":\"%s\",\"object\":\"model\",\"created\":"
                     "1700000000,\"owned_by\":\"fake\",\"root\":\"%s\",\"max_model_len\":8192}]}",
                     model, model);
    } else if (!strcmp(c->path, "/get_model_info") || !strcmp(c->path, "/model_info")) {
        k = snprintf(b, sizeof b, "{\"model_path\":\"%s\",\"tokenizer_path\":\"%s\",\"is_generation\":true}",
                     model, model);
    } else if (!strcmp(c->path, "/get_server_info") || !strcmp(c->path, "/server_info")) {
        k = snprintf(b, sizeof b,
                     "{\"model_path\":\"%s\",\"served_model_name\":\"%s\",\"dp_size\":1,\"tp_size\":1}",
                     model, model);
    } else if (!strncmp(c->path, "/health", 7) || !strcmp(c->path, "/version") || !strcmp(c->path, "/")) {
        k = snprintf(b, sizeof b, "{\"status\":\"ok\",\"version\":\"0.0\"}");
    } else {
        reply(c, 404, "application/json", "{\"error\":\"nf\"}", 14);
        return;
    }
    reply(c, 200, "application/json", b, k);
}

static void consume(conn *c, size_t n) {
    memmove(c->in, c->in + n, c->len - n);
    c->len -= n;
    c->hdr_done = 0;
    c->scan = 0;
    if (c->cap > (1 << 20) && c->len < 4096) {
        c->cap = 8192;
        c->in = realloc(c->in, c->cap);
    }
}

static void parse_more(conn *c) {
again:
    if (c->dead || c->run || c->len == 0) {
        return;
    }
    if (!c->hdr_done) {
        char *e = memmem(c->in + c->scan, c->len - c->scan, "\r\n\r\n", 4);
        if (!e) {
            c->scan = c->len > 3 ? c->len - 3 : 0;
            return;
        }
        c->body_at = e - c->in + 4;
        c->hdr_done = 1;
        c->clen = 0;
        c->chunked = 0;
        c->ka = 1;
        c->cpos = c->body_at;
        c->declen = 0;
        char *sp = memchr(c->in, ' ', c->body_at);
        if (!sp || sp - c->in > 7) {
            cclose(c);
            return;
        }
        memcpy(c->meth, c->in, sp - c->in);
        c->meth[sp - c->in] = 0;
        char *q = sp + 1;
        int i = 0;
        while (*q != ' ' && *q != '?' && *q != '\r' && i < 127) {
            c->path[i++] = *q++;
        }
        c->path[i] = 0;
        if (!strncmp(c->path, "//", 2)) {
            memmove(c->path, c->path + 1, strlen(c->path));
        }
        char *l = memchr(c->in, '\n', c->body_at);
        if (l - c->in > 9 && !memcmp(l - 9, "HTTP/1.0", 8)) {
            c->ka = 0;
        }
        while (l && l + 1 < e) {
            l++;
            char *le = memchr(l, '\r', c->in + c->body_at - l);
            if (!le) {
                break;
            }
            if (!strncasecmp(l, "content-length:", 15)) {
                c->clen = atoll(l + 15);
            } else if (!strncasecmp(l, "transfer-encoding:", 18)) {
                c->chunked = memmem(l, le - l, "chunked", 7) != 0;
            } else if (!strncasecmp(l, "expect:", 7)) {
                send(c->fd, "HTTP/1.1 100 Continue\r\n\r\n", 25, MSG_NOSIGNAL);
            } else if (!strncasecmp(l, "connection:", 11) && memmem(l, le - l, "close", 5)) {
                c->ka = 0;
            }
            l = le + 1;
        }
    }
    if (c->chunked) {
        for (;;) {
            char *p = c->in + c->cpos;
            char *le = memmem(p, c->len - c->cpos, "\r\n", 2);
            if (!le) {
                return;
            }
            size_t n = strtoul(p, 0, 16);
            size_t need = (le - p) + 2 + n + 2;
            if (c->len - c->cpos < need) {
                return;
            }
            if (c->declen + n > c->deccap) {
                c->deccap = (c->declen + n) * 2 + 64;
                c->dec = realloc(c->dec, c->deccap);
            }
            memcpy(c->dec + c->declen, le + 2, n);
            c->declen += n;
            c->cpos += need;
            if (n == 0) {
                break;
            }
        }
        size_t used = c->cpos;
        start_run(c, c->dec, c->declen);
        if (c->dead) {
            return;
        }
        consume(c, used);
    } else {
        if ((int64_t)(c->len - c->body_at) < c->clen) {
            return;
        }
        size_t used = c->body_at + c->clen;
        if (!strcmp(c->meth, "POST") && strstr(c->path, "/v1/")) {
            start_run(c, c->in + c->body_at, c->clen);
        } else {
            get(c);
        }
        if (c->dead) {
            return;
        }
        consume(c, used);
    }
    goto again;
}

int main(int ac, char **av) {
    signal(SIGPIPE, SIG_IGN);
    if (ac < 2) {
        fprintf(stderr, "engine PORT [--hold MS --n N --d MS --sz B --name M]\n");
        return 1;
    }
    for (int i = 2; i + 1 < ac; i += 2) {
        if (!strcmp(av[i], "--hold")) {
            D_hold = atof(av[i + 1]);
        } else if (!strcmp(av[i], "--n")) {
            D_n = atoi(av[i + 1]);
        } else if (!strcmp(av[i], "--d")) {
            D_d = atof(av[i + 1]);
        } else if (!strcmp(av[i], "--sz")) {
            D_sz = atoi(av[i + 1]);
        } else if (!strcmp(av[i], "--name")) {
            model = av[i + 1];
        }
    }
    int ls = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;
    setsockopt(ls, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons(atoi(av[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(ls, (void *)&a, sizeof a) || listen(ls, 4096)) {
        perror("bind");
        return 1;
    }
    ep = epoll_create1(0);
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = NULL};
    epoll_ctl(ep, EPOLL_CTL_ADD, ls, &e);
    static struct epoll_event E[512];
    conn *graves[1024];
    int ng = 0;
    for (;;) {
        int to = -1;
        if (rhead) {
            to = 0;
        } else if (hn) {
            int64_t dt = H[0]->due - now_ns();
            to = dt <= 0 ? 0 : (int)((dt + 999999) / 1000000);
            struct timespec ts = {dt > 0 ? dt / 1000000000 : 0, dt > 0 ? dt % 1000000000 : 0};
            int n = epoll_pwait2(ep, E, 512, dt >= 0 ? &ts : &(struct timespec){0, 0}, NULL);
            if (n >= 0) {
                to = -2;
                e.events = n;
            }
        }
        int n = to == -2 ? (int)e.events : epoll_wait(ep, E, 512, to);
        for (int i = 0; i < n; i++) {
            conn *c = E[i].data.ptr;
            if (!c) {
                for (;;) {
                    int fd = accept4(ls, 0, 0, SOCK_NONBLOCK);
                    if (fd < 0) {
                        break;
                    }
                    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                    conn *k = calloc(1, sizeof *k);
                    k->fd = fd;
                    k->heap = -1;
                    k->cap = 8192;
                    k->in = malloc(k->cap);
                    struct epoll_event x = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = k};
                    epoll_ctl(ep, EPOLL_CTL_ADD, fd, &x);
                }
                continue;
            }
            if (c->dead) {
                continue;
            }
            if (E[i].events & EPOLLIN) {
                int eof = 0, got = 0;
                for (;;) {
                    if (c->cap - c->len < 4096) {
                        c->cap *= 2;
                        c->in = realloc(c->in, c->cap);
                    }
                    ssize_t r = recv(c->fd, c->in + c->len, c->cap - c->len, 0);
                    if (r > 0) {
                        c->len += r;
                        got = 1;
                        if (c->cap - c->len > 0) {
                            break;
                        }
                        continue;
                    }
                    if (r == 0) {
                        eof = 1;
                    } else if (errno != EAGAIN) {
                        eof = 1;
                    }
                    break;
                }
                if (got) {
                    parse_more(c);
                }
                if (eof && !c->dead) {
                    cclose(c);
                }
            } else if (E[i].events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP)) {
                cclose(c);
            }
            if (!c->dead && (E[i].events & EPOLLRDHUP) && c->run && c->len == 0) {
                cclose(c);
            }
            if (!c->dead && (E[i].events & EPOLLOUT)) {
                oflush(c);
                if (!c->dead && c->run && c->stream && c->d <= 0 && !c->want_out && c->sent > 0) {
                    rpush(c);
                }
            }
            if (c->dead && !c->inready && ng < 1024) {
                graves[ng++] = c;
            }
        }
        if (hn) {
            int64_t t = now_ns();
            while (hn && H[0]->due <= t) {
                conn *c = H[0];
                hdel(c);
                if (c->stream) {
                    stream_step(c);
                } else {
                    finish_json(c);
                    if (!c->dead) {
                        parse_more(c);
                    }
                }
                if (c->dead && !c->inready && ng < 1024) {
                    graves[ng++] = c;
                }
            }
        }
        if (rhead) {
            conn *l = rhead;
            rhead = rtail = NULL;
            while (l) {
                conn *nx = l->rnext;
                l->inready = 0;
                if (!l->dead && l->run) {
                    stream_step(l);
                }
                if (l->dead && !l->inready && ng < 1024) {
                    graves[ng++] = l;
                }
                l = nx;
            }
        }
        for (int i = 0; i < ng; i++) {
            int dup = 0;
            for (int j = 0; j < i; j++) {
                if (graves[j] == graves[i]) {
                    dup = 1;
                }
            }
            if (!dup) {
                cfree(graves[i]);
            }
        }
        ng = 0;
    }
}
