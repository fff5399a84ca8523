package launcher

import (
	"slices"
	"strconv"
	"strings"

	"launch/internal/exit"
)

// checkStarter returns the error of a line that makes no world of several nodes.
func (l Line) checkStarter(nodes int) error {
	s, ok := l.starter()
	switch {
	case !ok || l.Inside:
		return nil
	case s.alone != "":
		return exit.Errorf(exit.Config, "launch runs the command on each node, but %s", s.alone)
	}
	switch l.Kind {
	case Accelerate:
		return l.checkAccelerate(nodes)
	case DeepSpeed:
		return l.checkDeepSpeed()
	case VLLM:
		return l.checkVLLM(nodes)
	case SGLang:
		return l.checkSGLang(nodes)
	}
	return nil
}

// Instead returns the line to type in place of one that CheckNodes refuses; nil if there is none. once: on
// one node, without the flags for several. program: the line as typed may be right with --as program.
func (l Line) Instead(nodes int) (argv []string, once, program bool) {
	s, ok := l.starter()
	switch {
	case l.Sealed != "":
		return l.insteadSealed(), false, true
	case !ok && l.Standalone.Set:
		return l.dropping("standalone"), false, false
	case !ok || l.has("tpu") || l.has("tpu_cluster"):
		return nil, false, false
	case l.Kind == Accelerate:
		return l.insteadAccelerate(nodes), false, false
	case l.Kind == VLLM:
		return l.insteadVLLM(nodes), false, false
	case l.Kind == SGLang:
		return l.adding("--tp-size", strconv.Itoa(l.Each()*nodes)).dropping("tp_size", "pp_size"), false, false
	case s.title == vllmServer().title:
		return l.insteadServer(), false, false
	case s.once:
		return l.insteadHorovod(), true, false
	}
	return l.insteadTorchrun(), false, true
}

// dropping returns the line without some of its options.
func (l Line) dropping(dests ...string) []string {
	drop := map[int]bool{}
	for _, dest := range dests {
		l.mark(dest, drop)
	}
	return l.without(drop)
}

// adding returns the line with more words at its end; its options remain where they are.
func (l Line) adding(words ...string) Line {
	l.Argv = slices.Concat(l.Argv, words)
	return l
}

func (l Line) insteadAccelerate(nodes int) []string {
	drop := []string{"mpirun_hostfile", "deepspeed_multinode_launcher"}
	total, err := strconv.Atoi(l.NP.Value)
	switch {
	case l.has("cpu") && err == nil && total > nodes && total%nodes == 0:
		return l.torchrunOf(strconv.Itoa(total/nodes), l.Argv[l.Rest:])
	case l.has("cpu"):
		return l.dropping(append(drop, "num_processes")...)
	case err != nil || total < nodes || total%nodes != 0:
		out := l.dropping(append(drop, "num_processes")...)
		return slices.Insert(out, l.At+1, "--num_processes", strconv.Itoa(l.Each()*nodes))
	}
	return l.dropping(drop...)
}

func (l Line) insteadVLLM(nodes int) []string {
	switch {
	case l.asked("distributed_executor_backend", nil) == "ray", l.asked("data_parallel_backend", nil) == "ray":
		return slices.Concat(l.Argv[:l.Program], []string{"ray", "symmetric-run", "--"}, l.Argv[l.Program:])
	case l.vllmSize()%nodes != 0 && !l.has("config"):
		return l.adding("--tensor-parallel-size", strconv.Itoa(l.Each()), "--pipeline-parallel-size", strconv.Itoa(nodes)).
			dropping("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_rank", "data_parallel_start_rank",
				"data_parallel_external_lb")
	case nodes%l.size("data_parallel_size") != 0 && (l.has("data_parallel_rank") || l.has("data_parallel_external_lb")):
		return l.adding("--data-parallel-hybrid-lb").dropping("data_parallel_rank", "data_parallel_start_rank",
			"data_parallel_external_lb", "data_parallel_hybrid_lb", "headless")
	case l.has("data_parallel_rank") && !l.has("data_parallel_external_lb"):
		l = l.adding("--data-parallel-external-lb")
	case l.has("data_parallel_start_rank") && !l.has("headless") && !l.has("data_parallel_hybrid_lb"):
		l = l.adding("--data-parallel-hybrid-lb")
	}
	return l.dropping("data_parallel_rank", "data_parallel_start_rank", "headless")
}

// insteadServer returns vllm serve for its module, which takes the model as an option.
func (l Line) insteadServer() []string {
	model, words := "MODEL", slices.Clone(l.Argv[l.At+1:])
	for i, w := range words {
		if v, ok := strings.CutPrefix(w, "--model="); ok {
			model, words = v, slices.Delete(words, i, i+1)
			break
		}
		if w == "--model" && i+1 < len(words) {
			model = words[i+1]
			words = slices.Delete(words, i, i+2)
			break
		}
	}
	return slices.Concat(l.Argv[:l.Program], []string{"vllm", "serve", model}, words)
}

// insteadTorchrun returns a line of torchrun with the script of the line.
func (l Line) insteadTorchrun() []string {
	words, each := l.Argv[l.At+1:], strconv.Itoa(l.Each())
	for i, w := range words {
		name, value, attached := strings.Cut(strings.ReplaceAll(w, "_", "-"), "=")
		if !attached && i+1 < len(words) {
			value = words[i+1]
		}
		if name == "-j" { // torchx: NODESxPROCESSES
			_, value, _ = strings.Cut(value, "x")
		}
		if _, err := strconv.Atoi(value); err == nil && (name == "-j" || slices.Contains(perNode(), name)) {
			each = value
		}
	}
	i := slices.IndexFunc(words, func(w string) bool { return w == "-m" || strings.HasSuffix(w, ".py") })
	if i < 0 {
		return l.torchrunOf(each, []string{"train.py"})
	}
	n := 1 // the words that name the program: SCRIPT.py, or -m MODULE
	if words[i] == "-m" {
		n = min(2, len(words)-i)
	}
	script, rest := words[i:i+n], words[i+n:]
	if len(rest) > 0 && rest[0] == "--" { // torchx
		rest = rest[1:]
	}
	return l.torchrunOf(each, slices.Concat(script, rest))
}

// horovodFlags are horovodrun's options without a value, and horovodPairs those with two (horovod/runner/launch.py,
// 059f690); all others have one.
const (
	horovodFlags = "-h --help -v --version -cb --check-build --disable-cache --verbose --gloo --mpi --jsrun --tcp " +
		"--autotune --no-autotune --hierarchical-allreduce --no-hierarchical-allreduce --hierarchical-allgather " +
		"--no-hierarchical-allgather --timeline-mark-cycles --no-timeline-mark-cycles --no-stall-check --stall-check " +
		"--mpi-threads-disable --no-mpi-threads-disable -prefix-timestamp --prefix-output-with-timestamp " +
		"--log-with-timestamp --log-without-timestamp --log-hide-timestamp --no-log-hide-timestamp"
	horovodPairs = "--blacklist-cooldown-range"
)

// insteadHorovod returns the line itself, for the head node. Where it asks for MPI, that is mpirun with its processes
// and hosts, which launch checks. Under mpirun, each process of a Horovod without MPI would be a world of its own.
func (l Line) insteadHorovod() []string {
	if mpirun, asked := mpirunOf(l.Argv[l.At+1:]); asked {
		return slices.Concat(l.Argv[:l.Program], mpirun)
	}
	return slices.Clone(l.Argv)
}

// mpirunOf returns mpirun with the number of processes and the hosts of a horovodrun, and whether that asks for MPI.
func mpirunOf(words []string) (mpirun []string, asked bool) {
	mpirun = []string{"mpirun"}
	same := map[string]string{"-np": "-np", "--num-proc": "-np", "-H": "-H", "--hosts": "-H", "-hostfile": "--hostfile",
		"--hostfile": "--hostfile"}
	for i := 0; i < len(words); i++ {
		name, value, attached := strings.Cut(words[i], "=")
		asked = asked || name == "--mpi" || name == "--mpi-args"
		switch {
		case !strings.HasPrefix(name, "-"):
			return append(mpirun, words[i:]...), asked
		case slices.Contains(strings.Fields(horovodFlags), name):
			continue
		case name == horovodPairs:
			i += 2
			continue
		case !attached && i+1 < len(words):
			i++
			value = words[i]
		}
		if to := same[name]; to != "" {
			mpirun = append(mpirun, to, value)
		}
		if name == "--mpi-args" {
			mpirun = append(mpirun, strings.Fields(value)...)
		}
	}
	return append(mpirun, "python", "train.py"), asked
}

// torchrunOf returns torchrun after the line's prefixes.
func (l Line) torchrunOf(each string, script []string) []string {
	return slices.Concat(l.Argv[:l.Program], []string{"torchrun", "--nproc-per-node", each}, script)
}

// perNode returns the options of all launchers with the number of processes on a node.
func perNode() []string {
	return []string{"--nproc-per-node", "--num-gpus", "--num-accelerators", "--devices"}
}
