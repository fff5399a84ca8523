package launcher

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"launch/internal/exit"
	"launch/internal/setting"
)

// starter is a launcher of several nodes, other than torchrun and mpirun. Each node runs its line. Its
// options have the node's place in the job; without such options, each node would be a world of its own.
type starter struct {
	kind  Kind
	names string // space-separated: programs, and modules of python -m
	sub   string // the words after the name: "launch"
	title string // as messages have it

	// the options with the number of nodes, the node rank, and the address and port of node rank 0
	nodes, rank, addr, port string
	options                 func() []torchOption // all of its options

	alone string // what happens where each node runs the line; "": launch sets the options
	once  bool   // its replacement is mpirun, once on the head node, and not torchrun
}

// starters returns the known launchers, a file for each that launch can place.
func starters() []starter {
	return []starter{accelerate(), accelerateAlias(), fabricRun(), lightningRun(), deepspeed(),
		{names: "torchx torchx.cli", sub: "run", title: "torchx run",
			alone: "torchx run starts or submits the whole job, so each node would train alone"},
		{names: "horovodrun horovod.runner.launch", title: "horovodrun", once: true,
			alone: "horovodrun starts the processes on all hosts itself, so each node would start a job of its own"},
		{names: "colossalai", sub: "run", title: "colossalai run",
			alone: "colossalai run starts all hosts itself over ssh, so each node would train alone"},
		{names: "dlrover-run dlrover.trainer.torch.main dlrover.trainer.torch.elastic_run", title: "dlrover-run",
			alone: "dlrover-run takes ranks only from a DLRover master; without one each node would train alone"},
	}
}

// findStarter returns the known launcher at argv[at], and the index of its last word.
func findStarter(argv []string, at int) (s starter, last int, ok bool) {
	name := path.Base(argv[at])
	for _, s := range starters() {
		sub := strings.Fields(s.sub)
		end := at + 1 + len(sub)
		if slices.Contains(strings.Fields(s.names), name) && end <= len(argv) && slices.Equal(argv[at+1:end], sub) {
			return s, end - 1, true
		}
	}
	return starter{}, 0, false
}

// start parses the line of a known launcher at argv[at], if there is one.
func (l *Line) start(at int) bool {
	s, last, ok := findStarter(l.Argv, at)
	if ok {
		l.Starter, l.At = s.title, last
		if s.kind != "" {
			l.Kind = s.kind
		}
	}
	return ok
}

// starter returns the known launcher of the line.
func (l Line) starter() (starter, bool) {
	all := starters()
	i := slices.IndexFunc(all, func(s starter) bool { return s.title == l.Starter })
	if i < 0 {
		return starter{}, false
	}
	return all[i], true
}

// Name returns the name of the launcher for messages.
func (l Line) Name() string {
	switch {
	case l.Starter != "":
		return l.Starter
	case l.FT:
		return ftName
	}
	return string(l.Kind)
}

// Torch reports whether a launcher of this kind starts one torch process or more on its node.
func (k Kind) Torch() bool { return k != Program && k != Mpirun }

// parseStarter parses the options of a launcher that launch can place.
func (l *Line) parseStarter() error {
	s, _ := l.starter()
	p := argparser{words: l.Argv[l.At+1:], base: l.At + 1, table: s.options(), title: s.title}
	rest, err := p.parse()
	if err != nil {
		return err
	}
	l.Options, l.Rest, l.Notes = p.out, rest, append(l.Notes, p.notes...)
	asks := map[string]*Ask{s.nodes: &l.NNodes, s.rank: &l.NodeRank, s.addr: &l.MasterAddr, s.port: &l.MasterPort,
		"num_processes": &l.NP, "hostfile": &l.Hostfile}
	for _, o := range l.Options { // the last one counts
		if ask := asks[o.Name]; ask != nil {
			*ask = said(s.title+" --"+o.Name, o.Value)
		}
	}
	has := func(names ...string) bool { return slices.ContainsFunc(names, l.has) }
	switch {
	case has("help"):
	case l.Rest == len(l.Argv):
		return exit.Errorf(exit.Usage, "%s has no script to run", s.title).Do("%s train.py", Quote(l.Argv))
	case !has("module", "no_python") && len(p.notes) == 0:
		l.Script = l.Rest
	}
	return nil
}

// has reports whether the line has an option.
func (l Line) has(dest string) bool {
	return slices.ContainsFunc(l.Options, func(o Option) bool { return o.Name == dest })
}

// Refused reports whether several nodes cannot run the line: each would train alone.
func (l Line) Refused() bool { return l.checkAlone() != nil }

func (l Line) checkAlone() error {
	s, ok := l.starter()
	switch {
	case !ok || l.Inside:
		return nil
	case s.kind == DeepSpeed:
		return l.checkDeepSpeed()
	case s.alone != "":
		return exit.Errorf(exit.Config, "launch runs the command on each node, but %s", s.alone)
	}
	return nil
}

// Instead returns the line to type in place of a refused one. once: on one node, without the flags for
// several.
func (l Line) Instead() (argv []string, once bool) {
	s, _ := l.starter()
	words := l.Argv[l.At+1:]
	if s.once {
		return slices.Concat(l.Argv[:l.Program], []string{"mpirun"}, words), true
	}
	each := "8"
	for i, w := range words {
		name, value, attached := strings.Cut(strings.ReplaceAll(w, "_", "-"), "=")
		if !attached && i+1 < len(words) {
			value = words[i+1]
		}
		if _, err := strconv.Atoi(value); err == nil && slices.Contains(perNode(), name) {
			each = value
		}
	}
	argv = slices.Concat(l.Argv[:l.Program], []string{"torchrun", "--nproc-per-node", each})
	i := slices.IndexFunc(words, func(w string) bool { return strings.HasSuffix(w, ".py") })
	if i < 0 {
		return append(argv, "train.py"), false
	}
	argv, rest := append(argv, words[i]), words[i+1:]
	if len(rest) > 0 && rest[0] == "--" { // torchx
		rest = rest[1:]
	}
	return append(argv, rest...), false
}

// perNode returns the options of all launchers with the number of processes on a node.
func perNode() []string {
	return []string{"--nproc-per-node", "--num-gpus", "--num-accelerators", "--devices"}
}

// place gives the launcher its place in a world.
func (l Line) place(w World) (Exec, error) {
	if w.Single {
		return Exec{Argv: slices.Clone(l.Argv)}, nil
	}
	if err := l.CheckNodes(w.Nodes.V); err != nil {
		return Exec{}, err
	}
	s, _ := l.starter()
	addr := w.MasterAddr
	if l.Kind != DeepSpeed && !l.has("cpu") { // torchrun joins address and port
		addr = bracketed(addr)
	}
	settings := []option{
		{s.nodes, w.Nodes.String(), "agreed on by all nodes"},
		{s.rank, w.NodeRank.String(), "agreed on by all nodes"},
		{s.addr, addr, "the address of node rank 0, so that no name has to resolve"},
		{s.port, w.MasterPort.String(), "reserved for this job on node rank 0"},
	}
	var set []setting.Var
	switch l.Kind {
	case Accelerate:
		more := l.accelerateSettings(w)
		settings = append(settings, more...)
		set = l.accelerateVars(w)
	case DeepSpeed:
		settings = l.deepspeedSettings(settings)
	}
	e := l.withOptions(settings)
	e.Set = set
	return e, nil
}

// withOptions returns the line with the settings right after the launcher. An option that the user has
// set to the same value stays.
func (l Line) withOptions(settings []option) Exec {
	var e Exec
	var ours []string
	drop := map[int]bool{}
	for _, s := range settings {
		if l.asked(s.dest, nil) == s.value && l.has(s.dest) {
			continue
		}
		word := "--" + s.dest
		if s.value != "" {
			word += "=" + s.value
		}
		e.Changes = append(e.Changes,
			Change{Old: strings.Join(l.mark(s.dest, drop), " "), New: word, Reason: s.reason})
		ours = append(ours, word)
	}
	for i, w := range l.Argv {
		if !drop[i] {
			e.Argv = append(e.Argv, w)
		}
		if i == l.At {
			e.Argv = append(e.Argv, ours...)
		}
	}
	return e
}

// table returns options by their names: with a value, and without.
func table(values, flags string) []torchOption {
	short := map[string]byte{"help": 'h'}
	var out []torchOption
	for _, dest := range strings.Fields(values) {
		out = append(out, torchOption{dest: dest, value: true, short: short[dest]})
	}
	for _, dest := range strings.Fields(flags) {
		out = append(out, torchOption{dest: dest, short: short[dest]})
	}
	return out
}

// shorts gives options their letters.
func shorts(all []torchOption, letters map[string]byte) []torchOption {
	for i, o := range all {
		if c, ok := letters[o.dest]; ok {
			all[i].short = c
		}
	}
	return all
}
