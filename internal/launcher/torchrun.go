package launcher

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"launch/internal/exit"
	"launch/internal/setting"
)

// rdzvTimeout is how many seconds torchrun's store waits if the user's rdzv_conf has no timeout. All
// checks are over by then, so it covers the slowest import of torch from a cold shared file system.
const rdzvTimeout = "600"

func (l *Line) parseTorchrun(module string) error {
	p := argparser{words: l.Argv[l.At+1:], base: l.At + 1, table: torchOptionsOf(module)}
	if l.FT {
		p.table, p.title = ftOptions(), ftName
	}
	rest, err := p.parse()
	if err != nil {
		return err
	}
	l.Options, l.Unknown, l.Meant, l.Rest = p.out, p.unknown, p.meant, rest
	l.Notes = append(l.Notes, p.notes...)
	asks := map[string]*Ask{
		"nnodes": &l.NNodes, "nproc_per_node": &l.NProc, "node_rank": &l.NodeRank,
		"rdzv_backend": &l.Backend, "rdzv_endpoint": &l.Endpoint, "rdzv_id": &l.RdzvID, "rdzv_conf": &l.RdzvConf,
		"master_addr": &l.MasterAddr, "master_port": &l.MasterPort, "local_addr": &l.LocalAddr,
		"max_restarts": &l.MaxRestarts, "standalone": &l.Standalone,
	}
	for _, o := range l.Options { // the last one counts
		if ask := asks[o.Name]; ask != nil {
			*ask = said(l.Name()+" "+torchOption{dest: o.Name}.flag(), o.Value)
		}
	}
	if l.Standalone.Set {
		l.Standalone.Value = "1"
	}
	if _, err := mergeConf(l.RdzvConf.Value, nil); err != nil {
		return err
	}
	has := func(names ...string) bool {
		return slices.ContainsFunc(l.Options, func(o Option) bool { return slices.Contains(names, o.Name) })
	}
	ends := has("help", "print_completion")
	if l.Rest < len(l.Argv) && !ends && !has("module", "no_python") && len(p.notes) == 0 {
		// An unknown option may have a value.
		l.Script = l.Rest
	}
	if l.Rest == len(l.Argv) && !ends {
		return exit.Errorf(exit.Usage, "%s has no script to run", l.Name()).Do("%s train.py", Quote(l.Argv))
	}
	return nil
}

// ParseNNodes parses torchrun's --nnodes: "4", or a range "1:4".
func ParseNNodes(s string) (low, high int, err error) {
	from, to, isRange := strings.Cut(s, ":")
	if !isRange {
		to = from
	}
	low, err = strconv.Atoi(strings.TrimSpace(from))
	if err == nil {
		high, err = strconv.Atoi(strings.TrimSpace(to))
	}
	if err != nil || low < 1 || high < low {
		return 0, 0, fmt.Errorf("%q is not a number of nodes", s)
	}
	return low, high, nil
}

// CheckNodes returns early the error that Command would return for a number of
// nodes. The error is an *exit.Error.
func (l Line) CheckNodes(nodes int) error {
	if l.Standalone.Set && nodes > 1 {
		return exit.Errorf(exit.Config, "--standalone makes every node a world of its own, but this job has %d nodes",
			nodes).Do("drop --standalone")
	}
	switch {
	case nodes < 2:
		return nil
	case l.Sealed != "":
		return l.checkSealed()
	}
	if err := cmp.Or(l.checkSrun(), l.checkEntry()); err != nil {
		return err
	}
	return l.checkStarter(nodes)
}

// Everywhere returns the line without the options that may differ between the nodes of one job
// (node_rank, local_addr, rdzv_conf, and the place of the output): it is the same on all nodes.
func (l Line) Everywhere() []string {
	if !l.Kind.Torch() || l.Inside {
		return slices.Clone(l.Argv)
	}
	drop := map[int]bool{}
	if s, ok := l.starter(); ok {
		l.mark(s.rank, drop)
		for _, o := range s.options() {
			if o.perNode {
				l.mark(o.dest, drop)
			}
		}
	}
	for _, o := range torchOptions() {
		if o.perNode {
			l.mark(o.dest, drop)
		}
	}
	return l.without(drop)
}

// mark adds the arguments of an option to drop and returns them as typed.
func (l Line) mark(dest string, drop map[int]bool) []string {
	var typed []string
	for _, o := range l.Options {
		if o.Name == dest {
			for i := o.At; i < o.At+o.Words; i++ {
				drop[i] = true
				typed = append(typed, l.Argv[i])
			}
		}
	}
	return typed
}

func (l Line) without(drop map[int]bool) []string {
	var out []string
	for i, w := range l.Argv {
		if !drop[i] {
			out = append(out, w)
		}
	}
	return out
}

// option is one value that launch gives torchrun.
type option struct {
	dest, value, reason string
}

// rewrite is the line's options and variables on their way to the settings.
type rewrite struct {
	line     Line
	env      []string // as launch inherited it
	settings []option
	decides  func(torchOption) bool // launch decides the option
	notes    []string
}

func (l Line) torchrun(w World, env []string) (Exec, error) {
	if w.Single {
		return Exec{Argv: slices.Clone(l.Argv)}, nil
	}
	if err := l.CheckNodes(w.Nodes.V); err != nil {
		return Exec{}, err
	}
	asked := func(dest string) string { return l.asked(dest, env) }
	backend, why := asked("rdzv_backend"), "--keep-rdzv"
	if l.FT {
		backend, w.KeepRdzv, why = "c10d", true, "ft_launcher has no rendezvous but c10d"
	}
	if w.KeepRdzv && strings.HasPrefix(backend, "etcd") {
		return Exec{Argv: slices.Clone(l.Argv), Notes: []string{"--keep-rdzv: the " + backend +
			" rendezvous is torchrun's own, and the line stays as it is"}}, nil
	}
	keep := w.KeepRdzv && backend == "c10d"
	conf := map[string]string{"timeout": rdzvTimeout}
	if keep {
		conf = map[string]string{"read_timeout": rdzvTimeout, "is_host=": "0"}
		if w.NodeRank == Known(0) {
			conf["is_host="] = "1"
		}
	}
	merged, err := mergeConf(asked("rdzv_conf"), conf)
	if err != nil {
		return Exec{}, err
	}
	r := rewrite{line: l, env: env}
	if keep {
		r.decides = func(o torchOption) bool { return o.keep }
		r.settings = keepSettings(w, asked("rdzv_id"), merged, why)
	} else {
		r.decides = func(o torchOption) bool { return o.static }
		r.settings, r.notes = staticSettings(w, merged), staticNotes(backend, asked("max_restarts"))
	}
	if l.Inside {
		return r.viaEnv(w), nil
	}
	return r.onLine(), nil
}

// asked returns the value that torchrun itself would use: the line's, else the
// PET_ variable's, else "".
func (l Line) asked(dest string, env []string) string {
	for _, o := range slices.Backward(l.Options) {
		if o.Name == dest {
			return o.Value
		}
	}
	v, _ := lookup(l.Environ(env), torchOption{dest: dest}.pet())
	return v
}

func staticNotes(backend, restarts string) []string {
	var notes []string
	if backend != "" && backend != "static" {
		notes = append(notes, "--rdzv-backend "+backend+" becomes static: launch has already agreed on the nodes "+
			"(--keep-rdzv keeps c10d)")
	}
	if n, err := strconv.Atoi(restarts); err == nil && n > 0 {
		notes = append(notes, "--max-restarts "+restarts+" becomes 0: torchrun's own restart finds stale keys in "+
			"the same store (pytorch#135712); launch --restarts "+restarts+" starts all nodes again with a new store")
	}
	return notes
}

func staticSettings(w World, conf string) []option {
	agreed := "agreed on by all nodes"
	return []option{
		{"nnodes", w.Nodes.String(), agreed},
		{"node_rank", w.NodeRank.String(), agreed},
		{"master_addr", bracketed(w.MasterAddr), "the address of node rank 0, so that no name has to resolve"},
		{"master_port", w.MasterPort.String(), "reserved for this job on node rank 0"},
		{"rdzv_backend", "static", "the ranks are known: no lookup of host names, no clocks, no last call"},
		{"rdzv_id", w.RunID, "new for every start, so no key of an earlier start is found"},
		{"rdzv_conf", conf, "how long torchrun's store waits; your own keys remain"},
		{"max_restarts", "0", "torchrun's own restarts reuse a store with stale keys"},
	}
}

func keepSettings(w World, id, conf, why string) []option {
	if id == "" || id == "none" {
		id = w.RunID
	}
	return []option{
		{"nnodes", w.Nodes.String(), "agreed on by all nodes"},
		{"rdzv_backend", "c10d", why},
		{"rdzv_endpoint", bracketed(w.MasterAddr) + ":" + w.MasterPort.String(),
			"the address of node rank 0 and the port reserved there"},
		{"rdzv_id", id, why},
		{"rdzv_conf", conf, "is_host: torchrun only compares host names; read_timeout: by default a node 60 s late " +
			"ends the job"},
		{"local_addr", w.Addr, "the address of this node for the others, instead of its host name (torch 2.0 and " +
			"later)"},
	}
}

// bracketed returns an IPv6 address as torchrun's endpoint parser wants it.
func bracketed(addr string) string {
	if strings.Contains(addr, ":") {
		return "[" + addr + "]"
	}
	return addr
}

// mergeConf adds the keys to a rdzv_conf text that the user has not set; a key that
// ends in '=' replaces the user's. The user's keys remain in order.
func mergeConf(text string, add map[string]string) (string, error) {
	var out []string
	seen := map[string]bool{}
	if text = strings.TrimSpace(text); text != "" {
		for kv := range strings.SplitSeq(text, ",") {
			key, value, _ := strings.Cut(kv, "=")
			key, value = strings.TrimSpace(key), strings.TrimSpace(value)
			if key == "" || value == "" {
				return "", exit.Errorf(exit.Usage, "rdzv_conf %q: %q is not KEY=VALUE", text, kv).
					Do("--rdzv-conf timeout=900,read_timeout=900")
			}
			seen[key] = true
			if _, forced := add[key+"="]; !forced {
				out = append(out, key+"="+value)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(add)) {
		name, forced := strings.CutSuffix(key, "=")
		if forced || !seen[name] {
			out = append(out, name+"="+add[key])
		}
	}
	return strings.Join(out, ","), nil
}

// identity returns a variable with a value of the agreed world.
func identity(name, value string, scope setting.Scope, reason string) setting.Var {
	return setting.Var{Name: name, Value: value, Scope: scope, Reason: reason, Source: "rendezvous"}
}

// torchOption is one option of torchrun's parser (torch/distributed/run.py). Its spellings are
// --dest with '_' and, from 2.0 on, with '-'; its variable is PET_DEST.
type torchOption struct {
	dest    string
	short   byte   // -r
	alias   string // more spellings, separated by spaces
	value   bool   // takes exactly one value
	only    string // the module that adds it; "" for all
	perNode bool   // may differ between the nodes of one job
	static  bool   // launch decides it, with a static rendezvous
	keep    bool   // the same with --keep-rdzv
}

// torchOptions returns the options of all versions from 1.13, the oldest served, to 2.15.
func torchOptions() []torchOption {
	return []torchOption{
		{dest: "nnodes", value: true, static: true, keep: true},
		{dest: "nproc_per_node", value: true},
		{dest: "rdzv_backend", value: true, static: true, keep: true},
		{dest: "rdzv_endpoint", value: true, static: true, keep: true},
		{dest: "rdzv_id", value: true, static: true, keep: true},
		{dest: "rdzv_conf", value: true, perNode: true, static: true, keep: true},
		{dest: "standalone", static: true, keep: true},
		{dest: "max_restarts", value: true, static: true},
		{dest: "monitor_interval", value: true},
		{dest: "start_method", value: true},
		{dest: "role", value: true},
		{dest: "module", short: 'm'},
		{dest: "no_python"},
		{dest: "run_path"},
		{dest: "log_dir", value: true, perNode: true},
		{dest: "redirects", short: 'r', value: true, perNode: true},
		{dest: "tee", short: 't', value: true, perNode: true},
		{dest: "node_rank", value: true, perNode: true, static: true, keep: true},
		{dest: "master_addr", value: true, static: true, keep: true},
		{dest: "master_port", value: true, static: true, keep: true},
		{dest: "local_addr", value: true, perNode: true, keep: true}, // from 2.0
		{dest: "use_env", only: "torch.distributed.launch"},
		{dest: "help", short: 'h'},
		// from 2.x
		{dest: "local_ranks_filter", value: true, perNode: true},
		{dest: "log_line_prefix_template", value: true},
		{dest: "logs_specs", value: true},
		{dest: "event_log_handler", value: true},
		{dest: "numa_binding", value: true},
		{dest: "signals_to_handle", value: true},
		{dest: "virtual_local_rank"},
		{dest: "duplicate_stdout_filters", value: true, perNode: true},
		{dest: "duplicate_stderr_filters", value: true, perNode: true},
		{dest: "shutdown_timeout", value: true},
		{dest: "print_completion", value: true}, // from 2.15
	}
}

// torchOptionsOf returns the options of one entry point.
func torchOptionsOf(module string) []torchOption {
	return slices.DeleteFunc(torchOptions(), func(o torchOption) bool { return o.only != "" && o.only != module })
}

// spellings returns the long forms; one if they coincide.
func (o torchOption) spellings() []string {
	return slices.Compact([]string{o.flag(), "--" + o.dest})
}

// flag returns the form that current documentation uses.
func (o torchOption) flag() string { return "--" + strings.ReplaceAll(o.dest, "_", "-") }

// pet returns the variable that argparse_util's env action reads.
func (o torchOption) pet() string { return "PET_" + strings.ToUpper(o.dest) }
