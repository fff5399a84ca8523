package diagnose

import (
	"fmt"
	"time"

	"launch/diagnose/scene"
	"launch/diagnose/verdict"
	"launch/internal/finding"
)

// daemons judges the start of an MPI job: mpirun starts a daemon on each host by ssh, the daemon calls mpirun back,
// and only when all have called are the ranks started.
func (v *view) daemons() (out []claim) {
	out = append(out, v.stoppedParts()...)
	out = append(out, v.callbacks()...)
	out = append(out, v.shells()...)
	for _, h := range v.partsOf(scene.MPIHead) {
		missing, back, exact := v.unstarted(h)
		var waits []part
		for _, p := range missing {
			if c, ok := v.starter(p); ok {
				out = append(out, c)
				continue
			}
			waits = append(waits, p)
		}
		if len(waits) > 0 {
			out = append(out, v.missingDaemons(h, waits, back, exact))
		}
	}
	return out
}

// stoppedParts finds mpirun and daemons in state T. A stopped ssh is starter's.
func (v *view) stoppedParts() (out []claim) {
	for _, p := range v.parts {
		part := p.proc.MPI.Part
		if part != scene.MPIHead && part != scene.MPIDaemon || p.proc.State != "T" && !traced(p.proc) {
			continue
		}
		c := claimed("mpi.stopped", verdict.Certain, fmt.Sprintf("%s of %s (pid %d) %s", p.proc.Comm, p.node.name,
			p.proc.PID, stopped)).of(nil, p.node).to(p.node, p.proc).see(procPath(p.proc, "status"), "State "+p.proc.State)
		out = append(out, c)
	}
	return out
}

// callbacks finds daemons whose connection to mpirun gets no answer.
func (v *view) callbacks() (out []claim) {
	for _, d := range v.partsOf(scene.MPIDaemon) {
		port := portOf(d.proc.MPI.Back)
		for _, k := range d.node.scene.Sockets {
			if k.PID != d.proc.PID || k.State != "syn-sent" || k.Remote.Port() != port || port == 0 ||
				k.Info != nil && k.Info.Retrans+uint32(k.Info.Backoff) < 2 {
				continue
			}
			seen := "syn-sent"
			if k.Info != nil {
				seen = fmt.Sprintf("syn-sent, %d retransmissions", k.Info.Retrans)
			}
			says := fmt.Sprintf("the daemon of MPI on %s (%s, pid %d) gets no answer from mpirun at %s: the way back is "+
				"blocked, or the address is of another network", d.node.name, d.proc.Comm, d.proc.PID, k.Remote)
			out = append(out, claimed("mpi.callback", verdict.Certain, says).of(nil, d.node).
				see(fmt.Sprintf("tcp_info of %s to %s", k.Local.Addr(), k.Remote), seen).since(d.proc.Started))
			break
		}
	}
	return out
}

// shells finds hosts whose login shell was to start a daemon, and does something else.
func (v *view) shells() (out []claim) {
	for _, p := range v.partsOf(scene.MPIShell) {
		text := ""
		if c := findProc(p.node.scene.Procs, func(c *scene.Proc) bool { return c.Parent == p.proc.PID }); c != nil {
			text = ": it waits for " + command(c)
		}
		out = append(out, claimed("mpi.shell", verdict.Likely, fmt.Sprintf(
			"the shell that ssh has started on %s (pid %d) has not started MPI's daemon%s", p.node.name, p.proc.PID, text)).
			of(nil, p.node).see(procPath(p.proc, "cmdline"), command(p.proc)).since(p.proc.Started))
	}
	return out
}

// findProc returns the first process that f is true for, or nil.
func findProc(all []scene.Proc, f func(*scene.Proc) bool) *scene.Proc {
	for i := range all {
		if f(&all[i]) {
			return &all[i]
		}
	}
	return nil
}

// starter judges one ssh of mpirun by what can be seen of it here.
func (v *view) starter(p part) (claim, bool) {
	host := v.hostOf(p)
	who := fmt.Sprintf("%s of mpirun to %s (pid %d on %s)", p.proc.Comm, host.name, p.proc.PID, p.node.name)
	if p.proc.State == "T" {
		c := claimed("mpi.ssh-prompt", verdict.Likely, who+" is stopped: it asks for a password, or whether the host is "+
			"known, and may not use the terminal").of(nil, host).
			see(procPath(p.proc, "status"), "State T").since(p.proc.Started)
		return c.do("run it by hand first: ssh " + host.name + " true; then set up keys, or accept the host's key"), true
	}
	for _, k := range p.node.scene.Sockets {
		if k.PID != p.proc.PID || k.Info == nil {
			continue
		}
		switch {
		case k.State == "syn-sent" && k.Info.Retrans+uint32(k.Info.Backoff) >= 1:
			return claimed("mpi.ssh-unreachable", verdict.Certain, fmt.Sprintf("%s gets no answer from %s", who, k.Remote)).
				of(nil, host).see("tcp_info", fmt.Sprintf("syn-sent, %d retransmissions", k.Info.Retrans)).
				since(p.proc.Started), true
		case k.State == "established" && k.Info.Received == 0 && k.Info.LastSent > time.Second:
			return claimed("mpi.ssh-unreachable", verdict.Certain, fmt.Sprintf(
				"%s is connected with %s, which says nothing: its sshd hangs", who, k.Remote)).of(nil, host).
				see("tcp_info", "established, no byte received").since(p.proc.Started), true
		}
	}
	return claim{}, false
}

// missingDaemons says which daemons mpirun waits for, where their ssh does not say why.
func (v *view) missingDaemons(h part, missing []part, back int, exact bool) claim {
	var names []string
	var nodes []*node
	since := missing[0].proc.Started
	for _, p := range missing {
		n := v.hostOf(p)
		names, nodes = append(names, n.name), append(nodes, n)
		if p.proc.Started.Before(since) {
			since = p.proc.Started
		}
	}
	sure := verdict.Certain
	text := fmt.Sprintf("mpirun (pid %d on %s) waits for its %s on %s: %s runs, and no connection has come back",
		h.proc.PID, h.node.name, finding.Noun(len(names), "daemon"), finding.Some(names),
		map[bool]string{true: "its ssh", false: "their ssh"}[len(names) == 1])
	if !exact {
		sure = verdict.Likely
		text = fmt.Sprintf("mpirun (pid %d on %s) waits for a daemon: %d have connected, and not that of %s",
			h.proc.PID, h.node.name, back, finding.Some(names))
	}
	c := claimed("mpi.daemon", sure, text).of(nil, nodes...).since(since)
	for _, p := range missing[:min(len(missing), maxSeen)] {
		c = c.see(procPath(p.proc, "cmdline"), v.lookOfStarter(p))
	}
	return c
}

// lookOfStarter says what a starter does.
func (v *view) lookOfStarter(p part) string {
	for _, k := range p.node.scene.Sockets {
		if k.PID == p.proc.PID && k.State == "established" {
			return fmt.Sprintf("%s to %s, connected with %s", p.proc.Comm, p.proc.MPI.Host, k.Remote)
		}
	}
	return fmt.Sprintf("%s to %s, state %s", p.proc.Comm, p.proc.MPI.Host, p.proc.State)
}
