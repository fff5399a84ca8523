package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"launch/cmd/internal/record"
	"launch/cmd/internal/storeaddr"
	"launch/cmd/internal/ui"
	"launch/envgen"
	"launch/fabric"
	"launch/fabric/gpu"
	"launch/fabric/verbs"
	"launch/internal/dns"
	"launch/internal/exit"
	"launch/internal/handoff"
	"launch/internal/job"
	"launch/internal/launcher"
	"launch/internal/masterport"
	"launch/internal/process"
	"launch/preflight"
	"launch/rendezvous"
)

// firstLook bounds the wait for the store's name before the checks of this
// node run: what is wrong here is said before a long wait for others.
const firstLook = time.Second

// podNameDelay is how long a pod of an Indexed Job leaves the name of pod 0
// alone. Both start at the same time, and a name that is asked for before the
// cluster's DNS knows it stays unknown for as long as CoreDNS caches that: 30 s
// by many configurations. Seen: without a pause 30 s lost in 4 of 5 starts,
// with half a second in none.
const podNameDelay = 700 * time.Millisecond

// ofAPod tells whether the store's name is that of another pod, which the
// cluster is just about to make known.
func ofAPod(j job.Job) bool {
	return j.Several() && j.Index.V > 0 && j.Store.From.Name == job.PodHostName
}

// local fills in this node's facts and verdicts. A failed check is an error.
func (a *app) local(ctx context.Context, s *record.Start) error {
	began := time.Now()
	s.Node = a.detect(ctx, s.Job)
	s.Input = a.planInput(ctx, s.Job, s.Node)
	in := a.checkInput(s)
	if s.Job.Several() && !a.o.dryRun && !ofAPod(s.Job) {
		if p, err := a.place(ctx, s, firstLook); err == nil {
			in.Addr, in.Serve = p.Addr, p.Serve
			known := s.Input
			known.World.Addr = p.Addr
			in.Lint = envgen.Lint(known)
		} else if _, late := errors.AsType[*storeaddr.NameError](err); !late {
			return err
		}
	}
	opt, err := a.choice(&in)
	if err != nil {
		return err
	}
	s.Local, err = preflight.Local(ctx, in, opt)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return &exit.Error{Code: exit.Usage, What: err.Error()}
	}
	if a.o.dryRun {
		return nil
	}
	a.ui.Findings(s.Job.Notes, false)
	a.ui.Findings(s.Local, false)
	return verdict(s, time.Since(began))
}

// verdict is how a start ends on this node by its own checks; nil: it goes on.
func verdict(s *record.Start, took time.Duration) error {
	for _, f := range s.Local.Failed() { // the finding has the advice
		switch f.ID {
		case "command.found":
			return &exit.Error{Code: exit.NotFound, What: "command not found: " + s.Job.Line.Argv[0]}
		case "command.executable":
			return &exit.Error{Code: exit.NotExec, What: "command cannot be executed: " + s.Job.Line.Argv[0]}
		case "store.resolves", "store.port":
			return &exit.Error{Code: exit.Unreachable, What: "store unreachable: " + f.What}
		}
	}
	if n := len(s.Local.Failed()); n > 0 {
		return &exit.Error{Code: exit.Unfit, What: fmt.Sprintf("this node is unfit: %s", ui.Summary(s.Local, took)),
			Fix: "mend what is named above; --skip ID leaves a check out, --warn-only starts all the same"}
	}
	return nil
}

// detect asks for what the job needs to know: a lone CPU program starts at
// once.
func (a *app) detect(ctx context.Context, j job.Job) fabric.Node {
	if a.from != nil {
		return a.from.Detect(ctx)
	}
	return a.detectLive(ctx, j, fabric.Live())
}

func (a *app) detectLive(ctx context.Context, j job.Job, roots fabric.Roots) fabric.Node {
	in := handoff.Inherited()
	return fabric.Detect(ctx, roots, fabric.Options{
		Resolve: (j.Several() || j.Line.Hydra()) && !a.o.dryRun,
		GPU:     func(ctx context.Context) gpu.Facts { return fabric.AskGPU(ctx, roots) },
		Verbs:   func(ctx context.Context) verbs.Facts { return fabric.AskVerbs(ctx, roots) },
		Nofile:  in.Nofile, NofileKnown: in.Known,
		Names:    storeNames(j.Store.V),
		Software: a.software(j),
	})
}

// storeNames are the hosts of the store, an external one's too.
func storeNames(s job.Store) []string {
	names := []string{s.Host}
	for _, e := range s.Endpoints {
		if u, err := url.Parse(e); err == nil && u.Hostname() != "" {
			names = append(names, u.Hostname())
		}
	}
	return names
}

func (a *app) checkInput(s *record.Start) preflight.Input {
	in := preflight.Input{
		Job: s.Job, Node: s.Node, Lint: envgen.Lint(s.Input), LintIDs: envgen.LintIDs(),
		Thresholds: a.o.thresholds, Ports: envgen.Ports(s.Input),
		Env: os.LookupEnv,
		LookPath: func(name string) (string, error) {
			path, err := lookPath(name)
			if errors.Is(err, handoff.ErrNotExecutable) {
				err = denied{err}
			}
			return path, err
		},
		Exists: func(path string) bool { _, err := os.Stat(path); return err == nil },
		Stat:   readable,
		Disks:  fabric.RememberDisks(),
	}
	in.Dir, _ = os.Getwd()
	if a.from != nil { // what would be found here is not there
		in.LookPath, in.Exists, in.Stat, in.Disks, in.Dir = nil, nil, nil, nil, ""
	}
	if a.o.dryRun {
		return in
	}
	if a.from == nil {
		sys := fabric.Live().Sys
		in.LinkErrors = func(hca string, port int) (fabric.LinkErrors, error) { return fabric.ReadLinkErrors(sys, hca, port) }
		in.Loop = verbs.LoopInChild
	}
	if ofAPod(s.Job) {
		return in
	}
	in.Resolve = systemResolver
	if a.from == nil {
		servers := nameServers(s.Node)
		in.Servers, in.Reverse = servers.Remembered(), servers.ReverseAll
	}
	in.Dial = (&net.Dialer{}).DialContext
	in.PortUse = func(at netip.AddrPort) (preflight.PortUse, error) {
		u, err := masterport.Look(os.DirFS("/proc"), at)
		return preflight.PortUse(u), err
	}
	return in
}

// systemResolver asks as the job's own programs will.
func systemResolver(ctx context.Context, host string) ([]netip.Addr, error) {
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	return addrs, err
}

// denied makes an error fs.ErrPermission, and adds no words to it.
type denied struct{ error }

func (denied) Is(target error) bool { return target == fs.ErrPermission }

// readable asks without opening: the file may be a pipe that the shell made for
// the command, as in python <(…).
func readable(path string) (fs.FileMode, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	if err := unix.Faccessat(unix.AT_FDCWD, path, unix.R_OK, unix.AT_EACCESS); err != nil {
		return info.Mode(), &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return info.Mode(), nil
}

// nameServers are those of resolv.conf; none where nsswitch.conf asks none.
func nameServers(n fabric.Node) dns.Config {
	r := n.System.Resolver
	if !slices.Contains(r.Services, "dns") && !slices.Contains(r.Services, "resolve") {
		return dns.Config{}
	}
	return dns.Config{Servers: dns.At(r.Servers), Search: r.Search, Ndots: r.Ndots}
}

// place finds the meeting point, waiting for its name for as long as budget.
func (a *app) place(ctx context.Context, s *record.Start, budget time.Duration) (storeaddr.Place, error) {
	hosts, err := a.o.hosts()
	if err != nil {
		return storeaddr.Place{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, min(budget, a.o.joinTimeout))
	defer cancel()
	f := storeaddr.Finder{Hosts: hosts}
	if servers := nameServers(s.Node); len(servers.Servers) > 0 {
		f.Servers = servers.Find
	}
	if budget > firstLook {
		f.Tell = func(host string, err error) {
			a.ui.Note("the store's host %q does not resolve yet: %v; trying on", host, err)
		}
	}
	return f.Find(ctx, s.Job, s.Node)
}

// self is this node as the others will see it.
func (a *app) self(s *record.Start, p storeaddr.Place) (rendezvous.Member, error) {
	stat, err := process.Read(os.Getpid())
	if err != nil {
		return rendezvous.Member{}, err
	}
	pidns, _ := os.Readlink("/proc/self/ns/pid")
	m := rendezvous.Member{
		Restarts: a.o.restarts, Spares: s.Job.Spares, Patience: a.o.joinTimeout, Bench: a.o.measure,
		Index: -1, Size: s.Job.Nodes.V, Min: s.Job.Min, Host: s.Node.Hostname, Addr: p.Addr,
		Machine: s.Node.BootID + " " + pidns, PID: os.Getpid(), Started: stat.Started, Since: time.Now(),
	}
	in := s.Input
	in.World.Nodes, in.World.Addr = s.Job.Nodes.V, p.Addr
	for _, l := range envgen.Listens(in, envgen.Make(in)) {
		m.Addrs = append(m.Addrs, l.Addr)
	}
	if s.Job.Index.Set {
		m.Index, m.Vouch = s.Job.Index.V, rendezvous.Vouch(s.Job.Vouch)
	}
	return m, nil
}

// wanted is the port that the job's own store should have.
func wanted(j job.Job) int {
	if j.MasterPort.Set {
		return j.MasterPort.V
	}
	return job.DefaultMasterPort
}

func lookPath(name string) (string, error) { return handoff.LookPath(name, handoff.Environ(), "") }

// notExecutable is 127 or 126, as a shell has it.
func notExecutable(name string, err error) error {
	code := exit.NotExec
	if errors.Is(err, handoff.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		code = exit.NotFound
	}
	fix := "check its permissions and its first line: ls -l " + strconv.Quote(name)
	if code == exit.NotFound {
		fix = "is it spelled right, and in PATH on this node? (the environment of a batch job is not that of your shell)"
	}
	return &exit.Error{Code: code, What: err.Error(), Fix: fix}
}

// execute becomes the command; it returns only an error.
func (a *app) execute(s *record.Start) error {
	path, env, err := a.prepared(s)
	if err != nil {
		return err
	}
	a.stop() // from here a signal is the command's; one that came before ends this start
	if a.caught() != nil {
		return context.Canceled
	}
	return notExecutable(path, handoff.Exec(path, s.Command.Argv, env))
}

// prepared is what the command is executed with.
func (a *app) prepared(s *record.Start) (path string, env []string, err error) {
	var set, unset []string
	mpirun := s.Job.Line.Kind == launcher.Mpirun
	for _, v := range slices.Concat(s.Command.Set, s.Plan) {
		if !v.Kept && (!mpirun || envgen.ReadByMpirun(v.Name)) { // the rest is forwarded by -x
			set = append(set, v.Name+"="+v.Value)
		}
	}
	for _, v := range s.Command.Unset {
		unset = append(unset, v.Name)
	}
	if path, err = lookPath(s.Command.Argv[0]); err != nil {
		return "", nil, notExecutable(s.Command.Argv[0], err)
	}
	return path, handoff.Merge(handoff.Environ(), set, unset), nil
}

// dry prints the record of a start that does not happen, and ends as it would.
func (a *app) dry(s *record.Start, began time.Time) error {
	w := single(s.Job)
	if s.Job.Several() {
		w = launcher.World{Job: s.Job.ID.V, RunID: ui.Unknown, Nodes: s.Job.Nodes.V, NodeRank: dryInt,
			MasterAddr: ui.Unknown, MasterPort: dryInt, Addr: ui.Unknown, KeepRdzv: a.o.KeepRdzv}
		if s.Job.Index.Set && s.Job.Min+s.Job.Spares == 0 {
			w.NodeRank = s.Job.Index.V
		}
		if s.Job.Min > 0 {
			w.Nodes = dryInt
		}
		w.Task = launcherTask(s.Job.Tasks)
	} else if s.Job.Tasks.Size > 0 && !s.Job.MasterPort.Set {
		w.MasterPort = dryInt
	}
	if err := a.plan(s, w, netip.Addr{}); err != nil {
		return err
	}
	ui.Blank(&s.Command, strconv.Itoa(dryInt))
	a.ui.Dry(*s)
	err := verdict(s, time.Since(began))
	if e, ok := errors.AsType[*exit.Error](err); ok {
		e.What = "a start would end here: " + e.What
	}
	return err
}

// dryInt stands for a number that only the rendezvous knows, until ui.Blank
// replaces it.
const dryInt = -7300001
