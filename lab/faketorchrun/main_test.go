package main

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseTakesBothSpellings(t *testing.T) {
	want := node{nodes: 3, rank: 1, nproc: 2, addr: "10.0.0.1:29500"}
	for _, line := range []string{
		"--nnodes=3 --node_rank=1 --nproc_per_node=2 --master_addr=10.0.0.1 train.py --nnodes 9",
		"--nnodes 3 --node-rank 1 --nproc-per-node 2 --master-addr 10.0.0.1 --rdzv_conf=timeout=60 train.py",
		"--nnodes 3 --node-rank 1 --nproc-per-node 2 --rdzv-endpoint 10.0.0.1:29500 train.py",
	} {
		got, err := parse(strings.Fields(line))
		if err != nil {
			t.Errorf("%s: %v", line, err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(node{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
}

func TestParseTakesIPv6AsTorchrunDoes(t *testing.T) {
	got, err := parse([]string{"--nnodes=2", "--master_addr=[fd00::1]", "--master_port=29501", "t.py"})
	if err != nil || got.addr != "[fd00::1]:29501" {
		t.Errorf("%q, %v", got.addr, err)
	}
	if got, err := parse([]string{"--nnodes=2", "--master_addr=fd00::1", "t.py"}); err == nil {
		t.Errorf("an address without brackets became %q", got.addr)
	}
}

func TestParseRefusesWhatLaunchMustNotPass(t *testing.T) {
	for line, want := range map[string]string{
		"--nnodes=2 --rdzv_backend=c10d t.py":                     "not static",
		"--nnodes=2 --master_addr=host0 t.py":                     "not an IP",
		"--nnodes=2 --node_rank=2 --master_addr=127.0.0.1 t.py":   "node rank 2 of 2",
		"--nnodes=1:2 --node_rank=0 --master_addr=127.0.0.1 t.py": "not a number",
	} {
		if _, err := parse(strings.Fields(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", line, err, want)
		}
	}
}

func TestNodesWaitForEachOther(t *testing.T) {
	port := freePort(t)
	var wg sync.WaitGroup
	out := make([]strings.Builder, 3)
	for r := range out {
		wg.Go(func() {
			const line = "--nnodes=3 --node_rank=%d --nproc_per_node=2 --master_addr=127.0.0.1 --master_port=%d t.py"
			args := strings.Fields(fmt.Sprintf(line, r, port))
			if code := run(args, func(string) string { return "" }, &out[r], &out[r]); code != 0 {
				t.Errorf("node %d: exit %d, %s", r, code, &out[r])
			}
		})
	}
	wg.Wait()
	if got, want := out[2].String(), "rank 4 of 6 on node 2\nrank 5 of 6 on node 2\n"; got != want {
		t.Errorf("node 2 printed %q; want %q", got, want)
	}
}

func TestStoreAnswersTheHandshakeOfARealOne(t *testing.T) {
	s, err := serve("127.0.0.1:0", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer s.ln.Close()
	_, port, _ := net.SplitHostPort(s.ln.Addr().String())
	c, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := c.Write([]byte{0, 0xCE, 0xF7, 0x85, 0x3C, 7, 7, 7, 7}); err != nil {
		t.Fatal(err)
	}
	if n, err := io.ReadFull(c, make([]byte, 32)); err != nil {
		t.Errorf("the answer has %d bytes, %v; want 4 counts of 8", n, err)
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port
}
