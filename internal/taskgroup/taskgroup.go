// Package taskgroup lets the tasks of a node start as one: the first does the work, the others wait
// for its result. They meet at a unix socket in a folder that only this user can enter.
package taskgroup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	// ErrNoFolder: there is no folder that only this user can enter.
	ErrNoFolder = errors.New("the tasks of this node have no folder to meet in")
)

const (
	// firstPause and longestPause are between two tries to connect: there is no
	// event for a new socket.
	firstPause, longestPause = 5 * time.Millisecond, 200 * time.Millisecond
	// lateAfter is when the first task counts as late: tasks start together, but
	// read the program from a disk that may be slow.
	lateAfter = 5 * time.Second
	// shortly is for a few bytes of a process that does nothing else, or to it.
	shortly = 2 * time.Second
)

// First is the first task of a group.
type First struct {
	others int
	listen *net.UnixListener
	lock   *lock
	wg     sync.WaitGroup

	mu      sync.Mutex
	joined  map[int]*net.UnixConn // the other tasks that wait, by number
	changed chan struct{}         // closed when one joins
}

// Listen makes this process the first task of a group with others, which are
// numbered from 1. The error wraps ErrTaken if the group already has a first.
func Listen(group string, others int) (*First, error) {
	lock, err := take(group, 0)
	if err == nil {
		_ = os.Remove(lock.socket) // of a first task that was killed
		var l *net.UnixListener
		if l, err = net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: lock.socket}); err == nil {
			f := &First{others: others, listen: l, lock: lock, joined: map[int]*net.UnixConn{}, changed: make(chan struct{})}
			f.wg.Go(f.accept)
			return f, nil
		}
		lock.release()
	}
	return nil, fmt.Errorf("wait for the other tasks of this node: %w", err)
}

// accept accepts the others until Close. Each says its number.
func (f *First) accept() {
	for {
		c, err := f.listen.AcceptUnix()
		if err != nil {
			return
		}
		f.wg.Go(func() {
			text := make([]byte, numberLength)
			_ = c.SetReadDeadline(time.Now().Add(shortly))
			_, err := io.ReadFull(c, text)
			n, bad := strconv.Atoi(strings.TrimSpace(string(text)))
			if err != nil || bad != nil || n < 1 || n > f.others {
				c.Close()
				return
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			if before := f.joined[n]; before != nil {
				before.Close()
			}
			f.joined[n] = c
			close(f.changed)
			f.changed = make(chan struct{})
		})
	}
}

// numberLength is how many bytes a task's number takes on the socket.
const numberLength = 8

// missing returns the numbers of the tasks that have not joined, and a channel that is closed when one does.
func (f *First) missing() (numbers []int, changed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for n := 1; n <= f.others; n++ {
		if f.joined[n] == nil {
			numbers = append(numbers, n)
		}
	}
	return numbers, f.changed
}

// Gather waits until all others have joined, for as long as budget, and returns the numbers of
// those that have not. It calls late once if one takes long.
func (f *First) Gather(ctx context.Context, budget time.Duration, late func(missing []int)) []int {
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	soon := time.After(lateAfter)
	for {
		missing, changed := f.missing()
		if len(missing) == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-soon:
			late(missing)
		case <-ctx.Done():
			return missing
		}
	}
}

// Hand sends result to the others that have joined. It returns the numbers of the tasks that
// have not received it.
func (f *First) Hand(result []byte) []int {
	lost, _ := f.missing()
	f.mu.Lock()
	joined := maps.Clone(f.joined)
	clear(f.joined)
	f.mu.Unlock()
	for n, c := range joined {
		_ = c.SetWriteDeadline(time.Now().Add(shortly))
		if json.NewEncoder(c).Encode(result) != nil {
			lost = append(lost, n) // it ended while it waited
		}
		c.Close()
	}
	slices.Sort(lost)
	return lost
}

// Close ends the listening; a task that still waits learns that the first has left.
func (f *First) Close() {
	f.listen.Close()
	f.wg.Wait()
	for _, c := range f.joined {
		c.Close()
	}
	f.lock.release()
}

// Await waits, as the task with that number, for the result of the first task: for
// budget until it listens, and for budget again until it has a result. It calls
// late once if the first task takes long to listen.
func Await(ctx context.Context, group string, number int, budget time.Duration, late func()) ([]byte, error) {
	lock, err := take(group, number)
	if err != nil {
		return nil, fmt.Errorf("wait for the first task of this node as number %d: %w", number, err)
	}
	defer lock.release()
	conn, err := dial(ctx, lock.socket, budget, late)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "%*d\n", numberLength-1, number); err != nil {
		return nil, ErrVanished
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
func dial(ctx context.Context, socket string, budget time.Duration, late func()) (*net.UnixConn, error) {
	defer time.AfterFunc(lateAfter, late).Stop()
	end := time.After(budget)
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		c, err := net.DialUnix("unix", nil, &net.UnixAddr{Net: "unix", Name: socket})
		switch {
		case err == nil:
			return c, nil
		case !errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, unix.ENOENT):
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
