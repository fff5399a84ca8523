package start

import (
	"context"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"launch/cmd/internal/companion"
	"launch/cmd/internal/storeaddr"
	"launch/cmd/internal/ui"
	"launch/envgen"
	"launch/fabric"
	"launch/fabric/software"
	"launch/internal/finding"
	"launch/internal/job"
	"launch/internal/launcher"
	"launch/internal/process"
	"launch/internal/setting"
	"launch/preflight/calls"
	"launch/rendezvous"
)

// firstLook bounds the wait for the store's name before the checks, which precede a long wait.
const firstLook = time.Second

// podNameDelay is how long a pod waits before it looks up another one's name: CoreDNS
// caches for 30 s that there is no such name. Seen: without a pause 30 s lost in 4 of 5 starts, with
// half a second in none.
const podNameDelay = 700 * time.Millisecond

// ofAPod reports whether the store's name is another pod's or a Service's, which the cluster's DNS learns soon.
func ofAPod(j job.Job) bool {
	host, _, _ := strings.Cut(j.Store.V.Host, ".")
	_, err := netip.ParseAddr(j.Store.V.Host)
	return j.Several() && j.Pod != nil && j.Store.V.Embedded && host != j.Pod.Name && err != nil
}

// locate finds the store's address, and waits for its name to resolve.
func (s *Start) locate(ctx context.Context) error {
	if err := awaitName(ctx, s.Job); err != nil {
		return err
	}
	if _, err := s.find(ctx, s.Opt.JoinTimeout); err != nil {
		return err
	}
	return s.pickHost(ctx)
}

// awaitName waits podNameDelay if the store's name may not exist yet.
func awaitName(ctx context.Context, j job.Job) error {
	if !ofAPod(j) {
		return nil
	}
	select {
	case <-time.After(podNameDelay):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// find returns the store's address, which is worked out once.
func (s *Start) find(ctx context.Context, budget time.Duration) (storeaddr.Place, error) {
	if s.store != nil {
		return *s.store, nil
	}
	hosts, err := s.Opt.hosts()
	if err != nil {
		return storeaddr.Place{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, min(budget, s.Opt.JoinTimeout))
	defer cancel()
	f := storeaddr.Finder{Resolve: systemResolver, Route: s.routeTo, Hosts: hosts}
	servers := nameServers(s.Node)
	if len(servers.Servers) > 0 {
		f.Servers = s.findBy(servers)
	}
	if budget > firstLook {
		var wait nameWait
		defer wait.end()
		asked := time.Now()
		f.Report = func(host string, err error) {
			until, _ := ctx.Deadline()
			wait.show(ctx, companion.Naming{Host: host, Why: err.Error(), Since: asked, Until: until,
				Do: s.nameFix(host, err)})
			s.UI.Note("the store host %q does not resolve yet: %v%s; retrying until %s (is it spelled right? "+
				"A line in /etc/hosts ends the wait)", host, err, remembered(ctx, servers, host), until.Format("15:04:05"))
		}
		var stop func()
		ctx, stop = s.watchService(ctx, servers)
		defer stop()
	}
	place, err := f.Find(ctx, s.Job, s.Node)
	if err == nil {
		s.store = &place
	}
	return place, err
}

// routeTo returns how this node reaches an address, by the facts if it is a recorded one.
func (s *Start) routeTo(dst netip.Addr) (fabric.Route, error) {
	if s.Machine != nil {
		return s.Node.RouteTo(dst)
	}
	return fabric.RouteTo(dst)
}

// recordedAddr returns the address of a recorded node for its peers: the one of --addr, or the source of the
// route to the store. A recording resolves no name: there it is the default route.
func (s *Start) recordedAddr() (netip.Addr, error) {
	if s.Job.Addr.Set {
		return storeaddr.Chosen(s.Job, s.Node)
	}
	for _, name := range storeNames(s.Job.Store.V) {
		if dst, err := netip.ParseAddr(name); err == nil {
			r, _ := s.Node.RouteTo(dst) // no route: unknown
			return r.Src, nil
		}
	}
	return s.Node.Route.Src, nil
}

// register registers this node by its companion, which hosts the store on the store's host.
func (s *Start) register(ctx context.Context) error {
	if err := enoughFiles(); err != nil {
		return err
	}
	j := s.Job
	if j.ID.From.Tier == setting.Derived {
		s.UI.Note("%s (the job name is derived from the %s; --job sets it)", ui.Identity(j), j.ID.From.Name)
	} else {
		s.UI.Note("%s", ui.Identity(j))
	}
	s.deadline = s.began.Add(s.Opt.JoinTimeout)
	from := ""
	if s.waitsByLine() {
		from = ", from " + j.Wait.From.Name
	}
	s.UI.Note("waiting for %s, until %s (--join-timeout %s%s)", ui.Nodes(j.Nodes.V, j.Min), s.deadline.Format("15:04:05"),
		s.Opt.JoinTimeout, from)
	s.warnEarlier(s.store.Endpoints)
	s.secret = s.Opt.Token
	return s.again(ctx, s.enter(ctx))
}

// enter registers this node at the store that it hosts, or that another node does.
func (s *Start) enter(ctx context.Context) error {
	j, place := s.Job, *s.store
	lo, hi, err := s.Opt.ports()
	if err != nil {
		return err
	}
	self, err := s.self(place)
	if err != nil {
		return err
	}
	s.wait.alone, s.wait.unhosted, s.wait.twin = s.sayAlone, s.unhosted, s.twin
	s.wait.silent, s.wait.apart, s.wait.callers, s.wait.deaf = s.whySilent, s.sayApart, s.sayCallers(), s.sayDeaf()
	s.wait.claimed = func() { s.UI.Findings(s.claimed(place.Addr), false) }
	spec := companion.Spec{
		Job: j.ID.V, Self: self, Endpoints: place.Endpoints, Embedded: j.Store.V.Embedded, Access: s.Opt.Etcd(j.Store.V),
		Serve: place.Serve, Brief: s.Subcommand == "check" && !s.benches(), // a bench needs all of a process
		Narrow: s.Node.System.Cgroup.Narrow(), Stalls: s.Node.System.Cgroup.Stalls,
		Budget: s.Opt.JoinTimeout, First: max(time.Until(s.deadline), moveBudget),
		Port: wantedPort(j), Fixed: j.MasterPort.From.Tier == setting.Explicit && j.MasterPort.Set,
		Low: lo, High: hi, Listen: s.listenAt(place), Guess: place.Guess, Token: s.Opt.Token, Munge: s.munged(ctx),
		About:    calls.About(s.Node, place.Addr),
		LastCall: s.Opt.LastCall, StartTimeout: s.Opt.StartTimeout, HangAfter: s.hangAfter(),
		EndHung: s.endsHung(), FailFast: s.Opt.FailFast, NoWait: s.noWait(), JSON: s.UI.JSON(), Mixed: s.mixes(),
		Torchrun: s.Job.Line.Kind == launcher.Torchrun, Spawns: s.Job.Program.Spawns, Ahead: s.ahead(),
		Names: s.names(), Renews: s.renews(), Shared: s.shares(),
	}
	s.comp, err = companion.Start(ctx, spec, s.wait.event)
	for s.ofTheLastJob(ctx, err) {
		if spec.Endpoints, err = s.endpointsAgain(ctx); err == nil {
			s.comp, err = companion.Start(ctx, spec, s.wait.event)
		}
	}
	if err == nil {
		s.Opt.Token = s.comp.Token
	}
	return err
}

// listenAt returns where the side channel listens: everywhere if the other nodes call the rails of this one, too.
func (s *Start) listenAt(place storeaddr.Place) netip.Addr {
	if len(calls.RailAddrs(s.Node, place.Addr)) > 0 {
		return netip.IPv6Unspecified()
	}
	return place.Listen
}

// hangAfter returns how long nothing may move before the doctor is asked; 0, never, for a job that has no store
// of torch on its port: the doctor would take another program's for one that does not answer.
func (s *Start) hangAfter() time.Duration {
	l := s.Job.Line
	other := l.Kind == launcher.Program && slices.ContainsFunc([]string{"jax", "tensorflow", "ray"},
		func(library string) bool { return slices.Contains(s.Job.Uses, library) })
	if other || l.Kind == launcher.Ray || s.Job.Role.Set { // roles have a store each, and may wait for one another
		return 0
	}
	return s.Opt.HangAfter
}

// warnEarlier names commands of an earlier start of this job that still run here. Where nodes may join
// later they can be of this start.
func (s *Start) warnEarlier(endpoints []string) {
	if s.Subcommand != "" || s.Job.Min > 0 || s.Job.Spares > 0 {
		return
	}
	for _, pid := range companion.Earlier(s.Job.ID.V, endpoints) {
		var up unix.Sysinfo_t
		stat, err := process.Read(pid)
		ticks, _ := strconv.ParseInt(stat.Started, 10, 64)
		if err != nil || unix.Sysinfo(&up) != nil {
			continue
		}
		f := finding.Warnf("the command of an earlier start of this job still runs here: pid %d, for %s", pid,
			time.Duration(up.Uptime-ticks/100)*time.Second) // USER_HZ is 100
		s.UI.Findings(finding.Report{f.Named("job.earlier").Do("kill %d   # unless that run is wanted: "+
			"then give this one its own name and port (--job, --store HOST:PORT)", pid)}, false)
	}
}

// ahead returns what the command will import, to be read during the wait; nil: nothing, or it is in memory.
func (s *Start) ahead() *software.Import {
	if !s.Opt.ReadAhead || s.Subcommand != "" {
		return nil
	}
	script := ""
	if l := s.Job.Line; l.Script > 0 && l.Script < len(l.Argv) {
		script = l.Argv[l.Script]
	}
	m, ok := s.Node.Software.Import(loaded(s.Job), script)
	if !ok || s.Node.System.Cgroup.Narrow() || // each file that is waited for takes a thread
		!m.Cold(fabric.Live().Root) {
		return nil
	}
	return &m
}

// self returns this node as the others see it.
func (s *Start) self(p storeaddr.Place) (rendezvous.Member, error) {
	stat, _ := process.Read(os.Getpid()) // where /proc is not mounted this node's machine and process are unknown
	pidns, _ := os.Readlink("/proc/self/ns/pid")
	m := rendezvous.Member{
		Restarts: s.Opt.Restarts, Spares: s.Job.Spares, Patience: s.Opt.JoinTimeout, Bench: s.Opt.Bench,
		Index: -1, Size: s.Job.Nodes.V, Min: s.Job.Min, Host: s.Node.Hostname, Addr: p.Addr,
		Role: s.Job.Role.V, Machine: strings.TrimSpace(s.Node.BootID + " " + pidns), PID: os.Getpid(),
		Started: stat.Started, Since: time.Now(),
	}
	in := s.Input
	in.World.Nodes, in.World.Addr = s.Job.Nodes.V, p.Addr
	waits := s.others(envgen.Listens(in, envgen.Make(in)))
	m.Addrs = finding.Map(waits, func(l envgen.Listen) netip.Addr { return l.Addr })
	if s.Job.Index.Set {
		m.Index, m.Vouch = s.Job.Index.V, rendezvous.Vouch(s.Job.Vouch)
	}
	return m, nil
}
