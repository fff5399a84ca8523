//go:build linux && cgo

/* Runs before Go starts, in the only thread there is. It uses raw system calls
 * for signals because the C libraries hide the real-time signals 32 to 34. */

#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "inherit.h"

static struct launch_inherited inherited;

struct launch_inherited launch_inherited(void) { return inherited; }

static void record(void)
{
	struct launch_inherited in = {0};
	if (syscall(SYS_rt_sigprocmask, 0, NULL, &in.blocked, sizeof in.blocked) != 0)
		return;
	for (int n = 1; n <= 64; n++) {
		/* The kernel's struct sigaction: the handler comes first, and 8
		 * words are more than any architecture needs. */
		unsigned long act[8] = {0};
		if (syscall(SYS_rt_sigaction, n, NULL, act, sizeof in.ignored) != 0)
			return;
		if (act[0] == 1) /* SIG_IGN */
			in.ignored |= UINT64_C(1) << (n - 1);
	}
	struct rlimit r;
	if (getrlimit(RLIMIT_NOFILE, &r) != 0)
		return;
	in.nofile_soft = r.rlim_cur == RLIM_INFINITY ? UINT64_MAX : r.rlim_cur;
	if (prctl(PR_GET_PDEATHSIG, &in.death_signal) != 0)
		return;
	in.known = 1;
	inherited = in;
}

/* Closes every descriptor above last. */
static void close_above(int last)
{
#ifdef SYS_close_range
	if (syscall(SYS_close_range, last + 1, ~0U, 0) == 0)
		return;
#endif
	DIR *dir = opendir("/proc/self/fd"); /* Linux before 5.9 */
	if (!dir)
		return;
	for (struct dirent *e; (e = readdir(dir));) {
		int fd = atoi(e->d_name);
		if (fd > last && fd != dirfd(dir))
			close(fd);
	}
	closedir(dir);
}

/* The second half of Detach (detach.go), if the environment requests it: this
 * process prints the pid of its child (or -errno) and ends, and the child becomes
 * the detached process. LAUNCH_DETACH is "PPID FD": the parent, and the descriptor
 * for the answer, which is also the last one to keep. A process that inherits the
 * variable by accident has another parent and does nothing. */
static void detach(void)
{
	char *value = getenv("LAUNCH_DETACH");
	int parent, fd, end = 0;
	if (!value || sscanf(value, "%d %d%n", &parent, &fd, &end) != 2 || value[end] != '\0')
		return;
	if (parent != (int)getppid() || fd < 3)
		return;
	memset(value, 0, strlen(value)); /* also in /proc/self/environ */
	unsetenv("LAUNCH_DETACH");
	close_above(fd);
	pid_t pid = fork();
	if (pid == 0) {
		close(fd);
		return;
	}
	dprintf(fd, "%d\n", pid > 0 ? (int)pid : -errno);
	_exit(0);
}

/* Ends the process with an error about what keeps the Go runtime from starting. */
static void ends(const char *what, const char *fix)
{
	const char *json = getenv("LAUNCH_JSON");
	const char *form = json && (!strcmp(json, "1") || !strcmp(json, "true"))
		? "{\"type\":\"error\",\"schema\":1,\"code\":65,\"what\":\"%s\",\"fix\":\"%s\"}\n"
		: "launch: error: %s\nlaunch: hint:  %s\n";
	dprintf(2, form, what, fix);
	_exit(65);
}

/* Ends the process with an error about a limit. */
static void lacks(const char *flag, unsigned long long has, const char *unit, const char *needs)
{
	char what[160], fix[32];
	snprintf(what, sizeof what, "ulimit %s is %llu %s, and launch needs %s", flag, has, unit, needs);
	snprintf(fix, sizeof fix, "ulimit %s unlimited", flag);
	ends(what, fix);
}

/* Ends the process with an error if a limit is below what the Go runtime needs, which else crashes before any of
 * launch runs. Measured: Go 1.26 starts below 1.6 GiB of addresses in some tries, and never below 110 MB of data. */
static void enough(int limit, rlim_t need_kib, const char *flag)
{
	struct rlimit r;
	char needs[32];
	if (getrlimit(limit, &r) != 0 || r.rlim_cur == RLIM_INFINITY || r.rlim_cur >> 10 >= need_kib)
		return;
	snprintf(needs, sizeof needs, "%llu", (unsigned long long)need_kib);
	lacks(flag, r.rlim_cur >> 10, "KiB", needs);
}

static int gate[2];

static void *wait_at_gate(void *none)
{
	char c;
	while (read(gate[0], &c, 1) < 0 && errno == EINTR)
		;
	return none;
}

/* Ends the process with an error if a low limit of processes leaves no room for the threads of the Go runtime, which
 * else prints its registers. How many the user has already, only a try shows. */
static void enough_threads(void)
{
	enum { NEED = 14, LOW = 64 };
	struct rlimit r;
	pthread_t all[NEED];
	int n = 0;
	if (getrlimit(RLIMIT_NPROC, &r) != 0 || r.rlim_cur >= LOW || pipe(gate) != 0)
		return;
	while (n < NEED && pthread_create(&all[n], NULL, wait_at_gate, NULL) == 0)
		n++;
	close(gate[1]);
	for (int i = 0; i < n; i++)
		pthread_join(all[i], NULL);
	close(gate[0]);
	if (n < NEED)
		lacks("-u", r.rlim_cur, "processes and threads", "as many as this user has, and 64 more");
}

static char abort_text[1024];
static int abort_status;

static void say_abort(int number)
{
	(void)number;
	(void)!write(2, abort_text, strlen(abort_text));
	_exit(abort_status);
}

/* Where Go cannot start a thread, it calls abort, and its own handler prints registers and all goroutines: some
 * hundred lines in the midst of the job's. This one prints one line. */
void launch_on_abort(const char *text, int status)
{
	struct sigaction act = {.sa_handler = say_abort, .sa_flags = SA_ONSTACK};
	snprintf(abort_text, sizeof abort_text, "%s", text);
	abort_status = status;
	sigaction(SIGABRT, &act, NULL);
}

/* Has clone3 fail with ENOSYS in this process and all that it starts: of two filters that refuse a call, the later one
 * says with which error (seccomp(2)). */
static int without_clone3(void)
{
#ifdef SYS_clone3
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = sizeof code / sizeof code[0], .filter = code};
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
#else
	return 0;
#endif
}

static void *nothing(void *none) { return none; }

static int thread(void)
{
	pthread_t t;
	int err = pthread_create(&t, NULL, nothing, NULL);
	if (err == 0)
		pthread_join(t, NULL);
	return err;
}

/* Ends the process with an error if no thread can be made at all. Docker before 20.10.10 forbids clone3 with EPERM,
 * and glibc since 2.34 tries another call only after ENOSYS. With that launch runs, and can report to the other nodes
 * why no other program does. */
static void any_thread(void)
{
	int err = thread();
	if (err == EPERM && without_clone3() && (err = thread()) == 0)
		inherited.forbidden = 1;
	switch (err) {
	case EPERM:
		ends("this container forbids new threads (clone3: operation not permitted), to every program of its image",
		     "update the container runtime or its seccomp profile, or try: docker run --security-opt seccomp=unconfined");
	case EAGAIN:
		ends("this node, user or container has no room for one more thread",
		     "ulimit -u; cat /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids.current; sysctl kernel.threads-max");
	}
}

/* Gives the threads of the Go runtime small stacks where addresses or data are limited: 20 threads of 8 MiB each would
 * take all of ulimit -d 160000. Names and drivers are asked on these stacks, which takes some 100 KiB. */
static void small_stacks(void)
{
	enum { STACK = 1 << 20 };
	struct rlimit data, addresses;
	pthread_attr_t attr;
	if (getrlimit(RLIMIT_DATA, &data) != 0 || getrlimit(RLIMIT_AS, &addresses) != 0 ||
	    (data.rlim_cur == RLIM_INFINITY && addresses.rlim_cur == RLIM_INFINITY))
		return;
	if (pthread_attr_init(&attr) != 0)
		return;
	if (pthread_attr_setstacksize(&attr, STACK) == 0)
		pthread_setattr_default_np(&attr);
	pthread_attr_destroy(&attr);
}

__attribute__((constructor)) static void before_go(void)
{
	small_stacks();
	enough(RLIMIT_AS, 1700000, "-v");
	enough(RLIMIT_DATA, 120000, "-d");
	enough_threads();
	detach();
	record();
	any_thread(); /* glibc changes signals 32 and 33 with its first thread */
}
