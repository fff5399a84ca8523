package companion

import (
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// unread reports whether the output of this node's command goes to a pipe that no process reads any more: what it
// prints then fails. A command that has ended has no files; this process has its stderr.
func (p *companion) unread() bool { return slices.ContainsFunc(p.outputs(), withoutReader) }

// outputFull returns the file that the command's output goes to, if its file system has no space left; else "".
func (p *companion) outputFull() string {
	for _, file := range p.outputs() {
		if path, full := withoutSpace(file); full {
			return path
		}
	}
	return ""
}

// outputs returns the files that the command's output goes to.
func (p *companion) outputs() []string {
	command := p.launch
	if pid := p.command.Load(); pid != 0 {
		command = int(pid)
	}
	return []string{fmt.Sprintf("/proc/%d/fd/1", command), fmt.Sprintf("/proc/%d/fd/2", command), "/proc/self/fd/2"}
}

// withoutSpace reports whether a file is a regular one on a file system without space, and returns its path.
func withoutSpace(file string) (path string, full bool) {
	s, err := os.Stat(file)
	var of unix.Statfs_t
	if err != nil || !s.Mode().IsRegular() || unix.Statfs(file, &of) != nil {
		return "", false
	}
	path, _ = os.Readlink(file)
	return path, spaceless(of, os.Geteuid() == 0)
}

// spaceless reports whether a file system has no space left for a user: root may use the reserved blocks as well. One
// without a size has no blocks.
func spaceless(of unix.Statfs_t, root bool) bool {
	if root {
		return of.Blocks > 0 && of.Bfree == 0
	}
	return of.Blocks > 0 && of.Bavail == 0
}

// inTime returns the answer to a question about files, or the zero value where their file system does not answer, as
// one of a server that is gone.
func inTime[T any](ask func() T) (answer T) {
	got := make(chan T, 1)
	go func() { got <- ask() }()
	select {
	case answer = <-got:
	case <-time.After(lastSay):
	}
	return answer
}

// withoutReader reports whether a file is a pipe that no process has open for reading (poll(2)).
func withoutReader(file string) bool {
	if s, err := os.Stat(file); err != nil || s.Mode()&os.ModeNamedPipe == 0 {
		return false
	}
	fd, err := unix.Open(file, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err == unix.ENXIO // a named pipe (fifo(7))
	}
	defer unix.Close(fd)
	of := []unix.PollFd{{Fd: int32(fd)}}
	_, _ = unix.Poll(of, 0)
	return of[0].Revents&unix.POLLERR != 0
}
