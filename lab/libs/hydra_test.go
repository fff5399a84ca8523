package libs

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// Hydra's mpiexec rejects the -x of Open MPI.
func TestHydraForwardsWhatLaunchAddsToItsLine(t *testing.T) {
	t.Parallel()
	for name, pattern := range map[string]string{"MPICH": "mpich-*/*/data/bin/", "Intel MPI": "impi-rt-*/*/data/bin/"} {
		t.Run(name, func(t *testing.T) {
			kept(pattern + "hydra_pmi_proxy")(t)
			mpiexec := kept(pattern + "mpiexec.hydra")(t)[0]
			env := []string{"LD_LIBRARY_PATH=" + filepath.Join(filepath.Dir(mpiexec), "..", "lib")}
			line := []string{mpiexec, "-hosts", "10.77.0.1", "-launcher", "fork", "-n", "2", "sh", "-c",
				"echo rank $PMI_RANK uses $MASTER_ADDR"}
			s := newSite(t, 1, false)

			plain := s.start(0, env, append([]string{mpiexec, "-x", "MASTER_ADDR=10.77.0.1"}, line[1:]...)...)
			if s.ends(plain) == 0 || !strings.Contains(plain.said.String(), "unrecognized argument x") {
				t.Error("it accepts -x: launch need not distinguish it from Open MPI's")
			}
			r := s.start(0, env, append([]string{s.launch}, line...)...)
			if status := s.ends(r); status != 0 {
				t.Errorf("exit %d", status)
			}
			for rank := range 2 {
				if want := fmt.Sprintf("rank %d uses 10.77.0.1\n", rank); !strings.Contains(r.said.String(), want) {
					t.Errorf("no %q", want)
				}
			}
			if t.Failed() {
				t.Log(r.said)
			}
		})
	}
}
