#ifndef LAUNCH_INHERIT_H
#define LAUNCH_INHERIT_H

#include <stdint.h>

/* What the process was started with. Signal sets: bit n-1 is signal n. */
struct launch_inherited {
	uint64_t blocked;
	uint64_t ignored;
	uint64_t nofile_soft;
	int death_signal;
	int known; /* 1 when every field above could be read */
	int forbidden; /* 1: programs here may start no thread, and launch may by another call alone */
};

struct launch_inherited launch_inherited(void);

/* On SIGABRT the process prints text and ends with a status. */
void launch_on_abort(const char *text, int status);

#endif
