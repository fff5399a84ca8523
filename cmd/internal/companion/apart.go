package companion

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"launch/internal/finding"
	"launch/internal/launcher"
	"launch/internal/process"
)

// apart looks for ranks whose torchrun knows of this node alone, in a job of several nodes: a script or a make file
// has started it without a place in the job.
type apart struct {
	looks map[int]int // how often a process was looked at
}

// maxLooks is after how many looks a process is no rank: the first may see the environment before its exec.
const maxLooks = 3

// watchApart reports such ranks once.
func (w *watcher) watchApart(ctx context.Context) {
	if w.p.world.Size < 2 || w.p.spec.Self.Role != "" {
		return
	}
	a := &apart{looks: map[int]int{}}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			pid := cmp.Or(int(w.p.command.Load()), w.p.launch)
			starter, rank, done := a.find(pid)
			if rank != 0 {
				w.p.say(apartFinding(w.p.world.Size, w.p.spec.Torchrun, starter, rank), "")
			}
			if done {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// find returns a rank below a process, and what has started it, where that knows of this node alone. done: no later
// rank has to be looked at. A rank may start a world of its own, say to evaluate: what is below a rank does not count.
func (a *apart) find(command int) (starter, rank int, done bool) {
	type link struct{ parent, pid int }
	var next []link
	below := func(pid int) {
		for _, c := range process.Children(pid) {
			next = append(next, link{pid, c})
		}
	}
	if process.Variable(command, "GROUP_WORLD_SIZE") != "" { // what is below has it from there
		return 0, 0, true
	}
	if !inGroup(command) {
		below(command)
	}
	for ; len(next) > 0; next = next[1:] {
		pid := next[0].pid
		if a.looks[pid] < maxLooks {
			a.looks[pid]++
			if groups := process.Variable(pid, "GROUP_WORLD_SIZE"); groups != "" &&
				process.Variable(pid, "TORCHELASTIC_RESTART_COUNT") != "" {
				if groups != "1" || !oneNode(next[0].parent) {
					return 0, 0, true
				}
				return next[0].parent, pid, true
			}
		}
		if !inGroup(pid) {
			below(pid)
		}
	}
	return 0, 0, false
}

// oneNode reports whether a torchrun can only make a world of one node: it does not wait for others that may be late.
// Of another launcher that is not known, and its ranks say it.
func oneNode(pid int) bool {
	l, ok := torchrunOf(pid)
	if !ok {
		return true
	}
	_, high, err := launcher.ParseNNodes(cmp.Or(l.NNodes.Value, process.Variable(pid, "PET_NNODES"), "1"))
	return err == nil && high == 1
}

// torchrunOf returns the line of a process, if that is torchrun.
func torchrunOf(pid int) (launcher.Line, bool) {
	argv := argvOf(pid)
	if i := slices.IndexFunc(argv, func(w string) bool { return path.Base(w) == "torchrun" }); i > 0 {
		argv = argv[i:] // after the interpreter of its first line
	}
	l, err := launcher.Parse(argv, "")
	return l, err == nil && l.Kind == launcher.Torchrun
}

func argvOf(pid int) []string {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return nil
	}
	argv, _ := p.CmdLine()
	return argv
}

// apartFinding says that a rank is of a world of this node alone, and what to change in the line that started it.
// place: launch has set torchrun's PET_ variables, and not those of a program.
func apartFinding(nodes int, place bool, starter, rank int) finding.Finding {
	ranks := process.Variable(rank, "WORLD_SIZE")
	l, isTorchrun := torchrunOf(starter)
	name := string(launcher.Torchrun)
	if !isTorchrun {
		name = nameOf(argvOf(starter))
	}
	f := finding.Warnf("the job has %d nodes, but %s has started a world of this node alone (WORLD_SIZE %s)", nodes,
		name, ranks).Named("node.world").See("pid "+strconv.Itoa(starter), "%s", launcher.Quote(argvOf(starter))).
		Breaking("each node trains alone")
	const options = "--nnodes=$NNODES --node-rank=$NODE_RANK --master-addr=$MASTER_ADDR --master-port=$MASTER_PORT"
	var own []string
	for _, o := range l.Options {
		if slices.Contains(placing(), o.Name) {
			own = append(own, strings.Join(l.Argv[o.At:o.At+o.Words], " "))
		}
	}
	mark := "NNODES"
	if place {
		mark = "PET_NNODES"
	}
	switch typed := strings.Join(own, " "); {
	case process.Variable(starter, mark) == "":
		return f.Do("let the variables of launch through to %s: sudo -E, no env -i, -e NAME for a container; or put "+
			"launch right before %[1]s", name)
	case !isTorchrun:
		return f.Do("--as torchrun, if %s starts torchrun and has no number of nodes of its own; else give it %s", name,
			"$NNODES, $NODE_RANK, $MASTER_ADDR and $MASTER_PORT")
	case typed != "" && place:
		return f.Do("drop %s from the line of torchrun", typed)
	case typed != "":
		return f.Do("%s   # in the line of torchrun, in place of %s", options, typed)
	}
	return f.Do("launch --as torchrun …   # the same line with --as torchrun; or in the line of torchrun: %s", options)
}

// placing returns torchrun's options that decide its world.
func placing() []string {
	return []string{"nnodes", "standalone", "node_rank", "rdzv_backend", "rdzv_endpoint", "rdzv_id", "master_addr",
		"master_port"}
}

// nameOf returns a program as the user knows it: the script or the module, of a Python.
func nameOf(argv []string) string {
	for i, w := range argv {
		switch {
		case i > 0 && argv[i-1] == "-m":
			return w
		case !strings.HasPrefix(w, "-") && !strings.HasPrefix(path.Base(w), "python"):
			return path.Base(w)
		}
	}
	return "a program"
}
