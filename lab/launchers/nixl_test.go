package launchers

import (
	"os/exec"
	"path/filepath"
	"testing"

	"launch/lab/netns"
)

// Agents of NIXL find each other in the etcd that is the job's store, and each writes into the other's memory over TCP.
func TestAgentsOfNIXLFindEachOther(t *testing.T) {
	etcd, err := exec.LookPath("etcd")
	if err != nil {
		t.Skip("needs an etcd server in PATH (package etcd-server)")
	}
	script, err := filepath.Abs(filepath.Join("testdata", "agents.py"))
	if err != nil {
		t.Fatal(err)
	}
	h := hosts{lab: netns.New(t, 2), path: installed(t, "nixl-cu12-1.5.1"), temp: temp(t)}
	server := h.lab.Hosts[0].Command(t.Context(), etcd, "--data-dir", filepath.Join(h.temp, "etcd"),
		"--listen-client-urls", "http://0.0.0.0:2379", "--advertise-client-urls", "http://"+h.lab.Hosts[0].Addr+":2379")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	counted(t, 2, h.run(t, []string{launchBin, "--nnodes", "2", "--store", "http://host0:2379", "python", script}))
}
