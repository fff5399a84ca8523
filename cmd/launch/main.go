// Command launch is one word before torchrun or mpirun: it checks what would make the job hang, agrees
// on ranks, sets what the libraries would get wrong, and becomes the command.
package main

import (
	"io"
	"maps"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"launch/cmd/internal/companion"
	"launch/cmd/internal/hostwatch"
	"launch/cmd/internal/ui"
	"launch/fabric"
	"launch/fabric/verbs/confine"
	"launch/internal/child"
	"launch/internal/exit"
	"launch/internal/finding"
	"launch/internal/handoff"
)

func main() { os.Exit(run(os.Args, os.Stdout, os.Stderr)) }

// run runs launch, or one of its child processes, and returns the exit status.
func run(args []string, stdout, stderr io.Writer) int {
	useFewThreads()
	if code, ok := child.Dispatch(children()); ok {
		return code
	}
	return newApp(stdout, stderr).run(args[1:])
}

// fewThreads is the limit of a user's processes and threads (RLIMIT_NPROC) below which launch uses two cores.
const fewThreads = 256

// useFewThreads prevents a thread for each core where the user or the control group may have few: Go crashes where it
// cannot start one, and then no hundred lines of registers say so.
func useFewThreads() {
	var r unix.Rlimit
	few := unix.Getrlimit(unix.RLIMIT_NPROC, &r) == nil && r.Cur < fewThreads
	narrow := fabric.CgroupOf(fabric.Live()).Narrow()
	if few {
		runtime.GOMAXPROCS(min(2, runtime.NumCPU()))
	}
	if narrow {
		runtime.GOMAXPROCS(1)
	}
	if few || narrow {
		handoff.OnAbort("launch: error: no room for one more thread\n"+
			"launch: hint:  ulimit -u; cat /sys/fs/cgroup/pids.max   # of this user or container\n", exit.Unfit)
	}
}

// children returns the functions that launch runs in processes of their own.
func children() child.Table {
	t := child.Table{companion.Name: companion.Main(printLate), hostwatch.Name: hostwatch.Main(printLate),
		handoff.StageName: handoff.Stage, metricsChild: readMetrics}
	maps.Copy(t, fabric.Children())
	maps.Copy(t, confine.Children())
	return t
}

// printLate prints what the companion reports after the handoff, to the command's terminal: no colour.
func printLate(w finding.From, f finding.Finding, note string) {
	u := ui.New(io.Discard, os.Stderr, ui.Options{JSON: w.JSON, Host: w.Host,
		Env: func(string) string { return "dumb" }})
	u.Know(w.Job, w.Rank)
	if w.Mixed {
		u.Mix()
	}
	u.Findings(finding.Report{f}, true)
	if note != "" {
		u.Note("%s", note)
	}
}
