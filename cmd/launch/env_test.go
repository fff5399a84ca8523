package main

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"launch/envgen"
	"launch/internal/job"
	"launch/internal/launcher"
	"launch/internal/record"
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
		{Name: "OMPI_MCA_oob_tcp_if_include", Value: "10.0.0.0/24", Scope: envgen.Job},
		{Name: "HYDRA_IFACE", Value: "eth0", Scope: envgen.Node},
		{Name: "NCCL_NET", Value: "Socket", Scope: envgen.Job},
		{Name: "PRTE_MCA_prte_if_include", Value: "10.0.0.0/24", Scope: envgen.Job, Kept: true},
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
	embedded := job.Job{Store: job.Value[job.Store]{V: job.Store{Embedded: true, Endpoints: []string{"h:29377"}}}}
	external := func(url string) job.Job {
		return job.Job{Store: job.Value[job.Store]{V: job.Store{Endpoints: []string{url}}}}
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
