/* lg.c - load generator for OpenAI-compatible gateways: one thread, epoll, no dependencies; prints one JSON
 * object. lg HOST PORT [options] -c N        connections (parallel requests)          -n N       total
 * requests (default = c) -t SEC      run for SEC seconds instead of -n (closed loop) -p PATH     default
 * /v1/chat/completions             -m MODEL   -k KEY (bearer) -x "MARK"   marker text placed in the prompt as
 * [[MARK id=<i>]] -s 1        stream                                    -b BYTES   pad the prompt with BYTES
 * of base64-like text (image_url data URI if > 100000) -a K        abort (close) each request after K chunks
 * (K=0: abort -A ms after it is sent) -A MS       abort each request MS after sending -g US       gap between
 * the starts of the first c requests, in us (default 0) -T SEC      overall time limit (default 120) -K 0 new
 * connection per request -D FILE     dump one row per request: id start_ns sent_ns ttfb_ns first_chunk_ns
 * end_ns status chunks bytes outcome Outcome: ok, http (status >= 400), short (stream without its end mark),
 * err, aborted, timeout
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

typedef struct {
    long id;
    int64_t start, sent, ttfb, first, end;
    int status, chunks;
    int64_t bytes;
    char out;
} row;

typedef struct {
    int fd, state;
    char *req;
    size_t rl, ro;
    char *buf;
    size_t len, cap;
    int hdr, chunked, close;
    int64_t clen, need;
    int cst;
    int64_t crem;
    char line[24];
    int ll;
    char *ev;
    size_t el, ecap;
    int done_mark;
    int64_t last;
    row r;
    int fresh;
    int64_t startat;
    int armed;
} conn;

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000LL + t.tv_nsec;
}
static struct sockaddr_in A;
static int ep, C = 1, stream, abortk = -1;
static double abortms = -1;
static long N = -1, started, finished;
static double T = -1, TL = 120;
static const char *path = "/v1/chat/completions", *model = "fake-model", *key = "sk-test", *mark = "", *dump;
static long bpad;
static int ka = 1;
static long gap;
static char *bodypad;
static row *rows;
static long nr, rcap;
static float *tr, *ic;
static long ntr, trcap, nic, iccap;

static void addf(float **a, long *n, long *cap, float v) {
    if (*n == *cap) {
        *cap = *cap ? *cap * 2 : 65536;
        *a = realloc(*a, *cap * sizeof(float));
    }
    (*a)[(*n)++] = v;
}

static const char *host;
static int port;

static void mkreq(conn *c) {
    size_t cap = 4096 + bpad + strlen(mark);
    if (!c->req) {
        c->req = malloc(cap);
    }
    char *b = malloc(cap);
    int k;
    const char *st = stream ? "\"stream\":true," : "";
    int resp = strstr(path, "responses") != NULL;
    if (resp) {
        k = sprintf(b, "{\"model\":\"%s\",%s\"input\":\"[[%s id=%ld]] hello %s\"}", model, st, mark, c->r.id,
                    bodypad ? bodypad : "");
    } else if (bpad > 100000) {
        k = sprintf(
            b,
            "{\"model\":\"%s\",%s\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":"
            "\"[[%s id=%ld]] what is "
            "this\"},{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64,%s\"}}]}]}",
            model, st, mark, c->r.id, bodypad);
    } else {
        k = sprintf(
            b,
            "{\"model\":\"%s\",%s\"messages\":[{\"role\":\"user\",\"content\":\"[[%s id=%ld]] hello %s\"}]}",
            model, st, mark, c->r.id, bodypad ? bodypad : "");
    }
    int h = sprintf(c->req,
                    "POST %s HTTP/1.1\r\nHost: %s:%d\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\n"
                    "Accept: */*\r\nContent-Length: %d\r\n%s\r\n",
                    path, host, port, key, k, ka ? "" : "Connection: close\r\n");
    memcpy(c->req + h, b, k);
    c->rl = h + k;
    c->ro = 0;
    free(b);
}

static void ctl(conn *c, int ev, int op) {
    struct epoll_event e = {.events = ev, .data.ptr = c};
    epoll_ctl(ep, op, c->fd, &e);
}

static int dial(conn *c) {
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (c->fd < 0) {
        return -1;
    }
    int one = 1;
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    int r = connect(c->fd, (void *)&A, sizeof A);
    if (r < 0 && errno != EINPROGRESS) {
        close(c->fd);
        c->fd = -1;
        return -1;
    }
    ctl(c, EPOLLIN | EPOLLOUT, EPOLL_CTL_ADD);
    c->fresh = 1;
    return 0;
}

static int64_t tend;
static void begin(conn *c);

static void finish(conn *c, char out) {
    c->r.end = now();
    c->r.out = out;
    if (nr == rcap) {
        rcap = rcap ? rcap * 2 : 4096;
        rows = realloc(rows, rcap * sizeof *rows);
    }
    rows[nr++] = c->r;
    finished++;
    c->state = 0;
    if (out != 'o' || c->close || !ka) {
        if (c->fd >= 0) {
            close(c->fd);
            c->fd = -1;
        }
    }
    begin(c);
}

static void push(conn *c) {
    while (c->ro < c->rl) {
        ssize_t w = send(c->fd, c->req + c->ro, c->rl - c->ro, MSG_NOSIGNAL);
        if (w < 0) {
            if (errno == EAGAIN) {
                ctl(c, EPOLLIN | EPOLLOUT, EPOLL_CTL_MOD);
                return;
            }
            finish(c, 'e');
            return;
        }
        c->ro += w;
    }
    if (!c->r.sent) {
        c->r.sent = now();
    }
    ctl(c, EPOLLIN, EPOLL_CTL_MOD);
}

static void begin(conn *c) {
    if (T > 0 ? now() >= tend : started >= N) {
        if (c->fd >= 0) {
            close(c->fd);
            c->fd = -1;
        }
        c->state = -1;
        return;
    }
    memset(&c->r, 0, sizeof c->r);
    c->r.id = started++;
    c->state = 1;
    c->len = 0;
    c->hdr = 0;
    c->el = 0;
    c->done_mark = 0;
    c->last = 0;
    c->close = 0;
    c->cst = 0;
    c->ll = 0;
    mkreq(c);
    c->r.start = now();
    if (c->fd < 0) {
        if (dial(c) < 0) {
            finish(c, 'e');
        }
    } else {
        push(c);
    }
}

/* returns 1 if the conn was finished/aborted */
static int line(conn *c, const char *p, size_t n, int64_t t) {
    if (n >= 5 && !memcmp(p, "data:", 5)) {
        if (memmem(p, n, "[DONE]", 6) || memmem(p, n > 80 ? 80 : n, "response.completed", 18)) {
            c->done_mark = 1;
            return 0;
        }
        const char *a = memchr(p, '@', n);
        const char *b = a ? memchr(a + 1, '@', p + n - a - 1) : NULL;
        if (a && b && b - a > 8 && b - a < 24) {
            int64_t e = atoll(a + 1);
            c->r.chunks++;
            if (!c->r.first) {
                c->r.first = t;
            }
            addf(&tr, &ntr, &trcap, (t - e) / 1e3);
            if (c->last) {
                addf(&ic, &nic, &iccap, (t - c->last) / 1e3);
            }
            c->last = t;
            if (abortk > 0 && c->r.chunks >= abortk) {
                finish(c, 'a');
                return 1;
            }
        }
    }
    return 0;
}

static int feed(conn *c, const char *p, size_t n, int64_t t) { /* dechunked body bytes */
    c->r.bytes += n;
    if (!stream) {
        return 0;
    }
    while (n) {
        const char *e = memchr(p, '\n', n);
        size_t k = e ? (size_t)(e - p) : n;
        if (!e || c->el) {
            if (c->el + k > c->ecap) {
                c->ecap = (c->el + k) * 2 + 256;
                c->ev = realloc(c->ev, c->ecap);
            }
            memcpy(c->ev + c->el, p, k);
            c->el += k;
            if (e) {
                size_t l = c->el;
                c->el = 0;
                if (line(c, c->ev, l, t)) {
                    return 1;
                }
            }
        } else if (line(c, p, k, t)) {
            return 1;
        }
        if (!e) {
            break;
        }
        p = e + 1;
        n -= k + 1;
    }
    return 0;
}

static void done(conn *c) {
    char o = c->r.status >= 400 ? 'h' : (stream && !c->done_mark ? 's' : 'o');
    finish(c, o);
}

static void onread(conn *c) {
    static char B[262144];
    for (;;) {
        ssize_t r = recv(c->fd, B, sizeof B, 0);
        if (r < 0) {
            if (errno == EAGAIN) {
                return;
            }
            finish(c, 'e');
            return;
        }
        int64_t t = now();
        if (r == 0) {
            if (c->state == 1 && c->hdr && !c->chunked && c->clen < 0) {
                c->close = 1;
                done(c);
            } else {
                finish(c, 'e');
            }
            return;
        }
        const char *p = B;
        size_t n = r;
        if (c->state != 1) {
            close(c->fd);
            c->fd = -1;
            return;
        }
        if (!c->r.ttfb) {
            c->r.ttfb = t;
        }
        if (!c->hdr) {
            if (c->len + n > c->cap) {
                c->cap = (c->len + n) * 2;
                c->buf = realloc(c->buf, c->cap + 1);
            }
            memcpy(c->buf + c->len, p, n);
            size_t old = c->len;
            c->len += n;
            char *e = memmem(c->buf, c->len, "\r\n\r\n", 4);
            if (!e) {
                continue;
            }
            *e = 0;
            c->r.status = atoi(c->buf + 9);
            if (c->r.status == 100) {
                c->len = 0;
                size_t used = (e - c->buf) + 4 - old;
                p += used;
                n -= used;
                if (n == 0) {
                    continue;
                }
                memcpy(c->buf, p, n);
                c->len = n;
                old = 0;
                e = memmem(c->buf, n, "\r\n\r\n", 4);
                if (!e) {
                    continue;
                }
                *e = 0;
                c->r.status = atoi(c->buf + 9);
            }
            c->clen = -1;
            c->chunked = 0;
            char *l = strchr(c->buf, '\n');
            while (l) {
                l++;
                if (!strncasecmp(l, "content-length:", 15)) {
                    c->clen = atoll(l + 15);
                } else if (!strncasecmp(l, "transfer-encoding:", 18)) {
                    c->chunked = 1;
                } else if (!strncasecmp(l, "connection:", 11) && !strncasecmp(l + 12, "close", 5)) {
                    c->close = 1;
                }
                l = strchr(l, '\n');
            }
            size_t used = (e - c->buf) + 4 - old;
            p += used;
            n -= used;
            c->hdr = 1;
            c->need = c->clen;
            c->cst = 0;
            c->ll = 0;
            if (!c->chunked && c->clen == 0) {
                done(c);
                return;
            }
        }
        if (c->chunked) {
            while (n) {
                if (c->cst == 0) { /* size line */
                    char ch = *p++;
                    n--;
                    if (ch == '\n') {
                        c->line[c->ll] = 0;
                        c->crem = strtol(c->line, 0, 16);
                        c->ll = 0;
                        c->cst = c->crem ? 1 : 3;
                    } else if (c->ll < 20) {
                        c->line[c->ll++] = ch;
                    }
                } else if (c->cst == 1) {
                    size_t k = n < (size_t)c->crem ? n : (size_t)c->crem;
                    if (feed(c, p, k, t)) {
                        return;
                    }
                    p += k;
                    n -= k;
                    c->crem -= k;
                    if (!c->crem) {
                        c->cst = 2;
                    }
                } else if (c->cst == 2) {
                    if (*p == '\n') {
                        c->cst = 0;
                    }
                    p++;
                    n--;
                } else {
                    if (*p == '\n') {
                        done(c);
                        return;
                    }
                    p++;
                    n--;
                }
            }
        } else {
            if (feed(c, p, n, t)) {
                return;
            }
            if (c->clen >= 0) {
                c->need -= n;
                if (c->need <= 0) {
                    done(c);
                    return;
                }
            }
        }
        if ((size_t)r < sizeof B) {
            return;
        }
    }
}

static int cd(const void *a, const void *b) {
    double x = *(double *)a, y = *(double *)b;
    return x < y ? -1 : x > y;
}

static int cf(const void *a, const void *b) {
    float x = *(float *)a, y = *(float *)b;
    return x < y ? -1 : x > y;
}

static double pq(double *v, long n, double q) {
    if (!n) {
        return 0;
    }
    long i = (long)(q * (n - 1) + 0.5);
    return v[i];
}

static double pf(float *v, long n, double q) {
    if (!n) {
        return 0;
    }
    long i = (long)(q * (n - 1) + 0.5);
    return v[i];
}

int main(int ac, char **av) {
    signal(SIGPIPE, SIG_IGN);
    struct rlimit rl = {65535, 65535};
    setrlimit(RLIMIT_NOFILE, &rl);
    if (ac < 3) {
        fprintf(stderr, "see the head of lg.c\n");
        return 1;
    }
    host = av[1];
    port = atoi(av[2]);
    A.sin_family = AF_INET;
    A.sin_port = htons(port);
    inet_pton(AF_INET, host, &A.sin_addr);
    if ((ntohl(A.sin_addr.s_addr) >> 24) != 127) {
        fprintf(stderr, "loopback only\n");
        return 1;
    }
    for (int i = 3; i + 1 < ac; i += 2) {
        char o = av[i][1];
        char *v = av[i + 1];
        switch (o) {
        case 'c':
            C = atoi(v);
            break;
        case 'n':
            N = atol(v);
            break;
        case 't':
            T = atof(v);
            break;
        case 'p':
            path = v;
            break;
        case 'm':
            model = v;
            break;
        case 'k':
            key = v;
            break;
        case 'x':
            mark = v;
            break;
        case 's':
            stream = atoi(v);
            break;
        case 'b':
            bpad = atol(v);
            break;
        case 'a':
            abortk = atoi(v);
            break;
        case 'A':
            abortms = atof(v);
            break;
        case 'g':
            gap = atol(v);
            break;
        case 'T':
            TL = atof(v);
            break;
        case 'K':
            ka = atoi(v);
            break;
        case 'D':
            dump = v;
            break;
        default:
            fprintf(stderr, "bad option %s\n", av[i]);
            return 1;
        }
    }
    if (N < 0) {
        N = C;
    }
    if (bpad) {
        bodypad = malloc(bpad + 1);
        for (long i = 0; i < bpad; i++) {
            bodypad[i] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[(i * 7) & 63];
        }
        bodypad[bpad] = 0;
    }
    ep = epoll_create1(0);
    conn *cs = calloc(C, sizeof(conn));
    int64_t t0 = now();
    tend = t0 + (int64_t)(T * 1e9);
    int64_t hard = t0 + (int64_t)((T > 0 ? T + TL : TL) * 1e9);
    int started_c = 0;
    int64_t nextstart = t0;
    for (int i = 0; i < C; i++) {
        cs[i].fd = -1;
    }
    static struct epoll_event E[1024];
    for (;;) {
        int64_t t = now();
        while (started_c < C && t >= nextstart) {
            begin(&cs[started_c++]);
            nextstart += gap * 1000;
            t = now();
        }
        if (abortms >= 0) {
            for (int i = 0; i < started_c; i++) {
                if (cs[i].state == 1 && cs[i].r.sent && t - cs[i].r.sent >= (int64_t)(abortms * 1e6)) {
                    finish(&cs[i], 'a');
                }
            }
        }
        int live = 0;
        if (started_c < C) {
            live = 1;
        } else {
            for (int i = 0; i < C; i++) {
                if (cs[i].state == 1) {
                    live = 1;
                    break;
                }
            }
        }
        if (!live) {
            break;
        }
        if (t > hard) {
            for (int i = 0; i < C; i++) {
                if (cs[i].state == 1) {
                    N = 0;
                    T = -1;
                    finish(&cs[i], 't');
                }
            }
            break;
        }
        struct timespec ts = {0, 5000000};
        if (started_c < C) {
            int64_t d = nextstart - t;
            if (d < 0) {
                d = 0;
            }
            if (d < 5000000) {
                ts.tv_nsec = d;
            }
        }
        int n = epoll_pwait2(ep, E, 1024, &ts, NULL);
        for (int i = 0; i < n; i++) {
            conn *c = E[i].data.ptr;
            if (c->fd < 0) {
                continue;
            }
            if (E[i].events & (EPOLLERR) && !(E[i].events & EPOLLIN)) {
                if (c->state == 1) {
                    finish(c, 'e');
                }
                continue;
            }
            if (E[i].events & EPOLLOUT && c->state == 1 && c->ro < c->rl) {
                push(c);
            }
            if (c->fd >= 0 && E[i].events & (EPOLLIN | EPOLLHUP)) {
                onread(c);
            }
        }
    }
    int64_t t1 = now();
    double wall = (t1 - t0) / 1e9;
    double *L = malloc(sizeof(double) * (nr + 1)), *F = malloc(sizeof(double) * (nr + 1)),
           *B = malloc(sizeof(double) * (nr + 1));
    long nl = 0, nf = 0, nb = 0;
    long ok = 0, ht = 0, sh = 0, er = 0, ab = 0, to = 0;
    long chunks = 0;
    int64_t bytes = 0;
    int st429 = 0, st503 = 0;
    for (long i = 0; i < nr; i++) {
        row *r = &rows[i];
        chunks += r->chunks;
        bytes += r->bytes;
        switch (r->out) {
        case 'o':
            ok++;
            L[nl++] = (r->end - r->start) / 1e6;
            break;
        case 'h':
            ht++;
            if (r->status == 429) {
                st429++;
            }
            if (r->status == 503) {
                st503++;
            }
            break;
        case 's':
            sh++;
            break;
        case 'e':
            er++;
            break;
        case 'a':
            ab++;
            break;
        case 't':
            to++;
            break;
        }
        if (r->first) {
            F[nf++] = (r->first - r->start) / 1e6;
        }
        if (r->ttfb && r->out == 'o') {
            B[nb++] = (r->ttfb - r->start) / 1e6;
        }
    }
    qsort(L, nl, sizeof(double), cd);
    qsort(F, nf, sizeof(double), cd);
    qsort(B, nb, sizeof(double), cd);
    qsort(tr, ntr, sizeof(float), cf);
    qsort(ic, nic, sizeof(float), cf);
    double mean = 0;
    for (long i = 0; i < nl; i++) {
        mean += L[i];
    }
    if (nl) {
        mean /= nl;
    }
    struct rusage ru;
    getrusage(RUSAGE_SELF, &ru);
    printf("{\"wall_s\":%.4f,\"n\":%ld,\"ok\":%ld,\"http_err\":%ld,\"s429\":%d,\"s503\":%d,\"short\":%ld,"
           "\"err\":%ld,\"aborted\":%ld,\"timeout\":%ld,\"rps\":%.1f,\"lat_ms\":{\"mean\":%.3f,\"p50\":%.3f,"
           "\"p90\":%.3f,\"p99\":%.3f,\"max\":%.3f},\"ttfb_ms\":{\"p50\":%.3f,\"p99\":%.3f},\"ttft_ms\":{"
           "\"p50\":%.3f,\"p99\":%.3f,\"max\":%.3f},\"transit_us\":{\"p50\":%.1f,\"p99\":%.1f,\"max\":%.1f},"
           "\"gap_us\":{\"p1\":%.1f,\"p50\":%.1f,\"p99\":%.1f,\"max\":%.1f},\"chunks\":%ld,\"chunks_s\":%.0f,"
           "\"bytes\":%ld,\"mb_s\":%.2f,\"cpu_s\":%.3f}\n",
           wall, nr, ok, ht, st429, st503, sh, er, ab, to, ok / wall, mean, pq(L, nl, .5), pq(L, nl, .9),
           pq(L, nl, .99), nl ? L[nl - 1] : 0, pq(B, nb, .5), pq(B, nb, .99), pq(F, nf, .5), pq(F, nf, .99),
           nf ? F[nf - 1] : 0, pf(tr, ntr, .5), pf(tr, ntr, .99), ntr ? tr[ntr - 1] : 0, pf(ic, nic, .01),
           pf(ic, nic, .5), pf(ic, nic, .99), nic ? ic[nic - 1] : 0, chunks, chunks / wall, (long)bytes,
           bytes / wall / 1e6,
           ru.ru_utime.tv_sec + ru.ru_utime.tv_usec / 1e6 + ru.ru_stime.tv_sec + ru.ru_stime.tv_usec / 1e6);
    if (dump) {
        FILE *f = fopen(dump, "w");
        for (long i = 0; i < nr; i++) {
            row *r = &rows[i];
            fprintf(f, "%ld %ld %ld %ld %ld %ld %d %d %ld %c\n", r->id, (long)r->start, (long)r->sent,
                    (long)r->ttfb, (long)r->first, (long)r->end, r->status, r->chunks, (long)r->bytes,
                    r->out);
        }
        fclose(f);
    }
    return 0;
}
