package start

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"launch/cmd/internal/companion"
	"launch/cmd/internal/remote"
	"launch/internal/exit"
	"launch/internal/finding"
	"launch/internal/handoff"
	"launch/internal/mpirun"
	"launch/internal/secret"
	"launch/preflight/bandwidth"
	"launch/preflight/hosts"
	"launch/rendezvous"
)

const (
	// copyBudget and togetherBudget bound a copy of launch to a host, and the check of all hosts together.
	copyBudget, togetherBudget = 20 * time.Second, 45 * time.Second
	// slowness is how much longer the check may take than the question to a shell, on slow machines.
	slowness = 8
	// meetBudget is how long the hosts wait for each other: all have answered just now.
	// On slow machines it is twice as long as all took to answer.
	meetBudget = 25 * time.Second
	// benchBudget is for a bench besides.
	benchBudget = 10 * time.Minute
)

// member is a host that takes part in the check of all hosts together.
type member struct {
	*remote.Session
	answer  hosts.Answer
	program string // launch, on that host
	store   string // the address of this host as that one reaches it
	rank    int    // in the check

	lost  error    // why launch could not be copied there
	lines []string // what its check printed
}

// checkMembers runs launch check on all hosts that a shell could ask and that can run launch.
func (s *Start) checkMembers(ctx context.Context, a asked, unfit []string) (hostsChecked, error) {
	limit := max(togetherBudget, slowness*a.took)
	if s.benches() {
		limit += benchBudget
	}
	late := time.AfterFunc(limit, a.cut)
	defer late.Stop()
	all := s.members(a, unfit)
	members := slices.DeleteFunc(slices.Clone(all), func(m *member) bool { return m.lost != nil })
	if len(members) == 0 || len(members) == 1 && members[0].answer.Local { // this host has checked itself
		return s.readChecks(slices.DeleteFunc(all, func(m *member) bool { return m.lost == nil })), nil
	}
	token := secret.New()
	port := 0
	if len(members) > 1 {
		server, err := s.hostStore(ctx, token)
		if err != nil {
			return hostsChecked{}, err
		}
		defer server.Close()
		at, err := netip.ParseAddrPort(server.Endpoints()[0])
		if err != nil {
			return hostsChecked{}, err
		}
		port = int(at.Port())
	}
	meet := max(meetBudget, 2*a.took.Round(time.Second))
	remote.Each(len(members), len(members), func(i int) {
		m := members[i]
		m.rank = i
		m.lines, m.lost = m.Run(s.checkScript(m, token, port, len(members), i, meet))
	})
	if ctx.Err() != nil {
		return hostsChecked{}, context.Cause(ctx)
	}
	return s.readChecks(all), nil
}

// members copies launch to the hosts that lack it, and returns those where it is. A host with several names is
// one member.
func (s *Start) members(a asked, unfit []string) (out []*member) {
	all := make([]*member, len(a.answers))
	seen, stores := map[string]bool{}, reachedAt(a.answers)
	for i, h := range a.answers {
		f := h.Facts
		if !h.Whole || a.sessions[i] == nil || slices.Contains(unfit, h.Name) || seen[f.Machine] && f.Machine != "" ||
			f.Self == "" && (f.Tmp == "" || f.Arch != a.head.Arch) || stores[i] == "" {
			continue
		}
		seen[f.Machine] = true
		all[i] = &member{Session: a.sessions[i], answer: h, program: f.Self, store: stores[i]}
	}
	meet(all)
	remote.Each(len(all), askAtOnce, func(i int) {
		if m := all[i]; m != nil && m.program == "" {
			m.program = m.answer.Facts.Tmp + "/launch"
			m.lost = m.Place(a.copies, m.answer.Facts.Unpacks, m.program, max(copyBudget, slowness*a.took))
		}
	})
	return slices.DeleteFunc(all, func(m *member) bool { return m == nil })
}

// meet gives this host's own member the address at which another one has reached it: its calls to itself get
// through at any, also at one of docker0, which the others do not reach.
func meet(all []*member) {
	other := slices.IndexFunc(all, func(m *member) bool { return m != nil && !m.answer.Local })
	for _, m := range all {
		if m != nil && m.answer.Local && other >= 0 {
			m.store = all[other].store
		}
	}
}

// reachedAt returns, for each host, the address of this host at which it has reached it, or "". Of several it is the
// one that most others have reached: the hosts call each other at addresses of the same family and network as that.
func reachedAt(all []hosts.Answer) []string {
	reached := map[netip.Addr]int{}
	heard := make([][]netip.Addr, len(all))
	for i, h := range all {
		for _, c := range h.Facts.Calls {
			if a, err := netip.ParseAddr(c.To); err == nil && strings.HasSuffix(c.Said, mpirun.Heard) {
				heard[i] = append(heard[i], a)
				if !h.Local {
					reached[a]++
				}
			}
		}
	}
	out := make([]string, len(all))
	for i, h := range all {
		switch calls := h.Facts.Calls; {
		case len(heard[i]) > 0:
			out[i] = slices.MinFunc(heard[i], func(a, b netip.Addr) int {
				return cmp.Or(reached[b]-reached[a], a.Compare(b))
			}).String()
		case len(calls) > 0 && calls[0].Said == "none": // it has no means to call
			out[i] = calls[0].To
		}
	}
	return out
}

// hostsJob is the name under which the hosts meet.
const hostsJob = "mpirun"

// hostStore hosts the store of the check, in this process, as launch store does: this host may be none of the job's.
func (s *Start) hostStore(ctx context.Context, token secret.Token) (server *rendezvous.Server, err error) {
	anywhere := netip.IPv6Unspecified()
	if l, err := net.Listen("tcp", "[::]:0"); err != nil {
		anywhere = netip.IPv4Unspecified()
	} else {
		_ = l.Close()
	}
	for port := s.Mpirun.Ports[0]; port <= s.Mpirun.Ports[1]; port++ {
		at := netip.AddrPortFrom(anywhere, uint16(port))
		server, err = rendezvous.Serve(ctx, "", []netip.AddrPort{at}, companion.TLS(token, "", true, nil))
		if err == nil || !errors.Is(err, rendezvous.ErrPortTaken) {
			break
		}
	}
	return server, err
}

// benches reports whether the hosts are measured.
func (s *Start) benches() bool { return s.Opt.Bench == benchShort || s.Opt.Bench == benchFull }

// checkScript returns what a member's shell runs. The token is on no command line.
func (s *Start) checkScript(m *member, token secret.Token, port, n, rank int, meet time.Duration) string {
	o := s.Opt
	words := []string{m.program, "check", "--json"}
	if n > 1 {
		words = append(words, "--store", "https://"+net.JoinHostPort(m.store, strconv.Itoa(port)), "--nnodes",
			strconv.Itoa(n), "--node-rank", strconv.Itoa(rank), "--job", hostsJob, "--join-timeout", meet.String())
		if s.benches() {
			words = append(words, "--bench", o.Bench)
		}
		if o.AllPairs {
			words = append(words, "--all-pairs")
		}
	}
	if len(o.Skip) > 0 {
		words = append(words, "--skip", strings.Join(o.Skip, ","))
	}
	if len(o.Only) > 0 {
		words = append(words, "--only", strings.Join(o.Only, ","))
	}
	if o.WarnOnly {
		words = append(words, "--warn-only")
	}
	for _, name := range slices.Sorted(maps.Keys(o.Thresholds)) {
		words = append(words, "--threshold", fmt.Sprintf("%s=%v", name, o.Thresholds[name]))
	}
	script := cleanShell
	for _, kv := range s.Job.Line.Carries(handoff.Environ()) { // so that the host judges by what its processes get
		name, value, _ := strings.Cut(kv, "=")
		script += "export " + name + "=" + remote.Quote(value) + "\n"
	}
	return script + "LAUNCH_TOKEN=" + string(token) + "; export LAUNCH_TOKEN\n" +
		remote.Await + " " + quoted(words) + " 2>&1\n"
}

func quoted(words []string) string { return strings.Join(finding.Map(words, remote.Quote), " ") }

// cleanShell removes what would make launch believe that a scheduler or an MPI has started it.
const cleanShell = "unset `env | " +
	"sed -n 's/^\\(\\(SLURM\\|LAUNCH\\|PMI\\|PMIX\\|OMPI_COMM\\|PRTE\\)_[A-Z0-9_]*\\)=.*/\\1/p'` " +
	"NODE_RANK RANK WORLD_SIZE MASTER_ADDR MASTER_PORT\n"

// hostsChecked is what the hosts found together.
type hostsChecked struct {
	report finding.Report
	unfit  []string          // as the line names them
	self   string            // this host, as the findings name it
	names  map[string]string // of the hosts, as the findings name them
	survey *finding.Survey
	bench  *bandwidth.Verdict
	plans  []planned
}

// readChecks reads the answer of the first member that has one: all have the same. Those without are named.
func (s *Start) readChecks(members []*member) (out hostsChecked) {
	all := finding.Map(members, readCheck)
	if i := slices.IndexFunc(all, func(c memberCheck) bool { return c.ended }); i >= 0 {
		out = all[i].hostsChecked
		out.name(members, members[i])
	}
	for _, m := range members {
		if p := readPlan(m.answer.Name, m.lines); len(members) > 1 && (m.lost == nil) {
			out.plans = append(out.plans, p)
		}
	}
	// What keeps a member away goes before what the others say of it: that it is missing.
	for _, missing := range []bool{false, true} {
		for i, c := range all {
			if !c.ended && missing == (c.code == exit.Missing) {
				out.lost(members[i], c)
			}
		}
	}
	return out
}

// memberCheck is the answer of one member.
type memberCheck struct {
	hostsChecked
	ended bool   // it came to a result
	why   string // it did not
	code  int
}

func readCheck(m *member) (out memberCheck) {
	for _, line := range m.lines {
		var kind struct {
			Type string `json:"type"`
		}
		if json.Unmarshal([]byte(line), &kind) != nil {
			out.why = line
			continue
		}
		switch kind.Type {
		case "finding":
			var f finding.Finding
			if json.Unmarshal([]byte(line), &f) == nil {
				out.report = append(out.report, f)
			}
		case "survey":
			var v finding.Survey
			if json.Unmarshal([]byte(line), &v) == nil {
				out.survey = &v
			}
		case "bench":
			var v bandwidth.Verdict
			if json.Unmarshal([]byte(line), &v) == nil {
				out.bench = &v
			}
		case "error":
			var e exit.Error
			if json.Unmarshal([]byte(line), &e) == nil {
				out.why, out.code = e.What, e.Code
			}
		case "summary":
			out.ended = true
		}
	}
	return out
}

// name keeps the warnings and failures. Those of a member that was alone get its name.
func (c *hostsChecked) name(members []*member, m *member) {
	c.report = slices.DeleteFunc(c.report, func(f finding.Finding) bool {
		return f.Status != finding.Fail && f.Status != finding.Warn
	})
	if c.survey != nil {
		c.names = map[string]string{}
		for _, n := range c.survey.Nodes {
			of := func(m *member) bool { return m.lost == nil && m.rank == n.Rank }
			i := slices.IndexFunc(members, of)
			if i >= 0 {
				c.names[members[i].answer.Name] = n.Name
			}
			if i >= 0 && n.Unfit {
				c.unfit = append(c.unfit, members[i].answer.Name)
			}
			if i >= 0 && members[i].answer.Local {
				c.self = n.Name
			}
		}
		return
	}
	if m.answer.Local {
		c.self = m.answer.Name
	}
	for i, f := range c.report {
		c.report[i].What = m.answer.Name + ": " + f.What
		if f.Status == finding.Fail {
			c.unfit = []string{m.answer.Name}
		}
	}
}

// fails reports whether a failure is about a host.
func (c *hostsChecked) fails(host string) bool {
	return slices.ContainsFunc(c.report.Failed(), func(f finding.Finding) bool {
		of := func(h string) bool { return strings.HasPrefix(f.What, h+": ") }
		if f.Nodes == nil {
			return of(host) || !slices.ContainsFunc(c.unfit, of)
		}
		return len(f.Nodes) == finding.MaxNodes || slices.Contains(f.Nodes, c.names[host])
	})
}

// lost reports a member that came to no result. That others are missing follows from one that cannot come.
func (c *hostsChecked) lost(m *member, one memberCheck) {
	name := m.answer.Name
	switch one.code {
	case exit.Missing:
		if len(c.report) > 0 {
			return
		}
	case exit.Unreachable:
		c.report = append(c.report, finding.Failf("%s: it cannot call this host back: %s", name, one.why).
			Named("mpi.call").Breaking("its daemon cannot tell mpirun that it runs, and mpirun waits").
			Do("open the ports of this host to it"))
		c.unfit = append(c.unfit, name)
		return
	case exit.Unfit:
		for _, f := range one.report {
			f.What = name + ": " + f.What
			c.report = append(c.report, f)
		}
		c.unfit = append(c.unfit, name)
		return
	}
	f, ok := errors.AsType[*remote.Failed](m.lost)
	switch {
	case ok && f.Loss != nil:
		long := hosts.LongPackets(name, f.Loss.Way, f.Loss.Seen)
		long.What = name + ": " + long.What
		c.report, c.unfit = append(c.report, long), append(c.unfit, name)
		return
	case ok && f.Late: // no start in doubt
		c.report = append(c.report, finding.Failf("%s: launch has no result from it in time", name).Named("mpi.copy").
			Breaking("what keeps launch there may keep the job").
			Do("launch check   # on it, by hand\n--skip mpi.copy starts by what a shell there has answered"))
		c.unfit = append(c.unfit, name)
		return
	}
	why := one.why
	if why == "" && m.lost != nil {
		why = m.lost.Error()
	}
	c.report = append(c.report, finding.Warnf("%s: launch came to no result there: %s", name, why).Named("mpi.copy").
		Do("launch check   # on it, by hand"))
}
