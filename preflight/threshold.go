package preflight

// Unit is how a threshold is written by people.
type Unit string

const (
	Bytes   Unit = "bytes"   // "64MiB"; held in bytes
	Seconds Unit = "seconds" // "5s", "200ms"; held in seconds
	Number  Unit = "number"  // "3"
)

// Threshold is a number that a check judges by, and that a user may change:
// --threshold NAME=VALUE, or LAUNCH_THRESHOLDS with several behind commas.
type Threshold struct {
	Name    string // the check's ID, or one below it: "peer.clock", "shm.size"
	Unit    Unit
	Default float64
	Doc     string // what is compared with it, and why the default
}

// Thresholds is the table, in the order of the checks.
func Thresholds() []Threshold {
	return []Threshold{
		{"gpu.busy", Bytes, busyMemory, "memory of a GPU that others may hold: a bare context of CUDA has half a GiB, as monitoring leaves it"},
		{"gpu.xid", Seconds, recentXID, "how long ago a fault in the kernel log may be; the log does not tell of a reset since"},
		{"dns.reverse", Seconds, 1, "how long the name of this node's address may be looked up, on node 0"},
		{"limits.memlock", Bytes, minMemlock, "locked memory that one process may have, where RDMA is used"},
		{"limits.memory", Bytes, memoryPerRank, "what the control group's limit of memory must grant to each process of this node"},
		{"limits.pids", Number, pidsPerRank, "processes and threads that each process of this node may need"},
		{"peer.clock", Seconds, 5, "how far a node's wall clock may be off the others'"},
		{"rdma.errors", Number, linkErrors, "link errors in a second on a rail that nobody uses yet"},
		{"shm.size", Bytes, shmPerRank, "free room in /dev/shm for each process of this node"},
		{"storage.space", Bytes, minSpace, "free room where temporary files go, and in the working directory"},
		{"bench.slow", Number, 1 - slowShare, "a rail that carries less than this share of what its like does is slow; measurements that spread more need more"},
		{userLimit, Seconds, userSeconds, "how long each check of --check-dir may take before it is killed"},
	}
}

// threshold is the number that counts for a name of the table.
func (in Input) threshold(name string) float64 { return threshold(in.Thresholds, name) }

func threshold(set map[string]float64, name string) float64 {
	if v, ok := set[name]; ok {
		return v
	}
	for _, t := range Thresholds() {
		if t.Name == name {
			return t.Default
		}
	}
	panic("preflight: no threshold " + name)
}
