package tcpstore_test

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"launch/internal/tcpstore"
	"launch/lab/programs"
)

// kinds are the stores of torch: the libuv server, the one before, and that of torch 1.13.
var kinds = []string{"libuv", "legacy", "old"}

func torch(t *testing.T, kind string) programs.Torch {
	if kind != "old" {
		return programs.CurrentTorch(t)
	}
	torch := programs.DebianTorch(t)
	if torch.Env == nil {
		t.Skip("needs torch 1.13")
	}
	return torch
}

// started is a script that runs. line waits for the first line that it prints; end closes its stdin, at which it
// ends.
type started struct {
	line func() string
	end  func()
}

// script runs a script with torch, which ends with the test.
func script(t *testing.T, torch programs.Torch, stderr *bytes.Buffer, args ...string) started {
	t.Helper()
	cmd := exec.Command(torch.Python, args...)
	cmd.Env = append(
		append(os.Environ(), torch.Env...),
		"GLOO_SOCKET_IFNAME=lo",
		"OMP_NUM_THREADS=1",
		"PYTHONDONTWRITEBYTECODE=1",
	)
	cmd.Stderr = stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	watch := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() })
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
		watch.Stop()
	})
	line := func() string {
		s, err := bufio.NewReader(stdout).ReadString('\n')
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, stderr)
		}
		return strings.TrimSpace(s)
	}
	return started{line, func() { _ = stdin.Close() }}
}

// store runs a store of torch with the keys of testdata/store.py, and extra blobs.
func store(t *testing.T, kind string, extra int, stderr *bytes.Buffer) string {
	port := script(t, torch(t, kind), stderr, "testdata/store.py", kind, fmt.Sprint(extra)).line()
	return net.JoinHostPort("127.0.0.1", port)
}

func read(t *testing.T, addr string, h tcpstore.Hints) tcpstore.Board {
	t.Helper()
	b, err := tcpstore.Read(t.Context(), tcpstore.At(addr), h)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func diff(want, got tcpstore.Board) string {
	return cmp.Diff(want, got, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }))
}

// expected is the board of testdata/store.py.
func expected(kind string) tcpstore.Board {
	beat := time.Date(2026, 3, 4, 5, 6, 7, 89000, time.UTC)
	b := tcpstore.Board{
		Keys: 17, Clients: -1, Ended: 1, Runs: []string{"j1", "none"},
		Agents: []tcpstore.Agent{
			{Run: "j1", Round: 3, Node: 0, Local: 2, Role: "default"},
			{Run: "j1", Round: 3, Node: 1, Local: 2, Role: "default"},
			{Run: "none", Node: 0, Local: 2, Role: "default"},
			{Run: "none", Node: 1, Local: 2, Role: "default"},
		},
		Shares: []tcpstore.Share{
			{Run: "j1", Round: 3, Node: 0, Base: 0, World: 4},
			{Run: "j1", Round: 3, Node: 1, Base: 2, World: 4},
			{Run: "none", Node: 0, Base: 0, World: 4},
			{Run: "none", Node: 1, Base: 2, World: 4},
		},
		NCCL: []tcpstore.UniqueID{{Key: "/default_pg/0//cuda//0", Addr: netip.MustParseAddrPort("10.88.0.1:39999")}},
		Rendezvous: []tcpstore.Rendezvous{{
			ID: "j1", Round: 3, Complete: true, Waiting: 1, Master: "h0:40123",
			Participants: []tcpstore.Participant{
				{Host: "h0", PID: 8300, Rank: 0, Beat: beat}, {Host: "h1", PID: 70000, Rank: 1, Beat: beat},
			},
		}},
		Barriers: []tcpstore.Barrier{{Key: "/default_pg/store_based_barrier_key:0", Count: 2, Done: true}},
		Cut:      "1 values do not decode",
	}
	if kind == "old" {
		b.Keys, b.Shares, b.Unlisted = 13, nil, true
		b.NCCL[0].Key, b.Barriers[0].Key = "/default_pg/0/0", "/default_pg/store_based_barrier_key:1"
	}
	return b
}

// The stores of torch say the same of the same job, and their process writes nothing about the reader.
func TestReadsRealStores(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			var stderr bytes.Buffer
			addr := store(t, kind, 0, &stderr)
			before := stderr.String()
			got := read(t, addr, tcpstore.Hints{Runs: []string{"j1", "none"}, Nodes: 2, World: 4})
			want := expected(kind)
			if kind == "old" {
				if !strings.Contains(got.Cut, "cannot list its keys") {
					t.Errorf("cut: %q", got.Cut)
				}
				want.Cut = got.Cut
			}
			if d := diff(want, got); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
			again := read(t, addr, tcpstore.Hints{})
			if again.Keys != got.Keys {
				t.Errorf("reading has changed the number of keys from %d to %d", got.Keys, again.Keys)
			}
			if after := stderr.String(); after != before {
				t.Errorf("the store wrote about the reader:\n%s", strings.TrimPrefix(after, before))
			}
		})
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
}

// Two real ranks: what the board says of them is so.
func TestReadsARealGlooJob(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			torch := torch(t, kind)
			port := freePort(t)
			var stderr [2]bytes.Buffer
			var hosts []string
			var ranks []started
			for rank := range 2 {
				ranks = append(ranks, script(t, torch, &stderr[rank], "testdata/rank.py", kind, fmt.Sprint(rank), port))
			}
			for _, rank := range ranks {
				hosts = append(hosts, rank.line())
			}
			checkGloo(t, kind, read(t, "127.0.0.1:"+port, tcpstore.Hints{World: 2}), hosts)
		})
	}
}

func checkGloo(t *testing.T, kind string, got tcpstore.Board, hosts []string) {
	t.Helper()
	want := tcpstore.Board{Keys: got.Keys, Clients: 2, Ended: -1}
	key, world := "/default_pg/0//cpu//0/%d", 2 // torch 1.13: one address for each other rank
	if kind == "old" {
		key = "/default_pg/0/0/%d"
		want.Unlisted, want.Cut = true, got.Cut
		want.Barriers = []tcpstore.Barrier{{Key: "/default_pg/store_based_barrier_key:1", Count: 2}}
	}
	for r := range 2 {
		want.Blobs = append(want.Blobs, tcpstore.Blob{Key: fmt.Sprintf(key, r), Index: r, Host: hosts[r], World: world})
	}
	if kind != "old" { // a subgroup cannot be asked for by name
		for r := range 2 {
			want.Blobs = append(want.Blobs, tcpstore.Blob{
				Key: fmt.Sprintf("/default_pg/0//1//cpu//0/%d", r), Group: 1, Index: r, Host: hosts[r], World: 2,
			})
		}
	}
	for i := range min(len(got.Blobs), len(want.Blobs)) {
		want.Blobs[i].Addr = got.Blobs[i].Addr
		if kind == "old" { // its listener ends with the mesh
			if a := got.Blobs[i].Addr; !a.Addr().IsLoopback() || a.Port() == 0 {
				t.Errorf("the address of %s is %v", got.Blobs[i].Key, a)
			}
			continue
		}
		conn, err := net.Dial("tcp", got.Blobs[i].Addr.String())
		if err != nil {
			t.Errorf("no rank listens at %v of %s", got.Blobs[i].Addr, got.Blobs[i].Key)
			continue
		}
		conn.Close()
	}
	if d := diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}
