package main

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"launch/cmd/internal/record"
	"launch/envgen"
	"launch/fabric"
	"launch/fabric/machine"
	"launch/internal/job"
	"launch/internal/launcher"
	"launch/internal/setting"
)

// Open MPI's own daemons are not told by -x (seen with 4.1.4), so what mpirun
// itself reads is in its environment; all else is not.
func TestMpirunsOwnVariablesAreInItsEnvironment(t *testing.T) {
	line, err := launcher.Parse([]string{"true"}, "")
	if err != nil {
		t.Fatal(err)
	}
	line.Kind = launcher.Mpirun
	s := record.Start{Job: job.Job{Line: line}, Command: launcher.Exec{Argv: []string{"true"}}, Plan: envgen.Plan{
		{Name: "OMPI_MCA_oob_tcp_if_include", Value: "10.0.0.0/24", Scope: setting.Job},
		{Name: "HYDRA_IFACE", Value: "eth0", Scope: setting.Node},
		{Name: "NCCL_NET", Value: "Socket", Scope: setting.Job},
		{Name: "PRTE_MCA_prte_if_include", Value: "10.0.0.0/24", Scope: setting.Job, Kept: true},
	}}
	_, env, err := (&app{}).prepared(&s)
	if err != nil {
		t.Fatal(err)
	}
	got := slices.DeleteFunc(env, func(e string) bool {
		return !strings.HasPrefix(e, "OMPI_MCA_oob") && !strings.HasPrefix(e, "HYDRA_") && !strings.HasPrefix(e, "NCCL_NET=") && !strings.HasPrefix(e, "PRTE_")
	})
	slices.Sort(got)
	if diff := cmp.Diff([]string{"HYDRA_IFACE=eth0", "OMPI_MCA_oob_tcp_if_include=10.0.0.0/24"}, got); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

func TestStoreIsToldOnlyWhereAnyProgramMayUseIt(t *testing.T) {
	embedded := job.Job{Store: setting.Value[job.Store]{V: job.Store{Embedded: true, Endpoints: []string{"h:29377"}}}}
	external := func(url string) job.Job {
		return job.Job{Store: setting.Value[job.Store]{V: job.Store{Endpoints: []string{url}}}}
	}
	withUser := &app{}
	withUser.o.access.User = "u:p"
	for _, tt := range []struct {
		name string
		a    *app
		j    job.Job
		want []string
	}{
		{"embedded", &app{}, embedded, []string{"http://h:29377"}},
		{"external", &app{}, external("http://e:2379"), []string{"http://e:2379"}},
		{"external with TLS", &app{}, external("https://e:2379"), nil},
		{"external with a password", withUser, external("http://e:2379"), nil},
		{"none", &app{}, job.Job{}, nil},
	} {
		if diff := cmp.Diff(tt.want, tt.a.openStore(tt.j)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestFilesThatRulesAskForAreReadAsFarAsTheyExist(t *testing.T) {
	root := fstest.MapFS{"proc/self/status": {Data: []byte("Seccomp:\t2\n")}, "logs/a": {Data: []byte("x")}}
	want := map[string]string{"/proc/self/status": "Seccomp:\t2\n", "/logs": ""}
	if diff := cmp.Diff(want, readFiles(root, []string{"/proc/self/status", "/logs", "/missing"})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := readFiles(nil, []string{"/proc/self/status"}); got != nil {
		t.Errorf("without a root: %v", got)
	}
}

// Of a recording no name is asked for, and a host whose address is not known is
// none of the peers.
func TestHostsOfMpirunAreThoseWhoseAddressIsKnown(t *testing.T) {
	n := fabric.Node{Route: fabric.Route{Src: netip.MustParseAddr("10.0.0.5")},
		Interfaces: []fabric.Interface{{Name: "eth0", Up: true, Addrs: []netip.Prefix{netip.MustParsePrefix("10.0.0.5/24")}}}}
	replayed := &app{from: &machine.Machine{}}
	want := envgen.World{Nodes: 3, Addr: n.Route.Src, Peers: []netip.Addr{n.Route.Src, netip.MustParseAddr("10.0.0.6")}}
	got := replayed.mpirunWorld(t.Context(), job.Job{Hosts: []string{"127.0.0.1", "localhost", "10.0.0.6"}}, n)
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{}, netip.AddrPort{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAShellOrItsScriptMaySetWhatIsNotSeen(t *testing.T) {
	for line, want := range map[string]bool{"bash -c x": true, "./run.sh": true, "nice sh run": true, "python run.py": false, "torchrun t.py": false, "./all_reduce_perf": false} {
		l, err := launcher.Parse(strings.Fields(line), "")
		if err != nil {
			t.Fatal(err)
		}
		if got := shell(l); got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
}
