package scene

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// rasRank is a rank that has mapped a libnccl and answers as its RAS thread does (NCCL 2.27). Its count of
// collectives is behind that of the other ranks, and stays so.
const rasRank = `
import mmap, socket, sys, threading
f = open(sys.argv[1], "rb"); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
l = socket.socket(); l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
l.bind(("127.0.0.1", int(sys.argv[2]))); l.listen(8)
text = b"""NCCL version 2.27.7 compiled with CUDA 12.9

#0-0 (cf26) MISMATCH
  Communicator ranks have different AllReduce operation counts
  3 ranks have launched up to operation 41
  Rank 1 has launched up to operation 40 -- GPU 1 managed by process 7 on node 127.0.0.1
"""
def serve(c):
    for line in c.makefile("rb"):
        if line.startswith(b"CLIENT"): c.sendall(b"SERVER PROTOCOL 2\n")
        elif line.startswith(b"TIMEOUT"): c.sendall(b"OK\n")
        elif line.startswith(b"VERBOSE"): c.sendall(text); break
        else: c.sendall(b"ERROR: Unknown command\n")
    c.close()
open(sys.argv[3], "w").close()
while True: threading.Thread(target=serve, args=(l.accept()[0],)).start()
`

// rasJob starts such a rank, and returns its process and port.
func rasJob(t *testing.T, env ...string) (int, string) {
	t.Helper()
	dir := t.TempDir()
	lib, ready, port := filepath.Join(dir, "libnccl.so.2.27.7"), filepath.Join(dir, "ready"), freePort(t)
	if err := os.WriteFile(lib, bytes.Repeat([]byte{1}, 4096), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := in(exec.Command(python(t), "-c", rasRank, lib, port, ready), append([]string{"RANK=0", "WORLD_SIZE=4",
		"NCCL_RAS_ADDR=localhost:" + port}, env...)...)
	pid := start(t, cmd)
	eventually(t, "it listens", func() bool { _, err := os.Stat(ready); return err == nil })
	return pid, port
}

func TestTakeAsksNCCLsRAS(t *testing.T) {
	pid, port := rasJob(t)
	s := take(t, Options{PID: pid})
	if len(s.RAS) != 1 || s.RAS[0].Report == nil || !s.RAS[0].Still || s.RAS[0].Moved || s.RAS[0].PID != pid ||
		!strings.HasSuffix(s.RAS[0].At.String(), ":"+port) {
		t.Fatalf("%+v", s.RAS)
	}
	if c := s.RAS[0].Report.Comms; len(c) != 1 || len(c[0].Ops) != 1 || c[0].Ops[0].Shares[1].Who[0].Rank != 1 {
		t.Errorf("%+v", c)
	}
}

func TestTakeDoesNotAskNCCLsRAS(t *testing.T) {
	t.Run("on another node than rank 0's, if that is asked too", func(t *testing.T) {
		pid, _ := rasJob(t, "RANK=3")
		if s := take(t, Options{PID: pid, Shared: true}); len(s.RAS) > 0 {
			t.Errorf("%+v", s.RAS)
		}
	})
	t.Run("where a process outside of the job listens as well", func(t *testing.T) {
		pid, port := rasJob(t)
		other := exec.Command(python(t), "-c", "import socket, sys, time\n"+
			"l = socket.socket(); l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)\n"+
			"l.bind(('127.0.0.1', int(sys.argv[1]))); l.listen(8); print(flush=True); time.sleep(600)", port)
		out, err := other.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		start(t, other)
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		s := take(t, Options{PID: pid})
		if len(s.RAS) > 0 || gapOf(s, "NCCL's RAS").Why == "" {
			t.Errorf("%+v %+v", s.RAS, s.Gaps)
		}
	})
	t.Run("where it is off", func(t *testing.T) {
		pid, _ := rasJob(t, "NCCL_RAS_ENABLE=0")
		if s := take(t, Options{PID: pid}); len(s.RAS) > 0 {
			t.Errorf("%+v", s.RAS)
		}
	})
}
