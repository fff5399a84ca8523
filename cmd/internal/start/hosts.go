package start

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"launch/cmd/internal/hostwatch"
	"launch/cmd/internal/measure"
	"launch/cmd/internal/remote"
	"launch/internal/exit"
	"launch/internal/finding"
	"launch/internal/handoff"
	"launch/internal/launcher"
	"launch/internal/mpirun"
	"launch/internal/process"
	"launch/preflight/hosts"
	"launch/preflight/threshold"
)

const (
	// askBudget bounds the question to a host; with it the verdict on a dead one comes within 15 s.
	askBudget = 11 * time.Second
	// askAtOnce bounds the agents that run at the same time.
	askAtOnce = 128
	// callers bounds the addresses of this host that others call.
	callers = 6
)

// readMpirun reads what an mpirun line asks of its hosts.
func (s *Start) readMpirun() {
	l := s.Job.Line
	if l.Kind != launcher.Mpirun {
		return
	}
	binary, _ := lookPath(l.Argv[l.At])
	if real, err := filepath.EvalSymlinks(binary); err == nil {
		binary = real
	}
	host, _ := os.Hostname()
	dir, _ := os.Getwd()
	run, err := mpirun.Read(mpirun.Input{Line: l, Env: l.Environ(handoff.Environ()), Decided: s.Job.Decided,
		Root: s.root(), Dir: dir, Binary: binary, Hostname: host, Cores: runtime.NumCPU(),
		All: s.Opt.DropUnfit})
	if err != nil { // the job has a note about it
		return
	}
	s.Mpirun = run
	s.Job.Hosts = finding.Map(run.Hosts, func(h mpirun.Host) string { return h.Name })
}

// asked is what the hosts of an mpirun line have answered.
type asked struct {
	answers  []hosts.Answer
	sessions []*remote.Session // nil where there is none
	head     mpirun.Facts
	took     time.Duration // until all had answered
	copies   remote.Copies
	cut      func() // ends all at once
	close    func() // lets them end
}

// checkHosts asks the hosts of an mpirun line, where there are others than this one.
func (s *Start) checkHosts(ctx context.Context) error {
	if !s.asksHosts() {
		s.judgeLine()
		return nil
	}
	local := s.notHere(s.localHosts(ctx))
	if !slices.Contains(local, false) {
		s.judgeLine()
		return nil
	}
	s.callListed(local)
	if i := slices.Index(local, true); i > 0 && s.Job.Line.HeadFirst() {
		toFront(s.Mpirun.Hosts, i)
		toFront(local, i)
	}
	a, err := s.ask(ctx, local)
	if err != nil {
		return err
	}
	defer a.close()
	v := hosts.Judge(s.judged(a))
	s.Hosts, s.unfitHosts, s.hostless = v.Report, v.Unfit, v.Refuse
	s.hostFacts = map[string]mpirun.Facts{}
	for _, h := range a.answers {
		s.hostFacts[h.Name] = h.Facts
		if h.Whole && !h.Local {
			s.watched = append(s.watched, hostwatch.Host{Name: h.Name, Target: h.Target()})
		}
	}
	if s.Subcommand == "" && len(v.Report.Failed()) > 0 && !s.Opt.DropUnfit || v.Refuse || s.onlyMpi() ||
		slices.Contains(s.Opt.Skip, hosts.Copied) {
		return nil
	}
	c, err := s.checkMembers(ctx, a, v.Unfit)
	if err != nil {
		return err
	}
	s.addChecked(c)
	return nil
}

// notHere leaves this host out where mpirun starts no process on it.
func (s *Start) notHere(local []bool) []bool {
	if !s.Mpirun.NoLocal {
		return local
	}
	var others []mpirun.Host
	for i, h := range s.Mpirun.Hosts {
		if !local[i] {
			others = append(others, h)
		}
	}
	s.Mpirun.Hosts = others
	s.Job.Hosts = finding.Map(others, func(h mpirun.Host) string { return h.Name })
	return make([]bool, len(others))
}

// judgeLine says what the line itself shows, where no host is asked: hosts that launch does not read, too few slots.
func (s *Start) judgeLine() {
	o := s.Opt
	if s.Job.MPI == "" || o.DryRun || o.Local || s.Machine != nil || slices.Contains(o.Skip, hosts.Asked) {
		return
	}
	v := hosts.Judge(s.judged(asked{}))
	s.Hosts = slices.DeleteFunc(v.Report, func(f finding.Finding) bool {
		return f.Status != finding.Warn && f.Status != finding.Fail
	})
}

// toFront makes the element at i the first one.
func toFront[T any](s []T, i int) {
	first := s[i]
	copy(s[1:i+1], s[:i])
	s[0] = first
}

// onlyMpi reports whether --only has no check that the hosts make together.
func (s *Start) onlyMpi() bool {
	return len(s.Opt.Only) > 0 && !slices.ContainsFunc(s.Opt.Only, func(id string) bool {
		return !strings.HasPrefix(id, "mpi.")
	})
}

// addChecked adds what the hosts found together. What this host has said of itself is not said again, and no clock
// that a shell has shown to be wrong.
func (s *Start) addChecked(c hostsChecked) {
	own, asked := s.Local.Outcomes(), s.Hosts.Outcomes()
	failed := len(c.report.Failed())
	if c.report = hosts.Ports(s.Mpirun, s.Job.MPI, c.report); len(c.report.Failed()) < failed {
		c.unfit = slices.DeleteFunc(c.unfit, func(host string) bool { return !c.fails(host) })
	}
	for _, f := range c.report {
		if c.self != "" && strings.HasPrefix(f.What, c.self+": ") && own[f.ID] == f.Status {
			continue
		}
		if f.ID == "peer.clock" && asked["mpi.clock"] == finding.Warn {
			continue
		}
		s.Hosts = append(s.Hosts, f)
	}
	for _, name := range c.unfit {
		if !slices.Contains(s.unfitHosts, name) {
			s.unfitHosts = append(s.unfitHosts, name)
		}
	}
	s.hostSurvey, s.hostBench, s.hostPlans = c.survey, c.bench, c.plans
}

// asksHosts reports whether the hosts of the line are asked.
func (s *Start) asksHosts() bool { return !s.Opt.DryRun && s.wouldAsk() }

// wouldAsk reports whether a start asks the hosts of the line.
func (s *Start) wouldAsk() bool {
	o := s.Opt
	return s.Job.MPI != "" && len(s.Mpirun.Hosts) > 0 && len(s.Mpirun.Agent.Argv) > 0 && !o.Local &&
		s.Machine == nil && !slices.Contains(o.Skip, hosts.Asked)
}

// hostsVerdict prints the findings about the hosts, and refuses unfit ones.
func (s *Start) hostsVerdict(context.Context) error {
	s.UI.Findings(s.Hosts, false)
	if s.hostBench != nil {
		s.UI.Rails(s.benched(measure.Result{Verdict: *s.hostBench}))
	}
	failed := s.Hosts.Failed()
	if len(failed) == 0 {
		return nil
	}
	who := finding.Some(s.unfitHosts)
	if who == "" {
		return exit.Errorf(exit.Unfit, "mpirun cannot start this job: %s", failed[0].What).
			Do("fix the failures above, then start again\n--skip ID leaves a check out, --warn-only starts anyway")
	}
	if s.Opt.DropUnfit && s.hostless {
		return exit.Errorf(exit.Unfit, "mpirun cannot start this job, also without %s: a failure above is about no host",
			who).Do("fix the failures above, then start again")
	}
	if s.Opt.DropUnfit {
		return s.dropUnfit()
	}
	return exit.Errorf(exit.Unfit, "%s of %d unfit: %s", finding.Count(len(s.unfitHosts), "host"),
		len(s.Mpirun.Hosts), who).
		Do("fix the failures above, then start again\n--drop-unfit starts on the other hosts, --skip ID leaves a check out")
}

// judged returns what the hosts are judged by.
func (s *Start) judged(a asked) hosts.Input {
	o := s.Opt
	in := hosts.Input{Run: s.Mpirun, MPI: s.Job.MPI, Head: a.head, Answers: a.answers,
		Drift:    time.Duration(threshold.Of(o.Thresholds, "peer.clock") * float64(time.Second)),
		WarnOnly: o.WarnOnly,
		Left: func(id string) bool {
			return slices.Contains(o.Skip, id) || len(o.Only) > 0 && !slices.Contains(o.Only, id)
		}}
	in.Run.Parameters = slices.Concat(in.Run.Parameters, s.plannedParameters())
	if argv := s.Mpirun.Agent.Argv; len(argv) > 0 {
		in.Agent = argv[0]
	}
	if at := os.Getenv("SSH_AUTH_SOCK"); at != "" {
		if c, err := net.DialTimeout("unix", at, time.Second); err != nil {
			in.NoAgent = at
		} else {
			_ = c.Close()
		}
	}
	for line := range strings.Lines(readFiles(s.root(), []string{"/etc/hosts"})["/etc/hosts"]) {
		line, _, _ = strings.Cut(line, "#")
		if f := strings.Fields(line); len(f) > 1 {
			in.Known = append(in.Known, f[1:]...)
		}
	}
	return in
}

// localHosts returns, for each host of the line, whether it is this one.
func (s *Start) localHosts(ctx context.Context) []bool {
	ctx, cancel := context.WithTimeout(ctx, firstLook)
	defer cancel()
	all := s.Mpirun.Hosts
	local := make([]bool, len(all))
	remote.Each(len(all), askAtOnce, func(i int) {
		name := all[i].Name
		if local[i] = s.isOwnName(name); local[i] {
			return
		}
		addr, err := netip.ParseAddr(name)
		addrs := []netip.Addr{addr}
		if err != nil {
			addrs, _ = systemResolver(ctx, name)
		}
		local[i] = slices.ContainsFunc(addrs, func(a netip.Addr) bool { return a.IsLoopback() || s.Node.IsLocal(a) })
	})
	return local
}

// isOwnName reports whether a name is this host's, which no name server needs to say.
func (s *Start) isOwnName(name string) bool {
	short, _, _ := strings.Cut(s.Node.Hostname, ".")
	return name == "localhost" || name == s.Node.Hostname || name == short
}

// ask asks all hosts at once, this one too.
func (s *Start) ask(ctx context.Context, local []bool) (a asked, err error) {
	question, listener, err := s.question()
	if err != nil {
		return a, err
	}
	all := s.Mpirun.Hosts
	a.answers, a.sessions = make([]hosts.Answer, len(all)), make([]*remote.Session, len(all))
	ctx, a.cut = context.WithCancel(ctx)
	a.close = func() {
		remote.Each(len(all), askAtOnce, func(i int) {
			if a.sessions[i] != nil {
				a.sessions[i].Close()
			}
		})
		listener()
		a.cut()
	}
	a.copies = remote.NewCopies()
	agent := remote.Agent{Argv: s.Mpirun.Agent.Argv, Srun: s.Mpirun.Agent.Srun, Sockets: new(process.Table)}
	p := newPace(s.root())
	defer p.stop()
	var once sync.Once
	p.slow = func(host string) {
		once.Do(func() {
			s.UI.Note("the sshd of %s answers, but no shell after %s: waiting for it, %s at most", host,
				time.Since(p.began).Round(time.Second), loginPatience)
		})
	}
	one := func(p *pace, i int) {
		by := agent
		by.Connect = p.connect
		if local[i] {
			by = remote.Agent{}
		}
		a.sessions[i], a.answers[i] = askHost(ctx, p, by, all[i].Target(), s.Mpirun.Script(question))
		h := &a.answers[i]
		h.Host, h.Local = all[i], local[i]
		if _, awaited := h.MayCome(); !h.Whole && h.Facts.Host == "" && !(awaited && s.Job.Pod != nil) {
			p.lose.Do(func() { close(p.lost) })
		}
	}
	remote.Each(len(all)+1, askAtOnce, func(i int) {
		if i < len(all) {
			one(p, i)
			return
		}
		own := question // this host as the head, which may be none of them
		own.Calls = nil
		session, head := askHost(ctx, p, remote.Agent{}, "", s.Mpirun.Script(own))
		if session != nil {
			session.Close()
		}
		a.head = head.Facts
	})
	s.askAgain(ctx, p, &a, one)
	a.took = time.Since(p.began)
	s.awaitHosts(ctx, &a, one)
	return a, nil
}

// forced returns the line by which sshd of a host runs another command, where an agent has ended without a shell.
func forced(ctx context.Context, by remote.Agent, target string, f *remote.Failed) string {
	const lost = 255 // ssh itself failed
	if f.Unrun != nil || f.Late || f.Loss != nil || f.Err != nil && f.Status < 0 || f.Status == lost {
		return ""
	}
	return remote.Agent{Argv: by.Argv, Srun: by.Srun}.Forced(ctx, target)
}

// askHost asks one host. Its shell remains, where it has one.
func askHost(ctx context.Context, p *pace, by remote.Agent, target, script string) (*remote.Session, hosts.Answer) {
	var a hosts.Answer
	ctx, cut := context.WithCancel(ctx)
	var answers atomic.Pointer[func() bool]
	by.Began = func(f func() bool) { answers.Store(&f) }
	var unrun atomic.Bool
	alive := func() bool {
		f := answers.Load()
		if f == nil || !(*f)() {
			return false
		}
		unrun.Store(remote.Agent{Argv: by.Argv, Srun: by.Srun}.Unrun(ctx, target))
		return !unrun.Load()
	}
	defer p.guard(target, alive, cut)() // the shell remains
	session, err := remote.Open(ctx, by, target)
	if err == nil {
		answers.Store(nil) // its login is over
		a.Before, a.Sent = session.Before, time.Now()
		var printed []string
		printed, err = session.Do(script)
		a.Back = time.Now()
		if a.Facts, a.Whole = mpirun.ReadFacts(printed); a.Whole {
			p.answered()
		}
	} else if session != nil {
		a.Before = session.Before
	}
	if f, ok := errors.AsType[*remote.Failed](err); ok {
		a.Failed, a.Late, a.Whole = f.Error(), f.Late, false
		if f.Words != "" {
			a.Failed = f.Words
		}
		if unrun.Load() {
			a.Unrun = &hosts.Unrun{}
		}
		if line := forced(ctx, by, target, f); line != "" {
			a.Unrun = &hosts.Unrun{Forced: true, Seen: []string{line}}
		}
		if f.Unrun != nil {
			a.Unrun = &hosts.Unrun{Forced: f.Unrun.Forced, Seen: f.Unrun.Seen}
		}
		if f.Loss != nil {
			a.LossWay, a.LossSeen = f.Loss.Way, f.Loss.Seen
		}
	}
	return session, a
}
