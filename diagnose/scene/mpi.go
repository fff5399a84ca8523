package scene

import (
	"context"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// MPI is what a process does in the start of an MPI job.
type MPI struct {
	Part MPIPart `json:"part"`
	// Host is the host on which a starter starts a daemon, as its line names it, and Addrs are its addresses here.
	Host  string       `json:"host,omitempty"`
	Addrs []netip.Addr `json:"addrs,omitempty"`
	// Back is where daemons connect to, as their line says: "10.0.0.1,172.17.0.1:34627", "host0:35501". It is the same
	// text in all processes of a job.
	Back string `json:"back,omitempty"`
}

// MPIPart is a part in the start of an MPI job.
type MPIPart string

// The parts.
const (
	MPIHead    MPIPart = "head"    // mpirun
	MPIStarter MPIPart = "starter" // the ssh, or what stands for it, that starts a daemon
	MPIShell   MPIPart = "shell"   // on the host of a daemon, a login shell that is to start it
	MPIDaemon  MPIPart = "daemon"  // orted, prted, hydra_pmi_proxy
)

var (
	mpiHeads   = []string{"mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "prte"}
	mpiDaemons = []string{"orted", "prted", "hydra_pmi_proxy", "hydra_bstrap_proxy"}
	// sshValues are options of ssh(1) that have a value.
	sshValues = "BbcDEeFIiJLlmOopQRSWw"
)

// The lines of daemons: of Open MPI and PRRTE, of MPICH, and of Intel MPI.
var (
	hnpURI   = regexp.MustCompile(`hnp_uri "?[^\s";]+;tcp[46]*://([^\s";]+)`)
	control  = regexp.MustCompile(`--control-port "?([^\s":]+:\d+)`)
	upstream = regexp.MustCompile(`--upstream-host "?([^\s"]+)"? (?:.* )?--upstream-port "?(\d+)`)
	mask     = regexp.MustCompile(`^(.+?:\d+):[\d,]+$`) // PRRTE adds the lengths of the networks
)

// maxLine is how much of a command line is searched.
const maxLine = 64 << 10

// back returns where the line of a daemon, or of what starts it, says that it connects to; "": it is no such line.
func back(argv []string) string {
	text := strings.Join(argv, " ")
	text = text[:min(len(text), maxLine)]
	if m := hnpURI.FindStringSubmatch(text); m != nil {
		if n := mask.FindStringSubmatch(m[1]); n != nil {
			m[1] = n[1]
		}
		return clean(m[1], maxValue)
	}
	if m := control.FindStringSubmatch(text); m != nil {
		return clean(m[1], maxValue)
	}
	if m := upstream.FindStringSubmatch(text); m != nil {
		return clean(m[1]+":"+m[2], maxValue)
	}
	return ""
}

// starterHost returns the host that a starter names; "": not found.
func starterHost(argv []string) string {
	at := -1
	switch {
	case len(argv) == 0:
	case path.Base(argv[0]) == "ssh":
		at = sshHost(argv)
	default: // a script: the host is before the command
		at = slices.IndexFunc(argv, func(a string) bool {
			return slices.ContainsFunc(mpiDaemons, func(d string) bool { return strings.Contains(a, d) })
		})
		for at--; at > 0 && (strings.TrimSpace(argv[at]) == "" || strings.HasPrefix(argv[at], "-") ||
			strings.Contains(argv[at], "/")); {
			at--
		}
	}
	if at <= 0 || at >= len(argv) {
		return ""
	}
	host := strings.TrimSpace(argv[at])
	return clean(host[strings.LastIndexByte(host, '@')+1:], maxHost)
}

// sshHost returns the index of the host in a line of ssh; -1: there is none.
func sshHost(argv []string) int {
	for i := 1; i < len(argv); i++ {
		switch a := argv[i]; {
		case !strings.HasPrefix(a, "-"):
			return i
		case len(a) == 2 && strings.Contains(sshValues, a[1:]):
			i++
		}
	}
	return -1
}

// parts finds the processes that start an MPI job. The ssh of mpirun, and a login shell, have no other role.
func (t *table) parts() {
	for _, pid := range t.pids() {
		p := t.procs[pid]
		name := p.program()
		switch {
		case slices.Contains(mpiHeads, name) || slices.Contains(mpiHeads, p.stat.comm):
			p.mpi = &MPI{Part: MPIHead}
		case slices.Contains(mpiDaemons, name) || slices.Contains(mpiDaemons, p.stat.comm):
			p.mpi = &MPI{Part: MPIDaemon, Back: back(p.argv)}
		}
	}
	for _, pid := range t.pids() {
		p := t.procs[pid]
		if p.mpi != nil || p.role != "" && p.role != MPIRun {
			continue
		}
		at := back(p.argv)
		if at == "" {
			continue
		}
		p.role = MPIRun
		if parent := t.procs[p.stat.parent]; parent != nil && parent.mpi != nil {
			p.mpi = &MPI{Part: MPIStarter, Back: at, Host: starterHost(p.argv)}
			continue
		}
		if below := t.below(pid); !slices.ContainsFunc(below, func(c int) bool {
			return t.procs[c].mpi != nil && t.procs[c].mpi.Part == MPIDaemon
		}) {
			p.mpi = &MPI{Part: MPIShell, Back: at}
			for _, c := range below { // what it waits for
				if t.procs[c].role == "" {
					t.procs[c].role = Child
				}
			}
		}
	}
}

// maxNames hosts of daemons are resolved.
const maxNames = 64

// names resolves the hosts of those starters that have no connection of their own, as ssh has: they are compared with
// the connections that mpirun has.
func names(ctx context.Context, job []*seen, sockets []Socket) {
	var all []*seen
	for _, p := range job {
		if p.mpi == nil || p.mpi.Part != MPIStarter || p.mpi.Host == "" || len(all) >= maxNames ||
			slices.ContainsFunc(sockets, func(s Socket) bool { return s.PID == p.pid && s.State != stateListen }) {
			continue
		}
		all = append(all, p)
	}
	var wg sync.WaitGroup
	for _, p := range all {
		wg.Go(func() { p.mpi.Addrs, _ = resolve(ctx, p.mpi.Host) })
	}
	wg.Wait()
}
