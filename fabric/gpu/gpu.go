// Package gpu asks NVML for this node's GPUs and their health, in a child: the driver may hang.
package gpu

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// Facts is the answer of NVML: one of Present, Absent and Err, or none if it was not asked.
type Facts struct {
	Present bool     `json:"present"`             // NVML answered
	Absent  string   `json:"absent,omitempty"`    // why there is no NVIDIA driver here
	Err     string   `json:"err,omitempty"`       // there is a driver, but it gave no answer: why, and what to do
	Code    string   `json:"code,omitempty"`      // NVML's name for Err, "DRIVER_NOT_LOADED"; "" where it has none
	Driver  string   `json:"driver,omitempty"`    // "570.86.15"; known without NVML where /proc has it
	CUDA    string   `json:"cuda,omitempty"`      // the newest CUDA that the driver supports, "12.8"
	Init    int      `json:"cuda_init,omitempty"` // the error of cuInit; asked only of GPUs on NVSwitches without a Fabric
	Devices []GPU    `json:"devices,omitempty"`
	Closed  []Closed `json:"closed,omitempty"` // device nodes that this process cannot use
	// Withheld are the PCI addresses of the driver's other GPUs, whose device nodes this process may not use, as in a
	// container or a Slurm step.
	Withheld []string `json:"withheld,omitempty"`
	Pairs    []Pair   `json:"pairs,omitempty"` // pairs of devices that answered
	XIDs     []XID    `json:"xids,omitempty"`  // from the kernel log, the latest first

	// Unknown is what no device answered: the driver is too old, or the kernel log is not readable.
	Unknown []Unknown `json:"unknown,omitempty"`
}

// GPU is one device, in NVML's order. What it lacks is missing; unanswered fields are in Unknown.
type GPU struct {
	Index      int    `json:"index"`
	Name       string `json:"name"`
	UUID       string `json:"uuid"`
	PCI        string `json:"pci"`                   // as sysfs writes it, 0000:1b:00.0
	Minor      int    `json:"minor"`                 // of /dev/nvidiaN, which differs from Index; -1 unknown
	Memory     uint64 `json:"memory"`                // bytes
	MemoryUsed uint64 `json:"memory_used,omitempty"` // bytes, by all processes and the driver
	MemoryNUMA int    `json:"memory_numa"`           // the NUMA node of its memory (GH200, GB200); -1 for other GPUs
	Load       *Load  `json:"load,omitempty"`        // only where the question asked for it

	// The PCIe link: generation and lanes. An idle GPU's generation falls to 1.
	Gen      int `json:"gen,omitempty"`
	MaxGen   int `json:"max_gen,omitempty"`
	Lanes    int `json:"lanes,omitempty"`
	MaxLanes int `json:"max_lanes,omitempty"`

	Persistence string   `json:"persistence,omitempty"`  // on, off
	ComputeMode string   `json:"compute_mode,omitempty"` // default, exclusive_process, exclusive_thread, prohibited
	Throttle    []string `json:"throttle,omitempty"`     // why its clocks are reduced now: see throttle in words.go
	ECC         *ECC     `json:"ecc,omitempty"`
	Rows        *Rows    `json:"remapped_rows,omitempty"`
	Recovery    string   `json:"recovery,omitempty"` // needed before the next use: reset, reboot, …; "" unknown

	MIG        string      `json:"mig,omitempty"`         // on, off
	MIGPending string      `json:"mig_pending,omitempty"` // the mode after the next reset, if it differs
	MIGDevices []MIGDevice `json:"mig_devices,omitempty"`

	Processes []Process `json:"processes,omitempty"` // all that compute on it, of any job or container
	NVLink    *NVLink   `json:"nvlink,omitempty"`
	Fabric    *Fabric   `json:"fabric,omitempty"` // the NVLink fabric of NVSwitches

	Err     string    `json:"err,omitempty"`  // fault of the whole device: lost, needs a reset, denied
	Code    string    `json:"code,omitempty"` // NVML's name for Err
	Unknown []Unknown `json:"unknown,omitempty"`
}

// Unknown is a fact without an answer: a field as the JSON names it, and why.
type Unknown struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// Load is what a GPU does now. A value is -1 where the GPU does not have it (utilisation in MIG mode).
type Load struct {
	Temperature int     `json:"temperature"` // of the chip, in degrees Celsius
	Power       float64 `json:"power"`       // drawn by the board, in watts; of most GPUs the mean of the last second
	PowerLimit  float64 `json:"power_limit"` // in watts
	Utilization int     `json:"utilization"` // percent of the last sample (up to 1 s) in which a kernel ran
	MemoryBusy  int     `json:"memory_busy"` // percent of it in which memory was read or written
}

// ECC is the memory's error correction. Counts are -1 where the GPU does not count.
type ECC struct {
	Mode            string `json:"mode"`    // on, off
	Pending         string `json:"pending"` // the mode after the next reset
	Corrected       int64  `json:"corrected"`
	Uncorrected     int64  `json:"uncorrected"`    // both since the driver was loaded
	CorrectedEver   int64  `json:"corrected_ever"` // both in the board's life
	UncorrectedEver int64  `json:"uncorrected_ever"`
}

// Rows are memory rows that were replaced by spare ones (Ampere and later).
type Rows struct {
	Corrected   int  `json:"corrected"`   // replaced because of correctable errors
	Uncorrected int  `json:"uncorrected"` // replaced because of uncorrectable errors
	Pending     bool `json:"pending"`     // one more is replaced at the next reset
	Failed      bool `json:"failed"`      // a row could not be replaced: the board must be
}

// MIGDevice is a slice of a GPU.
type MIGDevice struct {
	UUID   string `json:"uuid"`
	Name   string `json:"name"`
	Memory uint64 `json:"memory"` // bytes
}

// Process is one that has a CUDA context.
type Process struct {
	PID    int    `json:"pid"`              // the host's PID, as the driver counts, also in a container
	Name   string `json:"name,omitempty"`   // name of its program; "" in another container
	Memory uint64 `json:"memory,omitempty"` // bytes; 0 unknown
}

// NVLink is the state of a GPU's links. On a board without a bridge (an H100 PCIe) all are down.
type NVLink struct {
	Up      int      `json:"up"`
	Total   int      `json:"total"`
	Down    []int    `json:"down,omitempty"`    // numbers of the links that are down; unanswered ones are in Unknown
	Remotes []Remote `json:"remotes,omitempty"` // the devices at the other ends of the links that are up

	// Errors of all links since the driver was loaded; -1 if the GPU does not count them.
	CRC        int64 `json:"crc"` // of flow control and data
	Replays    int64 `json:"replays"`
	Recoveries int64 `json:"recoveries"`
}

// Remote is a device at the other end of some links of a GPU.
type Remote struct {
	Type  string `json:"type"`          // gpu, switch, npu; "" unknown
	PCI   string `json:"pci,omitempty"` // "" if it is not on this machine's bus
	Links int    `json:"links"`
}

// Fabric is a GPU's place in the NVLink fabric. CUDA does not start until State is completed.
type Fabric struct {
	State    string   `json:"state"`              // not_started, in_progress, completed
	Status   string   `json:"status,omitempty"`   // NVML's name for the result; "" until it is completed
	Cluster  string   `json:"cluster,omitempty"`  // UUID of the NVLink domain; "" in a fabric of one node
	Clique   uint32   `json:"clique"`             // only GPUs of one domain and clique reach each other by NVLink
	Health   string   `json:"health,omitempty"`   // healthy, unhealthy, limited_capacity; "" if the driver gives none
	Problems []string `json:"problems,omitempty"` // problems in the driver's health mask
}

// Pair is how two GPUs reach each other.
type Pair struct {
	A        int    `json:"a"` // indices, A < B
	B        int    `json:"b"`
	Distance string `json:"distance,omitempty"` // as nvidia-smi topo -m writes it: PIX, PXB, PHB, NODE, SYS; INTERNAL

	// Whether one may read and write the other's memory, and by NVLink: ok, or what prevents it.
	Read   string `json:"read,omitempty"`
	Write  string `json:"write,omitempty"`
	NVLink string `json:"nvlink,omitempty"`
}

// Question is what Child is asked.
type Question struct {
	Load bool `json:"load"` // with the Load of each GPU, which a start does not need
}

// Child is the child process that asks NVML: it reads a Question and writes the Facts, both as JSON.
func Child(_ context.Context, in io.Reader, out io.Writer) error {
	var q Question
	if err := json.NewDecoder(in).Decode(&q); err != nil {
		return fmt.Errorf("read the question about GPUs: %w", err)
	}
	return json.NewEncoder(out).Encode(ask(q))
}

// Anonymous returns the facts without the users of the GPUs.
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

// addUnknown records an unknown fact once.
func (f *Facts) addUnknown(what, why string) {
	if u := (Unknown{What: what, Why: why}); !slices.Contains(f.Unknown, u) {
		f.Unknown = append(f.Unknown, u)
	}
}
