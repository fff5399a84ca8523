// Package threshold holds the numbers that checks compare with, which --threshold changes.
package threshold

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"launch/internal/finding"
	"launch/internal/spelling"
)

// Unit is the unit of a threshold.
type Unit string

const (
	Bytes   Unit = "bytes"   // "64MiB"; held in bytes
	Seconds Unit = "seconds" // "5s", "200ms"; held in seconds
	Number  Unit = "number"  // "3"
)

// Threshold is a number that a check compares with. --threshold NAME=VALUE changes
// it, as does LAUNCH_THRESHOLDS, which takes several separated by commas.
type Threshold struct {
	Name    string // the ID of the check, or a name below it: "peer.clock", "shm.size"
	Unit    Unit
	Default float64
	Doc     string // the quantity that it limits, and the reason for the default
}

// All returns all thresholds, in the order of the checks.
func All() []Threshold {
	return []Threshold{
		{Name: "gpu.busy", Unit: Bytes, Default: 1 << 30,
			Doc: "memory of a GPU that other processes may hold; a bare CUDA context, as monitoring has, takes half a GiB"},
		{Name: "gpu.xid", Unit: Seconds, Default: 24 * 60 * 60,
			Doc: "age up to which a fault in the kernel log counts; the log does not show a later reset"},
		{Name: "dns.reverse", Unit: Seconds, Default: 1,
			Doc: "time to look up the name of this node's address, on node 0"},
		// An import of torch takes three seconds of a core.
		{Name: "limits.cpu", Unit: Number, Default: 0.25,
			Doc: "cores that the control group must grant for each process of this node"},
		// One rank registers up to this much with the HCA: NCCL has up to 32 channels with about 5 MB of buffers in
		// each of two directions, and as much again for trees (src/include/channel.h, NCCL_BUFFSIZE 4 MiB, LL and LL128
		// buffers). The kernel's own default is 8 MiB, formerly 64 KiB (include/uapi/linux/resource.h).
		{Name: "limits.memlock", Unit: Bytes, Default: 1 << 30,
			Doc: "locked memory for the RDMA buffers of each rank; with GPUDirect they are in GPU memory, and an eighth counts"},
		// Any process that imports torch takes more.
		{Name: "limits.memory", Unit: Bytes, Default: 256 << 20,
			Doc: "memory that the control group must grant for each process of this node"},
		// A bare PyTorch process has a dozen threads; NCCL's threads, CUDA and a few data loaders add about fifty.
		{Name: "limits.pids", Unit: Number, Default: 64,
			Doc: "processes and threads that each process of this node may need"},
		{Name: "peer.clock", Unit: Seconds, Default: 5,
			Doc: "difference between a node's wall clock and those of the others"},
		// A sound cable or switch loses less than one in thousands.
		{Name: "peer.loss", Unit: Number, Default: 0.03,
			Doc: "share of the packets from one node to another that may be lost"},
		// The message is too short to measure more; a busy machine of virtual ones reaches tens.
		{Name: "peer.slow", Unit: Number, Default: 2,
			Doc: "speed of the network path between two nodes, in Mbit/s, below which it is slow"},
		// Modern links correct a few damaged symbols or packets a second (NVSentinel allows 10 of both).
		{Name: "rdma.errors", Unit: Number, Default: 10, Doc: "link errors per second on a rail that is idle"},
		// NCCL makes a segment of almost 10 MB for each connection between two ranks of
		// a node that have no direct path; two rings and a tree are about six of them.
		// NCCL's manual asks for 1 GB in containers, whose default is 64 MiB in all.
		{Name: "shm.size", Unit: Bytes, Default: 64 << 20, Doc: "free space in /dev/shm for each process of this node"},
		// The logs and temporary files of any longer job take more.
		{Name: "storage.space", Unit: Bytes, Default: 100 << 20,
			Doc: "free space for temporary files, and in the working directory"},
		// Healthy ports of one kind differ by half of this fifth, and the next lower rate or width of a link loses more.
		{Name: "bench.slow", Unit: Number, Default: 0.8,
			Doc: "share of the speed of comparable rails below which a rail is slow; less where measurements spread more"},
		{Name: UserCheck, Unit: Seconds, Default: UserSeconds,
			Doc: "time that each check of --check-dir may take before it is killed"},
	}
}

// Of returns the value that applies for a name of the table.
func Of(set map[string]float64, name string) float64 {
	if v, ok := set[name]; ok {
		return v
	}
	for _, t := range All() {
		if t.Name == name {
			return t.Default
		}
	}
	panic("no threshold " + name)
}

// UserCheck is the threshold of --check-dir, and UserSeconds its default: a healthy mount answers in far less.
const UserCheck, UserSeconds = "user.limit", 5

// Error reports an invalid NAME=VALUE.
type Error struct {
	What string // what is wrong
	Fix  string // a valid NAME=VALUE
}

func (e *Error) Error() string { return e.What }

// Parse reads NAME=VALUE, with the value in the unit of the threshold. The error is a *Error.
func Parse(text string) (name string, value float64, err error) {
	name, written, ok := strings.Cut(text, "=")
	name, written = strings.TrimSpace(name), strings.TrimSpace(written)
	table := All()
	i := slices.IndexFunc(table, func(t Threshold) bool { return t.Name == name })
	switch {
	case i < 0:
		return "", 0, noThreshold(name, table)
	case !ok:
		return "", 0, &Error{fmt.Sprintf("%q has no value", text), table[i].example()}
	}
	value, ok = table[i].Unit.parse(written)
	if !ok {
		return "", 0, &Error{fmt.Sprintf("%s: %q is not a %s", name, written, table[i].Unit.words()),
			table[i].example()}
	}
	return name, value, nil
}

func noThreshold(name string, table []Threshold) error {
	known := finding.Map(table, func(t Threshold) string { return t.Name })
	e := &Error{What: fmt.Sprintf("no threshold %q; the names are %s", name, strings.Join(known, ", ")),
		Fix: table[0].example()}
	if meant := spelling.Closest(name, known); meant != "" {
		e.What = fmt.Sprintf("no threshold %q, did you mean %q?", name, meant)
		e.Fix = table[slices.Index(known, meant)].example()
	}
	return e
}

func (t Threshold) example() string { return t.Name + "=" + t.Unit.Format(t.Default) }

func (u Unit) words() string {
	return map[Unit]string{Bytes: "number of bytes", Seconds: "duration", Number: "number"}[u] + " of 0 or more"
}

// byteUnits returns the suffixes of Kubernetes and dd: powers of 1024 with an i, powers of 1000 without.
func byteUnits() map[string]float64 {
	out := map[string]float64{"": 1, "b": 1}
	for i, c := range []string{"k", "m", "g", "t"} {
		binary, decimal := math.Pow(1024, float64(i+1)), math.Pow(1000, float64(i+1))
		out[c+"i"], out[c+"ib"], out[c], out[c+"b"] = binary, binary, decimal, decimal
	}
	return out
}

// parse reads a value of the unit; ok reports whether it is finite and not negative.
func (u Unit) parse(s string) (v float64, ok bool) {
	var err error
	switch u {
	case Seconds:
		var d time.Duration
		d, err = time.ParseDuration(s)
		v = d.Seconds()
	case Bytes:
		digits := strings.TrimRight(s, "bBiIkKmMgGtT")
		factor, known := byteUnits()[strings.ToLower(s[len(digits):])]
		if v, err = strconv.ParseFloat(strings.TrimSpace(digits), 64); !known {
			return 0, false
		}
		v *= factor
	default:
		v, err = strconv.ParseFloat(s, 64)
	}
	return v, err == nil && v >= 0 && !math.IsInf(v, 1)
}

// Format writes a value as parse reads it.
func (u Unit) Format(v float64) string {
	switch u {
	case Seconds:
		return time.Duration(v * float64(time.Second)).String()
	case Bytes:
		return strings.ReplaceAll(finding.Size(uint64(v)), " ", "")
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}
