package fabric

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"launch/internal/child"
)

const (
	staleChild = "stale"
	// staleBudget bounds the child, and staleWait how long it waits for the answer of one file system.
	staleBudget, staleWait = 1500 * time.Millisecond, time.Second
)

// AskStale returns of each path that its file system answers with an error of its own the name of that error: ESTALE of
// a handle that the server does not know any more, EIO of a disk, ENOTCONN of a server of FUSE that has ended,
// ETIMEDOUT of one that does not answer. A child asks, since a file system may not answer at all; then nothing is known
// of the path.
func AskStale(ctx context.Context, paths []string) map[string]string {
	out := map[string]string{}
	if child.Ask(ctx, staleChild, paths, &out, staleBudget) != nil {
		return nil
	}
	return out
}

// staleAnswer is the child of AskStale.
func staleAnswer(_ context.Context, in io.Reader, out io.Writer) error {
	var paths []string
	if err := json.NewDecoder(in).Decode(&paths); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(stale(paths, stat, staleWait))
}

// stat returns the error of a path, or ENOSPC where its file system has no room, or no inode, and could be written to.
func stat(path string) error {
	var about unix.Stat_t
	if err := unix.Stat(path, &about); err != nil {
		return err
	}
	var fs unix.Statfs_t
	if unix.Statfs(path, &fs) == nil && fs.Flags&unix.ST_RDONLY == 0 && full(fs) {
		return unix.ENOSPC
	}
	return nil
}

// full reports whether a file system has no room left, or no inode; one without a size says nothing.
func full(fs unix.Statfs_t) bool {
	return fs.Blocks > 0 && fs.Bavail == 0 || fs.Files > 0 && fs.Ffree == 0
}

// broken are the errors of a file system, not of a path: of NFS also those of a soft mount whose server is gone.
var broken = []unix.Errno{unix.ENOSPC, unix.ESTALE, unix.EIO, unix.ENOTCONN, unix.ETIMEDOUT, unix.EHOSTDOWN}

// stale calls stat for all paths at the same time, and waits no longer than limit for all.
func stale(paths []string, stat func(string) error, limit time.Duration) map[string]string {
	var mu sync.Mutex
	errs, out := map[string]string{}, map[string]string{}
	var all sync.WaitGroup
	for _, p := range paths {
		all.Go(func() {
			err := stat(p)
			for errors.Is(err, unix.EINTR) {
				err = stat(p)
			}
			errno, _ := errors.AsType[unix.Errno](err)
			mu.Lock()
			defer mu.Unlock()
			if slices.Contains(broken, errno) {
				errs[p] = unix.ErrnoName(errno)
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(limit):
	}
	mu.Lock()
	defer mu.Unlock()
	for p, name := range errs {
		out[p] = name
	}
	return out
}
