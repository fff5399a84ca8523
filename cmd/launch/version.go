package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/urfave/cli/v2"
)

// The Makefile sets version and commit with -X; the build does not ask git: it is the same in any folder.
var (
	version = "dev"
	commit  = "unknown"
)

// built returns the version, and how this build was made.
func built() map[string]any {
	flags := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			flags[s.Key] = s.Value
		}
	}
	return map[string]any{"version": version, "commit": commit, "go": runtime.Version(), "os": runtime.GOOS,
		"arch": runtime.GOARCH, "cgo": flags["CGO_ENABLED"] == "1", "flags": flags}
}

// version prints the version, how this build was made, and what it lacks.
func (a *app) version(c *cli.Context) error {
	about := built()
	flags := about["flags"].(map[string]string)
	cgo := flags["CGO_ENABLED"] == "1"
	if a.UI.JSON() {
		a.UI.Emit(true, "version", about)
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "launch %s (commit %s)\n%s %s/%s", version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	for _, k := range []string{"-tags", "-ldflags", "-trimpath", "-race", "CGO_ENABLED", "GOAMD64"} {
		if flags[k] != "" {
			fmt.Fprintf(&b, " %s=%s", k, flags[k])
		}
	}
	b.WriteByte('\n')
	if !cgo {
		b.WriteString("built without cgo; it lacks:\n" +
			"  GPUs         NVML is not asked: the number of GPUs is not checked\n" +
			"  verbs        libibverbs is not opened\n" +
			"  signals      ignored or blocked signals other than HUP and INT are not passed on\n" +
			"  nofile       the inherited limit of open files is not known\n")
	}
	a.UI.Print(b.String())
	return nil
}
