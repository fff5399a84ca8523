package scene

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestLinesOfMPI: where daemons call back, and on which host one is started, by the lines of Open MPI 4 and 5, MPICH
// and Intel MPI.
func TestLinesOfMPI(t *testing.T) {
	for _, c := range []struct {
		argv       []string
		back, host string
	}{
		{[]string{"/usr/bin/ssh", "-x", "-i", "key", "-o", "A=b", "h1", "", "orted", "-mca", "ess", `"env"`, "-mca",
			"orte_hnp_uri", `"25.0;tcp://10.0.0.1,172.17.0.1:59065"`}, "10.0.0.1,172.17.0.1:59065", "h1"},
		{[]string{"ssh", "-l", "me", "you@h1", "PATH=/x/prted:$PATH; prted --prtemca prte_hnp_uri " +
			`"prterun-h0-8407@0.0;tcp://10.0.0.1:38883:24" --tree-spawn`}, "10.0.0.1:38883", "h1"},
		{[]string{"orted", "-mca", "orte_hnp_uri", "25.0;tcp://10.0.0.1:59065", "-mca", "x", "y"}, "10.0.0.1:59065", ""},
		{[]string{"ssh", "-x", "h1", `"/opt/hydra_pmi_proxy"`, "--control-port", "h0:35501", "--rmk", "user"}, "h0:35501",
			"h1"},
		{[]string{"/opt/hydra_bstrap_proxy", "--upstream-host", "h0", "--upstream-port", "42195", "--pgid", "0"}, "h0:42195",
			""},
		{[]string{"/bin/sh", "/etc/mpi/kubexec.sh", "worker-0", "PATH=/usr/bin:$PATH ; orted -mca orte_hnp_uri " +
			`"25.0;tcp://10.0.0.1:59065"`}, "10.0.0.1:59065", "worker-0"},
		{[]string{"kubectl", "exec", "worker-0", "--", "/bin/sh", "-c", "orted -mca orte_hnp_uri 25.0;tcp://10.0.0.1:5"},
			"10.0.0.1:5", "worker-0"},
		{[]string{"vim", "notes-about-hnp_uri"}, "", ""},
		{nil, "", ""},
	} {
		host := ""
		if back(c.argv) != "" && len(c.argv) > 3 && !slices.Contains(mpiDaemons, filepath.Base(c.argv[0])) {
			host = starterHost(c.argv)
		}
		if got := back(c.argv); got != c.back || host != c.host {
			t.Errorf("%q: %q, %q; want %q, %q", c.argv, got, host, c.back, c.host)
		}
	}
}

func FuzzLineOfMPI(f *testing.F) {
	f.Add("ssh\x00-x\x00h1\x00orted -mca orte_hnp_uri 25.0;tcp://10.0.0.1:59065:24")
	f.Add("/bin/sh\x00a\x00-\x00--control-port\x00h0:1")
	f.Fuzz(func(t *testing.T, line string) {
		argv := split([]byte(line))
		if b := back(argv); len(b) > maxValue {
			t.Error(b)
		}
		if h := starterHost(argv); len(h) > maxHost || strings.ContainsAny(h, "\n\x1b") {
			t.Error(h)
		}
	})
}

// TestTakeShowsWhomMPIRunWaitsFor: mpirun, and what starts a daemon on another host, with the host's address.
func TestTakeShowsWhomMPIRunWaitsFor(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte("#!/bin/bash\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
		return file
	}
	agent := write("agent", "sleep 600; true\n")
	cmd := exec.Command(write("mpirun", agent+` localhost 'orted -mca orte_hnp_uri "7.0;tcp://127.0.0.1:5999"' & wait`))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pid := start(t, cmd)
	t.Cleanup(func() { _ = syscall.Kill(-pid, syscall.SIGKILL) })
	var starter *MPI
	var s Scene
	eventually(t, "the starter is seen", func() bool {
		s = take(t, Options{PID: pid})
		for _, p := range s.Procs {
			if p.MPI != nil && p.MPI.Part == MPIStarter {
				starter = p.MPI
			}
		}
		return starter != nil
	})
	if starter.Host != "localhost" || starter.Back != "127.0.0.1:5999" || len(starter.Addrs) == 0 ||
		!starter.Addrs[0].IsLoopback() {
		t.Errorf("%+v", starter)
	}
	if p := s.proc(pid); p.MPI == nil || p.MPI.Part != MPIHead {
		t.Errorf("mpirun: %+v", p)
	}
}
