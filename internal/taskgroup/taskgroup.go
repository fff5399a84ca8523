// Package taskgroup lets the processes that were started side by side on a node
// start as one: the first does the work, the others wait for what came of it.
// They meet at an abstract unix socket, which is per network namespace and
// leaves no file behind. Its name is anybody's to take, so both sides look at
// the other's user id before they believe a word.
package taskgroup

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

var (
	// ErrTaken: another process on this node is the first of this group.
	ErrTaken = errors.New("another process has this place")
	// ErrAbsent: the first of the group did not come.
	ErrAbsent = errors.New("the first process of this node did not come")
	// ErrSilent: the first is there, but never said what came of its start.
	ErrSilent = errors.New("the first process of this node has not started yet")
	// ErrVanished: the first ended without a word.
	ErrVanished = errors.New("the first process of this node ended without a word")
	// ErrStranger: the process at the other end is another user's.
	ErrStranger = errors.New("the process at the other end is another user's")
)

const (
	// firstPause and longestPause are between two looks for the first: nothing
	// tells when an abstract name comes to be.
	firstPause, longestPause = 5 * time.Millisecond, 200 * time.Millisecond
	// lateAfter is how long the first may take to come before it is late:
	// processes of one node start together, but read the program from a disk
	// that may be slow.
	lateAfter = 5 * time.Second
	// writeLimit is for a few kilobytes to a process that reads nothing else.
	writeLimit = 2 * time.Second
)

// socket is the address of the group's first, or of another by its number.
func socket(group string, number int) *net.UnixAddr {
	sum := sha256.Sum256([]byte(group))
	return &net.UnixAddr{Net: "unix", Name: fmt.Sprintf("@launch-follow-%d-%x-%d", os.Getuid(), sum[:8], number)}
}

// First is the first process of a group.
type First struct {
	others int
	listen *net.UnixListener
	came   chan other
	done   chan struct{}
	wg     sync.WaitGroup
}

type other struct {
	number int
	conn   *net.UnixConn
}

// Listen makes this process the first of a group with others (numbered from 1
// on) beside it. The error wraps ErrTaken where the group has a first.
func Listen(group string, others int) (*First, error) {
	l, err := net.ListenUnix("unix", socket(group, 0))
	if errors.Is(err, unix.EADDRINUSE) {
		err = ErrTaken
	}
	if err != nil {
		return nil, fmt.Errorf("wait for the other processes of this node: %w", err)
	}
	f := &First{others: others, listen: l, came: make(chan other, others), done: make(chan struct{})}
	f.wg.Go(f.accept)
	return f, nil
}

// accept welcomes the others until Close. Who they are is the name that their
// own end is bound to, so that nobody has to be read from.
func (f *First) accept() {
	for {
		c, err := f.listen.AcceptUnix()
		if err != nil {
			return
		}
		name := c.RemoteAddr().String()
		n, err := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
		if err != nil || n < 1 || n > f.others || sameUser(c) != nil {
			c.Close()
			continue
		}
		select {
		case f.came <- other{n, c}:
		case <-f.done:
			c.Close()
			return
		}
	}
}

// Hand gives result to each of the others as it comes, for as long as budget,
// and returns the numbers of those that have not got it.
func (f *First) Hand(ctx context.Context, result []byte, budget time.Duration) []int {
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	waiting, lost := map[int]bool{}, map[int]bool{}
	for n := range f.others {
		waiting[n+1] = true
	}
	for len(waiting) > 0 {
		select {
		case o := <-f.came:
			delete(waiting, o.number)
			delete(lost, o.number)
			_ = o.conn.SetWriteDeadline(time.Now().Add(writeLimit))
			if json.NewEncoder(o.conn).Encode(result) != nil {
				lost[o.number] = true // it ended while it waited
			}
			o.conn.Close()
			continue
		case <-ctx.Done():
		}
		break
	}
	maps.Copy(lost, waiting)
	return slices.Sorted(maps.Keys(lost))
}

// Close ends the listening; who still waits learns that the first is gone.
func (f *First) Close() {
	close(f.done)
	f.listen.Close()
	f.wg.Wait()
	for {
		select {
		case o := <-f.came:
			o.conn.Close()
		default:
			return
		}
	}
}

// Await waits, as the process of that number, for what the group's first hands
// on: for as long as budget until it is there, and as long again until it has
// something to hand on. late is called once where it takes its time to come.
func Await(ctx context.Context, group string, number int, budget time.Duration, late func()) ([]byte, error) {
	conn, err := dial(ctx, group, number, budget, late)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := sameUser(conn); err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	defer context.AfterFunc(limited, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })()
	var result []byte
	err = json.NewDecoder(conn).Decode(&result)
	switch {
	case err == nil:
		return result, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, fmt.Errorf("%w after %s", ErrSilent, budget)
	}
	return nil, ErrVanished
}

// dial tries again until the first listens.
func dial(ctx context.Context, group string, number int, budget time.Duration, late func()) (*net.UnixConn, error) {
	defer time.AfterFunc(lateAfter, late).Stop()
	end := time.After(budget)
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		c, err := net.DialUnix("unix", socket(group, number), socket(group, 0))
		switch {
		case err == nil:
			return c, nil
		case errors.Is(err, unix.EADDRINUSE):
			return nil, fmt.Errorf("wait for the first process of this node as number %d: %w", number, ErrTaken)
		case !errors.Is(err, unix.ECONNREFUSED):
			return nil, fmt.Errorf("reach the first process of this node: %w", err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-end:
			return nil, fmt.Errorf("%w within %s", ErrAbsent, budget)
		}
	}
}

// sameUser looks who is at the other end: for a listener's it is who called
// listen(2) (unix(7)).
func sameUser(c *net.UnixConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	var got error
	if err := raw.Control(func(fd uintptr) { cred, got = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return err
	}
	if got != nil {
		return fmt.Errorf("ask for the other end's user: %w", got)
	}
	if int(cred.Uid) != os.Getuid() {
		return fmt.Errorf("%w: user id %d", ErrStranger, cred.Uid)
	}
	return nil
}
