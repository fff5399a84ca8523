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
		{Name: "gpu.busy", Unit: Bytes, Default: 1 << 30,
			Doc: "memory of a GPU that others may hold: a bare context of CUDA has half a GiB, as monitoring leaves it"},
		{Name: "gpu.xid", Unit: Seconds, Default: 24 * 60 * 60,
			Doc: "how long ago a fault in the kernel log may be; the log does not tell of a reset since"},
		{Name: "dns.reverse", Unit: Seconds, Default: 1,
			Doc: "how long the name of this node's address may be looked up, on node 0"},
		// What one process registers with the HCA at most before it is suspicious: NCCL
		// has up to 32 channels with about 5 MB of buffers in each of two directions,
		// and as much again for trees (src/include/channel.h, NCCL_BUFFSIZE 4 MiB, LL
		// and LL128 buffers). The kernel's own default is 8 MiB, 64 KiB of old
		// (include/uapi/linux/resource.h).
		{Name: "limits.memlock", Unit: Bytes, Default: 1 << 30,
			Doc: "locked memory that one process may have, where RDMA is used"},
		// Less than any process that has imported torch takes.
		{Name: "limits.memory", Unit: Bytes, Default: 256 << 20,
			Doc: "what the control group's limit of memory must grant to each process of this node"},
		// A bare process of PyTorch has a dozen threads; NCCL's proxies and watchdogs,
		// CUDA's own and a few data loaders are some fifty more.
		{Name: "limits.pids", Unit: Number, Default: 64,
			Doc: "processes and threads that each process of this node may need"},
		{Name: "peer.clock", Unit: Seconds, Default: 5,
			Doc: "how far a node's wall clock may be off the others'"},
		// Links of today correct a few damaged symbols or packets a second by
		// themselves (NVSentinel's limit of both is 10 a second).
		{Name: "rdma.errors", Unit: Number, Default: 10,
			Doc: "link errors in a second on a rail that nobody uses yet"},
		// NCCL makes a segment of a little less than 10 MB for each connection between
		// two ranks of a node without a direct path; two rings and a tree are some six
		// of them. Its manual asks for 1 GB for containers, whose default is 64 MiB in
		// all.
		{Name: "shm.size", Unit: Bytes, Default: 64 << 20,
			Doc: "free room in /dev/shm for each process of this node"},
		// Less than the logs and temporary files of any job that runs for a while.
		{Name: "storage.space", Unit: Bytes, Default: 100 << 20,
			Doc: "free room where temporary files go, and in the working directory"},
		// A fifth less is twice what healthy ports of one kind differ by, and less than
		// the next lower rate or width of a link loses.
		{Name: "bench.slow", Unit: Number, Default: 0.8,
			Doc: "a rail that carries less than this share of what its like does is slow; " +
				"measurements that spread more need more"},
		{Name: userLimit, Unit: Seconds, Default: userSeconds,
			Doc: "how long each check of --check-dir may take before it is killed"},
	}
}

// threshold is the number that counts for a name of the table.
func (in Input) Threshold(name string) float64 { return ThresholdOf(in.Thresholds, name) }

func ThresholdOf(set map[string]float64, name string) float64 {
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
