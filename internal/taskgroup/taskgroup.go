// Package taskgroup lets the tasks of a node start as one: the first does the work, the others wait
// for its result. They connect at an abstract unix socket, which belongs to the network namespace
// and leaves no file. Any process may take its name, so both sides check the other's user id first.
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
	// ErrTaken: another process of this node has this number in the group.
	ErrTaken = errors.New("another process has the same task number")
	// ErrAbsent: the first task did not start launch.
	ErrAbsent = errors.New("the first task of this node has not started launch")
	// ErrSilent: the first task runs, but has no result yet.
	ErrSilent = errors.New("the first task of this node has not started yet")
	// ErrVanished: the first task ended without a result.
	ErrVanished = errors.New("the first task of this node ended without a result")
	// ErrStranger: the process at the other end belongs to another user.
	ErrStranger = errors.New("the process at the other end belongs to another user")
)

const (
	// firstPause and longestPause are between two tries to connect: there is no
	// event for a new abstract name.
	firstPause, longestPause = 5 * time.Millisecond, 200 * time.Millisecond
	// lateAfter is when the first task counts as late: tasks start together, but
	// read the program from a disk that may be slow.
	lateAfter = 5 * time.Second
	// writeLimit is for a few kilobytes to a process that reads nothing else.
	writeLimit = 2 * time.Second
)

// socket returns the address of a task of the group, by its number.
func socket(group string, number int) *net.UnixAddr {
	sum := sha256.Sum256([]byte(group))
	return &net.UnixAddr{Net: "unix", Name: fmt.Sprintf("@launch-follow-%d-%x-%d", os.Getuid(), sum[:8], number)}
}

// First is the first task of a group.
type First struct {
	others int
	listen *net.UnixListener
	joined chan other
	done   chan struct{}
	wg     sync.WaitGroup
}

type other struct {
	number int
	conn   *net.UnixConn
}

// Listen makes this process the first task of a group with others, which are
// numbered from 1. The error wraps ErrTaken if the group already has a first.
func Listen(group string, others int) (*First, error) {
	l, err := net.ListenUnix("unix", socket(group, 0))
	if errors.Is(err, unix.EADDRINUSE) {
		err = ErrTaken
	}
	if err != nil {
		return nil, fmt.Errorf("wait for the other tasks of this node: %w", err)
	}
	f := &First{others: others, listen: l, joined: make(chan other, others), done: make(chan struct{})}
	f.wg.Go(f.accept)
	return f, nil
}

// accept accepts the others until Close. Their numbers are in the names that their
// own ends are bound to, so that accept reads from none of them.
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
		case f.joined <- other{n, c}:
		case <-f.done:
			c.Close()
			return
		}
	}
}

// Hand sends result to each of the others as it joins, for as long as budget. It
// returns the numbers of the tasks that have not received it.
func (f *First) Hand(ctx context.Context, result []byte, budget time.Duration) []int {
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	waiting, lost := map[int]bool{}, map[int]bool{}
	for n := range f.others {
		waiting[n+1] = true
	}
	for len(waiting) > 0 {
		select {
		case o := <-f.joined:
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

// Close ends the listening; a task that still waits learns that the first has left.
func (f *First) Close() {
	close(f.done)
	f.listen.Close()
	f.wg.Wait()
	for {
		select {
		case o := <-f.joined:
			o.conn.Close()
		default:
			return
		}
	}
}

// Await waits, as the task with that number, for the result of the first task: for
// budget until it listens, and for budget again until it has a result. It calls
// late once if the first task takes long to listen.
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

// dial retries until the first task listens.
func dial(ctx context.Context, group string, number int, budget time.Duration, late func()) (*net.UnixConn, error) {
	defer time.AfterFunc(lateAfter, late).Stop()
	end := time.After(budget)
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		c, err := net.DialUnix("unix", socket(group, number), socket(group, 0))
		switch {
		case err == nil:
			return c, nil
		case errors.Is(err, unix.EADDRINUSE):
			return nil, fmt.Errorf("wait for the first task of this node as number %d: %w", number, ErrTaken)
		case !errors.Is(err, unix.ECONNREFUSED):
			return nil, fmt.Errorf("reach the first task of this node: %w", err)
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

// sameUser returns an error if the other end belongs to another user: for a
// listening socket the one that called listen(2) (unix(7)).
func sameUser(c *net.UnixConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	var got error
	err = raw.Control(func(fd uintptr) { cred, got = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = errors.Join(err, got); err != nil {
		return fmt.Errorf("ask for the other end's user: %w", err)
	}
	if int(cred.Uid) != os.Getuid() {
		return fmt.Errorf("%w: user id %d", ErrStranger, cred.Uid)
	}
	return nil
}
