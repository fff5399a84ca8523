// Package gpu asks NVML what GPUs this node has, and how they are. The driver
// can wedge, so it is only ever asked in a child process (see internal/child);
// this package holds the question, the answer and nothing that outlives either.
package gpu

import (
	"context"
	"encoding/json"
	"io"
	"slices"
)

// Facts is what NVML, or its absence, tells. Exactly one of Present, Absent
// and Err holds; none of them where nobody asked.
type Facts struct {
	Present bool   `json:"present"`          // NVML answered
	Absent  string `json:"absent,omitempty"` // no NVIDIA driver here, and how that was seen
	Err     string `json:"err,omitempty"`    // a driver is here, but it could not be asked: why, and what to do
	Code    string `json:"code,omitempty"`   // NVML's name for Err, "DRIVER_NOT_LOADED"; "" where it has none
	Driver  string `json:"driver,omitempty"` // "570.86.15"; known without NVML where /proc has it
	CUDA    string `json:"cuda,omitempty"`   // the newest CUDA that the driver serves, "12.8"
	Devices []GPU  `json:"devices,omitempty"`
	Pairs   []Pair `json:"pairs,omitempty"` // of the devices that answered
	XIDs    []XID  `json:"xids,omitempty"`  // what the kernel log holds, the latest first

	// Unknown is what no device told: a driver older than the question, a
	// kernel log that may not be read.
	Unknown []Unknown `json:"unknown,omitempty"`
}

// GPU is one device, in NVML's order. What it does not have is missing; what
// it has and did not tell is missing and in Unknown.
type GPU struct {
	Index      int    `json:"index"`
	Name       string `json:"name"`
	UUID       string `json:"uuid"`
	PCI        string `json:"pci"`                   // as sysfs writes it, 0000:1b:00.0
	Minor      int    `json:"minor"`                 // of /dev/nvidiaN, which is not Index; -1 unknown
	Memory     uint64 `json:"memory"`                // bytes
	MemoryUsed uint64 `json:"memory_used,omitempty"` // bytes, by everybody and the driver
	MemoryNUMA int    `json:"memory_numa"`           // the NUMA node that its memory is (GH200, GB200); -1 it is none

	// The PCIe link: generation and lanes. An idle GPU's generation falls to 1.
	Gen      int `json:"gen,omitempty"`
	MaxGen   int `json:"max_gen,omitempty"`
	Lanes    int `json:"lanes,omitempty"`
	MaxLanes int `json:"max_lanes,omitempty"`

	Persistence string   `json:"persistence,omitempty"`  // on, off
	ComputeMode string   `json:"compute_mode,omitempty"` // default, exclusive_process, exclusive_thread, prohibited
	Throttle    []string `json:"throttle,omitempty"`     // why its clocks are not at their highest now: see throttle in words.go
	ECC         *ECC     `json:"ecc,omitempty"`
	Rows        *Rows    `json:"remapped_rows,omitempty"`
	Recovery    string   `json:"recovery,omitempty"` // what the driver wants done before it is used again: reset, reboot, drain_p2p, drain_and_reset, …; "" nothing, or not told

	MIG        string      `json:"mig,omitempty"`         // on, off
	MIGPending string      `json:"mig_pending,omitempty"` // what it will be after the next reset, where that is another
	MIGDevices []MIGDevice `json:"mig_devices,omitempty"`

	Processes []Process `json:"processes,omitempty"` // that compute on it, of whatever job or container
	NVLink    *NVLink   `json:"nvlink,omitempty"`
	Fabric    *Fabric   `json:"fabric,omitempty"` // the NVLink fabric of NVSwitches

	Err     string    `json:"err,omitempty"`  // what is wrong with the device as a whole: lost, needs a reset, not given to this container
	Code    string    `json:"code,omitempty"` // NVML's name for Err
	Unknown []Unknown `json:"unknown,omitempty"`
}

// Unknown is what could not be told: a field as the JSON names it, and why.
type Unknown struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// ECC is the memory's error correction. Counts are -1 where the GPU does not
// keep them.
type ECC struct {
	Mode            string `json:"mode"`    // on, off
	Pending         string `json:"pending"` // what it will be after the next reset
	Corrected       int64  `json:"corrected"`
	Uncorrected     int64  `json:"uncorrected"`      // both since the driver was loaded
	CorrectedEver   int64  `json:"corrected_ever"`   // in the board's life
	UncorrectedEver int64  `json:"uncorrected_ever"` // likewise
}

// Rows are memory rows that spare ones stand in for (Ampere and later).
type Rows struct {
	Corrected   int  `json:"corrected"`   // replaced for correctable errors
	Uncorrected int  `json:"uncorrected"` // replaced for uncorrectable ones
	Pending     bool `json:"pending"`     // one more will be at the next reset
	Failed      bool `json:"failed"`      // one could not be: the board is to be replaced
}

// MIGDevice is a slice of a GPU.
type MIGDevice struct {
	UUID   string `json:"uuid"`
	Name   string `json:"name"`
	Memory uint64 `json:"memory"` // bytes
}

// Process is one that has a CUDA context.
type Process struct {
	PID    int    `json:"pid"`              // as the driver counts: the host's, also in a container
	Name   string `json:"name,omitempty"`   // of its program, without path and arguments; "" of another container's
	Memory uint64 `json:"memory,omitempty"` // bytes; 0 unknown
}

// NVLink is the state of a GPU's links. A board that can have links and has no
// bridge (an H100 PCIe) shows all of them down.
type NVLink struct {
	Up      int      `json:"up"`
	Total   int      `json:"total"`
	Down    []int    `json:"down,omitempty"`    // the numbers of those that are not; one that did not tell is in Unknown
	Remotes []Remote `json:"remotes,omitempty"` // where those that are up lead

	// Errors of all links since the driver was loaded; -1 the GPU does not count
	// them.
	CRC        int64 `json:"crc"` // of flow control and data
	Replays    int64 `json:"replays"`
	Recoveries int64 `json:"recoveries"`
}

// Remote is what some links of a GPU lead to.
type Remote struct {
	Type  string `json:"type"`          // gpu, switch, npu; "" unknown
	PCI   string `json:"pci,omitempty"` // "" where it is not on this machine's bus
	Links int    `json:"links"`
}

// Fabric is a GPU's place in the NVLink fabric, which the fabric manager gives
// it: until State is completed, CUDA does not start on this GPU.
type Fabric struct {
	State    string   `json:"state"`              // not_started, in_progress, completed
	Status   string   `json:"status,omitempty"`   // NVML's name for how it ended; "" until it is completed
	Cluster  string   `json:"cluster,omitempty"`  // UUID of the NVLink domain; "" where there is one node
	Clique   uint32   `json:"clique"`             // only GPUs of one domain and clique reach each other by NVLink
	Health   string   `json:"health,omitempty"`   // healthy, unhealthy, limited_capacity; "" the driver does not judge
	Problems []string `json:"problems,omitempty"` // what the driver's health mask says is wrong
}

// Pair is how two GPUs reach each other.
type Pair struct {
	A        int    `json:"a"` // indices, A < B
	B        int    `json:"b"`
	Distance string `json:"distance,omitempty"` // as nvidia-smi topo -m writes it: PIX, PXB, PHB, NODE, SYS; INTERNAL on one board

	// Whether one may read and write the other's memory, and by NVLink: ok,
	// chipset, gpu or topology (which forbids it), disabled (by a driver's
	// setting), not_supported.
	Read   string `json:"read,omitempty"`
	Write  string `json:"write,omitempty"`
	NVLink string `json:"nvlink,omitempty"`
}

// Child is the question as a child process answers it: nothing is read, the
// Facts are written as JSON.
func Child(_ context.Context, _ io.Reader, out io.Writer) error {
	return json.NewEncoder(out).Encode(ask())
}

// Anonymous is the facts without who uses the GPUs.
func (f Facts) Anonymous() Facts {
	f.Devices = slices.Clone(f.Devices)
	for i, d := range f.Devices {
		f.Devices[i].Processes = slices.Clone(d.Processes)
		for j := range d.Processes {
			f.Devices[i].Processes[j].Name = ""
		}
	}
	return f
}

// untold notes once that something is not known.
func (f *Facts) untold(what, why string) {
	if u := (Unknown{What: what, Why: why}); !slices.Contains(f.Unknown, u) {
		f.Unknown = append(f.Unknown, u)
	}
}
