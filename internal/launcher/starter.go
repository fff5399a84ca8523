package launcher

import (
	"path"
	"slices"
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
	// addr has the port too, as HOST:PORT, where port is ""
	options func() []torchOption // all of its options
	// a server: its options may be before and after the model, options has only those that launch reads, and
	// those of launch go to the end, with dashes
	server bool

	alone string // what happens where each node runs the line; "": launch sets the options
	once  bool   // its replacement is mpirun, once on the head node, and not torchrun
}

// starters returns the known launchers, a file for each that launch can place.
func starters() []starter {
	return []starter{accelerate(), accelerateAlias(), fabricRunModel(), fabricRun(), lightningRun(),
		deepspeed(), vllm(), vllmServer(), sglang(), sglangServe(), rayStart(), raySymmetric(),
		{names: "torchx torchx.cli", sub: "run", title: "torchx run",
			alone: "torchx run starts or submits the whole job, so each node would train alone"},
		{names: "horovodrun horovod.runner.launch", title: "horovodrun", once: true,
			alone: "horovodrun starts the processes on all hosts itself, so each node would start a job of its own"},
		{names: "ray", sub: "job submit", title: "ray job submit", once: true,
			alone: "ray job submit starts the command on the cluster itself, so each node would start a job of its own"},
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
	if s.server {
		l.parseServer(s)
		return nil
	}
	p := argparser{words: l.Argv[l.At+1:], base: l.At + 1, table: s.options(), title: s.title}
	rest, err := p.parse()
	if err != nil {
		return err
	}
	l.Options, l.Rest, l.Notes = p.out, rest, append(l.Notes, p.notes...)
	l.ask(s)
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

// ask takes from the options what they say about the job.
func (l *Line) ask(s starter) {
	asks := map[string]*Ask{s.nodes: &l.NNodes, s.rank: &l.NodeRank, s.addr: &l.MasterAddr, s.port: &l.MasterPort,
		"num_processes": &l.NP, "hostfile": &l.Hostfile}
	if s.port == "" {
		asks[s.addr] = &l.Endpoint
	}
	for _, o := range l.Options { // the last one counts
		if ask := asks[o.Name]; ask != nil && o.Name != "" {
			*ask = said(s.title+" "+s.flag(o.Name), o.Value)
		}
	}
}

// flag returns an option as the launcher spells it.
func (s starter) flag(dest string) string {
	if s.server {
		dest = strings.ReplaceAll(dest, "_", "-")
	}
	return "--" + dest
}

// has reports whether the line has an option.
func (l Line) has(dest string) bool {
	return slices.ContainsFunc(l.Options, func(o Option) bool { return o.Name == dest })
}

// place gives the launcher its place in a world.
func (l Line) place(w World, env []string) (Exec, error) {
	if w.Single {
		return Exec{Argv: slices.Clone(l.Argv)}, nil
	}
	if err := l.CheckNodes(w.Nodes.V); err != nil {
		return Exec{}, err
	}
	s, _ := l.starter()
	addr := w.MasterAddr
	if s.port == "" || l.Kind != DeepSpeed && !l.has("cpu") { // torchrun joins address and port
		addr = bracketed(addr)
	}
	settings := []option{
		{s.nodes, w.Nodes.String(), "agreed on by all nodes"},
		{s.rank, w.NodeRank.String(), "agreed on by all nodes"},
		{s.addr, addr, "the address of node rank 0, so that no name has to resolve"},
		{s.port, w.MasterPort.String(), "reserved for this job on node rank 0"},
	}
	if s.port == "" {
		settings[2].value, settings = addr+":"+w.MasterPort.String(), settings[:3]
	}
	var set []setting.Var
	var drop []string
	switch l.Kind {
	case Accelerate:
		settings = append(settings, l.accelerateSettings(w)...)
		set = l.accelerateVars(w)
	case DeepSpeed:
		settings = l.deepspeedSettings(settings)
	case VLLM:
		settings, drop = l.vllmSettings(w, settings)
		set = hostVar("VLLM_HOST_IP", w, env)
	case SGLang:
		set = hostVar("SGLANG_HOST_IP", w, env)
	case Ray:
		settings, drop = l.raySettings(w)
	}
	e := l.withOptions(settings, drop...)
	e.Set = set
	return e, nil
}

// hostVar returns a variable with this node's address, unless the user has set it.
func hostVar(name string, w World, env []string) []setting.Var {
	if v, _ := lookup(env, name); v != "" {
		return nil
	}
	return []setting.Var{identity(name, w.Addr, setting.Node, "the address of this node for the others; without it "+
		"the first route decides")}
}

// withOptions returns the line with the settings right after the launcher, or at the end for a server, and
// without the options of drop. An option that the user has set to the same value stays.
func (l Line) withOptions(settings []option, dropped ...string) Exec {
	var e Exec
	var ours []string
	s, _ := l.starter()
	drop := map[int]bool{}
	for _, o := range settings {
		if l.asked(o.dest, nil) == o.value && l.has(o.dest) {
			continue
		}
		word := s.flag(o.dest)
		if o.value != "" {
			word += "=" + o.value
		}
		e.Changes = append(e.Changes,
			Change{Old: strings.Join(l.mark(o.dest, drop), " "), New: word, Reason: o.reason})
		ours = append(ours, word)
	}
	for _, dest := range dropped {
		if old := l.mark(dest, drop); old != nil {
			e.Changes = append(e.Changes, Change{Old: strings.Join(old, " "), Reason: "not for this node"})
		}
	}
	for i, w := range l.Argv {
		if !drop[i] {
			e.Argv = append(e.Argv, w)
		}
		if i == l.At && l.Rest < len(l.Argv) {
			e.Argv = append(e.Argv, ours...)
		}
	}
	if l.Rest == len(l.Argv) {
		e.Argv = append(e.Argv, ours...)
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
