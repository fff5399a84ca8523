package masterport

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"

	"golang.org/x/sys/unix"

	"launch/internal/process"
)

// Use is the use of a port of this machine.
type Use struct {
	Taken  bool   // no other process can listen there, or a launch holds it
	Launch bool   // the process that uses it is a launch
	By     string // "python3 (pid 4711)"; "": another user's or container's process, or it does not listen
}

// Look returns which process uses a port; procfs is /proc. It holds nothing, not
// even for a moment, that would prevent another launch from holding the port. The
// error is any other obstacle to its use.
func Look(procfs fs.FS, at netip.AddrPort) (Use, error) {
	socket, err := bindTo(at)
	inode := ""
	switch {
	case err == nil:
		socket.Close()
		inode = process.UnixSocket(procfs, mutexName(int(at.Port())))
		if inode == "" {
			return Use{}, nil
		}
		return Use{Taken: true, Launch: true, By: process.OwnerOf(procfs, inode).String()}, nil
	case !errors.Is(err, unix.EADDRINUSE):
		return Use{}, fmt.Errorf("bind %s: %w", at, err)
	}
	if inode, err = process.Listener(procfs, at); err != nil || inode == "" {
		return Use{Taken: true}, nil
	}
	by := process.OwnerOf(procfs, inode)
	return Use{Taken: true, Launch: strings.HasPrefix(by.Name, "launch"), By: by.String()}, nil
}
