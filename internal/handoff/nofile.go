package handoff

import (
	"context"
	"fmt"
	"math"
	"os/exec"
	"strconv"
	"strings"
)

// NofileOfChild asks a shell for the soft RLIMIT_NOFILE, in descriptors, that the
// command will have (math.MaxUint64: unlimited). It is for builds without cgo: in
// this process Go has already raised the limit.
func NofileOfChild(ctx context.Context) (uint64, error) {
	out, err := exec.CommandContext(ctx, shell, "-c", "ulimit -Sn").Output()
	if err != nil {
		return 0, fmt.Errorf("ask %s for its limit of open files: %w", shell, err)
	}
	return parseUlimit(string(out))
}

func parseUlimit(s string) (uint64, error) {
	s = strings.TrimSpace(s)
	if s == "unlimited" {
		return math.MaxUint64, nil
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read limit of open files %q: %w", s, err)
	}
	return n, nil
}
