package start

import (
	"io"
	"net/netip"
	"strings"
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
