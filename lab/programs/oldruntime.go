package programs

import (
	"fmt"
	"os"
	"os/exec"
	"unsafe"

	"golang.org/x/sys/unix"
)

// oldRuntime is the variable that Become looks at.
const oldRuntime = "LAB_OLD_RUNTIME"

// The first system calls of Linux 5.1 and later. The seccomp profile of a container runtime of 2019 forbids all that
// it does not know (EPERM), while glibc needs ENOSYS of these two to fall back on older ones.
const (
	firstNew = unix.SYS_PIDFD_SEND_SIGNAL
	clone3   = unix.SYS_CLONE3
	access2  = unix.SYS_FACCESSAT2
)

// OldRuntime returns a command line that runs argv as an older container runtime would, which forbids the system calls
// of newer kernels. It needs root, and Become in the test's main function.
func OldRuntime(argv ...string) (line []string, env string, err error) {
	self, err := os.Executable()
	return append([]string{self}, argv...), oldRuntime + "=1", err
}

// Become replaces this process by the command of OldRuntime, if it is one.
func Become() error {
	if os.Getenv(oldRuntime) == "" {
		return nil
	}
	if err := os.Unsetenv(oldRuntime); err != nil {
		return err
	}
	path, err := exec.LookPath(os.Args[1])
	if err != nil {
		return err
	}
	// Source: linux/seccomp.h (struct seccomp_data begins with the number), linux/filter.h.
	const load, atLeast, same, end = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K,
		unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_RET | unix.BPF_K
	code := []unix.SockFilter{
		{Code: load},
		{Code: atLeast, K: firstNew, Jf: 4},
		{Code: same, K: clone3, Jt: 2},
		{Code: same, K: access2, Jt: 1},
		{Code: end, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: end, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		{Code: end, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program))); errno != 0 {
		return fmt.Errorf("forbid newer system calls: %w", errno)
	}
	return unix.Exec(path, os.Args[1:], os.Environ())
}
