package fabric

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"launch/fabric/software"
	"launch/internal/child"
)

const (
	aheadChild = "read-ahead"
	// aheadLimit lets 1.3 GB pass at 5 MB/s.
	aheadLimit = 5 * time.Minute
)

// ReadAhead reads the files of an import into the page cache, in a child, until ctx ends: a read from a
// file system that does not answer never returns. At most half of the available memory is used.
func ReadAhead(ctx context.Context, m software.Import) error {
	return child.Talk(ctx, aheadChild, aheadLimit, func(_ context.Context, to io.Writer, from io.Reader) error {
		if err := json.NewEncoder(to).Encode(m); err != nil {
			return err
		}
		_, err := io.Copy(io.Discard, from) // until the child ends
		return err
	})
}

// readAhead is the child. It ends with the process that asked.
func readAhead(ctx context.Context, in io.Reader, _ io.Writer) error {
	_ = os.WriteFile("/proc/self/comm", []byte("launch"), 0) // else ps shows "exe"
	if err := yield(); err != nil {
		return err
	}
	var m software.Import
	if err := json.NewDecoder(in).Decode(&m); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	live := Live()
	software.ReadAhead(ctx, live.Root, m, available(live.Proc, live.Sys)/2)
	return nil
}

// yield gives all threads of this process, whose group is its own, the lowest priorities: of the
// processor, and of a disk whose scheduler has classes.
func yield() error {
	const nicest, wholeGroup, classIdle = 19, 2, 3 << 13 // IOPRIO_WHO_PGRP, IOPRIO_CLASS_IDLE
	if err := unix.Setpriority(unix.PRIO_PGRP, 0, nicest); err != nil {
		return fmt.Errorf("lower the priority: %w", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_IOPRIO_SET, wholeGroup, 0, classIdle); errno != 0 {
		return fmt.Errorf("lower the I/O priority: %w", errno)
	}
	return nil
}
