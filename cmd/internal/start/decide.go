package start

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"launch/envgen"
	"launch/fabric"
	"launch/fabric/rail"
	"launch/internal/finding"
	"launch/internal/job"
	"launch/internal/launcher"
	"launch/preflight"
	"launch/preflight/calls"
	"launch/preflight/peers"
	"launch/rendezvous"
)

// GoRound decides whether all nodes start; after checkRound, of launch check, none does.
const GoRound, checkRound = "go", "check"

// decide plans, then calls the other nodes: a line that cannot run ends no other node.
func (s *Start) decide(ctx context.Context) error {
	s.reached(peers.Decision{}, false)
	if err := s.everyone(ctx); err != nil {
		return err
	}
	if err := s.plan(s.world(), s.World.Self.Addr); err != nil {
		return err
	}
	round, checking := GoRound, s.Subcommand == "check"
	if checking {
		round = checkRound
	}
	post := s.post(checking)
	proc := fabric.Live().Proc
	dropped := fabric.ReadDrops(proc)
	var err error
	if post.Calls, post.Names, post.Rails, err = s.call(ctx); err != nil {
		return err
	}
	post.Deaf = fabric.DeafTo(proc, dropped)
	if s.store != nil && len(s.store.Serve) > 0 && s.World.Size <= peers.MostClients {
		post.Clients = fabric.Callers(s.Job.Store.V.Port)
	}
	if at := s.onlyStore(); at.IsValid() && !s.Job.Addr.Set {
		post.Odd = fabric.DetourTo(netip.Addr{}, at).Fault
	}
	mine, err := json.Marshal(post)
	if err != nil {
		return err
	}
	defer s.wait.looks()()
	out, err := s.comp.Round(ctx, round, mine, time.Until(s.deadline),
		func(raw [][]byte) ([]byte, bool) { return s.judge(raw, checking) })
	if err != nil {
		return err
	}
	s.decision = peers.Decision{}
	err = json.Unmarshal(out, &s.decision)
	if d, other := s.decision.OfAnotherForm(s.World.Master.Name(), s.Version); other {
		s.decision, err = d, nil
	}
	d := s.decision
	offered := slices.ContainsFunc(post.Listens, func(l peers.Listen) bool { return l.Library == envgen.FastNetwork })
	if err != nil || !d.Fast && !d.Apart && !d.Home && !offered {
		return err
	}
	// Plan again, for the networks in which all nodes reached each other, and for how their rails reach each other.
	s.reached(d, true)
	return s.plan(s.world(), s.World.Self.Addr)
}

// reached has the plan follow how the nodes reached each other, once they have called.
func (s *Start) reached(d peers.Decision, called bool) {
	w := &s.Input.World
	w.Called = called
	w.Fast, w.Apart, w.Home = d.Fast, d.Apart, d.Home
}

// post returns this node's part of the decision, brief in a start: each node prints its own findings.
func (s *Start) post(checking bool) peers.Post {
	w := s.World
	p := peers.Post{
		Rank: w.Rank, Name: w.Self.Name(), Addr: w.Self.Addr, ID: w.Self.ID, NProc: s.Job.NProc.V, Form: peers.Form,
		Version: s.Version,
		Command: commandOf(s.Job.Line.Argv[s.Job.Line.Rest:], s.Job.Line), Script: scriptOf(s.Job.Line),
		Bare: commandOf(withoutFolder(s.Job.Line), s.Job.Line), Place: s.placeIn(s.Job.Line), Listens: s.listens(),
		Around:   s.around(),
		Restarts: strconv.Itoa(s.Opt.Restarts), Step: s.Job.Step, Role: s.Job.Role.V, After: s.after(),
		Numbered: s.Job.Index.Set || s.Job.Pod != nil, Loads: loads(s.Node),
		Traits:    traits(s.Job, s.Node, w.Self.Addr, envgen.Selected(s.Input)),
		Constants: envgen.Constants(s.Plan, s.Job.Decided), Nameless: s.Job.ID.From.Name == job.StoreAddress,
		Skip: peers.NotJudged(s.options()), Local: peers.Brief(s.Local),
		Held: peers.HeldBy(s.Node, w.Self.Addr, fabric.AllTaken(), s.sources()),
	}
	if checking {
		p.Local, p.Outcomes = peers.Problems(s.Local), s.Local.Outcomes()
	}
	return p
}

// sources returns the addresses from which the kernel calls the store.
func (s *Start) sources() (out []netip.Addr) {
	for _, at := range s.storeAt() {
		if r, err := fabric.RouteTo(at.Addr()); err == nil && r.Src.IsValid() {
			out = append(out, r.Src)
		}
	}
	return out
}

// judge decides for all nodes, from the posts of all.
func (s *Start) judge(raw [][]byte, checking bool) (out []byte, start bool) {
	posts := peers.Read(raw)
	d := peers.Decide(posts, s.Opt.Thresholds)
	if s.Opt.WarnOnly {
		d = d.Waive()
	}
	if checking {
		survey := peers.NewSurvey(posts, d, s.Checks.Node)
		d.Survey = &survey
	} else { // for the log of this node, which people read; the other nodes do not need it
		s.UI.Findings(peers.Elsewhere(posts, s.World.Rank), false)
		d.Nodes = nil
	}
	out, _ = json.Marshal(d.Excluding(posts))
	return out, d.Go && !checking
}

// options returns which checks the user has selected.
func (s *Start) options() preflight.Options {
	return preflight.Options{Skip: s.Opt.Skip, Only: s.Opt.Only, WarnOnly: s.Opt.WarnOnly}
}

// call calls the other nodes, and once more where this process was stopped meanwhile: then calls fail that way alone.
func (s *Start) call(ctx context.Context) ([]calls.Call, calls.Found, []calls.RailPath, error) {
	longest := calls.WatchPauses()
	made, names, rails, err := s.callOnce(ctx)
	if longest() < calls.LongPause || err != nil || !slices.ContainsFunc(made, calls.Call.Failed) {
		return made, names, rails, err
	}
	return s.callOnce(ctx)
}

// callOnce calls the other nodes, and looks up their names unless the name servers are known not to answer.
func (s *Start) callOnce(ctx context.Context) ([]calls.Call, calls.Found, []calls.RailPath, error) {
	c := calls.Caller{Node: s.Node, All: s.Opt.AllPairs, Port: !s.Opt.KeepRdzv && !s.Job.Role.Set,
		Keys: s.Opt.Token.Keys(s.Job.ID.V).Client(), Rails: &calls.Rails{Node: s.Node, Addr: s.World.Self.Addr}}
	known := slices.ContainsFunc(s.Local, func(f finding.Finding) bool {
		return f.ID == "dns.servers" && f.Status != finding.Pass && f.Status != finding.Skip
	})
	if !known && !slices.Contains(peers.NotJudged(s.options()), "peer.name") {
		c.Names = calls.Names{Resolve: systemResolver, Servers: nameServers(s.Node),
			InHosts: func(name string) bool { return len(fabric.HostsLines(fabric.Live(), name)) > 0 }}
	}
	partners := s.World.Partners
	if s.Opt.AllPairs {
		var err error
		if partners, err = s.comp.Everyone(ctx, s.Opt.JoinTimeout); err != nil {
			return nil, calls.Found{}, nil, err
		}
	}
	c.Store = s.onlyStore()
	c.Tables = calls.Tables{Wrong: fabric.Wrong, DeadLeg: fabric.DeadLeg, Detour: fabric.DetourTo}
	if s.store != nil && len(s.store.Serve) > 0 {
		c.Hosts = s.World.Self.Addr
	}
	made, names, err := c.Make(ctx, *s.World, partners)
	return made, names, c.Rails.Paths(), err
}

// everyone learns of all nodes, if the plan needs them: for TensorFlow's variable, and where nodes have roles.
func (s *Start) everyone(ctx context.Context) error {
	s.all, s.roles = nil, nil
	if !slices.Contains(s.Job.Uses, "tensorflow") && !s.Job.Role.Set {
		return nil
	}
	all, err := s.comp.Everyone(ctx, s.Opt.JoinTimeout)
	if s.roles = rolesOf(all); s.Job.Role.Set {
		all = s.roles[s.Job.Role.V]
	}
	s.all = finding.Map(all, func(p rendezvous.Partner) netip.Addr { return p.Addr })
	return err
}

// world returns what the wrapped command needs of the joined world: with roles, of the nodes of its own.
func (s *Start) world() launcher.World {
	w, m := s.World, s.World.Master
	out := launcher.World{
		Job: w.Job, RunID: w.RunID, Nodes: launcher.Known(w.Size), NodeRank: launcher.Known(w.Rank),
		MasterAddr: m.Addr.String(), MasterPort: launcher.Known(m.Port), Addr: w.Self.Addr.String(), KeepRdzv: s.Opt.KeepRdzv,
		Several: true, Etcd: strings.Join(s.Input.World.Store, ","), Task: task(s.Job.Tasks),
	}
	if s.Job.Role.Set {
		s.narrow(&out)
	}
	return out
}

// alone returns the world of one node.
func alone(j job.Job) launcher.World {
	return launcher.World{
		Job: j.ID.V, RunID: j.ID.V, Nodes: launcher.Known(1), NodeRank: launcher.Known(0),
		MasterAddr: "127.0.0.1", MasterPort: launcher.Known(wantedPort(j)), Addr: "127.0.0.1",
		Single: j.Single, Task: task(j.Tasks),
	}
}

// plan fills in the variables and the command of this node.
func (s *Start) plan(w launcher.World, addr netip.Addr) (err error) {
	in := s.Input
	if in.Mpirun { // rank 0 runs on the first host of its list
		if len(in.World.Peers) > 0 {
			w.MasterAddr = in.World.Peers[0].String()
		}
	} else {
		in.World.Nodes, in.World.Rank, in.World.Addr, in.World.All = w.Nodes.V, w.NodeRank.V, addr, s.all
		if s.World != nil { // nodes of other roles count: data goes to them, too
			in.World.Nodes = s.World.Size
		}
		if master, err := netip.ParseAddr(w.MasterAddr); err == nil {
			in.World.Master = netip.AddrPortFrom(master, uint16(w.MasterPort.V))
		}
	}
	s.tasks.world = w
	return s.commandFor(w, s.addAgreed(envgen.Make(in)))
}

// listens returns the addresses where NCCL and Gloo will listen, other than this node's own.
func (s *Start) listens() []peers.Listen {
	in := s.Input
	in.World.Nodes, in.World.Addr = s.World.Size, s.World.Self.Addr
	return finding.Map(s.others(envgen.Listens(in, s.Plan)), func(l envgen.Listen) peers.Listen { return peers.Listen(l) })
}

// others leaves out the faster network where the user has chosen one (--addr).
func (s *Start) others(all []envgen.Listen) []envgen.Listen {
	return slices.DeleteFunc(all, func(l envgen.Listen) bool { return l.Library == envgen.FastNetwork && s.Job.Addr.Set })
}

// loads returns what this node would load.
func loads(n fabric.Node) peers.Loads {
	_, err := os.Stat("/dev/kfd") // AMD's driver, which NVML does not know
	amd := n.Software.HIP != "" && err == nil
	return peers.Loads{
		Facts: n.Software, Driver: n.GPUs.Driver,
		GPU:  amd || len(n.GPUs.Devices) > 0 || n.GPUs.Err != "", // a driver that could not be asked is there
		RDMA: len(n.HCAs) > 0,
	}
}

// traits returns what this node is made of, as the nodes compare it.
func traits(j job.Job, n fabric.Node, addr netip.Addr, chosen map[string][]string) peers.Traits {
	in := preflight.Input{Job: j, Node: n, Addr: addr, Selected: chosen, Env: os.LookupEnv}
	t := peers.TraitsOf(in, rail.Of(n, addr))
	t.Net, _ = os.Readlink("/proc/self/ns/net")
	return t
}

// commandOf returns what should be the same on all nodes: the program's last name, and its arguments.
func commandOf(rest []string, l launcher.Line) string {
	if len(rest) == 0 {
		return string(l.Kind)
	}
	text := strings.Join(append([]string{filepath.Base(rest[0])}, rest[1:]...), " ")
	if len(text) > 120 { // enough to read, and a sum to compare
		text = fmt.Sprintf("%s… (%x)", text[:100], sha256.Sum256([]byte(text)))[:130]
	}
	return text
}

// placeIn returns this node's place as its own command line names it.
func (s *Start) placeIn(l launcher.Line) peers.Place {
	line := slices.Clone(l.Argv[l.Rest:])
	if len(line) > 0 {
		line[0] = filepath.Base(line[0])
	}
	short, _, _ := strings.Cut(s.Node.Hostname, ".")
	return peers.PlaceIn(line, withoutFolder(l), s.Node.Hostname, short, s.World.Self.Addr.String())
}

// withoutFolder returns the program and its arguments, with the script's last name.
func withoutFolder(l launcher.Line) []string {
	rest := slices.Clone(l.Argv[l.Rest:])
	if l.Script > l.Rest && l.Script < len(l.Argv) {
		rest[l.Script-l.Rest] = filepath.Base(l.Argv[l.Script])
	}
	return rest
}
