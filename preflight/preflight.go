// Package preflight runs checks before the command starts and reports what each found. A check is one value of a
// table and reads facts that others gathered. A failure stops the start, so a check fails only where the job would
// certainly hang or die. What may still work is a warning, and "could not tell" is a skip.
package preflight

import (
	"cmp"
	"context"
	"io/fs"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"launch/fabric"
	"launch/fabric/ofi"
	"launch/fabric/verbs"
	"launch/internal/dns"
	"launch/internal/finding"
	"launch/internal/job"
	"launch/internal/launcher"
	"launch/preflight/threshold"
)

// Check is one row of a table of checks.
type Check struct {
	ID    string        // stable, dotted, never reused
	Needs []string      // IDs of earlier checks; this check is skipped where one of them fails
	Title string        // a statement that holds on a healthy node
	Doc   string        // what goes wrong where it does not hold
	Limit time.Duration // the time after which the check is a skip; 0: Computed

	// Unless returns why the check does not apply here, or "". nil: it always applies.
	Unless func(in Input) string
	// Run returns one finding, or several where the check covers several things.
	// A finding without an ID gets the check's. Run returns when ctx ends.
	Run func(ctx context.Context, in Input) []finding.Finding
}

// Table is every check. Package checks fills it.
type Table struct {
	Node  []Check // of one node
	Peers []Check // between nodes
	Rates []Check // of what a bench measured
	Hosts []Check // of the hosts of an mpirun line
}

// Named returns the checks whose IDs --skip and --only accept.
func (t Table) Named() []Check { return slices.Concat(t.Node, t.Peers, t.Hosts) }

// Titles returns what each check asks, by its ID.
func (t Table) Titles() map[string]string {
	out := map[string]string{}
	for _, c := range slices.Concat(t.Node, t.Peers, t.Rates, t.Hosts) {
		out[c.ID] = c.Title
	}
	return out
}

// Input is everything that the checks read. A check skips where its func is nil, so a dry run opens no socket.
type Input struct {
	Job  job.Job
	Node fabric.Node
	Addr netip.Addr // this node's address for its peers; zero if not known yet

	// Serve is where this node hosts the embedded store; empty if another node does, or if that is not known yet.
	Serve []netip.AddrPort
	Dir   string // the working directory

	Thresholds map[string]float64 // the user's values, by Threshold.Name
	UserEnv    []string           // the environment of the user's own checks; nil: run none
	Lint       []finding.Finding  // the findings of envgen.Lint in the inherited settings
	LintIDs    []string           // all IDs that envgen.Lint can report

	// Selected is the result of envgen.Selected: what the settings choose.
	Selected map[string][]string

	// Ports is the result of envgen.Ports: the ports that the settings leave to NCCL; nil means the rails.
	Ports []string

	Env func(name string) (string, bool) // os.LookupEnv
	// LookPath searches as execvp(3) does. fs.ErrPermission: found, but not executable.
	LookPath func(name string) (string, error)
	// PassedOver returns why an earlier folder of PATH that has the program does not count (handoff.PassedOver).
	PassedOver func(name string) error
	Exists     func(path string) bool // reports whether a device node exists
	// Servers returns the reply of each server of resolv.conf, in their order. It asks once for each name.
	Servers func(ctx context.Context, host string) []dns.Said
	Reverse func(ctx context.Context, a netip.Addr) []dns.Answer    // the names of an address, by server
	Disks   func(ctx context.Context, paths []string) []fabric.Disk // the file system of each path
	// Resolve returns a *net.DNSError with IsNotFound where the name does not exist.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	Dial    func(ctx context.Context, network, addr string) (net.Conn, error) // connects to the store's endpoints
	// DialFrom connects from one of this node's addresses; nil: it opens no connection.
	DialFrom func(ctx context.Context, from netip.Addr, addr string) (net.Conn, error)
	// Stuck returns why this node cannot send to any of some addresses (fabric.Stuck).
	Stuck func(dsts []netip.AddrPort) fabric.Fault
	// Neighbour returns whether a machine answers for an address (fabric.Neighbour).
	Neighbour func(dst netip.Addr) fabric.Presence
	// Unheard returns why no machine of a network answers this node (fabric.Unheard); nil: it is not asked.
	Unheard func(dst netip.Addr) fabric.Fault
	// Redirected returns where this node's NAT sends calls to an address (fabric.Redirected); nil: it is not asked.
	Redirected func(to netip.AddrPort) (on netip.AddrPort)
	// Trail returns how far packets get to an address (fabric.TrailTo); nil: none are sent.
	Trail func(ctx context.Context, dst netip.Addr) fabric.Trail
	// Around returns what other machines answer in the network that leads to an address (fabric.AroundOf); nil: they are
	// not asked.
	Around func(ctx context.Context, to netip.AddrPort) fabric.Around
	// Detour returns in which unusual way this node sends packets to an address (fabric.DetourTo).
	Detour func(to netip.AddrPort) fabric.Detour
	// Stat returns fs.ErrPermission for a file that this user cannot read.
	Stat func(path string) (fs.FileMode, error)
	// LinkErrors reads the counters of a port of an HCA.
	LinkErrors func(hca string, port int) (fabric.LinkErrors, error)
	// Loop makes a port send data to itself, within the limit. Its error is a *verbs.Error.
	Loop func(ctx context.Context, t verbs.Test, limit time.Duration) (verbs.LoopResult, error)
	// OFI finds the programs that come with a libfabric; nil: nothing is sent.
	OFI func(library string) (ofi.Programs, bool)
	// PortUse reports which process uses a port of this machine. An error: the port cannot be used for another reason.
	PortUse func(at netip.AddrPort) (PortUse, error)
}

// PortUse reports which process uses a port of this machine.
type PortUse struct {
	Taken  bool
	Launch bool   // by a launch: for another node of this job on this machine, or for another job
	By     string // "python3 (pid 4711)"; empty if the process is not visible
}

// Holder returns the process that uses the port, in words.
func (u PortUse) Holder() string { return cmp.Or(u.By, "a process that this user cannot see") }

// The usual limits of checks.
const (
	// Computed is the default, for a check that only computes; it guards against a bug.
	Computed = time.Second
	// Network is the limit of a check that asks the network. A healthy name server answers within milliseconds, and
	// resolv.conf allows 5 s for each that does not: 2 s separate the two without slowing every start.
	Network = 2 * time.Second
	// File is the limit of a look at one file that the command needs, or at the folders of PATH. A file system that
	// wakes up takes seconds; one that is longer silent holds the command, too.
	File = 8 * time.Second
	// Storage is the limit of a check of file systems. It is above the 3 s that the children of fabric.AskDisks have,
	// and the 0.8 s that it takes to give up two that SIGKILL does not end.
	Storage = 4500 * time.Millisecond
)

// One returns a Run for a func that returns one finding.
func One(f func(context.Context, Input) finding.Finding) func(context.Context, Input) []finding.Finding {
	return func(ctx context.Context, in Input) []finding.Finding { return []finding.Finding{f(ctx, in)} }
}

// OrPass returns the findings, or a pass where there are none.
func OrPass(found []finding.Finding, format string, a ...any) []finding.Finding {
	if len(found) == 0 {
		return []finding.Finding{finding.Passf(format, a...)}
	}
	return found
}

// Getenv looks up a variable of the environment.
func (in Input) Getenv(name string) (string, bool) {
	if in.Env == nil {
		return "", false
	}
	return in.Env(name)
}

// Threshold returns the value that applies for a name of the table of thresholds.
func (in Input) Threshold(name string) float64 { return threshold.Of(in.Thresholds, name) }

// LintCheck returns the ID of the check that reports a finding of the lint.
func LintCheck(id string) string {
	if strings.HasPrefix(id, "env.ifname.") { // about variables that name an interface
		return "env.interfaces"
	}
	return "env.harmful"
}

// ofLint applies Skip and Only to the IDs of the lint's findings: a skipped one becomes
// a skip, and one in Only runs the check that reports it, with that finding alone.
func (o Options) ofLint(in Input) (Options, Input) {
	var lint []finding.Finding
	for _, f := range in.Lint {
		switch {
		case slices.Contains(o.Skip, f.ID):
			lint = append(lint, finding.Skipf("switched off by the user").Named(f.ID))
		case len(o.Only) == 0 || slices.Contains(o.Only, f.ID) || slices.Contains(o.Only, LintCheck(f.ID)):
			lint = append(lint, f)
		}
	}
	in.Lint = lint
	for _, id := range o.Only {
		if slices.Contains(in.LintIDs, id) {
			o.Only = append(slices.Clone(o.Only), LintCheck(id))
		}
	}
	return o, in
}

// Place is the environment that started this process, and that sets its limits.
type Place string

const (
	InKubernetes Place = "kubernetes"
	InContainer  Place = "container" // Docker or Podman, which have the same options
	InSlurm      Place = "slurm"
	InSystemd    Place = "systemd"
	InShell      Place = "shell" // a user's login
)

// place returns the innermost environment: a container has its own limits wherever it runs.
func (in Input) place() Place {
	switch in.Node.Container.Kind {
	case "kubernetes":
		return InKubernetes
	case "docker", "podman":
		return InContainer
	}
	if _, slurm := in.Getenv("SLURM_JOB_ID"); slurm {
		return InSlurm
	}
	if _, unit := in.Getenv("INVOCATION_ID"); unit { // systemd.exec(5)
		return InSystemd
	}
	return InShell
}

// Remedy returns the fix for the environment of this process, or the one for a shell.
func (in Input) Remedy(all map[Place]string) string { return cmp.Or(all[in.place()], all[InShell]) }

// chdir matches options that change the working directory: env -C, uv run --directory, conda run --cwd, gdb -cd.
var chdir = regexp.MustCompile(`^(-[0-9A-Za-z]*C|--?c(d|h|wd)|--directory)`)

// Moves reports whether a prefix of the command may change the working directory.
func Moves(line launcher.Line) bool {
	for _, p := range line.Prefix {
		switch program, _, _ := strings.Cut(p, " "); program {
		case "hatch": // runs in its project's directory
			return true
		case "env", "uv", "conda", "poetry", "gdb":
			return slices.ContainsFunc(line.Argv[:line.At], chdir.MatchString)
		}
	}
	return false
}

// MoreMemlock returns how to raise the limit of locked memory.
func (in Input) MoreMemlock() string {
	return in.Remedy(map[Place]string{
		InKubernetes: "securityContext: {capabilities: {add: [\"IPC_LOCK\"]}} in the container\n" +
			"or raise the limit: LimitMEMLOCK=infinity in the runtime's unit (containerd.service)",
		InContainer: "docker run --ulimit memlock=-1:-1 …",
		InSlurm: "PropagateResourceLimitsExcept=MEMLOCK in slurm.conf, LimitMEMLOCK=infinity in slurmd.service, " +
			"then restart slurmd",
		InSystemd: "LimitMEMLOCK=infinity in the unit's [Service]",
		InShell:   "ulimit -l unlimited\nor in /etc/security/limits.d/90-rdma.conf: * - memlock unlimited, and log in again",
	})
}

// Remedies that more than one place names.
const (
	// FixSilent is for a file system that does not answer.
	FixSilent = "df   # stops at a mount whose server is gone: umount -f -l MOUNT, or bring its server back"
)
