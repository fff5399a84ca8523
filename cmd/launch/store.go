package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"launch/cmd/internal/companion"
	"launch/cmd/internal/start"
	"launch/cmd/internal/storeaddr"
	"launch/cmd/internal/ui"
	"launch/diagnose"
	"launch/internal/exit"
	"launch/internal/finding"
	"launch/internal/job"
	"launch/internal/masterport"
	"launch/internal/munge"
	"launch/internal/setting"
	"launch/rendezvous"
)

// connect returns the store that the flags name, or in a pod the store of its job. This process does not join the job.
func (a *app) connect(c *cli.Context) (rendezvous.Store, error) {
	if a.Opt.Store.Set {
		// Any number does: this process only reads.
		from := setting.Source{Tier: setting.Explicit, Name: "--nnodes"}
		a.Opt.NNodes = setting.Value[string]{V: "2", From: from, Set: true}
		a.Warn()
	}
	err := a.ResolveJob(c.Context)
	inPod := err == nil && a.Job.Pod != nil && a.Job.Store.From.Tier == setting.Scheduler
	if !a.Opt.Store.Set && !inPod {
		line := slices.Concat([]string{"launch", a.Subcommand}, c.Args().Slice(), []string{"--store", "host0"})
		return rendezvous.Store{}, exit.Errorf(exit.Usage, "--store is missing").
			Do("%s", strings.Join(line, " "))
	}
	if err != nil {
		return rendezvous.Store{}, err
	}
	s := a.Job.Store.V
	at := rendezvous.Store{Endpoints: s.Endpoints, Access: a.Opt.Etcd(s),
		TLS: companion.TLS(a.Opt.Token, "", s.Embedded, s.Endpoints)}
	if at.TLS != nil && s.Embedded { // of whatever job
		at.TLS.Client = a.Opt.Token.AnyJob()
	}
	return at, nil
}

// jobStore is a store that answers, and the jobs that the command line names; none: all jobs.
type jobStore struct {
	*rendezvous.Client
	at   rendezvous.Store
	jobs []string
}

// openStore connects to the store that the flags name, for the jobs in args and --job.
func (a *app) openStore(ctx context.Context, c *cli.Context, args []string) (s jobStore, err error) {
	if s.at, err = a.connect(c); err != nil {
		return s, err
	}
	if s.jobs = args; a.Opt.Job.Set {
		s.jobs = append(s.jobs, a.Opt.Job.V)
	}
	s.Client, err = rendezvous.Connect(ctx, s.at, nil)
	if errors.Is(err, rendezvous.ErrToken) && a.Opt.Token == "" && munge.Works(ctx) == nil {
		s.at.TLS = companion.Learn(nil) // under Slurm the nodes' secret is the one that munge hides
		s.Client, err = rendezvous.Connect(ctx, s.at, nil)
	}
	if a.Job.Store.V.Embedded {
		err = start.Unreached(ctx, err, a.Job.Store.V)
	}
	return s, err
}

// jobNames returns the jobs that the command line names, or else all of the store.
func (a *app) jobNames(ctx context.Context, s jobStore) ([]string, error) {
	if len(s.jobs) > 0 {
		return s.jobs, nil
	}
	jobs, err := rendezvous.Jobs(ctx, s.Client)
	if err != nil {
		return nil, s.lostError(err)
	}
	if len(jobs) == 0 {
		a.UI.Note("no jobs in the store at %s", s.at)
	}
	return jobs, nil
}

// lostError returns the error for a store that has answered and no longer does.
func (s jobStore) lostError(err error) error {
	return exit.Errorf(exit.Unreachable, "the store at %s no longer answers: %v", s.at, err).
		Do("launch status --store %s   # again: it says what this node sees of that host\n%s", s.at, start.WithoutStore)
}

// status prints the nodes of the jobs in a store, once or at every change.
func (a *app) status(c *cli.Context) error {
	ctx, stop := signal.NotifyContext(c.Context, unix.SIGINT, unix.SIGTERM)
	defer stop()
	first, cancel := context.WithTimeout(ctx, min(statusBudget, a.Opt.JoinTimeout))
	defer cancel()
	s, err := a.openStore(first, c, c.Args().Slice())
	if err != nil {
		return err
	}
	defer s.Close()
	var changes <-chan struct{}
	if a.watch { // begins before the first read, so that no change is missed
		changes = rendezvous.Changes(ctx, s.Client, watchEvery)
	}
	last, err := a.states(first, s)
	a.show(last)
	for err == nil && a.watch {
		if _, more := <-changes; !more {
			err = s.lostError(errors.New("the connection was lost"))
			break
		}
		var now []ui.Job
		if now, err = a.states(ctx, s); err == nil && !reflect.DeepEqual(now, last) {
			a.UI.Clear()
			a.show(now)
			last = now
		}
	}
	if a.watch && ctx.Err() != nil {
		return nil // a signal ends a watch
	}
	return err
}

// show prints jobs.
func (a *app) show(jobs []ui.Job) {
	for _, j := range jobs {
		a.UI.Job(j)
	}
}

// states returns the jobs as they are now.
func (a *app) states(ctx context.Context, s jobStore) (shown []ui.Job, err error) {
	jobs, err := a.jobNames(ctx, s)
	if err != nil {
		return nil, err
	}
	for _, id := range jobs {
		j, known, err := state(ctx, s.Client, id)
		switch {
		case err != nil:
			return nil, s.lostError(err)
		case !known:
			return nil, a.unknownJob(s, id)
		}
		shown = append(shown, j)
	}
	return shown, nil
}

// state returns a job as it is now; false: the store does not know it.
func state(ctx context.Context, c *rendezvous.Client, id string) (j ui.Job, known bool, err error) {
	ep, known, err := rendezvous.Current(ctx, c, id)
	if err != nil {
		return j, known, err
	}
	ms, err := rendezvous.Members(ctx, c, id)
	if err != nil {
		return j, known, err
	}
	var notes []rendezvous.Note
	if ep.State == "" || ep.State == rendezvous.Open {
		notes, err = rendezvous.Notes(ctx, c, id, len(ms) > 0)
	}
	if known = known || len(ms)+len(notes) > 0; err != nil || !known {
		return j, known, err
	}
	places, err := rendezvous.Places(ctx, c, id, ep.Nonce)
	if err != nil {
		return j, known, err
	}
	if ep.State == "" && len(ms) > 0 { // the leader is about to write it
		ep.Size, ep.Min = ms[0].Size, ms[0].Min
	}
	j = ui.Job{ID: id, Epoch: ep, Places: places, Members: ms, Verdict: diagnose.Start(evidence(ep, places, ms, notes))}
	if ep.State == rendezvous.Sealed {
		j.Ready, err = rendezvous.Ready(ctx, c, id, ep.N, start.GoRound)
	}
	return j, known, err
}

// evidence returns a job's state as diagnose takes it.
func evidence(ep rendezvous.Epoch, places []rendezvous.Place, ms []rendezvous.Member,
	notes []rendezvous.Note) diagnose.Evidence {
	e := diagnose.Evidence{Unfit: ui.Unfit(notes, 0), State: string(ep.State), Why: ep.Why, Restarts: ep.Restarts,
		Want: ep.Size, Min: ep.Min, Missing: rendezvous.Missing(ms, ep.Size)}
	here := map[string]rendezvous.Member{}
	for _, m := range ms {
		here[m.ID] = m
	}
	for _, p := range places {
		now, ok := here[p.ID]
		name := p.Name
		if !ok && p.Status != nil {
			name = fmt.Sprintf("%s with %d", name, *p.Status)
		}
		e.Nodes = append(e.Nodes, diagnose.Node{Rank: p.Rank, Name: name, Here: ok, Lost: !ok && !p.Over,
			Bad: !ok && p.Status != nil && *p.Status != 0, Phase: now.Phase})
		delete(here, p.ID)
	}
	for _, m := range ms {
		if _, waits := here[m.ID]; waits {
			e.Nodes = append(e.Nodes, diagnose.Node{Rank: -1, Name: m.Name(), Here: true, Spare: m.Spares > 0 || m.Min > 0,
				Phase: m.Phase})
		}
	}
	return e
}

// statusBudget bounds the wait of launch status for a store.
const statusBudget = 5 * time.Second

// watchEvery is the shortest time between two tables for a person to read.
const watchEvery = 500 * time.Millisecond

// serve hosts a store until a signal ends it.
func (a *app) serve(c *cli.Context) error {
	a.Warn()
	listen := netip.AddrPortFrom(netip.IPv6Unspecified(), job.DefaultStorePort)
	if a.Opt.Store.Set {
		if _, err := a.connect(c); err != nil {
			return err
		}
		at := a.Job.Store.V
		addr, err := netip.ParseAddr(at.Host)
		if err != nil || !at.Embedded {
			return exit.Errorf(exit.Usage, "--store %q is not an IP address to listen on", a.Opt.Store.V).
				Do("--store 0.0.0.0:2379, or an address of this machine")
		}
		listen = netip.AddrPortFrom(addr, uint16(at.Port))
	}
	ctx, stop := signal.NotifyContext(c.Context, unix.SIGINT, unix.SIGTERM)
	defer stop()
	s, err := rendezvous.Serve(ctx, "", []netip.AddrPort{listen}, companion.TLS(a.Opt.Token, "", true, nil))
	if errors.Is(err, rendezvous.ErrPortTaken) {
		f := exit.Error{Code: exit.Unreachable, What: fmt.Sprintf("port %d is taken", listen.Port()),
			Fix: "launch store --store " + job.NextPort(listen.String())}
		if u, err := masterport.Look(os.DirFS("/proc"), listen); err == nil && u.By != "" {
			f.What += " by " + u.By
		}
		return &f
	}
	if err != nil {
		return err
	}
	defer s.Drop()
	where := listen.String()
	if listen.Addr().IsUnspecified() {
		where = net.JoinHostPort(storeaddr.Advertised(ctx), strconv.Itoa(int(listen.Port())))
	}
	scheme := "http"
	if a.Opt.Token != "" {
		scheme = "https"
	}
	a.UI.Note("the store is up on %s; on the nodes: launch --store %s://%s …", listen, scheme, where)
	if a.Opt.Token == "" && !a.Opt.OpenStore && !listen.Addr().IsLoopback() {
		a.UI.Note("no LAUNCH_TOKEN: any process that reaches it can take part in its jobs; openssl rand -hex 16 makes one, " +
			"--open-store silences this")
	}
	<-ctx.Done()
	a.UI.Note("the store has ended, and its data is deleted")
	return nil
}

// store hosts a store, or cleans one.
func (a *app) store(c *cli.Context) error {
	switch {
	case c.NArg() == 0:
		return a.serve(c)
	case c.Args().First() == "clean":
		return a.clean(c)
	}
	return exit.Errorf(exit.Usage, "launch store does not take %q", c.Args().First()).
		Do("launch store, or launch store clean")
}

// refuseRunning refuses named jobs that do not exist or still run, before anything is removed.
func (a *app) refuseRunning(ctx context.Context, s jobStore) error {
	if len(s.jobs) == 0 {
		return nil
	}
	known, err := rendezvous.Jobs(ctx, s.Client)
	if err != nil {
		return s.lostError(err)
	}
	for _, id := range s.jobs {
		if !slices.Contains(known, id) {
			return a.unknownJob(s, id)
		}
		here, err := rendezvous.Members(ctx, s.Client, id)
		if err != nil {
			return s.lostError(err)
		}
		if n := len(here); n > 0 {
			return exit.Errorf(exit.Usage, "job %q is not over: %s; nothing was removed", id,
				finding.Plural(n, "node is registered", "nodes are registered")).
				Do("launch status shows them")
		}
	}
	return nil
}

// unknownJob returns the error for a job that the store does not have.
func (a *app) unknownJob(s jobStore, id string) error {
	return exit.Errorf(exit.Usage, "the store at %s has no job %q", s.at, id).
		Do("launch status without a job lists all jobs")
}

// clean removes from a store what ended jobs left there.
func (a *app) clean(c *cli.Context) error {
	ctx, cancel := context.WithTimeout(c.Context, statusBudget)
	defer cancel()
	if c.IsSet("prefix") {
		return a.purge(ctx, c)
	}
	s, err := a.openStore(ctx, c, c.Args().Tail())
	if err != nil {
		return err
	}
	defer s.Close()
	jobs, err := a.jobNames(ctx, s)
	if err != nil {
		return err
	}
	if err := a.refuseRunning(ctx, s); err != nil {
		return err
	}
	for _, id := range jobs {
		here, err := rendezvous.Clean(ctx, s.Client, id)
		switch {
		case err != nil:
			return s.lostError(err)
		case here > 0:
			a.UI.Note("kept job %s: %s", id, finding.Plural(here, "node is registered", "nodes are registered"))
		default:
			a.UI.Note("removed job %s", id)
		}
	}
	return nil
}

// purge removes what other programs have left in an external etcd.
func (a *app) purge(ctx context.Context, c *cli.Context) error {
	switch {
	case a.prefix == "" || a.prefix == "/":
		return exit.Errorf(exit.Usage, "--prefix %q would remove everything", a.prefix).
			Do("--prefix xferbench/   # what nixlbench has left")
	case rendezvous.Ours(a.prefix):
		return exit.Errorf(exit.Usage, "--prefix %q has jobs of launch", a.prefix).
			Do("launch store clean, without --prefix, removes those that are over")
	case c.Args().Len() > 1:
		return exit.Errorf(exit.Usage, "--prefix does not go with jobs: %s", strings.Join(c.Args().Tail(), " ")).
			Do("launch store clean --prefix %s", a.prefix)
	}
	s, err := a.openStore(ctx, c, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	if a.Job.Store.V.Embedded {
		return exit.Errorf(exit.Usage, "--prefix is for an etcd: a store of launch has no keys of other programs").
			Do("launch store clean --store http://HOST:2379 --prefix %s", a.prefix)
	}
	n, err := rendezvous.Purge(ctx, s.Client, a.prefix)
	if err != nil {
		return s.lostError(err)
	}
	a.UI.Note("removed %s below %s", finding.Plural(int(n), "key", "keys"), a.prefix)
	return nil
}
