/* What was measured, as JSON and as rows. */
#include "load.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Of sorted numbers; 0 where there are none. */
static double quantile(const struct numbers *numbers, double share) {
    return numbers->count ? numbers->values[(size_t)(share * (numbers->count - 1) + 0.5)] : 0;
}

static void print_quantiles(const char *name, struct numbers *numbers) {
    double sum = 0;
    qsort(numbers->values, numbers->count, sizeof *numbers->values, by_value);
    for (size_t i = 0; i < numbers->count; i++) {
        sum += numbers->values[i];
    }
    printf("\"%s\":{\"mean\":%.3f,\"p50\":%.3f,\"p90\":%.3f,\"p99\":%.3f,\"max\":%.3f},", name,
           numbers->count ? sum / numbers->count : 0, quantile(numbers, 0.5), quantile(numbers, 0.9),
           quantile(numbers, 0.99), quantile(numbers, 1));
}

static double seconds(struct timeval t) {
    return t.tv_sec + t.tv_usec / 1e6;
}

void print_results(double wall_s) {
    struct numbers whole = {0}, first_byte = {0}, first_chunk = {0};
    long outcomes[128] = {0}, chunks = 0, busy = 0;
    int64_t bytes = 0;
    for (size_t i = 0; i < result_count; i++) {
        struct result *r = &results[i];
        outcomes[r->outcome]++;
        busy += r->status == 429;
        chunks += r->chunks;
        bytes += r->bytes;
        if (r->outcome == OK) {
            add_number(&whole, (r->ended - r->started) / 1e6);
            add_number(&first_byte, (r->first_byte - r->started) / 1e6);
        }
        if (r->first_chunk) {
            add_number(&first_chunk, (r->first_chunk - r->started) / 1e6);
        }
    }
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    printf(
        "{\"wall_s\":%.4f,\"n\":%zu,\"ok\":%ld,\"http_err\":%ld,\"s429\":%ld,\"short\":%ld,\"err\":%ld,\"aborted\":%ld,"
        "\"timeout\":%ld,\"rps\":%.1f,",
        wall_s, result_count, outcomes[OK], outcomes[HTTP_ERROR], busy, outcomes[SHORT], outcomes[FAILED],
        outcomes[ABORTED], outcomes[TIMED_OUT], outcomes[OK] / wall_s);
    print_quantiles("lat_ms", &whole);
    print_quantiles("ttfb_ms", &first_byte);
    print_quantiles("ttft_ms", &first_chunk);
    print_quantiles("transit_us", &transit_us);
    print_quantiles("gap_us", &gaps_us);
    printf("\"chunks\":%ld,\"chunks_s\":%.0f,\"bytes\":%ld,\"mb_s\":%.2f,\"cpu_s\":%.3f}\n", chunks, chunks / wall_s,
           (long)bytes, bytes / wall_s / 1e6, seconds(used.ru_utime) + seconds(used.ru_stime));
}

int dump_results(const char *path) {
    FILE *file = fopen(path, "w");
    if (!file) {
        perror(path);
        return 1;
    }
    for (size_t i = 0; i < result_count; i++) {
        struct result *r = &results[i];
        fprintf(file, "%ld %ld %ld %ld %ld %ld %d %d %ld %c\n", r->id, (long)r->started, (long)r->sent,
                (long)r->first_byte, (long)r->first_chunk, (long)r->ended, r->status, r->chunks, (long)r->bytes,
                r->outcome);
    }
    return fclose(file) != 0;
}
