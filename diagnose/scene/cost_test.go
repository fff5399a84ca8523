package scene

import (
	"context"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkTake looks at 8 ranks with 16 children each, and reports the time on the CPU.
func BenchmarkTake(b *testing.B) {
	for n := range 8 {
		cmd := exec.Command("python3", "-c", `
import os, threading, time
for _ in range(63): threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
for _ in range(16):
    if os.fork() == 0: time.sleep(600)
time.sleep(600)`)
		cmd.Env = append(cmd.Environ(), fmt.Sprint("RANK=", n), "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29599")
		cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			b.Skip(err)
		}
		defer func() {
			_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
			_ = cmd.Wait()
		}()
	}
	time.Sleep(3 * time.Second)
	o := Options{Span: 100 * time.Millisecond,
		Store: func(context.Context, string, int) Store { return Store{Outcome: Refused} }}
	var used unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &used)
	before, procs := used.Utime.Nano()+used.Stime.Nano(), 0
	for b.Loop() {
		s, err := Take(b.Context(), o)
		if err != nil {
			b.Fatal(err)
		}
		procs = len(s.Procs)
	}
	_ = unix.Getrusage(unix.RUSAGE_SELF, &used)
	cost := time.Duration(used.Utime.Nano()+used.Stime.Nano()-before) / time.Duration(b.N)
	b.ReportMetric(cost.Seconds()*1000, "cpu-ms/op")
	b.ReportMetric(float64(procs), "procs")
}
