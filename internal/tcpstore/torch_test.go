package tcpstore

import (
	"bufio"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"sync"
	"testing"
)

// store is a TCPStore that prints its port and, for every line it reads, its
// number of keys after adding one.
const store = `
import sys
from torch.distributed import TCPStore
s = TCPStore("127.0.0.1", 0, 1, True, wait_for_workers=False, use_libuv=sys.argv[1] == "libuv")
print(s.port, flush=True)
for n, _ in enumerate(sys.stdin):
    s.set(f"key{n}", "value")
    print(s.num_keys(), flush=True)
`

func TestProbeOfTorchStore(t *testing.T) {
	python := os.Getenv("LAUNCH_TEST_PYTHON")
	if python == "" {
		t.Skip("LAUNCH_TEST_PYTHON names no python that has torch")
	}
	for _, kind := range []string{"libuv", "legacy"} {
		t.Run(kind, func(t *testing.T) {
			port, addKey := startStore(t, python, kind)
			addr := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)
			for range 3 {
				addKey()
				// Several at once, as the doctors of several nodes may ask.
				var wg sync.WaitGroup
				for range 4 {
					wg.Go(func() {
						if err := Probe(t.Context(), addr); err != nil {
							t.Error(err)
						}
					})
				}
				wg.Wait()
			}
		})
	}
}

func startStore(t *testing.T, python, kind string) (port uint16, addKey func() int64) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), python, "-c", store, kind)
	cmd.Stderr = os.Stderr
	// The store looks up the name of each client, and waits for the answer.
	cmd.Env = append(os.Environ(), "RES_OPTIONS=timeout:1 attempts:1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	answers := bufio.NewReader(out)
	if _, err := fmt.Fscanln(answers, &port); err != nil {
		t.Fatalf("read port of the store: %v", err)
	}
	return port, func() (keys int64) {
		io.WriteString(in, "\n")
		if _, err := fmt.Fscanln(answers, &keys); err != nil {
			t.Fatalf("the store no longer answers: %v", err)
		}
		return keys
	}
}
