package scene

import "runtime"

// call is what is known of a system call: its name, and whether its first argument is a descriptor.
type call struct {
	name string
	fd   bool
}

// restart goes on with a call that a signal or a tracer interrupted; its arguments are stale.
const restart = "restart_syscall"

// calls are the system calls in which processes wait, by the number of each architecture
// (asm/unistd_64.h, asm-generic/unistd.h).
var calls = map[string]map[int]call{
	"amd64": {
		0: {"read", true}, 1: {"write", true}, 2: {"open", false}, 3: {"close", true}, 4: {"stat", false}, 5: {"fstat", true},
		6: {"lstat", false}, 7: {"poll", false}, 9: {"mmap", false}, 16: {"ioctl", true}, 17: {"pread64", true},
		18: {"pwrite64", true}, 19: {"readv", true}, 20: {"writev", true}, 21: {"access", false}, 23: {"select", false},
		24: {"sched_yield", false}, 34: {"pause", false}, 35: {"nanosleep", false}, 42: {"connect", true},
		43: {"accept", true}, 44: {"sendto", true}, 45: {"recvfrom", true}, 46: {"sendmsg", true}, 47: {"recvmsg", true},
		56: {"clone", false}, 58: {"vfork", false}, 59: {"execve", false}, 61: {"wait4", false}, 72: {"fcntl", true},
		73: {"flock", true}, 74: {"fsync", true}, 75: {"fdatasync", true}, 77: {"ftruncate", true},
		78: {"getdents", true},
		82: {"rename", false}, 83: {"mkdir", false}, 87: {"unlink", false},
		128: {"rt_sigtimedwait", false}, 130: {"rt_sigsuspend", false}, 137: {"statfs", false}, 138: {"fstatfs", true},
		202: {"futex", false}, 217: {"getdents64", true}, 219: {restart, false}, 230: {"clock_nanosleep", false},
		232: {"epoll_wait", true}, 247: {"waitid", false}, 257: {"openat", false}, 258: {"mkdirat", false},
		262: {"newfstatat", false}, 263: {"unlinkat", false}, 264: {"renameat", false}, 285: {"fallocate", true},
		270: {"pselect6", false}, 271: {"ppoll", false}, 281: {"epoll_pwait", true}, 288: {"accept4", true},
		299: {"recvmmsg", true}, 316: {"renameat2", false}, 332: {"statx", false},
		426: {"io_uring_enter", true}, 437: {"openat2", false}, 441: {"epoll_pwait2", true}, 449: {"futex_waitv", false},
	},
	"arm64": {
		63: {"read", true}, 64: {"write", true}, 57: {"close", true}, 80: {"fstat", true}, 222: {"mmap", false},
		29: {"ioctl", true}, 67: {"pread64", true}, 68: {"pwrite64", true}, 65: {"readv", true}, 66: {"writev", true},
		48: {"faccessat", false}, 124: {"sched_yield", false}, 101: {"nanosleep", false}, 203: {"connect", true},
		202: {"accept", true}, 206: {"sendto", true}, 207: {"recvfrom", true}, 211: {"sendmsg", true},
		212: {"recvmsg", true}, 220: {"clone", false}, 221: {"execve", false}, 260: {"wait4", false}, 25: {"fcntl", true},
		32: {"flock", true}, 82: {"fsync", true}, 83: {"fdatasync", true}, 137: {"rt_sigtimedwait", false},
		133: {"rt_sigsuspend", false}, 43: {"statfs", false}, 44: {"fstatfs", true}, 98: {"futex", false},
		61: {"getdents64", true}, 128: {restart, false}, 115: {"clock_nanosleep", false}, 95: {"waitid", false},
		34: {"mkdirat", false}, 35: {"unlinkat", false}, 38: {"renameat", false}, 46: {"ftruncate", true},
		47: {"fallocate", true}, 276: {"renameat2", false},
		56: {"openat", false}, 79: {"newfstatat", false}, 72: {"pselect6", false}, 73: {"ppoll", false},
		22: {"epoll_pwait", true}, 242: {"accept4", true}, 243: {"recvmmsg", true}, 291: {"statx", false},
		426: {"io_uring_enter", true}, 437: {"openat2", false}, 441: {"epoll_pwait2", true}, 449: {"futex_waitv", false},
	},
}[runtime.GOARCH]
