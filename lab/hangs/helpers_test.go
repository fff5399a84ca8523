package hangs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// mounts shows a folder as a file system of another process does, and returns where it is and the process.
// It is mounted before the hosts' commands begin, so that all see it.
func (b *bed) mounts(dir, trip string) (string, int) {
	b.t.Helper()
	if _, err := os.Stat("/dev/fuse"); err != nil {
		b.t.Skip("needs /dev/fuse")
	}
	at := b.t.TempDir()
	cmd := exec.Command(tools.sharedfs, dir, at, trip)
	in, err := cmd.StdinPipe()
	if err == nil {
		cmd.Stderr = os.Stderr
		err = cmd.Start()
	}
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { // before the ranks are killed, which a request that hangs prevents
		_ = in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = syscall.Unmount(at, syscall.MNT_DETACH)
	})
	b.until(upLimit, "the mount "+at, func() bool {
		table, _ := os.ReadFile("/proc/self/mounts")
		return strings.Contains(string(table), " "+at+" ")
	})
	return at, cmd.Process.Pid
}

// serves runs a server of serve.py on a host, and returns its address.
func (b *bed) serves(host int, how string) string {
	b.t.Helper()
	const at = "7000"
	b.servesAt(host, how, at)
	return b.lab.Hosts[host].Addr + ":" + at
}

func (b *bed) servesAt(host int, how, at string) { b.t.Helper(); b.assists(host, "serve.py", how, at) }

// traces stops a process as a debugger does.
func (b *bed) traces(pid int) { b.t.Helper(); b.assists(1, "trace.py", strconv.Itoa(pid)) }

// assists runs a program of testdata, which is no part of the job, and waits until it is ready.
func (b *bed) assists(host int, args ...string) {
	b.t.Helper()
	ready := "ready-" + args[0]
	args[0] = filepath.Join(tools.data, args[0])
	h := b.lab.Hosts[host]
	cmd := h.Command(b.t.Context(), h.Named(append([]string{b.torch.Python}, args...)...)...)
	cmd.Env = append(cmd.Env, "READY="+filepath.Join(b.gates, ready))
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	b.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-done
		if b.t.Failed() && said.Len() > 0 {
			b.t.Logf("%s: %s", ready, said.String())
		}
	})
	b.awaits(ready)
}

// newPipe returns a path for a pipe.
func newPipe(b *bed) string { return filepath.Join(b.t.TempDir(), "pipe") }

// lockedFile returns a file that the test holds a lock on.
func (b *bed) lockedFile() string {
	b.t.Helper()
	f, err := os.Create(filepath.Join(b.t.TempDir(), "index.lock"))
	if err == nil {
		b.t.Cleanup(func() { _ = f.Close() })
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return f.Name()
}

// storage is the process of the file system that shard mounts, by the job's gates.
const storage = "storage.pid"

// shard mounts a file system with one file, which stopStorage stops.
func shard(b *bed) string {
	b.t.Helper()
	dir := b.t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "shard3"), make([]byte, 1<<20), 0o644); err != nil {
		b.t.Fatal(err)
	}
	at, pid := b.mounts(dir, "0s")
	if err := os.WriteFile(filepath.Join(b.gates, storage), []byte(strconv.Itoa(pid)), 0o644); err != nil {
		b.t.Fatal(err)
	}
	return filepath.Join(at, "shard3")
}

// stopStorage stops the file system once rank 3 has opened its file.
func stopStorage(b *bed) {
	b.t.Helper()
	b.awaits("opened")
	text, err := os.ReadFile(filepath.Join(b.gates, storage))
	if err != nil {
		b.t.Fatal(err)
	}
	pid, err := strconv.Atoi(string(text))
	if err != nil {
		b.t.Fatal(err)
	}
	b.signal(syscall.SIGSTOP, pid)
	b.open("read")
}

// stoppedFolder mounts a file system that has stopped before anything was looked up.
func stoppedFolder(b *bed) string {
	b.t.Helper()
	at, pid := b.mounts(b.t.TempDir(), "0s")
	b.signal(syscall.SIGSTOP, pid)
	return filepath.Join(at, "shard3")
}

// masterPort returns the port of the store of a rank.
func (b *bed) masterPort(rank int) string {
	b.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", b.pid(rank)))
	if err != nil {
		b.t.Fatal(err)
	}
	for v := range strings.SplitSeq(string(text), "\x00") {
		if at, ok := strings.CutPrefix(v, "MASTER_PORT="); ok {
			return at
		}
	}
	b.t.Fatalf("rank %d has no MASTER_PORT", rank)
	return ""
}

// mpirun starts a program on two hosts by mpirun, whose agent in the place of ssh is a script.
func (b *bed) mpirun(script string) {
	b.t.Helper()
	if _, err := exec.LookPath("mpirun"); err != nil {
		b.t.Skip("needs mpirun, of the Debian package openmpi-bin")
	}
	agent := filepath.Join(b.gates, "ssh")
	if err := os.WriteFile(agent, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		b.t.Fatal(err)
	}
	line := []string{"mpirun", "--allow-run-as-root", "-np", "2", "-H", "host0,host1", "--mca", "plm_rsh_agent", agent}
	b.at(0, nil, append(append(line, b.torch.Python), b.job()...)...)
}
