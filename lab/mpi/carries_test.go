package mpi

import (
	"slices"
	"strings"
	"testing"

	"launch/internal/launcher"
)

// printsGiven is a program that prints on a host what it gets of a few variables, and then joins the world.
const printsGiven = `[ $(hostname) = host0 ] || { echo "on $(hostname)"
env | grep -E '^(NCCL_DEBUG|UCX_TLS|GLOO_SOCKET_IFNAME)='; }; exec ` + Job + `/world`

// Each MPI gives other hosts the variables that launch says it does.
func TestWhatOtherHostsGetOfTheEnvironment(t *testing.T) {
	for _, mpi := range Each {
		t.Run(dashed(mpi), func(t *testing.T) {
			t.Parallel()
			tr := newTrial(t, mpi, 2)
			tr.env = []string{"NCCL_DEBUG=WARN", "UCX_TLS=tcp", "GLOO_SOCKET_IFNAME=lo"}
			head := slices.Clone(tr.line[:len(tr.line)-1])
			kind, options := "openmpi4", [][]string{nil, {"-x", "NCCL_DEBUG"}, {"-x", "NCCL_*", "-x", "UCX_TLS=self,tcp"}}
			switch {
			case tr.MPI.mpich():
				kind, options = "mpich", [][]string{nil, {"-genvnone"}, {"-genvlist", "PATH,UCX_TLS,LD_LIBRARY_PATH"},
					{"-genv", "NCCL_DEBUG", "INFO"}}
			case strings.HasSuffix(mpi, "5.0"):
				kind = "openmpi5"
			}
			for _, o := range options {
				tr.line = slices.Concat(head[:1], o, head[1:], []string{"sh", "-c", printsGiven})
				said := tr.run(plainSide, plainLimit)
				line, err := launcher.Parse(tr.line, "")
				if err != nil || said.Exit != 0 {
					t.Fatalf("%v, exit %d\n%s", err, said.Exit, said.Said)
				}
				var got []string
				for l := range strings.Lines(said.Said) {
					if l = strings.TrimSpace(l); strings.HasPrefix(l, "NCCL_") || strings.HasPrefix(l, "UCX_") ||
						strings.HasPrefix(l, "GLOO_") {
						got = append(got, l)
					}
				}
				want := line.Of(kind).Carries(tr.env)
				slices.Sort(got)
				slices.Sort(want)
				if !slices.Equal(got, want) || !strings.Contains(said.Said, "on host1") {
					t.Errorf("%q: the host has %q, launch says %q\n%s", o, got, want, said.Said)
				}
			}
		})
	}
}
