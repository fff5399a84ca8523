package verbs

import (
	"errors"
	"fmt"
	"math"
	"syscall"
)

// Cause is the reason that a device or a test failed, as one word for decisions.
type Cause string

// The causes, each with what is wrong.
const (
	NoLibrary   Cause = "no-library"    // libibverbs is not installed, or too old
	NoStack     Cause = "no-module"     // ib_uverbs is not loaded
	NotListed   Cause = "not-listed"    // the library does not know the device: the vendor's part or the device is missing
	NoNode      Cause = "no-uverbs"     // /dev/infiniband/uverbsN is missing: the container lacks it
	Permission  Cause = "permission"    // mode of that file, the container's devices, or another RDMA namespace
	Memlock     Cause = "memlock"       // the limit of locked memory
	Resources   Cause = "resources"     // the device or the machine has run out of something
	NotHere     Cause = "namespace"     // the port's interface is in another network namespace
	Provider    Cause = "provider"      // library and driver do not match
	Faulty      Cause = "device"        // the device answers with an error: firmware, hardware
	Gone        Cause = "device-gone"   // the device has disappeared
	NoRC        Cause = "no-rc"         // the device has no reliable connections (EFA)
	PortDown    Cause = "port-down"     // no link or cable, or set down
	NoLID       Cause = "no-lid"        // no subnet manager has configured the port
	NoGID       Cause = "no-gid"        // the index is unset, or the interface has no address
	NoPKey      Cause = "no-pkey"       // the index is unset
	GIDDiffers  Cause = "gid-differs"   // the two ends use GIDs of different kinds
	PKeyDiffers Cause = "pkey-differs"  // the two ends are in different partitions
	LinkDiffers Cause = "link-differs"  // InfiniBand at one end, Ethernet at the other
	MTUDiffers  Cause = "mtu-differs"   // the two ends have, or are set to, different packet sizes
	Unreachable Cause = "unreachable"   // nothing arrives over the fabric, although the other end answers outside it
	LargeLost   Cause = "large-lost"    // short messages arrive and long ones do not: an MTU in between
	Lost        Cause = "way-lost"      // it worked, and then it stopped
	Rejected    Cause = "rejected"      // the other end's device refused a message
	Corrupt     Cause = "corrupt"       // the bytes that arrived differ from those sent
	Stuck       Cause = "stuck"         // requests never complete
	Late        Cause = "late"          // the time ran out
	PeerGone    Cause = "peer-gone"     // the other end does not answer outside the fabric either
	NoCUDA      Cause = "no-cuda"       // libcuda is not installed, or too old
	NoGPU       Cause = "no-gpu"        // CUDA cannot use the GPU
	GPUBusy     Cause = "gpu-busy"      // its memory is used up, or another process uses it exclusively
	GPUFailed   Cause = "gpu"           // another error of CUDA
	NoGPUDirect Cause = "no-gpudirect"  // the device cannot use its memory: neither DMA-BUF nor nvidia_peermem
	Crashed     Cause = "crashed"       // the process that used the device crashed
	Wrong       Cause = "wrong-request" // the test asks for something impossible
	Other       Cause = "other"         // another cause: see the text
)

// Error is one failure.
type Error struct {
	Cause  Cause  `json:"cause"`
	Step   string `json:"step,omitempty"`   // the failed action
	Text   string `json:"text"`             // description
	Errno  int    `json:"errno,omitempty"`  // of the call; 0: no call failed
	Status int    `json:"status,omitempty"` // of the work completion; 0: none failed
	Peer   bool   `json:"peer,omitempty"`   // the other end failed
}

func (e *Error) Error() string {
	if e.Peer {
		return "at the other end: " + e.Text
	}
	return e.Text
}

// AtOpen reports whether the device did not open or describe itself: a search skips such a device.
func (e *Error) AtOpen() bool { return e.Step == stepOpen || e.Step == stepQuery }

// The steps before data moves.
const (
	stepOpen     = "open"
	stepQuery    = "query"
	stepPD       = "allocate a protection domain"
	stepRegister = "register memory"
	stepCQ       = "create a completion queue"
	stepQP       = "create a queue pair"
	stepInit     = "prepare a queue pair"
	stepConnect  = "connect a queue pair"
	stepStart    = "start a queue pair"
	stepPost     = "post a message"
)

// subject is what a step used.
type subject struct {
	device  string
	port    int
	bytes   uint64 // bytes to register
	memlock uint64 // the limit of locked memory; math.MaxUint64: unlimited
	gid     string // description of this end's GID or LID
}

// causes maps a step and an errno to a cause. Entries of "" apply to every step.
var causes = map[string]map[syscall.Errno]Cause{
	stepOpen: {
		syscall.ENOENT: NoNode, syscall.EACCES: Permission, syscall.EPERM: Permission,
		syscall.ENODEV: Gone, syscall.ENXIO: Gone, syscall.ETIMEDOUT: Faulty,
		syscall.EIO: Faulty, syscall.EOPNOTSUPP: Provider, syscall.ENOSYS: Provider, syscall.EPROTONOSUPPORT: Provider,
	},
	stepQP:   {syscall.EOPNOTSUPP: NoRC, syscall.ENOSYS: NoRC},
	stepInit: {syscall.EINVAL: NoPKey},
	stepConnect: {syscall.ENODEV: NotHere, syscall.EINVAL: NoGID, syscall.ETIMEDOUT: Unreachable,
		syscall.ENETUNREACH: Unreachable, syscall.EHOSTUNREACH: Unreachable, syscall.EADDRNOTAVAIL: NoGID},
	"": {
		syscall.EACCES: Permission, syscall.EPERM: Permission, syscall.EIO: Gone, syscall.ENODEV: Gone, syscall.ENXIO: Gone,
		syscall.EBADF: Gone, syscall.ENOMEM: Resources, syscall.EAGAIN: Resources, syscall.ENOSPC: Resources,
		syscall.EMFILE:    Resources,
		syscall.ETIMEDOUT: Faulty,
	},
}

// of returns the failure of a step.
func (s subject) of(step string, errno syscall.Errno) *Error {
	cause, ok := causes[step][errno]
	if !ok {
		cause = causes[""][errno]
	}
	// Providers lock the memory of queues too.
	if errno == syscall.ENOMEM && s.memlock != math.MaxUint64 && step != stepOpen && step != stepQuery {
		cause = Memlock
	}
	if cause == "" {
		cause = Other
	}
	e := &Error{Cause: cause, Step: step, Errno: int(errno)}
	e.Text = fmt.Sprintf("%s on %s: %v", step, s.device, errno)
	if step == stepOpen || step == stepQuery {
		e.Text = fmt.Sprintf("%s %s: %v", step, s.device, errno)
	}
	if more := s.more(cause, step, errno); more != "" {
		e.Text += " (" + more + ")"
	}
	return e
}

// more returns what the errno alone does not say.
func (s subject) more(cause Cause, step string, errno syscall.Errno) string {
	switch cause {
	case Permission:
		if errno == syscall.EPERM {
			return "the container's list of devices forbids it, or the device is in another RDMA namespace"
		}
		return "the mode of its file below /dev/infiniband forbids it"
	case Memlock:
		what := "the memory of its queues"
		if step == stepRegister {
			what = size(s.bytes)
		}
		return fmt.Sprintf("%s must be locked, and RLIMIT_MEMLOCK is %s", what, size(s.memlock))
	case NotHere:
		return "the interface of " + s.gid + " is in another network namespace"
	case NoGID:
		return "no route from " + s.gid + " to the other end's GID"
	case NoPKey:
		return fmt.Sprintf("port %d, or its partition key", s.port)
	case Unreachable:
		return "the address of the other end does not resolve from " + s.gid
	}
	return map[Cause]string{
		NoNode:   "its file below /dev/infiniband is missing: this container lacks the device",
		Gone:     "the device was removed, or its driver has given it up",
		Faulty:   "firmware or hardware: see the kernel log",
		Provider: "its library and its driver do not match",
		NoRC:     "it has no reliable connections",
	}[cause]
}

// ofLibrary turns the error of loading libibverbs into an *Error.
func ofLibrary(err error) *Error {
	e := &Error{Cause: Other, Step: "load libibverbs", Text: err.Error()}
	switch {
	case errors.Is(err, ErrNoLibrary), errors.Is(err, ErrNoCgo):
		e.Cause = NoLibrary
	case errors.Is(err, ErrNoStack):
		e.Cause = NoStack
	}
	return e
}

// size writes a number of bytes with its unit.
func size(n uint64) string {
	switch {
	case n == math.MaxUint64:
		return "unlimited"
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	case n >= 10<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d bytes", n)
}
