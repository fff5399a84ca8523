package job

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"launch/internal/exit"
	"launch/internal/finding"
	"launch/internal/hostlist"
	"launch/internal/launcher"
	"launch/internal/setting"
)

// Input is everything that Resolve looks at.
type Input struct {
	Subcommand string          // the subcommand ("check"), after which the command may be empty; "" for a start
	Argv       []string        // the command after launch's own flags
	Own        map[string]bool // launch's own flags, and whether they take a value
	Flags      Flags
	Env        []string // as os.Environ gives it
	Root       fs.FS    // "/", for etc/hosts and NCCL's files; nil reads none
	Home       string   // the user's home directory by the password database, as NCCL takes it
	Dir        string   // the working directory, for a relative NCCL_CONF_FILE
	Hostname   string   // the kernel's host name
}

// resolver gathers the job.
type resolver struct {
	in    Input
	line  launcher.Line
	own   map[string]string // launch's own environment, with the scheduler's variables
	env   map[string]string // the command's, after the env prefixes of its line
	sched scheduler
	tasks tasks // Size 0: launch runs once on each node
	job   Job
	files []pythonFile // of the Python program that the command runs
	// foreign are the packages that they import and that are not of the program.
	foreign []string
	loose   bool // what contradicts the rest is left out

	perMachines string // the number of machines in accelerate's configuration file
}

// Known returns what can be known of the job and of this node's place in it although Resolve fails. The mistake may be
// the command itself, or its first word, as the value of a flag that launch does not know.
func Known(in Input) Job {
	if !knownAs(claim(in.Flags.As)) {
		in.Flags.As = setting.Value[string]{}
	}
	lines := [][]string{in.Argv, in.Argv[min(1, len(in.Argv)):], {"true"}}
	var j Job
	for _, in.Argv = range lines {
		if j, _ = attempt(in, true); j.Several() {
			break
		}
	}
	return j
}

// Resolve returns the job and this node's place in it. It reads nothing but the files of in.Root.
// The error is an *exit.Error; with it the Job has the tasks and the notes so far.
func Resolve(in Input) (Job, error) { return attempt(in, false) }

// knownAs reports whether a value of --as is one that launch knows.
func knownAs(as claim) bool {
	return !as.Set || as.V == string(launcher.Torchrun) || as.V == string(launcher.Program)
}

// attempt is Resolve; loose goes on after what Resolve refuses.
func attempt(in Input, loose bool) (Job, error) {
	as := claim(in.Flags.As)
	if !knownAs(as) {
		return Job{}, as.refuse("--as torchrun", "launch knows torchrun and program")
	}
	argv := in.Argv
	if len(argv) == 0 && in.Subcommand != "" {
		argv = []string{"true"}
	}
	line, err := launcher.Parse(argv, as.V)
	if err != nil {
		return Job{}, err
	}
	r := &resolver{in: in, line: line, loose: loose, own: toMap(in.Env), env: toMap(line.Environ(in.Env))}
	r.job.MPI = r.whichMPI()
	r.line = line.Of(r.job.MPI)
	r.shellTorchrun()
	r.line.GPUs = r.gpus()
	r.job.Line = r.line
	if err := r.misplaced(); err != nil && !loose {
		return Job{}, err
	}
	for _, n := range line.Notes {
		r.note(finding.Warnf("%s", n).Named("job.command"))
	}
	if r.line.Hint != "" {
		r.note(finding.Warnf("%s", r.line.Hint).Named("job.command"))
	}
	if err := r.identity(); err != nil {
		return Job{Tasks: r.tasks.Tasks, Notes: r.job.Notes}, err
	}
	r.keep()
	r.decided()
	r.uses()
	r.callsJAX()
	r.rayAlone()
	r.horovodAlone()
	r.shellLauncher()
	r.hinted()
	r.job.Program, r.job.Windows = r.said(), r.windows()
	return r.job, r.spawns()
}

// hinted removes that note from a start of one node, whose torchrun needs no place. Another program than a shell or a
// container may start it on several nodes.
func (r *resolver) hinted() {
	one := !r.job.Several() && (r.in.Flags.NNodes.Set || r.line.Wraps())
	r.job.Notes = slices.DeleteFunc(r.job.Notes, func(f finding.Finding) bool { return one && f.What == r.line.Hint })
}

func (r *resolver) identity() error {
	if r.line.Kind == launcher.Mpirun {
		if err := r.everywhere(); err != nil && !r.loose {
			return err
		}
		r.mpirun()
		return nil
	}
	if err := r.scheduler(); err != nil {
		return err
	}
	steps := []func() error{r.accelerate, r.nodes, r.spread, r.index, r.first, r.program, r.ports, r.store, r.wait}
	for _, step := range steps {
		if err := step(); err != nil && !r.loose {
			return err
		}
	}
	r.id()
	r.rest()
	r.unknownLauncher()
	if err := r.role(); err != nil {
		return err
	}
	return r.nixlbench()
}

// everywhere refuses an mpirun line with flags by which each node would run it.
func (r *resolver) everywhere() error {
	nodes, store := claim(r.in.Flags.NNodes), claim(r.in.Flags.Store)
	_, high, err := launcher.ParseNNodes(nodes.V)
	typed := strings.HasPrefix(nodes.From.Name, "--") && strings.HasPrefix(store.From.Name, "--")
	batch := r.own["SLURM_JOB_ID"] != "" && r.own["SLURM_STEP_ID"] == ""
	once := batch || r.own["K_MPI_JOB_ROLE"] == "launcher" // a batch script, or the pod of mpi-operator
	if !nodes.Set || !store.Set || !typed || err != nil || high < 2 || once {
		return nil
	}
	return contradiction(launcher.Quote(append([]string{"launch"}, r.in.Argv...))+"   # once, on the head node",
		"%s %s are for a command that each node runs, but mpirun starts the processes on all hosts itself, so each node "+
			"would start a job of its own", nodes, store)
}

// mpirun resolves an mpirun line. It runs once, on the head node, and starts the
// processes on the other nodes itself: there is no rendezvous.
func (r *resolver) mpirun() {
	var unused []string
	for _, v := range []setting.Value[string]{r.in.Flags.NNodes, r.in.Flags.NodeRank, r.in.Flags.Store, r.in.Flags.Role} {
		if v.Set {
			unused = append(unused, claim(v).String())
		}
	}
	if unused != nil {
		r.note(finding.Warnf("not used: %s; mpirun starts the processes on the other nodes itself",
			strings.Join(unused, " ")).Named("job.nodes"))
	}
	const from = "mpirun, which starts the processes on the other nodes"
	r.job.Nodes, r.job.Index = derived(1, from), derived(0, from)
	r.job.Single = true
	r.job.Hosts = r.line.Hosts
	if len(r.job.Hosts) == 0 && r.line.Hostfile.Set {
		r.job.Hosts = r.hostfile(r.line.Hostfile.Value)
	}
	if len(r.job.Hosts) == 0 && !r.line.Hostfile.Set {
		r.job.Hosts = r.allocation()
	}
	r.id()
}

// hostfile returns the hosts of mpirun's list. mpirun itself refuses one that cannot be read.
func (r *resolver) hostfile(name string) []string {
	if r.in.Root == nil {
		return nil
	}
	if !path.IsAbs(name) {
		name = path.Join(r.in.Dir, name)
	}
	file := strings.TrimPrefix(path.Clean(name), "/")
	if hostlist.Once(r.in.Root, file) {
		return nil
	}
	f, err := r.in.Root.Open(file)
	if err == nil {
		defer f.Close()
		var hosts []string
		if hosts, err = hostlist.Hostfile(f); err == nil {
			return hosts
		}
	}
	r.note(finding.Warnf("the hostfile %s cannot be read: %v", name, cause(err)).Named("job.hostfile").
		Do("correct the path after %s", r.line.Hostfile.From))
	return nil
}

// cause returns an error of an fs.FS without its path, which lacks the first slash.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// rest resolves the values that no other value depends on.
func (r *resolver) rest() {
	f, l := r.in.Flags, r.line
	r.job.Addr = chooseText(r, "addr", claim(f.Addr), said(l.LocalAddr), r.ambient("PET_LOCAL_ADDR"))
	r.job.NProc = chooseText(r, "nproc", said(l.NProc), r.petFor("PET_NPROC_PER_NODE"))
	if l.Kind == launcher.Torchrun {
		r.ignoredByTorchrun()
	}
}

// ignoredByTorchrun notes RANK and WORLD_SIZE: torchrun ignores them and sets its
// own for the workers. That is a warning where they alone describe several nodes.
func (r *resolver) ignoredByTorchrun() {
	var names []string
	several := false
	for name, alone := range map[string]string{"RANK": "0", "WORLD_SIZE": "1"} {
		if c := r.ambient(name); c.Set {
			names = append(names, c.String())
			several = several || c.V != alone
		}
	}
	if names == nil {
		return
	}
	slices.Sort(names)
	f := finding.Warnf("%s in the environment: torchrun ignores this and sets its own for the workers",
		strings.Join(names, " "))
	if r.job.Several() || !several {
		f.Status = finding.Skip
	}
	r.note(f.Named("job.rank").Do("use --nnodes and --node-rank, or unset RANK WORLD_SIZE"))
}

func (r *resolver) note(notes ...finding.Finding) { r.job.Notes = append(r.job.Notes, notes...) }

// ambient returns the claim of a variable of the environment. An empty one, as a
// template leaves it, is unset.
func (r *resolver) ambient(name string) claim {
	return claim{r.env[name], setting.Source{Tier: setting.Ambient, Name: name}, r.env[name] != ""}
}

// variable returns the claim of a variable that the scheduler sets.
func (r *resolver) variable(name string) claim {
	return claim{r.own[name], setting.Source{Tier: setting.Scheduler, Name: name}, r.own[name] != ""}
}

func toMap(env []string) map[string]string {
	m := make(map[string]string, len(env))
	for _, kv := range env {
		if name, value, ok := strings.Cut(kv, "="); ok {
			m[name] = value
		}
	}
	return m
}

// petFor returns the claim of a PET_ variable, if the command is torchrun.
func (r *resolver) petFor(name string) claim {
	if r.line.Kind != launcher.Torchrun {
		return claim{}
	}
	return r.ambient(name)
}

// said returns the claim of the wrapped line.
func said(a launcher.Ask) claim {
	return claim{a.Value, setting.Source{Tier: setting.Line, Name: a.From}, a.Set && a.Value != ""}
}

// claim is one source's text for one value, not yet parsed. The zero claim is unset.
type claim setting.Value[string]

func (c claim) String() string { return c.From.Name + "=" + c.V }

func scheduled(text, name string) claim {
	return claim{text, setting.Source{Tier: setting.Scheduler, Name: name}, true}
}

// derived returns a value that follows from others.
func derived[T any](v T, name string) setting.Value[T] {
	return setting.Value[T]{V: v, From: setting.Source{Tier: setting.Derived, Name: name}, Set: true}
}

// choose returns the first claim that is set, and notes each that differs. The claims are in the
// order of their tiers. same reports whether two values are the same.
func choose[T any](r *resolver, what string, same func(a, b T) bool, parse func(claim) (T, error),
	claims ...claim) (setting.Value[T], error) {
	var won setting.Value[T]
	var winner claim
	for _, c := range claims {
		if !c.Set {
			continue
		}
		v, err := parse(c)
		if !won.Set {
			if err != nil {
				return won, err
			}
			won, winner = setting.Value[T]{V: v, From: c.From, Set: true}, c
			continue
		}
		if err != nil || !same(v, won.V) {
			f := finding.Warnf("%s is not used: %s takes precedence", c, winner)
			if c.From.Tier == setting.Ambient && !strings.HasPrefix(c.From.Name, "PET_") { // not set for this command
				f.Status = finding.Skip
			}
			r.note(f.Named("job."+what).See(c.From.Name, "%s", c.V))
		}
	}
	return won, nil
}

// chooseText chooses among texts, which need no parsing.
func chooseText(r *resolver, what string, claims ...claim) setting.Value[string] {
	v, _ := choose(r, what, equal[string], func(c claim) (string, error) { return c.V, nil }, claims...)
	return v
}

func equal[T comparable](a, b T) bool { return a == b }

// refuse returns the error for an invalid claim: a usage error for a flag or the
// command line, a configuration error for the environment.
func (c claim) refuse(fix, format string, a ...any) *exit.Error {
	code := exit.Config
	if c.From.Tier <= setting.Line {
		code = exit.Usage
	}
	return exit.Errorf(code, "%s: %s", c, fmt.Sprintf(format, a...)).Do("%s", fix)
}

func contradiction(fix, format string, a ...any) *exit.Error {
	return exit.Errorf(exit.Config, format, a...).Do("%s", fix)
}
