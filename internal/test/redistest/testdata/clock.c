// A clock for redis-server that a test sets: LD_PRELOAD has it read the time here. The real time-of-day
// clock, plus the microseconds that the file named by WEBLIMIT_CLOCK begins with.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *ahead;

__attribute__((constructor)) static void open_clock(void) {
	const char *path = getenv("WEBLIMIT_CLOCK");
	int file = path ? open(path, O_RDONLY) : -1;
	if (file < 0) return;
	void *memory = mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
	if (memory != MAP_FAILED) ahead = memory;
	close(file);
}

int clock_gettime(clockid_t id, struct timespec *t) {
	int failed = syscall(SYS_clock_gettime, id, t);
	if (failed || !ahead || (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE)) return failed;
	int64_t micros = *ahead;
	t->tv_sec += micros / 1000000;
	t->tv_nsec += micros % 1000000 * 1000;
	if (t->tv_nsec < 0) t->tv_nsec += 1000000000, t->tv_sec--;
	if (t->tv_nsec >= 1000000000) t->tv_nsec -= 1000000000, t->tv_sec++;
	return 0;
}

int gettimeofday(struct timeval *restrict v, void *restrict zone) {
	struct timespec t;
	(void)zone;
	if (clock_gettime(CLOCK_REALTIME, &t)) return -1;
	v->tv_sec = t.tv_sec;
	v->tv_usec = t.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *to) {
	struct timespec t;
	if (clock_gettime(CLOCK_REALTIME, &t)) return -1;
	if (to) *to = t.tv_sec;
	return t.tv_sec;
}
