/* When a run goes on: the heap of those that wait for their time, and the list of streams that do not pause. */
#include "engine.h"

/* ---- the heap of those that wait for their time, the earliest first ---- */

static struct connection **heap;
static int heap_count, heap_room;

static void heap_swap(int a, int b) {
    struct connection *other = heap[a];
    heap[a] = heap[b];
    heap[b] = other;
    heap[a]->heap_index = a;
    heap[b]->heap_index = b;
}

static void heap_rise(int i) {
    while (i && heap[(i - 1) / 2]->due > heap[i]->due) {
        heap_swap(i, (i - 1) / 2);
        i = (i - 1) / 2;
    }
}

static void heap_sink(int i) {
    for (;;) {
        int left = 2 * i + 1, right = left + 1, least = i;
        if (left < heap_count && heap[left]->due < heap[least]->due) {
            least = left;
        }
        if (right < heap_count && heap[right]->due < heap[least]->due) {
            least = right;
        }
        if (least == i) {
            return;
        }
        heap_swap(i, least);
        i = least;
    }
}

void due_remove(struct connection *c) {
    int i = c->heap_index;
    if (i < 0) {
        return;
    }
    heap_count--;
    if (i != heap_count) {
        heap_swap(i, heap_count);
        heap_rise(i);
        heap_sink(i);
    }
    c->heap_index = -1;
}

void due_add(struct connection *c) {
    due_remove(c);
    if (heap_count == heap_room) {
        heap_room = heap_room ? heap_room * 2 : 1024;
        heap = grown(heap, heap_room * sizeof *heap);
    }
    heap[heap_count] = c;
    c->heap_index = heap_count++;
    heap_rise(c->heap_index);
}

/* ---- the list of streams that do not pause ---- */

static struct connection *first_ready, *last_ready;

void make_ready(struct connection *c) {
    if (c->is_ready) {
        return;
    }
    c->is_ready = 1;
    c->next_ready = NULL;
    if (last_ready) {
        last_ready->next_ready = c;
    } else {
        first_ready = c;
    }
    last_ready = c;
}

int64_t ns_until_due(void) {
    if (first_ready) {
        return 0;
    }
    if (!heap_count) {
        return -1;
    }
    int64_t left = heap[0]->due - now_ns();
    return left > 0 ? left : 0;
}

void run_due(void) {
    int64_t now = now_ns();
    while (heap_count && heap[0]->due <= now) {
        struct connection *c = heap[0];
        due_remove(c);
        run_step(c);
        read_requests(c);
    }
}

void run_ready(void) {
    struct connection *c = first_ready;
    first_ready = last_ready = NULL;
    while (c) {
        struct connection *next = c->next_ready;
        c->is_ready = 0;
        if (c->running) {
            run_step(c);
            read_requests(c);
        }
        c = next;
    }
}
