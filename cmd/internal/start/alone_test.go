package start

import (
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"launch/cmd/internal/storeaddr"
	"launch/cmd/internal/ui"
	"launch/fabric"
	"launch/internal/job"
	"launch/internal/setting"
	"launch/rendezvous"
)

// A name that leads to this node may lead the others elsewhere, if it is not this node's own and rank 0 is elsewhere.
func TestANameThatLeadsHereAlone(t *testing.T) {
	serves := []netip.AddrPort{netip.MustParseAddrPort("10.0.0.3:29377")}
	for _, tt := range []struct {
		store, host string
		rank        int // -1: by arrival
		serve       []netip.AddrPort
		want        bool
	}{
		{"host0", "host2", 2, serves, true},
		{"host2.lab", "host2", 2, serves, false},
		{"head", "host0", 0, serves, false},
		{"head", "host0", -1, serves, false},
		{"10.0.0.3", "host2", 2, serves, false},
		{"localhost", "host2", 2, serves, false},
		{"host0", "host2", 2, nil, false},
	} {
		s := &Start{}
		s.Job.Store.V = job.Store{Host: tt.store, Embedded: true}
		s.Node.Hostname = tt.host
		s.Job.Index = setting.Value[int]{V: tt.rank, Set: tt.rank >= 0}
		s.store = &storeaddr.Place{Serve: tt.serve}
		f := s.misled()
		if (f != nil) != tt.want || f != nil && (f[0].ID != "store.resolves" || !strings.Contains(f[0].What, "node rank 2")) {
			t.Errorf("%+v: %+v", tt, f)
		}
	}
}

// Where a hosts file leads to another node, a correct store is never asked.
func TestANodeWithoutAStoreSaysWhatTheNameMeans(t *testing.T) {
	refused := rendezvous.Event{Text: "connect: connection refused"}
	means := []netip.Addr{netip.MustParseAddr("10.91.0.12")}
	for _, tt := range []struct {
		store string
		hosts []fabric.HostsLine
		want  string
	}{
		{"oak", []fabric.HostsLine{{Addr: means[0], Names: []string{"oak.lab", "oak"}}},
			". oak is 10.91.0.12 here, by /etc/hosts: 10.91.0.12 oak.lab oak. If a node has joined already, compare there: " +
				"getent hosts oak"},
		{"oak", nil, ". oak is 10.91.0.12 here, by the name server."},
		{"10.91.0.12", nil, "name one of the nodes: --store HOST"},
	} {
		s := &Start{store: &storeaddr.Place{Endpoints: []string{tt.store + ":29377"}, Means: means}}
		s.Job.Store.V = job.Store{Host: tt.store, Embedded: true}
		s.Node.System.Hosts = tt.hosts
		got := s.unhosted(refused)
		if !strings.Contains(got, tt.want) || strings.Contains(got, " here, ") != (tt.store == "oak") {
			t.Errorf("%s: %q, want %q", tt.store, got, tt.want)
		}
	}
}

// The address that each user-mode network gives is no address for other nodes. A cloud's network may have the same
// numbers, but another router, or the store in it.
func TestANodeInAUserModeNetworkSaysSo(t *testing.T) {
	if _, err := exec.LookPath("ip"); err != nil || os.Getuid() != 0 {
		t.Skip("it needs root and ip")
	}
	runtime.LockOSThread() // the thread ends with the test
	if err := syscall.Unshare(syscall.CLONE_NEWNET); err != nil {
		t.Skip(err)
	}
	for _, tt := range []struct {
		own, router, store string
		want               bool
	}{
		{"10.0.2.100", "10.0.2.2", "10.66.0.1", true},
		{"10.0.2.15", "10.0.2.2", "10.66.0.1", true},
		{"10.0.2.7", "10.0.2.2", "10.66.0.1", false},
		{"10.66.0.2", "10.66.0.1", "10.67.0.1", false},
		{"10.0.2.100", "10.0.2.1", "10.66.0.1", false},
		{"10.0.2.100", "10.0.2.2", "10.0.2.15", false},
	} {
		line := fmt.Sprintf("ip link add user0 type veth peer name user1; ip addr add %s/24 dev user0; "+
			"ip link set user0 up; ip link set user1 up; ip route add default via %s", tt.own, tt.router)
		if out, err := exec.Command("sh", "-ec", line).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
		s := &Start{store: &storeaddr.Place{Endpoints: []string{tt.store + ":29377"}, Addr: netip.MustParseAddr(tt.own)}}
		s.Job.Store.V = job.Store{Host: tt.store, Embedded: true}
		got := s.unhosted(rendezvous.Event{Text: "connect: connection refused"})
		if strings.Contains(got, "user-mode network") != tt.want || !strings.Contains(got, "no launch listens") {
			t.Errorf("%+v: %q", tt, got)
		}
		if err := exec.Command("ip", "link", "del", "user0").Run(); err != nil {
			t.Fatal(err)
		}
	}
}

// A guess is said only where a fact of this node leads to it.
func TestWhatANodeThatIsAloneSaysOfItsStore(t *testing.T) {
	const hostname, container = "$(hostname)", "--network host"
	for _, tt := range []struct {
		name, store, kind, link, addr string
		want                          []string
	}{
		{"its own name", "host0", "", "physical", "10.0.0.1/24", []string{hostname}},
		{"another name", "head", "", "physical", "10.0.0.1/24", nil},
		{"an address", "10.0.0.1", "", "physical", "10.0.0.1/24", nil},
		{"docker's own bridge", "172.17.0.2", "docker", "veth", "172.17.0.2/16", []string{container}},
		{"a network of docker", "host0", "docker", "veth", "172.20.0.2/16", []string{hostname, container}},
		{"podman's own bridge", "10.88.0.4", "podman", "veth", "10.88.0.4/16", []string{container}},
		{"a veth with another network", "10.66.0.1", "docker", "veth", "10.66.0.1/24", nil},
		{"a part of such a network", "172.17.0.2", "docker", "veth", "172.17.0.2/24", nil},
		{"the machine's network", "172.17.0.2", "docker", "physical", "172.17.0.2/16", nil},
		{"no container", "172.17.0.2", "", "veth", "172.17.0.2/16", nil},
	} {
		at := netip.MustParsePrefix(tt.addr)
		s := &Start{store: &storeaddr.Place{Serve: []netip.AddrPort{netip.AddrPortFrom(at.Addr(), 29377)}}}
		s.Job.Store.V = job.Store{Host: tt.store, Embedded: true}
		s.Node.Hostname, s.Node.Container.Kind = "host0", tt.kind
		s.Node.Interfaces = []fabric.Interface{{Name: "eth0", Kind: tt.link, Up: true, Addrs: []netip.Prefix{at}}}
		got := s.alone()
		for _, guess := range []string{hostname, container} {
			if strings.Contains(got, guess) != slices.Contains(tt.want, guess) {
				t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
			}
		}
	}
}

func TestTheAdviceForARankThatTwoNodesHave(t *testing.T) {
	for from, want := range map[string]string{
		"--node-rank":                      "give each node its own --node-rank, or omit it",
		"accelerate launch --machine_rank": "give each node its own --machine_rank, or omit it",
		"NODE_RANK":                        "unset NODE_RANK on all",
		"SLURM_NODEID":                     "unset SLURM_JOB_ID on all",
	} {
		if got := numbered(from); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", from, got, want)
		}
	}
}

// A node that has reached the store, and is unfit or has left, was there: what is said of a node alone is not true.
func TestANodeThatAnotherHasReachedIsNotAlone(t *testing.T) {
	for kind, want := range map[rendezvous.EventKind]int{rendezvous.Progress: 1, rendezvous.Unfit: 0, rendezvous.Left: 0} {
		said := 0
		u := ui.New(io.Discard, io.Discard, ui.Options{Env: func(string) string { return "" }})
		o := &observer{ui: u, here: 1, alone: func() { said++ }}
		there := &rendezvous.Attendance{Joined: 1, Want: 2}
		o.event(rendezvous.Event{Kind: kind, Member: &rendezvous.Member{}, Attendance: there})
		if o.sayAlone(); said != want {
			t.Errorf("%v: said %d times, want %d", kind, said, want)
		}
	}
}
