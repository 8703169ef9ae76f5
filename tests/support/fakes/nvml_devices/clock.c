/* Preloaded, it sets the wall clock of one process and of nobody else.

   CLOCK_STEP names a file that says, once it is there, `MILLISECONDS SECONDS`: from that moment of
   CLOCK_MONOTONIC on, CLOCK_REALTIME is that many seconds further on (or back). */

#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static double milliseconds(clockid_t clock) {
    struct timespec t;
    syscall(SYS_clock_gettime, clock, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static double step_ms_at(double monotonic_ms) {
    double moment, seconds;
    FILE *file = getenv("CLOCK_STEP") ? fopen(getenv("CLOCK_STEP"), "r") : NULL;
    int told = file && fscanf(file, "%lf %lf", &moment, &seconds) == 2;
    if (file) fclose(file);
    return told && monotonic_ms >= moment ? seconds * 1e3 : 0;
}

/* What the wall clock showed, or will, at a moment of CLOCK_MONOTONIC, both in milliseconds. */
double realtime_ms_at(double monotonic_ms) {
    static double distance;
    if (!distance) distance = milliseconds(CLOCK_REALTIME) - milliseconds(CLOCK_MONOTONIC);
    return monotonic_ms + distance + step_ms_at(monotonic_ms);
}

int clock_gettime(clockid_t clock, struct timespec *answer) {
    if (clock != CLOCK_REALTIME) return (int)syscall(SYS_clock_gettime, clock, answer);
    double now = realtime_ms_at(milliseconds(CLOCK_MONOTONIC));
    answer->tv_sec = (time_t)(now / 1e3);
    answer->tv_nsec = (long)((now - answer->tv_sec * 1e3) * 1e6);
    return 0;
}
