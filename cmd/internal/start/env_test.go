package start

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"launch/envgen"
	"launch/fabric"
	"launch/fabric/machine"
	"launch/internal/job"
	"launch/internal/launcher"
	"launch/internal/setting"
	"launch/rendezvous"
)

// -x does not reach Open MPI's own daemons (seen with 4.1.4). So mpirun's environment
// has the variables that mpirun itself reads, and no others.
func TestMpirunsOwnVariablesAreInItsEnvironment(t *testing.T) {
	line, err := launcher.Parse([]string{"true"}, "")
	if err != nil {
		t.Fatal(err)
	}
	line.Kind = launcher.Mpirun
	s := Start{Record: Record{Job: job.Job{Line: line}, Command: launcher.Exec{Argv: []string{"true"}}, Plan: envgen.Plan{
		{Name: "OMPI_MCA_oob_tcp_if_include", Value: "10.0.0.0/24", Scope: setting.Job},
		{Name: "HYDRA_IFACE", Value: "eth0", Scope: setting.Node},
		{Name: "NCCL_NET", Value: "Socket", Scope: setting.Job},
		{Name: "PRTE_MCA_prte_if_include", Value: "10.0.0.0/24", Scope: setting.Job, Kept: true},
	}}}
	_, env, err := s.prepared()
	if err != nil {
		t.Fatal(err)
	}
	got := slices.DeleteFunc(env, func(e string) bool {
		return !strings.HasPrefix(e, "OMPI_MCA_oob") && !strings.HasPrefix(e, "HYDRA_") &&
			!strings.HasPrefix(e, "NCCL_NET=") && !strings.HasPrefix(e, "PRTE_")
	})
	slices.Sort(got)
	if diff := cmp.Diff([]string{"HYDRA_IFACE=eth0", "OMPI_MCA_oob_tcp_if_include=10.0.0.0/24"}, got); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

func TestTheCommandLearnsTheStoreOnlyIfAnyProgramMayUseIt(t *testing.T) {
	embedded := job.Job{Store: setting.Value[job.Store]{V: job.Store{Embedded: true, Endpoints: []string{"h:29377"}}}}
	external := func(url string) job.Job {
		return job.Job{Store: setting.Value[job.Store]{V: job.Store{Endpoints: []string{url}}}}
	}
	anyone, withUser := &Options{}, &Options{Access: rendezvous.Access{User: "u:p"}}
	for _, tt := range []struct {
		name string
		opt  *Options
		j    job.Job
		want []string
	}{
		{"embedded", anyone, embedded, nil},
		{"external", anyone, external("http://e:2379"), []string{"http://e:2379"}},
		{"external with TLS", anyone, external("https://e:2379"), nil},
		{"external with a password", withUser, external("http://e:2379"), nil},
		{"no store", anyone, job.Job{}, nil},
	} {
		if diff := cmp.Diff(tt.want, (&Start{Opt: tt.opt, Record: Record{Job: tt.j}}).openStore()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestFilesThatRulesNeedAreReadIfTheyExist(t *testing.T) {
	root := fstest.MapFS{"proc/self/status": {Data: []byte("Seccomp:\t2\n")}, "logs/a": {Data: []byte("x")}}
	want := map[string]string{"/proc/self/status": "Seccomp:\t2\n", "/logs": ""}
	if diff := cmp.Diff(want, readFiles(root, []string{"/proc/self/status", "/logs", "/missing"})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := readFiles(nil, []string{"/proc/self/status"}); got != nil {
		t.Errorf("without a root: %v", got)
	}
}

// A start on a recording resolves no name, and the peers are the hosts with a known
// address.
func TestHostsOfMpirunAreThoseWhoseAddressIsKnown(t *testing.T) {
	n := fabric.Node{Route: fabric.Route{Src: netip.MustParseAddr("10.0.0.5")},
		Interfaces: []fabric.Interface{{Name: "eth0", Up: true, Addrs: []netip.Prefix{netip.MustParsePrefix("10.0.0.5/24")}}}}
	j := job.Job{Hosts: []string{"127.0.0.1", "localhost", "10.0.0.6"}}
	replayed := &Start{Opt: &Options{}, Machine: &machine.Machine{}, Record: Record{Job: j, Node: n}}
	want := envgen.World{Nodes: 3, Addr: n.Route.Src, Peers: []netip.Addr{n.Route.Src, netip.MustParseAddr("10.0.0.6")}}
	got := replayed.mpirunWorld(t.Context())
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{}, netip.AddrPort{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAShellOrItsScriptMaySetWhatIsNotSeen(t *testing.T) {
	for line, want := range map[string]bool{"bash -c x": true, "./run.sh": true, "nice sh run": true,
		"python run.py": false, "torchrun t.py": false, "./all_reduce_perf": false} {
		l, err := launcher.Parse(strings.Fields(line), "")
		if err != nil {
			t.Fatal(err)
		}
		if got := shell(l); got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
}

func TestTheHostsOfAnExternalStoreAreLookedUpInTheHostsFile(t *testing.T) {
	got := storeNames(job.Store{Endpoints: []string{"http://host2:2379", "https://etcd.example:2379", "host3:29377"}})
	if diff := cmp.Diff([]string{"", "host2", "etcd.example"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The port of such a job has no store of torch, which the doctor would call silent.
func TestOnlyTorchsJobsAreWatched(t *testing.T) {
	for _, tt := range []struct {
		kind launcher.Kind
		uses []string
		want time.Duration
	}{
		{launcher.Program, nil, time.Minute}, {launcher.Program, []string{"jax"}, 0}, {launcher.Ray, nil, 0},
		{launcher.Program, []string{"nixl", "tensorflow"}, 0}, {launcher.Torchrun, []string{"tensorflow"}, time.Minute},
	} {
		s := &Start{Opt: &Options{HangAfter: time.Minute}}
		s.Job.Line.Kind, s.Job.Uses = tt.kind, tt.uses
		if got := s.hangAfter(); got != tt.want {
			t.Errorf("%v: %s", tt, got)
		}
	}
}
