package libs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestOpenMPIUsesThePlannedSubnet(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3")
	}
	script := filepath.Join(repo(t), "lab", "libs", "testdata", "barrier.py")
	line := []string{"mpirun", "--host", "host0,host1,host2", "-np", "3", python, script}

	for name, env := range map[string]func(*testing.T) []string{"4": openMPI4, "5": openMPI5} {
		t.Run(name, func(t *testing.T) {
			env := append(env(t), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")

			// Version 4 waits for ever, version 5 gives up.
			t.Run("plain", func(t *testing.T) {
				s := newSite(t, 3, false)
				r := s.start(0, append(env, s.agent()...), line...)
				s.until("a rank calls docker0",
					func() bool { return strings.Contains(r.said.String(), "connect() to "+decoys) })
				s.stop()
				if s.ends(r) == 0 || strings.Contains(r.said.String(), "passed") {
					t.Error("a rank passed the barrier without launch: the test proves nothing")
				}
			})
			for name, ownName := range map[string]bool{
				"with launch": false, "with launch, the head's own name means docker0": true,
			} {
				t.Run(name, func(t *testing.T) {
					s := newSite(t, 3, ownName)
					r := s.start(0, append(env, s.agent()...), append([]string{s.launch}, line...)...)
					if status := s.ends(r); status != 0 {
						t.Errorf("exit %d", status)
					}
					for rank := range 3 {
						want := fmt.Sprintf("rank %d of 3 passed\n", rank)
						if !strings.Contains(r.said.String(), want) {
							t.Errorf("no %q", want)
						}
					}
				})
			}
		})
	}
}

func openMPI4(t *testing.T) []string {
	t.Helper()
	file := tool(t, "mpirun", "openmpi-bin")
	if out, err := exec.Command(file, "--version").Output(); err != nil ||
		!strings.Contains(string(out), "(Open MPI) 4.") {
		t.Skipf("%s is not of Open MPI 4: %s", file, out)
	}
	return nil
}

func openMPI5(t *testing.T) []string {
	t.Helper()
	dir := filepath.Dir(filepath.Dir(kept("openmpi-5*/*/data/bin/mpirun")(t)[0]))
	return []string{"PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH"),
		"LD_LIBRARY_PATH=" + filepath.Join(dir, "lib")}
}

// agent returns the options that replace ssh by a program, for versions 4 and 5.
func (s *site) agent() []string {
	s.t.Helper()
	text := "#!/bin/sh\nhost=$1\nshift\ncase $host in\n"
	for _, h := range s.lab.Hosts {
		text += h.Name + ") exec"
		for _, arg := range s.command(s.t.Context(), h, "sh", "-c").Args {
			text += " '" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
		text += ` "$*" ;;` + "\n"
	}
	file := s.write("agent", text+"esac\n")
	return []string{"OMPI_MCA_plm_rsh_agent=" + file, "PRTE_MCA_plm_ssh_agent=" + file}
}
