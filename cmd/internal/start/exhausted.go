package start

import (
	"context"
	"errors"
	"syscall"

	"golang.org/x/sys/unix"

	"launch/internal/exit"
	"launch/internal/handoff"
)

// leastFiles is how many files launch and its companion open between them and the nodes of a small job: of 4 nodes with
// 24 files none started, and with 32 all did.
const leastFiles = 32

// fixFiles is how a process may open more files.
const fixFiles = "ulimit -n 65536   # in the shell, or docker run --ulimit nofile=65536, LimitNOFILE= of a service"

// enoughFiles returns an error where launch itself lacks files. Go has raised the soft limit to the hard one, and gives
// the command its own again.
func enoughFiles() error {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil || r.Max >= leastFiles {
		return nil
	}
	return exit.Errorf(exit.Unfit, "ulimit -n is %d files, and launch needs %d", r.Max, leastFiles).Do("%s", fixFiles)
}

// threads returns an error where no program may start a thread: the command would end, or hang.
func (s *Start) threads(context.Context) error {
	if !handoff.Inherited().Forbidden {
		return nil
	}
	return exit.Errorf(exit.Unfit, "this container forbids new threads (clone3: operation not permitted), to every "+
		"program of its image").Do("update the container runtime or its seccomp profile, or try: docker run --security-opt " +
		"seccomp=unconfined")
}

// exhausted returns the error of a limit or a lack of this node that the kernel has named, or nil. The number of
// an error says it whatever failed by it.
func exhausted(err error) *exit.Error {
	for _, known := range []struct {
		errno syscall.Errno
		fix   string
	}{
		{syscall.EMFILE, fixFiles},
		{syscall.ENFILE, "sysctl fs.file-max; cat /proc/sys/fs/file-nr   # too many files are open on this machine"},
		{syscall.EAGAIN, "ulimit -u; cat /sys/fs/cgroup/pids.max   # no more processes for this user or container"},
		{syscall.ENOMEM, "ulimit -v; free -m; cat /sys/fs/cgroup/memory.max   # ulimit -v unlimited, or more memory"},
		{syscall.EFBIG, "ulimit -f unlimited   # the limit of a file's size"},
		{syscall.ENOSPC, "df -h; df -i   # a file system is full"},
		{syscall.EDQUOT, "quota -s   # this user's share of a file system is used up"},
		{syscall.EROFS, "give launch a folder that can be written: TMPDIR=/path"},
		{syscall.ENETUNREACH, "ip addr; ip route; ip link set lo up   # does the interface have a cable and an address?"},
		{syscall.EHOSTUNREACH, "ip route; ip neigh   # no machine of the network has that address"},
		{syscall.ENETDOWN, "ip link   # an interface is down"},
		{syscall.EADDRINUSE, "ss -s; sysctl net.ipv4.ip_local_port_range   # no port is free"},
		{syscall.EADDRNOTAVAIL, "ip addr; sysctl net.ipv4.ip_local_port_range   # no such address here, or no port is free"},
		{syscall.EAFNOSUPPORT, "ip addr   # the kernel has no such kind of address: is IPv6 switched off?"},
		{syscall.EPERM, "a container's seccomp profile, SELinux or AppArmor forbids it: docker run --security-opt " +
			"seccomp=unconfined shows whether (launch needs clone3 and sockets)"},
		{syscall.EACCES, "ls -ld, id, getenforce   # the permissions of what the message names"},
		{syscall.ENOSYS, "uname -r   # the kernel, or the container's seccomp profile, has no such call"},
	} {
		if errors.Is(err, known.errno) {
			return exit.Errorf(exit.Unfit, "%v", err).Do("%s", known.fix)
		}
	}
	return nil
}
