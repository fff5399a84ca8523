package mpi

import (
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestTheHostsOfARigRunAJob(t *testing.T) {
	for _, name := range Each {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			r := New(t, Find(t, name), 3)
			t.Logf("up after %s", time.Since(began))
			for _, user := range []string{User, "root"} {
				began = time.Now()
				out, err := r.Hosts[0].As(t.Context(), user, r.Line(r.Names()...)...).CombinedOutput()
				if err != nil || !strings.Contains(string(out), "a world of 3: sum 3\n") {
					t.Errorf("%s: %v\n%s", user, err, out)
				}
				t.Logf("%s: %s", user, time.Since(began))
			}
		})
	}
}

func TestAHostOfARigIsItsOwn(t *testing.T) {
	r := New(t, Find(t, Each[0]), 2)
	r.Hosts[1].Sh("touch /etc/mark /tmp/mark /home/user/mark")
	out := r.Hosts[0].Sh("hostname; ls /etc/mark /tmp/mark /home/user/mark 2>/dev/null ||:; ps -e | wc -l; " +
		"ssh host1 hostname; ssh host1.lab id -un; ssh user@10.77.0.2 id -un; ls " + repository() + " 2>/dev/null ||:")
	lines := strings.Fields(out)
	if len(lines) != 5 || lines[0] != "host0" || lines[2] != "host1" || lines[3] != "root" || lines[4] != "user" {
		t.Errorf("%q", lines)
	}
	if err := exec.Command("ls", "/etc/mark").Run(); err == nil {
		t.Error("a host wrote into this machine's /etc")
	}
}
