package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"launch/diagnose"
	"launch/envgen"
	"launch/fabric"
	"launch/fabric/rail"
	"launch/internal/finding"
	"launch/internal/job"
	"launch/internal/record"
	"launch/internal/ui"
	"launch/preflight"
	"launch/rendezvous"
)

// version and commit are set by the Makefile with -X: the build itself does
// not ask git, so that it is the same from any folder.
var (
	version = "dev"
	commit  = "unknown"
)

func versionText() string { return version + " " + commit }

// version prints what this build is and what it can do.
func (a *app) version(c *cli.Context) error {
	flags := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			flags[s.Key] = s.Value
		}
	}
	cgo := flags["CGO_ENABLED"] == "1"
	if a.ui.JSON() {
		a.ui.Emit(true, "version", map[string]any{"version": version, "commit": commit, "go": runtime.Version(),
			"os": runtime.GOOS, "arch": runtime.GOARCH, "cgo": cgo, "flags": flags})
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
	a.ui.Print(b.String())
	return nil
}

// check runs this node's checks alone.
func (a *app) check(c *cli.Context) error {
	began := time.Now()
	s, err := a.look(c)
	if err != nil {
		return err
	}
	in := a.checkInput(&s)
	if c.NArg() == 0 { // nothing is started, so nothing can be missing
		in.Job.Line.Argv, in.LookPath = nil, nil
	}
	if s.Job.Several() {
		if p, err := a.place(c.Context, &s, firstLook); err == nil {
			in.Addr, in.Serve = p.Addr, p.Serve
		}
	}
	r, err := preflight.Local(c.Context, in, preflight.Options{Skip: a.o.skip, Only: a.o.only, WarnOnly: a.o.warnOnly})
	if err != nil {
		return &job.Error{Code: exitUsage, What: err.Error()}
	}
	a.ui.Findings(s.Job.Notes, false)
	a.ui.Report(r, time.Since(began))
	if len(r.Failed()) > 0 {
		a.code = exitUnfit
	}
	return nil
}

// look resolves the job and gathers this node's facts.
func (a *app) look(c *cli.Context) (s record.Start, err error) {
	if s.Job, err = a.job(c.Args().Slice()); err != nil {
		return s, err
	}
	s.Node = a.detect(c.Context, s.Job)
	return s, nil
}

// fabric prints what this node has.
func (a *app) fabric(c *cli.Context) error {
	n := a.detect(c.Context, job.Job{Nodes: job.Value[int]{V: 2}}) // as for a job of several nodes: the host name counts
	var addr netip.Addr
	if r, err := fabric.RouteTo(netip.MustParseAddr("192.0.2.1")); err == nil { // the default route; nothing is sent
		addr = r.Src
	}
	a.ui.Fabric(n, rail.Roles(n, addr))
	return nil
}

// env prints the plan for a shell.
func (a *app) env(c *cli.Context) error {
	s, err := a.look(c)
	if err != nil {
		return err
	}
	in := a.planInput(s.Job, s.Node)
	if c.NArg() == 0 {
		in.Torch = true
	}
	if s.Job.Several() {
		p, err := a.place(c.Context, &s, firstLook)
		if err != nil {
			return err
		}
		in.World.Addr = p.Addr
	}
	plan := envgen.Make(in)
	a.ui.Findings(s.Job.Notes, false)
	a.ui.Findings(envgen.Lint(in), false)
	why := ""
	if len(plan) == 0 {
		why = "the libraries do the right thing by themselves here"
		if !s.Job.Several() {
			why = "one node needs none; with --nnodes N --store HOST the peers' network is taken into account"
		}
	}
	if a.ui.JSON() {
		for _, v := range plan {
			a.ui.Emit(true, "var", v)
		}
		a.ui.Emit(true, "plan", map[string]any{"vars": len(plan), "why": why})
		return nil
	}
	text, err := envgen.Shell(plan)
	if err != nil {
		return err
	}
	a.ui.Print(text)
	if why != "" {
		a.ui.Note("nothing to set: %s", why)
	}
	return nil
}

// connect reaches the store that the flags name, without becoming a node.
func (a *app) connect(c *cli.Context) (job.Job, rendezvous.Store, error) {
	if !a.o.Store.Set {
		return job.Job{}, rendezvous.Store{}, &job.Error{Code: exitUsage, What: "which store? --store is not given", Fix: "launch status --store host0"}
	}
	// The number does not matter to who only looks.
	a.o.NNodes = job.Value[string]{V: "2", Set: true, From: job.Source{Tier: job.Explicit, Name: "--nnodes"}}
	a.warn()
	j, err := a.job(nil)
	where := rendezvous.Store{Endpoints: j.Store.V.Endpoints}
	if err == nil && a.keys != nil && j.Store.V.Embedded {
		where.TLS = &rendezvous.TLS{Client: a.keys.Client()}
	}
	return j, where, err
}

// status prints who is where in the jobs of a store.
func (a *app) status(c *cli.Context) error {
	_, store, err := a.connect(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Context, min(statusBudget, a.o.joinTimeout))
	defer cancel()
	cli, err := rendezvous.Connect(ctx, store, nil)
	if err != nil {
		return err
	}
	defer cli.Close()
	jobs := c.Args().Slice()
	if a.o.Job.Set {
		jobs = append(jobs, a.o.Job.V)
	}
	if len(jobs) == 0 {
		if jobs, err = rendezvous.Jobs(ctx, cli); err != nil {
			return err
		}
	}
	if len(jobs) == 0 {
		a.ui.Note("no job in the store at %s", store)
	}
	for _, id := range jobs {
		ep, known, err := rendezvous.Current(ctx, cli, id)
		if err != nil {
			return err
		}
		ms, err := rendezvous.Members(ctx, cli, id)
		if err != nil {
			return err
		}
		if !known && len(ms) == 0 {
			return &job.Error{Code: exitUsage, What: fmt.Sprintf("the store at %s knows no job %q", store, id), Fix: "launch status without a job lists all"}
		}
		places, err := rendezvous.Places(ctx, cli, id, ep.Nonce)
		if err != nil {
			return err
		}
		a.ui.Job(ui.Job{ID: id, Epoch: ep, Places: places, Members: ms, Verdict: diagnose.Start(evidence(id, ep, places, ms))})
	}
	return nil
}

// evidence is a job's state in the words of diagnose.
func evidence(id string, ep rendezvous.Epoch, places []rendezvous.Place, ms []rendezvous.Member) diagnose.Evidence {
	e := diagnose.Evidence{Job: id, State: string(ep.State), Want: ep.Size, Missing: rendezvous.Missing(ms, ep.Size)}
	here := map[string]rendezvous.Member{}
	for _, m := range ms {
		here[m.ID] = m
	}
	for _, p := range places {
		now, ok := here[p.ID]
		e.Nodes = append(e.Nodes, diagnose.Node{Rank: p.Rank, Name: p.Name, Here: ok, Phase: now.Phase})
		delete(here, p.ID)
	}
	for _, m := range ms {
		if _, waits := here[m.ID]; waits {
			e.Nodes = append(e.Nodes, diagnose.Node{Rank: -1, Name: m.Name(), Here: true, Phase: m.Phase})
		}
	}
	return e
}

// statusBudget bounds the wait of launch status for a store: it only looks.
const statusBudget = 5 * time.Second

// serve hosts a store until it is interrupted.
func (a *app) serve(c *cli.Context) error {
	a.warn()
	if a.o.token != "" {
		a.ui.Findings(finding.Report{finding.Warnf("LAUNCH_TOKEN is not used: this store speaks plain HTTP").Named("job.token").
			Breaking("whoever reaches the port can read and write it").
			Do("a store that a node hosts is protected: launch --store HOST, without launch store")}, false)
	}
	listen := netip.AddrPortFrom(netip.IPv6Unspecified(), job.DefaultStorePort)
	if a.o.Store.Set {
		j, _, err := a.connect(c)
		if err != nil {
			return err
		}
		addr, err := netip.ParseAddr(j.Store.V.Host)
		if err != nil || !j.Store.V.Embedded {
			return &job.Error{Code: exitUsage, What: fmt.Sprintf("--store %q is no address to listen on", a.o.Store.V), Fix: "--store 0.0.0.0:2379, or an address of this machine"}
		}
		listen = netip.AddrPortFrom(addr, uint16(j.Store.V.Port))
	}
	ctx, stop := signal.NotifyContext(c.Context, unix.SIGINT, unix.SIGTERM)
	defer stop()
	s, err := rendezvous.Serve(ctx, "", []netip.AddrPort{listen}, nil)
	if err != nil {
		return err
	}
	defer s.Drop()
	where := listen.String()
	if listen.Addr().IsUnspecified() {
		host, _ := os.Hostname()
		where = net.JoinHostPort(host, strconv.Itoa(int(listen.Port())))
	}
	a.ui.Note("the store is up on %s; on the nodes: launch --store http://%s …", listen, where)
	<-ctx.Done()
	a.ui.Note("ended; its data is gone")
	return nil
}

// completion prints a script for a shell: flags and subcommands up to the
// command's first word, from there on what the command itself completes.
func (a *app) completion(c *cli.Context) error {
	var words, takes []string
	for _, f := range flagTable(&options{}) {
		words = append(words, "--"+f.Names()[0])
		if ownFlags()[f.Names()[0]] {
			takes = append(takes, "--"+f.Names()[0])
		}
	}
	for _, s := range a.subcommands() {
		words = append(words, s.Name)
	}
	switch c.Args().First() {
	case "bash":
	case "zsh":
		a.ui.Print("autoload -U +X bashcompinit && bashcompinit\n")
	default:
		return &job.Error{Code: exitUsage, What: fmt.Sprintf("completion for which shell? bash or zsh, not %q", c.Args().First()), Fix: "source <(launch completion bash)"}
	}
	a.ui.Print(fmt.Sprintf(bashCompletion, strings.Join(takes, "|"), strings.Join(words, " ")))
	return nil
}

const bashCompletion = `_launch() {
  local i=1 w
  while [ $i -lt $COMP_CWORD ]; do
    w=${COMP_WORDS[i]}
    case $w in
      %s) i=$((i+2)) ;;
      -*) i=$((i+1)) ;;
      *) if declare -F _command_offset >/dev/null; then _command_offset $i; fi; return ;;
    esac
  done
  COMPREPLY=($(compgen -W "%s" -- "${COMP_WORDS[COMP_CWORD]}"))
  [ ${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -c -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _launch launch
`
