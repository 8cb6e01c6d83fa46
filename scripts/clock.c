/* Preloaded by scripts/faults.py: the clock says what INNOKIT_CLOCK="SECONDS STEP" says, SECONDS after 1970 at first, and STEP more with every
 * look. Only the time of day is changed: clocks that measure how long something takes never go back. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long told(void) {
    static atomic_long looks;
    long base = 0, step = 0;
    const char *words = getenv("INNOKIT_CLOCK");
    if (words == NULL || sscanf(words, "%ld %ld", &base, &step) != 2) abort();
    return base + step * atomic_fetch_add(&looks, 1);
}

int clock_gettime(clockid_t clock, struct timespec *into) {
    long result = syscall(SYS_clock_gettime, clock, into);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) into->tv_sec = told();
    return (int)result;
}

int gettimeofday(struct timeval *restrict into, void *restrict zone) {
    (void)zone;
    into->tv_sec = told();
    into->tv_usec = 0;
    return 0;
}

time_t time(time_t *into) {
    time_t now = told();
    if (into != NULL) *into = now;
    return now;
}
