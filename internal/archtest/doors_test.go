package archtest

// Directories and modules that several rows name.
const (
	unixPkg = "golang.org/x/sys/unix"
	shell   = "mvdan.cc/sh/v3/syntax"
	etcd    = "go.etcd.io/etcd/client/v3"
	embed   = "go.etcd.io/etcd/server/v3"

	anyOfOurs = "launch/..."
)

// doors is who may import whom: ours by their directory, others by the
// beginning of their path. The standard library is free. A new line needs a
// sentence why; a line that nothing uses must go.
var doors = map[string][]string{
	// Flags, subcommands and exit statuses: what they do is open to them; unix for
	// the signals that end launch store.
	"cmd/launch": {anyOfOurs, "github.com/jedib0t/go-pretty/v6/text", "github.com/urfave/cli/v2", unixPkg},
	// start owns the order of a run, so it knows every room; unix for what may be
	// read or written, and for a task's process group.
	"cmd/internal/start": {anyOfOurs, unixPkg},
	// measure sets up a bench: the rails (fabric, verbs), their measurement
	// (bench), the judge (preflight), the rounds of a world (rendezvous).
	"cmd/internal/measure": {"fabric", "fabric/verbs", "internal/exit", "internal/finding", "internal/job",
		"internal/outfile", "internal/secret", "internal/sidechannel",
		"preflight/bandwidth", "preflight/bench", "rendezvous"},

	// stranger asks a store of launch by etcd's own client, whose log is of no interest, and answers in
	// etcd's messages.
	"lab/stranger": {"internal/sidechannel", etcd, "go.etcd.io/etcd/api/v3", "go.uber.org/zap", "google.golang.org/grpc"},

	// Facts. child, because a driver that can wedge is asked in a process
	// that can be killed.
	"fabric": {"fabric/gpu", "fabric/software", "fabric/verbs", "internal/child", "internal/sockaddr", unixPkg,
		"github.com/vishvananda/netlink"},
	// unix for the number of a device node.
	"fabric/gpu": {"github.com/NVIDIA/go-nvml/pkg/nvml", unixPkg},
	// child, since the driver that a test of a port uses may hang.
	"fabric/verbs/confine": {"fabric/verbs", "internal/child"},
	// A recorded machine holds what fabric, NVML, verbs and the software answered.
	"fabric/machine":             {"fabric", "fabric/gpu", "fabric/software", "fabric/verbs"},
	"fabric/machine/machinetest": {"fabric", "fabric/machine"},
	// process, to see that the first end of a test listens.
	"fabric/ofi": {"internal/process"},
	// Interpretation of facts.
	"fabric/rail": {"fabric"},

	// unix, to open interfaces of another namespace.
	"lab/netns": {unixPkg},
	// unix, to forbid system calls.
	"lab/programs": {unixPkg},
	// Commands on hosts of a lab.
	"lab/starts": {"lab/netns"},
	// A host of lab/mpi has the network of one of lab/netns.
	"lab/mpi": {"lab/netns"},
	// sharedfs is the laboratory's file system with round trips.
	"lab/sharedfs": {"github.com/hanwen/go-fuse/v2/fs", "github.com/hanwen/go-fuse/v2/fuse"},

	// The engine of the checks. launcher and job, because checks read the wrapped line
	// and what the user asked for; spelling, for an ID that is misspelt; verbs, dns and
	// gpu, for the facts that an Input holds; ofi, for libfabric's own programs; child, which runs the user's own
	// checks.
	"preflight": {"fabric", "fabric/gpu", "fabric/ofi", "fabric/verbs", "internal/child", "internal/dns",
		"internal/finding", "internal/job", "internal/launcher", "internal/spelling", "preflight/threshold"},
	// threshold parses --threshold, with the name that was most likely meant.
	"preflight/threshold": {"internal/finding", "internal/spelling"},
	// calls asks the partners of a world (rendezvous) over the side channel, from the rails' addresses too, and
	// the name servers for their names; peers judges.
	"preflight/calls": {"fabric", "fabric/rail", "internal/dns", "internal/sidechannel", "rendezvous"},

	// The checks by topic. None imports another; what several need is the engine's.
	"preflight/command": {"internal/finding", "internal/launcher", "preflight"},
	"preflight/network": {"fabric", "internal/dns", "internal/finding", "internal/job", "internal/launcher",
		"internal/setting", "preflight"},
	// rail, since NCCL opens more sockets over TCP than over RDMA.
	"preflight/system": {"fabric", "fabric/rail", "internal/finding", "internal/job", "internal/launcher",
		"internal/setting", "preflight"},
	"preflight/gpu": {"fabric", "fabric/gpu", "fabric/rail", "internal/finding", "internal/launcher", "preflight"},
	"preflight/rdma": {"fabric", "fabric/ofi", "fabric/rail", "fabric/software", "fabric/verbs", "internal/finding",
		"internal/launcher", "preflight"},
	// blame, for which node explains calls that fail; sidechannel, for why one failed;
	// software, since what the nodes would load is compared.
	"preflight/peers": {"fabric", "fabric/gpu", "fabric/rail", "fabric/software", "internal/finding",
		"internal/sidechannel", "preflight", "preflight/blame", "preflight/calls", "preflight/threshold"},
	// bench, for the samples of the rails; blame, for which port explains slow ones; sidechannel, for the cause
	// of a sample without data.
	"preflight/bandwidth": {"fabric", "fabric/rail", "internal/finding", "internal/sidechannel", "preflight/bench",
		"preflight/blame", "preflight/threshold"},
	// hosts judges what the hosts of an mpirun line (mpirun) have answered; spelling, for a name that is misspelt.
	"preflight/hosts": {"internal/finding", "internal/mpirun", "internal/spelling", "preflight"},
	// The tables of all checks are put together here alone.
	"preflight/checks": {"internal/finding", "preflight", "preflight/command", "preflight/gpu", "preflight/hosts",
		"preflight/network",
		"preflight/peers", "preflight/rdma", "preflight/system"},
	// The machines and jobs of the checks' tests.
	"preflight/checktest": {"fabric", "fabric/gpu", "fabric/rail", "fabric/machine/machinetest", "internal/finding",
		"internal/job", "internal/launcher", "internal/setting", "preflight"},

	// Measurements. peer, for the conversation of two ends; verbs, which measures the
	// HCAs; unix, for what TCP knows of a connection, and to drop what arrives.
	"preflight/bench": {"fabric/verbs", "fabric/verbs/confine", "internal/sidechannel", unixPkg},

	// Why a job does not run: evidence comes as values. launcher reads torchrun's line, tcpstore has the values that
	// a store's keys make, ncclras what NCCL says of its processes.
	"diagnose": {"diagnose/scene", "diagnose/verdict", "internal/finding", "internal/launcher", "internal/ncclras",
		"internal/tcpstore"},
	// The evidence of an answer is that of a finding.
	"diagnose/verdict": {"internal/finding"},
	// scene asks the kernel for sockets by netlink, a store for its board (tcpstore), and NCCL for its ranks (ncclras);
	// child, since py-spy may not end; process, for the command that a companion holds.
	"diagnose/scene": {"internal/child", "internal/ncclras", "internal/process", "internal/tcpstore", unixPkg},
	// bundle changes the names and addresses in a scene, and in what it holds of a store.
	"diagnose/bundle": {"diagnose/scene"},
	// logs reads the logs of a job that failed; its answer is a verdict with evidence.
	"diagnose/logs": {"diagnose/verdict", "internal/finding"},
	// flight reads torch's flight recorder; its answer is a verdict with evidence.
	"diagnose/flight": {"diagnose/verdict", "internal/finding"},

	// Agreement. client/pkg for etcd's form of a member's address, api for the errors
	// that trying again does not change, zap and grpc to hand it a silent logger
	// and the pause between two tries; unix for the owner of a process id, proc
	// for whether its process is still the one that registered, raft for the message that begins an election.
	// protocol has the decisions, which rendezvous carries out.
	"rendezvous": {"internal/process", "rendezvous/protocol", etcd, "go.etcd.io/etcd/api/v3",
		"go.etcd.io/etcd/client/pkg/v3/types", embed, "go.etcd.io/raft/v3/raftpb", "github.com/cenkalti/backoff/v4",
		"go.uber.org/zap",
		"google.golang.org/grpc", unixPkg},

	// memstore is an etcd for tests: its protobuf services with their errors,
	// the client above them, and the adapter between (embed's module).
	"rendezvous/memstore": {"go.etcd.io/etcd/api/v3", etcd, embed, "google.golang.org/grpc"},

	// Plan. The shell's quoting is the parser's business; software, for how it
	// says that there is no plugin.
	"envgen": {"fabric", "fabric/rail", "fabric/software", "internal/finding", "internal/setting", shell},

	// spelling, for an option of torchrun's that is misspelt.
	"internal/launcher": {"internal/exit", "internal/setting", "internal/spelling", shell},
	"internal/job": {"internal/exit", "internal/finding", "internal/hostlist", "internal/launcher",
		"internal/setting"},
	// launcher has the options of the line; hostlist reads hostfiles.
	"internal/mpirun": {"internal/hostlist", "internal/launcher", "internal/setting"},
	// finding: the evidence of a finding is that of a variable.
	"internal/finding": {"internal/setting"},
	// process reads /proc by the library that parses it, and asks the kernel by netlink whose a socket is.
	"internal/process": {"github.com/prometheus/procfs", unixPkg},
	"internal/child":   {unixPkg},
	"internal/handoff": {unixPkg},
	// attempt adopts what the command leaves behind, finds it by its parents, and
	// kills it.
	"internal/supervise": {"internal/process", unixPkg},
	// follow asks a unix socket whose process is at its other end.
	"internal/taskgroup": {unixPkg},
	// port holds the master port without listening, by socket options.
	"internal/masterport": {"internal/process", unixPkg},
	// peer sends what must not be fragmented, and reads what routers and TCP say
	// of it, by socket options.
	"internal/sidechannel": {"internal/sockaddr", unixPkg},
	// unix has the addresses of its calls.
	"internal/sockaddr": {unixPkg},
	// pty gives tests a terminal, by ioctls.
	"internal/pty": {unixPkg},
	// The companion holds what outlives execve: the lease and the store
	// (rendezvous, the etcd client that both share), the reserved port until the
	// job's own store listens, the side channel, the mutual TLS of both (secret), whose
	// key munge may hide,
	// and the pidfd of the command (handoff). It reports a finding about a node
	// that is late. While it waits, it has the command's import (software) read (fabric).
	// For launch doctor it shows what this node sees (scene), and judges what all see (diagnose) by the counters of
	// its processes (procfs). It goes on with the choice of the store's host (storeaddr) until the job has begun.
	// It reads the line of a torchrun that a script has started (launcher).
	"cmd/internal/companion": {"cmd/internal/storeaddr", "diagnose", "diagnose/scene", "diagnose/verdict", "fabric",
		"fabric/software", "internal/child", "internal/dns", "internal/finding", "internal/handoff",
		"internal/launcher", "internal/sidechannel", "internal/masterport", "internal/munge", "internal/process",
		"internal/secret", "rendezvous", etcd, "github.com/prometheus/procfs", unixPkg},
	// hostwatch has a shell on each host of an mpirun line (remote), to which it copies launch as the question to the
	// hosts does (mpirun). It judges what launch doctor sees there (scene, diagnose), and ends with mpirun (handoff,
	// process).
	"cmd/internal/hostwatch": {"cmd/internal/remote", "diagnose", "diagnose/scene", "diagnose/verdict",
		"fabric", "internal/child", "internal/finding", "internal/handoff", "internal/mpirun", "internal/process", unixPkg},
	// smetrics measures how far a misspelt name is from a known one.
	"internal/spelling": {"github.com/xrash/smetrics"},
	// remote watches the connection of an agent (process), which shows long packets that get lost. compress, for
	// copies of launch that a host unpacks in a fifth of gzip's time.
	"cmd/internal/remote": {"internal/process", "github.com/klauspost/compress"},
	// dns asks name servers one by one, which the standard library does not show.
	"internal/dns": {"github.com/miekg/dns"},
	// meeting finds out on which node the store is: the endpoint's addresses
	// against this machine's own.
	"cmd/internal/storeaddr": {"fabric", "internal/job", "github.com/cenkalti/backoff/v4"},
	// ui renders the values of every room and decides nothing. prometheus writes
	// its text format; outfile, for the file of metrics; unix, to ask whether a log has room.
	"cmd/internal/ui": {
		"diagnose/logs", "diagnose/scene", "diagnose/verdict",
		"envgen",
		"fabric",
		"fabric/gpu",
		"fabric/rail",
		"fabric/software",
		"internal/exit",
		"internal/finding",
		"internal/job",
		"internal/launcher",
		"internal/outfile",
		"internal/setting",
		"preflight/bandwidth",
		"rendezvous",
		"github.com/jedib0t/go-pretty/v6",
		"github.com/prometheus/client_golang/prometheus",
		"github.com/prometheus/client_model/go",
		"github.com/prometheus/common/expfmt",
		unixPkg,
		"golang.org/x/term",
	},
}

// testDoors is what tests may import besides; "*" is for all of them.
var testDoors = map[string][]string{
	"*": {
		"github.com/google/go-cmp",
		"github.com/rogpeppe/go-internal/testscript",
		"go.uber.org/goleak",
		"pgregory.net/rapid",
		"sigs.k8s.io/yaml",
	},
	// The benchmark of the checks between nodes: what its store has served.
	"cmd/internal/start": {"github.com/prometheus/client_golang/prometheus"},
	"envgen":             {"fabric/gpu", "fabric/machine", "fabric/machine/machinetest"},
	// What a bundle holds gives the same verdicts.
	"diagnose":        {"diagnose/bundle"},
	"diagnose/bundle": {"internal/tcpstore"},
	// Real ranks, and a file system that does not answer.
	"diagnose/scene": {"github.com/hanwen/go-fuse/v2/fs", "github.com/hanwen/go-fuse/v2/fuse", "lab/programs"},
	// A torch, whose files are to say what it says of itself.
	"fabric/software": {"lab/programs"},
	// A library that may hang or crash is loaded in a child.
	"fabric/verbs": {"fabric/verbs/confine", "internal/child"},
	// NVML is asked in a child as in earnest.
	"fabric/gpu": {"internal/child"},
	// Jobs whose values have sources.
	"cmd/internal/storeaddr": {"internal/setting"},
	// The example detects a recorded machine.
	"fabric": {"fabric/machine"},
	// The machines made for tests.
	"fabric/machine":   {"fabric/machine/machinetest"},
	"fabric/rail":      {"fabric/machine", "fabric/machine/machinetest"},
	"internal/handoff": {"internal/pty", "internal/process"},
	// The dumps of a current torch are what is read.
	"diagnose/flight": {"lab/programs"},
	// The stores of torch, old and current, are what is read.
	"internal/tcpstore": {"lab/programs"},
	// The paths between hosts of a lab are what is measured.
	"internal/sidechannel": {"internal/secret", "lab/netns"},
	// munge is tried with a daemon of its own.
	"internal/munge": {"lab/programs"},
	// scene: its fields are on the page of JSON lines; tcpstore, for what a store holds on the page of launch doctor.
	"cmd/internal/ui": {"diagnose/scene", "fabric/machine/machinetest", "internal/tcpstore"},
	// Hosts whose links are shaped.
	"lab/benchlab": {"lab/netns", "lab/programs"},
	// unix, to mount one file, and for another user's link.
	"internal/outfile": {unixPkg},
	// unix, to mount a small disk.
	// verdict, for the answers of the doctor; miekg/dns, for the names of a cluster's pods.
	"lab/e2e": {"diagnose/verdict", "lab/netns", "lab/programs", unixPkg, "github.com/miekg/dns"},
	// miekg/dns, for name servers that fail; machines, for hosts that look like them.
	"lab/faultbench": {"fabric/machine", "fabric/machine/machinetest", "lab/netns", "lab/programs",
		"lab/starts", "github.com/miekg/dns"},
	// verdict, for the answers of the doctor.
	"lab/hangs": {"diagnose/verdict", "lab/netns", "lab/programs"},
	// pty, because ssh asks at a terminal; launcher, since each MPI says what it gives to other hosts.
	"lab/mpi": {"internal/launcher", "internal/pty", "lab/programs"},
	// setting, for the library of a variable.
	"lab/libs": {"internal/setting", "lab/netns", "lab/programs"},
	// The machines run what is tested: verbs, in its children; unix, for the
	// cables between them.
	"lab/roce":      {"fabric/verbs", "fabric/verbs/confine", "internal/child", "lab/programs", unixPkg},
	"lab/launchers": {"lab/netns", "lab/programs"},
	// hostlist is compared with what Slurm itself says.
	"lab/slurm": {"internal/hostlist", "lab/netns", "lab/programs"},
	// The hosts, and what both sides of a draw print.
	"lab/nccl":            {"lab/netns", "lab/programs", "lab/starts"},
	"lab/truth":           {"lab/netns", "lab/programs", "lab/starts"},
	"preflight/bandwidth": {"fabric/gpu"},
	"preflight/checks":    {"fabric/machine/machinetest", "fabric/verbs", "preflight/checktest", "preflight/threshold"},
	"preflight/command":   {"preflight/checktest"},
	"preflight/network":   {"preflight/checktest"},
	"preflight/system":    {"fabric/gpu", "preflight/checktest"},
	"preflight/gpu":       {"fabric/machine", "fabric/software", "preflight/checktest"},
	"preflight/rdma":      {"fabric/machine", "fabric/machine/machinetest", "internal/setting", "preflight/checktest"},
	"preflight/calls":     {"fabric/machine/machinetest"},
	"preflight/peers":     {"fabric/machine/machinetest", "preflight/checktest"},
	// memstore is one of the stores under test; porcupine judges what was asked
	// of them, prometheus holds what the benchmark's store has served.
	"rendezvous": {"internal/secret", "rendezvous/memstore", "github.com/anishathalye/porcupine",
		"google.golang.org/protobuf/proto",
		"go.etcd.io/etcd/client/pkg/v3/transport"},
	// The real etcd that memstore is held against.
	"rendezvous/memstore": {embed},
}

// argued are the files and functions that are longer than the house's limit,
// each with the sentence that argues for it.
var argued = map[string]string{}
