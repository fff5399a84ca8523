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
	// The order of the rooms is known here alone, so all of ours are open;
	// unix for the exact meaning of an execve that failed.
	"cmd/launch": {anyOfOurs, "github.com/urfave/cli/v2", unixPkg},

	// Facts. child, because a driver that can wedge is asked in a process
	// that can be killed.
	"fabric":     {"fabric/gpu", "fabric/software", "fabric/verbs", "internal/child", unixPkg, "github.com/vishvananda/netlink"},
	"fabric/gpu": {"github.com/NVIDIA/go-nvml/pkg/nvml"},
	// child, in which a test of a port runs that a driver may hang in.
	"fabric/verbs": {"internal/child"},
	// A recorded machine holds what fabric, NVML, verbs and the software answered.
	"fabric/machine":             {"fabric", "fabric/gpu", "fabric/software", "fabric/verbs"},
	"fabric/machine/machinetest": {"fabric", "fabric/machine"},
	// Interpretation of facts.
	"fabric/rail": {"fabric"},

	// unix, to open interfaces of another namespace.
	"lab/netns": {unixPkg},

	// Verdicts. launcher, because the checks read the wrapped line: which
	// word is the command, how many processes a node has. near, for an ID that
	// is misspelt. software, since what the nodes would load is compared; gpu, verbs and
	// rail, for the health of the GPUs and of the rails. dns, for what name servers
	// said; peer, for why a call failed. child, which runs the user's own checks.
	// bench, for the samples of the rails.
	"preflight": {"fabric", "fabric/gpu", "fabric/rail", "fabric/software", "fabric/verbs", "internal/child", "internal/dns", "internal/finding", "internal/job", "internal/launcher", "internal/setting", "internal/spelling", "internal/sidechannel", "preflight/bench"},

	// Measurements. peer, for the conversation of two ends; verbs, which measures the
	// HCAs; unix, for what TCP knows of a connection, and to drop what arrives.
	"preflight/bench": {"fabric/verbs", "internal/sidechannel", unixPkg},

	// Why a job does not run: evidence comes as values of its own.
	"diagnose": {"internal/finding"},

	// Agreement. client/pkg for etcd's form of TLS settings, api for the errors
	// that trying again does not change, zap and grpc to hand it a silent logger
	// and the pause between two tries; unix for the owner of a process id, proc
	// for whether its process is still the one that registered.
	"rendezvous": {"internal/process", etcd, "go.etcd.io/etcd/api/v3", "go.etcd.io/etcd/client/pkg/v3/transport", embed, "github.com/cenkalti/backoff/v4", "go.uber.org/zap", "google.golang.org/grpc", unixPkg},

	// memstore is an etcd for tests: its protobuf services with their errors,
	// the client above them, and the adapter between (embed's module).
	"rendezvous/memstore": {"go.etcd.io/etcd/api/v3", etcd, embed, "google.golang.org/grpc"},

	// Plan. The shell's quoting is the parser's business; software, for how it
	// says that there is no plugin.
	"envgen": {"fabric", "fabric/rail", "fabric/software", "internal/finding", "internal/setting", shell},

	// near, for an option of torchrun's that is misspelt.
	"internal/launcher": {"internal/exit", "internal/setting", "internal/spelling", shell},
	"internal/job":      {"internal/exit", "internal/finding", "internal/hostlist", "internal/launcher", "internal/setting"},
	// setting: the evidence of a variable is that of a finding.
	"internal/setting": {"internal/finding"},
	// process reads /proc by the library that parses it.
	"internal/process": {"github.com/prometheus/procfs"},
	"internal/child":    {unixPkg},
	"internal/handoff":  {unixPkg},
	// attempt adopts what the command leaves behind, finds it by its parents, and
	// kills it.
	"internal/supervise": {"internal/process", unixPkg},
	// follow asks a unix socket whose process is at its other end.
	"internal/taskgroup": {unixPkg},
	// port holds the master port without listening, by socket options.
	"internal/masterport": {"internal/process", unixPkg},
	// peer sends what must not be fragmented, and reads what routers and TCP say
	// of it, by socket options.
	"internal/sidechannel": {unixPkg},
	// pty gives tests a terminal, by ioctls.
	"internal/pty": {unixPkg},
	// The companion keeps what outlives execve: the lease and the store
	// (rendezvous, the etcd client that both share), the held port until the
	// job's own store answers (tcpstore), the side channel, the mutual TLS of
	// both (secret), and the pidfd of the command (handoff). It says by ui who is
	// late when launch itself has become the command.
	"cmd/internal/companion": {"internal/child", "internal/finding", "internal/handoff", "internal/sidechannel", "internal/masterport", "internal/process", "internal/secret",
		"internal/tcpstore", "cmd/internal/ui", "rendezvous", etcd, unixPkg},
	// dns asks name servers one by one, which the standard library does not show.
	"internal/dns": {"github.com/miekg/dns"},
	// meeting finds out on which node the store is: the endpoint's addresses
	// against this machine's own.
	"cmd/internal/storeaddr": {"fabric", "internal/job", "github.com/cenkalti/backoff/v4"},
	// record is the one value that walks through the rooms: it names the type
	// of each and calls none.
	"cmd/internal/record": {"envgen", "fabric", "internal/finding", "internal/job", "internal/launcher", "rendezvous"},
	// ui renders the values of every room and decides nothing. prometheus writes
	// its text format.
	"cmd/internal/ui": {"envgen", "fabric", "fabric/gpu", "fabric/rail", "fabric/software", "internal/exit", "internal/finding", "internal/job", "internal/launcher",
		"internal/setting", "cmd/internal/record", "preflight", "rendezvous", "github.com/jedib0t/go-pretty/v6/table", "github.com/prometheus/client_golang/prometheus", "golang.org/x/term"},
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
	"cmd/launch": {"github.com/prometheus/client_golang/prometheus"},
	"envgen":     {"fabric/gpu", "fabric/machine", "fabric/machine/machinetest"},
	// A torch, whose files are to say what it says of itself.
	"fabric/software": {"lab/programs"},
	// NVML is asked in a child as in earnest.
	"fabric/gpu": {"internal/child"},
	// Jobs whose values have sources.
	"cmd/internal/storeaddr": {"internal/setting"},
	// The machines made for tests.
	"fabric/machine":   {"fabric/machine/machinetest"},
	"fabric/rail":      {"fabric/machine", "fabric/machine/machinetest"},
	"internal/handoff": {"internal/pty"},
	// The paths between hosts of a lab are what is measured.
	"internal/sidechannel": {"internal/secret", "lab/netns"},
	"cmd/internal/ui":   {"fabric/machine/machinetest"},
	// Hosts whose links are shaped.
	"lab/benchlab": {"lab/netns", "lab/programs"},
	// unix, to mount a small disk.
	"lab/e2e": {"lab/netns", "lab/programs", unixPkg},
	// miekg/dns, for name servers that fail; machines, for hosts that look like them.
	"lab/faultbench": {"fabric/machine", "fabric/machine/machinetest", "lab/netns", "lab/programs", "github.com/miekg/dns"},
	// The table of variables, which the libraries have to know.
	"lab/libs": {"envgen", "lab/netns", "lab/programs"},
	// The machines run what is tested: verbs, in its children; unix, for the
	// cables between them.
	"lab/roce":  {"fabric/verbs", "internal/child", "lab/programs", unixPkg},
	"preflight": {"fabric/machine/machinetest"},
	// memstore is one of the stores under test; porcupine judges what was asked
	// of them, prometheus holds what the benchmark's store has served.
	"rendezvous": {"internal/secret", "rendezvous/memstore", "github.com/anishathalye/porcupine", "github.com/prometheus/client_golang/prometheus"},
	// The real store that memstore is held against.
	"rendezvous/memstore": {"rendezvous"},
}

// argued are the files and functions that are longer than the house's limit,
// each with the sentence that argues for it.
var argued = map[string]string{
	"rendezvous.life": "one lease from its grant to its loss: a setup, and one select over everything that can happen meanwhile",
}
