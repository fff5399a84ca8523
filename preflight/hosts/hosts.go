// Package hosts judges the hosts of an mpirun line by what a shell on each has answered.
package hosts

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"launch/internal/finding"
	"launch/internal/mpirun"
	"launch/preflight"
)

// Asked is the ID of the check that asks the hosts: without it none of the others is made.
const Asked = "mpi.hosts"

// Copied is the ID of the check that brings launch to the hosts: without it a shell there checks what it can.
const Copied = "mpi.copy"

// Checks returns the checks of an mpirun line's hosts. They are made together, by Judge.
func Checks() []preflight.Check {
	const waits = "mpirun waits for the daemon of each host, and for more than two minutes where no answer comes. "
	return []preflight.Check{
		{ID: Asked, Title: "launch understands which hosts mpirun will use",
			Doc: "launch asks each host through the agent that mpirun will use. Without this check it asks none."},
		{ID: "mpi.slots", Title: "the hostfile is one that this MPI reads, with a slot for each process",
			Doc: "mpirun refuses to start."},
		{ID: "mpi.name", Title: "the name of each host is known", Doc: waits},
		{ID: "mpi.reach", Title: "each host answers", Doc: waits},
		{ID: "mpi.mtu", Title: "long packets arrive, to each host and from it",
			Doc: waits + "Short packets arrive, so the host answers a ping, and ssh begins to log in and stops."},
		{ID: "mpi.login", Title: "the agent logs in to each host without asking",
			Doc: "A question about a host's key or a password stops mpirun without a word, or ends it."},
		{ID: "mpi.shell", Title: "each host's shell runs the agent's command, and its start-up files print nothing",
			Doc: "What a start-up file prints goes into the output of the job, and a file that asks or waits stops it. " +
				"After exec zsh in such a file the daemon never starts."},
		{ID: "mpi.daemon", Title: "each host has the daemon of this MPI",
			Doc: "A shell that is not interactive often has another PATH than the one of a login."},
		{ID: "mpi.version", Title: "the daemon has the version of this mpirun",
			Doc: "The daemons of two versions do not understand each other."},
		{ID: "mpi.call", Title: "each host can call this one back",
			Doc: waits + "A firewall, a route, or an address that the host does not reach is in the way."},
		{ID: "mpi.address", Title: "no two names are one host, and no two hosts have the same address",
			Doc: "A host with two names gets the processes of two. " +
				"A bridge such as docker0 has the same address on all hosts. A process that calls it reaches itself."},
		{ID: "mpi.parameters", Title: "Open MPI's parameters fit each host, and no file there contradicts them",
			Doc: "Each host reads its own files: mpirun hands on the parameters of its line and its environment alone. A name " +
				"of an interface may be another one there."},
		{ID: "mpi.program", Title: "each host has the program, and the same one",
			Doc: "A program or a directory that only this host has is not copied."},
		{ID: "mpi.library", Title: "the program is one of this MPI, and finds its libraries",
			Doc: "Under another MPI's mpirun each process is a world of its own, and all do the whole work."},
		{ID: "mpi.room", Title: "each host has room for the temporary files of MPI",
			Doc: "Open MPI's daemon keeps files in TMPDIR or /tmp, and ends where it cannot. Processes of one host share " +
				"memory in /dev/shm; MPICH makes a file there in each process."},
		{ID: "mpi.limits", Title: "the limits of the daemon's shell are the same on all hosts, and suffice for the daemon",
			Doc: "The processes have the limits of that shell, and not those of a login. RDMA needs locked memory, and Open " +
				"MPI 5's daemon some files."},
		{ID: "mpi.clock", Title: "the clocks of the hosts agree",
			Doc: "A shell's clock, as the processes there see it. peer.clock is more exact, where launch itself runs there."},
		{ID: Copied, Title: "launch can check each host itself",
			Doc: "launch copies itself there for the time of the checks. Where it cannot run, a shell checks what it can."},
	}
}

// Answer is what came back from one host.
type Answer struct {
	mpirun.Host
	Local  bool // this host
	Facts  mpirun.Facts
	Before []string // what was printed before the shell was ready
	Failed string   // what the agent said at its end; "": there are facts
	Late   bool     // it was ended
	Whole  bool     // the shell answered all
	Busy   string   // how busy this host was while that one was late; "": it was not

	Unrun    *Unrun // the host logs in, but runs no command; nil: not seen
	LossWay  string // the way on which long packets get lost: "to it", "from it"; "": not seen
	LossSeen string

	Sent, Back time.Time // when the question left, and when the answer was here
}

// Unrun is why a host runs no command although it logs in.
type Unrun struct {
	Forced bool     // sshd runs another one
	Seen   []string // lines of files that start another shell, as FILE:NUMBER:TEXT
}

// Input is what Judge looks at.
type Input struct {
	Run     mpirun.Run
	MPI     string
	Agent   string
	Head    mpirun.Facts // of this host, which may be none of the line's
	Answers []Answer
	Drift   time.Duration // between clocks that is allowed
	Known   []string      // names that this host knows
	NoAgent string        // SSH_AUTH_SOCK, where no agent answers; "": one does, or it is not set

	Left     func(id string) bool // checks that the user leaves out; nil: none
	WarnOnly bool
}

// Judge returns the findings of all hosts, in the order of Checks; hosts with the same trouble share one.
func Judge(in Input) Verdict {
	j := &judge{Input: in}
	j.line()
	for _, a := range in.Answers {
		if !a.Local && !j.reached(a) {
			continue
		}
		j.started(a)
		j.parameters(a)
		j.program(a)
		j.copied(a)
		j.clock(a)
		j.fewFiles(a)
	}
	j.together()
	return j.verdict()
}

// Verdict is what is to be said of the hosts.
type Verdict struct {
	Report finding.Report
	Unfit  []string // the names of the hosts that a failure is about
	Refuse bool     // a failure is about no single host
}

// trouble is something about some hosts.
type trouble struct {
	finding.Finding // What is without the hosts
	hosts           []string
	fixes           []string // those of the hosts that differ, each once
}

type judge struct {
	Input
	all []trouble
}

// maxFixes is how many different fixes one finding shows.
const maxFixes = 4

// add records a finding about a host. Findings that differ only in the host, the evidence and the fix become one, with
// a list of fixes.
func (j *judge) add(id, host string, f finding.Finding) {
	f.ID = id
	i := slices.IndexFunc(j.all, func(t trouble) bool {
		return host != "" && t.hosts[0] != "" && t.ID == id && t.Status == f.Status && t.What == f.What &&
			t.Breaks == f.Breaks
	})
	if i < 0 {
		j.all = append(j.all, trouble{Finding: f, hosts: []string{host}, fixes: []string{f.Fix}})
		return
	}
	if t := &j.all[i]; !slices.Contains(t.fixes, f.Fix) {
		t.fixes = append(t.fixes, f.Fix)
		t.Fix = strings.Join(t.fixes[:min(len(t.fixes), maxFixes)], "\n")
		if more := len(t.fixes) - maxFixes; more > 0 {
			t.Fix += fmt.Sprintf("\nand so on for %d more", more)
		}
	}
	j.all[i].hosts = append(j.all[i].hosts, host)
	if len(j.all[i].Seen) < finding.MaxSeen {
		j.all[i].Seen = append(j.all[i].Seen, f.Seen...)
	}
}

// verdict orders the findings, with a pass for each check that has none.
func (j *judge) verdict() (v Verdict) {
	for _, c := range Checks() {
		if j.Left != nil && j.Left(c.ID) {
			continue
		}
		found := false
		for _, t := range j.all {
			if t.ID != c.ID {
				continue
			}
			found = true
			if t.Status == finding.Fail && j.WarnOnly {
				t.Status = finding.Warn
			}
			if t.Status == finding.Fail {
				v.fail(t.hosts)
			}
			if t.hosts[0] != "" {
				t.What = names(t.hosts) + ": " + t.What
			}
			v.Report = append(v.Report, t.Finding)
		}
		if !found {
			v.Report = append(v.Report, finding.Passf("%s", c.Title).Named(c.ID))
		}
	}
	return v
}

func (v *Verdict) fail(hosts []string) {
	for _, h := range hosts {
		if h == "" {
			v.Refuse = true
		} else if !slices.Contains(v.Unfit, h) {
			v.Unfit = append(v.Unfit, h)
		}
	}
}

// names returns hosts in one word or a few.
func names(hosts []string) string {
	if len(hosts) > 6 {
		return fmt.Sprintf("%s and %d more hosts", strings.Join(hosts[:5], ", "), len(hosts)-5)
	}
	return strings.Join(hosts, ", ")
}
