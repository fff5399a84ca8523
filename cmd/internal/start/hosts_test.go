package start

import (
	stdcmp "cmp"
	"io"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"launch/cmd/internal/ui"
	"launch/envgen"
	"launch/fabric"
	"launch/internal/finding"
	"launch/internal/launcher"
	"launch/internal/mpirun"
	"launch/internal/setting"
	"launch/preflight/hosts"
)

// What all hosts would set alike, mpirun carries; what differs, or what a user has decided, it does not.
func TestAgreed(t *testing.T) {
	v := func(name, value string) setting.Var {
		return setting.Var{Name: name, Value: value, Scope: setting.Node, Reason: "r"}
	}
	kept := v("NCCL_DEBUG", "INFO")
	kept.Kept = true
	all := []planned{
		{"h0", []setting.Var{v("NCCL_IB_HCA", "mlx5_0"), v("NCCL_SOCKET_IFNAME", "eth0"), v("UCX_TLS", "rc"), kept}},
		{"h1", []setting.Var{v("NCCL_IB_HCA", "mlx5_1"), v("NCCL_SOCKET_IFNAME", "eth0"), v("NCCL_DEBUG", "INFO")}},
	}
	same, differ := agreed(all)
	names := finding.Map(same, func(v setting.Var) string { return v.Name + "=" + v.Value + " " + string(v.Scope) })
	if diff := cmp.Diff([]string{"NCCL_SOCKET_IFNAME=eth0 job"}, names); diff != "" {
		t.Errorf("same (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"NCCL_IB_HCA", "UCX_TLS"}, differ); diff != "" {
		t.Errorf("differ (-want +got):\n%s", diff)
	}
	if same, differ := agreed(nil); same != nil || differ != nil {
		t.Errorf("no host: %v %v", same, differ)
	}
}

func TestReadPlan(t *testing.T) {
	p := readPlan("h0", []string{"noise", `{"type":"note","text":"x"}`,
		`{"type":"var","schema":1,"name":"NCCL_IB_HCA","value":"mlx5","scope":"node","reason":"r"}`})
	if len(p.vars) != 1 || p.vars[0].Name != "NCCL_IB_HCA" || p.vars[0].Scope != setting.Node {
		t.Errorf("%+v", p)
	}
}

// mpirunStart returns the start of a line, on a head whose hosts have been asked.
func mpirunStart(t *testing.T, unfit string, words ...string) *Start {
	t.Helper()
	line, err := launcher.Parse(words, "")
	if err != nil {
		t.Fatal(err)
	}
	env := func(string) string { return "" }
	s := &Start{Opt: NewOptions(), UI: ui.New(io.Discard, io.Discard, ui.Options{Env: env})}
	s.Job.MPI, s.Job.Line = "openmpi4", line.Of("openmpi4")
	if s.Mpirun, err = mpirun.Read(mpirun.Input{Line: s.Job.Line, Dir: "/"}); err != nil {
		t.Fatal(err)
	}
	s.unfitHosts = []string{unfit}
	return s
}

func TestUnfitHostsAreLeftOutWhereSlotsSuffice(t *testing.T) {
	s := mpirunStart(t, "h1", "mpirun", "-np", "2", "--host", "h0:2,ada@h1:2,h2", "./a")
	if err := s.dropUnfit(); err != nil {
		t.Fatal(err)
	}
	want := []string{"mpirun", "--host", "h0:2,h2:1", "-np", "2", "./a"}
	if diff := cmp.Diff(want, s.Job.Line.Argv); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for why, words := range map[string][]string{
		"slots":    {"mpirun", "-np", "4", "--host", "h0:2,h1:2,h2", "./a"},
		"none":     {"mpirun", "-np", "1", "--host", "h1", "./a"},
		"programs": {"mpirun", "-np", "1", "--host", "h0,h1", "./a", ":", "-np", "1", "./b"},
	} {
		if err := mpirunStart(t, "h1", words...).dropUnfit(); err == nil {
			t.Errorf("%s: no error", why)
		}
	}
}

// Hydra counts no slots: it would start several processes where one has its place.
func TestHydraKeepsItsHostsWhereSlotsSuffice(t *testing.T) {
	for line, want := range map[string]string{
		"mpiexec -n 2 -hosts h0:1,h1:1,h2:1 ./a":  "mpiexec -hosts h0:1,h2:1 -n 2 ./a",
		"mpiexec -n 3 -hosts h0:1,h1:1,h2:1 ./a":  "",
		"mpiexec -n 3 -ppn 1 -hosts h0,h1,h2 ./a": "",
		"mpiexec -n 4 -ppn 2 -hosts h0,h1,h2 ./a": "mpiexec -hosts h0,h2 -n 4 -ppn 2 ./a",
	} {
		typed, err := launcher.Parse(strings.Fields(line), "")
		if err != nil {
			t.Fatal(err)
		}
		s := &Start{Opt: NewOptions(), UI: ui.New(io.Discard, io.Discard, ui.Options{Env: func(string) string { return "" }})}
		s.Job.MPI, s.Job.Line, s.unfitHosts = "mpich", typed.Of("mpich"), []string{"h1"}
		if s.Mpirun, err = mpirun.Read(mpirun.Input{Line: s.Job.Line, Dir: "/", All: true}); err != nil {
			t.Fatal(err)
		}
		if err = s.dropUnfit(); want == "" {
			if err == nil {
				t.Errorf("%s: no error", line)
			}
		} else if got := strings.Join(s.Job.Line.Argv, " "); err != nil || got != want {
			t.Errorf("%s: %v, got %s, want %s", line, err, got, want)
		}
	}
}

// Where the hosts need different values, each gets a section of the line, or the line remains and a note says why.
func TestEachHostGetsASection(t *testing.T) {
	v := func(value string) []setting.Var {
		return []setting.Var{{Name: "NCCL_IB_HCA", Value: value}, {Name: "OMPI_MCA_btl", Value: value}}
	}
	plans := []planned{{"h1", v("mlx5_1")}, {"h0", v("mlx5_0")}}
	for line, want := range map[string]string{
		"mpirun -np 3 --host h0:2,ada@h1:2 ./a": "mpirun -np 2 --host h0:2 -x NCCL_IB_HCA=mlx5_0 ./a : " +
			"-np 1 --host ada@h1:1 -x NCCL_IB_HCA=mlx5_1 ./a",
		"mpirun -np 2 --host h0:2,h1 ./a":                "mpirun -np 2 --host h0:2 -x NCCL_IB_HCA=mlx5_0 ./a",
		"mpirun -np 2 --map-by node --host h0,h1 ./a":    "",
		"mpirun -np 2 -x NCCL_IB_HCA=a --host h0,h1 ./a": "",
		"mpirun -np 2 --host h0,h2 ./a":                  "", // h2 has said nothing
	} {
		s := mpirunStart(t, "", strings.Fields(line)...)
		s.hostPlans = plans
		if strings.Contains(line, "-x") {
			s.Job.Decided = []setting.Decided{{Name: "NCCL_IB_HCA", Value: "a"}}
		}
		s.addAgreed(nil)
		if got := strings.Join(s.Job.Line.Argv, " "); got != stdcmp.Or(want, line) {
			t.Errorf("%s:\n got %s\nwant %s", line, got, want)
		}
	}
}

// The answers of the members: the first with a result counts, and the others are named with their error.
func TestReadChecks(t *testing.T) {
	host := func(name string, lines ...string) *member {
		m := &member{lines: lines, rank: int(name[1] - '0')}
		m.answer.Name = name
		return m
	}
	survey := `{"type":"survey","checks":["shm.size"],"nodes":[{"rank":0,"name":"node 0 a (10.0.0.1)","cells":"o"},` +
		`{"rank":1,"name":"node 1 b (10.0.0.2)","unfit":true,"cells":"f"}]}`
	result := []string{`{"type":"finding","id":"shm.size","status":"fail","what":"node 1 b (10.0.0.2): full"}`,
		`{"type":"finding","id":"gpu.driver","status":"ok","what":"x"}`, survey, `{"type":"summary"}`}
	s := &Start{}
	c := s.readChecks([]*member{host("h0", result...), host("h1", result...)})
	if diff := cmp.Diff([]string{"h1"}, c.unfit); diff != "" || len(c.report) != 1 {
		t.Errorf("%+v (-want +got):\n%s", c.report, diff)
	}
	c = s.readChecks([]*member{host("h0", `{"type":"error","code":75,"what":"node 1 is missing"}`),
		host("h1", `{"type":"error","code":69,"what":"the store does not answer"}`)})
	if len(c.report) != 1 || c.report[0].ID != "mpi.call" || !cmp.Equal(c.unfit, []string{"h1"}) {
		t.Errorf("one that cannot come: %+v, unfit %v", c.report, c.unfit)
	}
	c = s.readChecks([]*member{host("h0", `{"type":"finding","id":"shm.size","status":"fail","what":"full"}`,
		`{"type":"summary"}`)})
	if len(c.report) != 1 || c.report[0].What != "h0: full" || !cmp.Equal(c.unfit, []string{"h0"}) {
		t.Errorf("a single host: %+v, unfit %v", c.report, c.unfit)
	}
}

// A host is unfit for a failure alone: not where calls to it are a warning, since the line names ports of its own.
func TestHostsWithWarningsAreNotUnfit(t *testing.T) {
	host := func(name string, lines ...string) *member {
		m := &member{lines: lines, rank: int(name[1] - '0')}
		m.answer.Name = name
		return m
	}
	finds := func(id, node string) string {
		return `{"type":"finding","id":"` + id + `","status":"fail","what":"x","nodes":["` + node + `"]}`
	}
	const survey = `{"type":"survey","checks":["shm.size"],"nodes":[{"rank":0,"name":"node 0 a","cells":"o"},` +
		`{"rank":1,"name":"node 1 b","unfit":true,"cells":"o"},{"rank":2,"name":"node 2 c","unfit":true,"cells":"f"}]}`
	for _, tc := range []struct {
		ports string
		lines []string
		want  []string
	}{
		{"", []string{finds("peer.reach", "node 1 b"), finds("shm.size", "node 2 c")}, []string{"h1", "h2"}},
		{"X=1", []string{finds("peer.reach", "node 1 b"), finds("shm.size", "node 2 c")}, []string{"h2"}},
		{"X=1", []string{finds("peer.reach", "node 1 b"), finds("peer.reach", "node 2 c")}, nil},
		{"X=1", []string{finds("shm.size", "node 1 b"), finds("shm.size", "node 2 c")}, []string{"h1", "h2"}},
	} {
		s := &Start{}
		s.Mpirun.JobPorts = tc.ports
		s.addChecked(s.readChecks([]*member{host("h0", append(tc.lines, survey, `{"type":"summary"}`)...), host("h1"),
			host("h2")}))
		if diff := cmp.Diff(tc.want, s.unfitHosts); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", tc, diff)
		}
	}
}

// What mpirun refuses for no single host, it refuses without the unfit ones, too.
func TestNoHostIsDroppedWhereTheLineIsWrong(t *testing.T) {
	for _, wrong := range []bool{false, true} {
		s := mpirunStart(t, "h1", "mpirun", "-np", "2", "--host", "h0:2,h1:2", "./a")
		s.Opt.DropUnfit, s.hostless = true, wrong
		s.Hosts = finding.Report{finding.Failf("h1: x").Named("mpi.reach")}
		if err := s.hostsVerdict(t.Context()); (err != nil) != wrong {
			t.Errorf("%v: %v", wrong, err)
		}
	}
}

// A file of a host does not count where launch itself sets the parameter for all hosts.
func TestWhatLaunchSetsGoesBeforeAHostsFile(t *testing.T) {
	iface := func(index int, name, kind, addr string) fabric.Interface {
		return fabric.Interface{Index: index, Name: name, Kind: kind, Up: true,
			Addrs: []netip.Prefix{netip.MustParsePrefix(addr)}}
	}
	for _, decoy := range []bool{true, false} {
		s := &Start{Opt: NewOptions()}
		s.Job.MPI, s.Mpirun.Hosts = "openmpi4", []mpirun.Host{{Name: "h1", Slots: 1}}
		s.Input = envgen.Input{Mpirun: true, MPI: "openmpi4", World: envgen.World{Nodes: 2,
			Addr: netip.MustParseAddr("10.0.0.5"), Peers: []netip.Addr{netip.MustParseAddr("10.0.0.5"),
				netip.MustParseAddr("10.0.0.6")}}}
		s.Input.Node.Interfaces = []fabric.Interface{iface(1, "eth0", "physical", "10.0.0.5/24")}
		if decoy {
			s.Input.Node.Interfaces = append(s.Input.Node.Interfaces, iface(2, "docker0", "bridge", "172.17.0.1/16"))
		}
		a := asked{answers: []hosts.Answer{{Host: s.Mpirun.Hosts[0], Whole: true, Facts: mpirun.Facts{
			Addrs:      []mpirun.Address{{Interface: "eth0", Prefix: netip.MustParsePrefix("10.0.0.6/24")}},
			Parameters: []mpirun.Parameter{{Name: "btl_tcp_if_include", Value: "eth9", From: "/f", Line: 1}}}}}}
		if wrong := hosts.Judge(s.judged(a)).Report.Failed(); (len(wrong) == 0) != decoy {
			t.Errorf("launch sets it: %v: %+v", decoy, wrong)
		}
	}
}

// The calls of a host arrive in any order. All hosts meet at an address that most of them reach.
func TestTheHostsMeetAtOneAddress(t *testing.T) {
	call := func(to ...string) hosts.Answer {
		a := hosts.Answer{}
		for _, at := range to {
			a.Facts.Calls = append(a.Facts.Calls, mpirun.Call{To: at, Said: mpirun.Heard})
		}
		return a
	}
	own := call("172.17.0.1", "fd00::1", "10.0.0.1")
	own.Local = true
	mute := hosts.Answer{Facts: mpirun.Facts{Calls: []mpirun.Call{{To: "10.0.0.1", Said: "none"}}}}
	deaf := hosts.Answer{Facts: mpirun.Facts{Calls: []mpirun.Call{{To: "10.0.0.1", Said: "refused"}}}}
	got := reachedAt([]hosts.Answer{own, call("fd00::1", "10.0.0.1"), call("10.0.0.1", "fd00::1"), mute, deaf})
	if diff := cmp.Diff([]string{"10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.1", ""}, got); diff != "" {
		t.Error("two families (-want +got):\n", diff)
	}
	got = reachedAt([]hosts.Answer{call("10.0.0.1", "fd00::1"), call("fd00::1"), call("fd00::1")})
	if diff := cmp.Diff([]string{"fd00::1", "fd00::1", "fd00::1"}, got); diff != "" {
		t.Error("one that all reach (-want +got):\n", diff)
	}
}

// MPICH's daemons call this host as the list names it.
func TestTheDaemonsCallTheListedName(t *testing.T) {
	for name, want := range map[string]string{"10.0.0.1": "10.0.0.1", "h0.lab": "h0.lab", "localhost": "own",
		"127.0.0.1": "own"} {
		for _, listed := range []bool{true, false} {
			s := &Start{}
			s.Mpirun = mpirun.Run{CallName: "own", CallListed: listed, Hosts: []mpirun.Host{{Name: "h9"}, {Name: name}}}
			s.callListed([]bool{false, true})
			if got := s.Mpirun.CallName; listed && got != want || !listed && got != "own" {
				t.Errorf("%s, %v: %s", name, listed, got)
			}
		}
	}
}
