package tcpstore_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"launch/internal/tcpstore"
)

// torchrun starts two agents with one rank each, and returns once both ranks have started.
func torchrun(t *testing.T, kind string, args ...string) {
	t.Helper()
	torch := torch(t, kind)
	var stderr [2]bytes.Buffer
	var agents []started
	for node := range 2 {
		line := []string{"-m", "torch.distributed.run", "--nnodes=2", "--nproc_per_node=1"}
		line = append(append(line, args...), fmt.Sprint("--node_rank=", node), "testdata/rank.py")
		agents = append(agents, script(t, torch, &stderr[node], line...))
	}
	t.Cleanup(func() { // both before either is waited for: an agent waits for the other one
		for _, a := range agents {
			a.end()
		}
	})
	for _, a := range agents {
		a.line()
	}
}

// keysOf returns the keys of the default group's blobs.
func keysOf(b tcpstore.Board) (keys []string) {
	for _, blob := range b.Blobs {
		if blob.Group == 0 {
			keys = append(keys, blob.Key)
		}
	}
	return keys
}

// A static rendezvous: agents and ranks share one store.
func TestReadsStaticTorchrun(t *testing.T) {
	for kind, prefix := range map[string]string{
		"libuv": "/default_pg/0//cpu//0/", "old": "//worker/attempt_0/default_pg/0/0/",
	} {
		t.Run(kind, func(t *testing.T) {
			port := freePort(t)
			torchrun(t, kind, "--rdzv_id=j1", "--master_addr=127.0.0.1", "--master_port="+port)
			b := read(t, "127.0.0.1:"+port, tcpstore.Hints{Runs: []string{"j1"}, Nodes: 2})
			agents := []tcpstore.Agent{
				{Run: "j1", Node: 0, Local: 1, Role: "default"}, {Run: "j1", Node: 1, Local: 1, Role: "default"},
			}
			if !slices.Equal(b.Agents, agents) || !slices.Equal(b.Runs, []string{"j1"}) || b.Clients != 4 || b.Ended != -1 {
				t.Errorf("board %+v", b)
			}
			if !slices.Equal(keysOf(b), []string{prefix + "0", prefix + "1"}) {
				t.Errorf("blobs %+v", b.Blobs)
			}
			shares := []tcpstore.Share{{Run: "j1", World: 2}, {Run: "j1", Node: 1, Base: 1, World: 2}}
			if kind != "old" && (!slices.Equal(b.Shares, shares) || b.Cut != "") {
				t.Errorf("shares %+v, cut %q", b.Shares, b.Cut)
			}
		})
	}
}

// c10d: the agents' store names the store of the ranks.
func TestReadsC10dTorchrun(t *testing.T) {
	port := freePort(t)
	endpoint := "127.0.0.1:" + port
	torchrun(t, "libuv", "--rdzv_backend=c10d", "--rdzv_id=j1", "--rdzv_endpoint="+endpoint, "--local_addr=127.0.0.1")
	b := read(t, endpoint, tcpstore.Hints{})
	if len(b.Rendezvous) != 1 || len(b.Agents) != 2 || len(b.Shares) != 2 || b.Cut != "" || b.Clients != -1 {
		t.Fatalf("board %+v", b)
	}
	r := b.Rendezvous[0]
	if r.ID != "j1" || !r.Complete || r.Closed || len(r.Participants) != 2 || !strings.HasPrefix(r.Master, "127.0.0.1:") ||
		r.Participants[1].PID == 0 || r.Participants[1].Host != "127.0.0.1" || r.Participants[0].Beat.IsZero() {
		t.Fatalf("rendezvous %+v", r)
	}
	workers := read(t, r.Master, tcpstore.Hints{})
	if workers.Clients != 2 || len(keysOf(workers)) != 2 {
		t.Errorf("board of the workers' store %+v", workers)
	}
}
