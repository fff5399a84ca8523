package launcher

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// NIXLBench is how the processes of a nixlbench line find each other (benchmark/nixlbench/src/utils/utils.cpp of NIXL
// at 8770b65). Each counts itself into an etcd: under a lock it reads how many there are, which is its rank, and writes
// one more. Each removes the count when it ends, whether or not another run has begun to count, and a killed one does
// not. Releases before 0.5.0 know no group.
type NIXLBench struct {
	Endpoints string // --etcd_endpoints; "": an etcd on its own node
	Group     string // --benchmark_group, the place of its keys; "": "default", for all runs
	backend   string
	elsewhere bool // they meet by other means, or a file says how

	// Processes is how many processes the line waits for: determineTotal in worker.cpp.
	Processes int
}

// storageBackends are those with which each process works alone (isStorageBackend).
func storageBackends() []string {
	return []string{"GDS", "GDS_MT", "HF3FS", "POSIX", "OBJ", "GUSLI", "AZURE_BLOB", "INFINIA"}
}

// NIXLBench returns what a line of nixlbench says; false: it is another program, or its processes need no etcd.
func (l Line) NIXLBench() (b NIXLBench, ok bool) {
	if l.Kind != Program || l.Program >= len(l.Argv) || path.Base(l.Argv[l.Program]) != "nixlbench" {
		return b, false
	}
	args := l.Argv[l.Program+1:]
	initiators, targets, several := 1, 1, false
	for i, w := range args { // by gflags: -name=value, --name value; '-' counts as '_'
		name, value, joined := strings.Cut(strings.TrimLeft(w, "-"), "=")
		if !strings.HasPrefix(w, "-") {
			continue
		}
		if !joined && i+1 < len(args) {
			value = args[i+1]
		}
		switch strings.ReplaceAll(name, "-", "_") {
		case "etcd_endpoints":
			b.Endpoints = value
		case "benchmark_group":
			b.Group = value
		case "backend":
			b.backend = value
		case "config_file":
			b.elsewhere = b.elsewhere || value != ""
		case "runtime_type":
			b.elsewhere = b.elsewhere || value != "ETCD"
		case "mode":
			several = value == "MG" // one process has all devices of its side
		case "num_initiator_dev":
			initiators, _ = strconv.Atoi(value)
		case "num_target_dev":
			targets, _ = strconv.Atoi(value)
		}
	}
	if b.Processes = initiators + targets; several {
		b.Processes = 2
	}
	return b, !b.elsewhere && !slices.Contains(storageBackends(), b.backend)
}

// In returns the etcd and the group that the line uses in a world: what it does not say is the job's store, and a
// group that no other run has.
func (b NIXLBench) In(w World) NIXLBench {
	if b.Endpoints == "" {
		b.Endpoints = w.Etcd
	}
	if b.Group == "" {
		b.Group = "launch-" + w.RunID
	}
	return b
}

// Prefix returns the prefix of the keys of a group (benchmark/nixlbench/src/runtime/etcd/etcd_rt.cpp).
func (b NIXLBench) Prefix() string { return "xferbench/" + b.Group + "/" }

// Counted returns how many processes a key of the group counts; 0: it is another key. The key has two slashes before
// its name (makeKey in etcd_rt.h), which reads like a mistake: one would do, too.
func (b NIXLBench) Counted(key, value string) int {
	if path.Clean(key) != path.Clean(b.Prefix()+"size") {
		return 0
	}
	n, _ := strconv.Atoi(value)
	return n
}

// gather adds to the line what makes its processes one run.
func (b NIXLBench) gather(e *Exec, w World) {
	in := b.In(w)
	add := func(typed, option, value, why string) {
		if typed == "" && value != "" {
			word := option + "=" + value
			e.Argv = append(e.Argv, word)
			e.Changes = append(e.Changes, Change{New: word, Reason: why})
		}
	}
	add(b.Endpoints, "--etcd_endpoints", in.Endpoints, "the job's store; nixlbench would look for one on its own node")
	add(b.Group, "--benchmark_group", in.Group, "of this start alone: nixlbench would count other runs, too")
}
