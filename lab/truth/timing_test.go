package truth

import (
	"context"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// timing returns nodes that are late, absent, slow, frozen or lost.
func timing() []mechanism {
	signal := func(sig syscall.Signal) func(b *bed, f fault) {
		return func(b *bed, f fault) {
			b.hosts[f.at].struck = true
			_ = b.hosts[f.at].Signal(sig)
		}
	}
	// rank sends a signal to the processes of the job's program on a host.
	rank := func(sig syscall.Signal) func(b *bed, f fault) {
		return func(b *bed, f fault) {
			b.hosts[f.at].struck = sig == syscall.SIGSTOP
			for _, p := range b.hosts[f.at].Processes() {
				pid, line, _ := strings.Cut(p, " ")
				if n, err := strconv.Atoi(pid); err == nil && strings.Contains(line, "python") &&
					strings.Contains(line, "/train.py") && !strings.Contains(line, "torchrun") &&
					!strings.Contains(line, "--join-timeout") && !strings.HasPrefix(line, "unshare") {
					_ = syscall.Kill(n, sig)
				}
			}
		}
	}
	late := []string{"2s", "5s", "10s"}
	all := []mechanism{
		{name: "a node is late", takes: "late", strengths: late, make: func(b *bed, f fault) {
			b.hosts[f.at].late, _ = time.ParseDuration(f.strong())
		}},
		{name: "all nodes but one are late", takes: "late", strengths: late, make: func(b *bed, f fault) {
			for i, h := range b.hosts {
				if i != f.at {
					h.late, _ = time.ParseDuration(f.strong())
				}
			}
		}},
		{name: "a node never starts", takes: "late strike", make: func(b *bed, f fault) {
			b.hosts[f.at].absent = true
			close(b.hosts[f.at].done)
		}},
		{name: "a node is frozen", takes: "strike", moments: []moment{waiting, joined, running},
			make: signal(syscall.SIGSTOP)},
		{name: "a node is frozen for 3 s", takes: "strike", degrades: true, moments: []moment{waiting, joined, running},
			make: func(b *bed, f fault) {
				_ = b.hosts[f.at].Signal(syscall.SIGSTOP)
				h := b.hosts[f.at]
				timer := time.AfterFunc(3*time.Second, func() { _ = h.Signal(syscall.SIGCONT) })
				b.ends = append(b.ends, func() { timer.Stop() })
			}},
		{name: "all processes of a node are killed", takes: "strike", moments: []moment{waiting, joined, running},
			causes: "gone died reach", make: signal(syscall.SIGKILL)},
		{name: "a rank is killed", takes: "strike", moments: []moment{joined, running}, causes: "gone died",
			make: rank(syscall.SIGKILL)},
		{name: "a rank is frozen", takes: "strike", moments: []moment{joined, running}, make: rank(syscall.SIGSTOP)},
		{name: "a busy node", make: func(b *bed, f fault) {
			for range 2 {
				ctx, cancel := context.WithCancel(context.Background())
				cmd := b.hosts[f.at].Command(ctx, "sh", "-c", "while :; do :; done")
				if err := cmd.Start(); err != nil {
					b.t.Fatal(err)
				}
				b.ends = append(b.ends, func() { cancel(); _ = cmd.Wait() })
			}
		}},
	}
	for i := range all {
		all[i].topic = "time"
		if all[i].causes == "" {
			all[i].causes = "gone"
		}
	}
	return all
}
