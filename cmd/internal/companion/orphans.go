package companion

import (
	"time"

	"golang.org/x/sys/unix"

	"launch/internal/process"
)

// StopGrace is how long a command may take to end before it is killed: torchrun gives its workers 30 s
// (its agent's shutdown timeout).
const StopGrace = 35 * time.Second

// Mark returns the variable by which a companion finds what launch, as the parent, has started: orphans
// of a killed launch have no other sign.
func Mark(id string) string { return "LAUNCH_PARENT=" + id }

// endOrphans ends what a killed launch had started. The command itself has SIGTERM already; what it
// leaves gets SIGTERM, and after a grace SIGKILL.
func (p *companion) endOrphans() {
	if server := p.server.Load(); server != nil {
		server.Close() // the next run needs its port
	}
	warned := map[int]bool{int(p.command.Load()): true}
	grace := time.Now().Add(StopGrace)
	for left := p.started(); len(left) > 0 && time.Since(grace) < KillGrace; left = p.started() {
		for pid, parent := range left {
			_, child := left[parent]
			switch {
			case time.Now().After(grace):
				_ = unix.Kill(pid, unix.SIGKILL)
			case !child && !warned[pid]:
				warned[pid] = true
				_ = unix.Kill(pid, unix.SIGTERM)
			}
		}
		time.Sleep(orphanPoll)
	}
}

// orphanPoll is the pause between two looks for orphans.
const orphanPoll = 100 * time.Millisecond

// started returns what launch has started as the parent, and the parent of each.
func (p *companion) started() map[int]int { return process.Having(Mark(p.spec.Self.ID)) }
