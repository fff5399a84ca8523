package fabric

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"launch/fabric/gpu"
	"launch/fabric/verbs"
	"launch/internal/child"
)

// What the children may take before they are reported as not answering. The
// user waits for them, so it is seconds. NVML's is for each GPU besides: the
// first process to ask starts one that nothing keeps awake, one after the other,
// and that takes 1 to 3 s each (NVIDIA, "Driver Persistence", Overview); where
// the persistence daemon runs none has to be started.
const (
	gpuBudget   = 3 * time.Second
	gpuWakes    = 3 * time.Second
	gpuAwake    = 500 * time.Millisecond
	verbsBudget = 3 * time.Second
)

// persistenced is there while NVIDIA's persistence daemon runs. In a container it
// is what the container runtime passes on.
const persistenced = "run/nvidia-persistenced/socket"

// The names of this package's children.
const (
	gpuChild   = "gpu"
	verbsChild = "verbs"
)

// Children returns the functions that AskGPU, AskVerbs and AskDisks run in
// children; main passes them to child.Dispatch.
func Children() child.Table {
	return child.Table{gpuChild: gpu.Child, verbsChild: verbs.Child, diskChild: diskAnswer}
}

// AskGPU asks NVML in a child, if there is a driver at all, and the kernel log
// for what the driver wrote there. It takes 3 s, and 3 s for each GPU, at most;
// half a second for each with the persistence daemon.
func AskGPU(ctx context.Context, roots Roots) gpu.Facts {
	roots = roots.filled()
	seen, ask := gpu.Look(roots.Proc, roots.Dev)
	if !ask {
		return seen
	}
	var answer gpu.Facts
	if err := child.Ask(ctx, gpuChild, nil, &answer, gpuLimit(roots)); err != nil {
		answer = gpu.Facts{Err: unanswered("NVML", err)}
	}
	f := gpu.Settle(roots.Proc, roots.Dev, seen, answer)
	if f.Absent == "" {
		f.KernelLog() // also of a driver that does not answer: there it says why
	}
	return f
}

func gpuLimit(roots Roots) time.Duration {
	each := gpuWakes
	if _, err := fs.Stat(roots.Root, persistenced); err == nil {
		each = gpuAwake
	}
	return gpuBudget + time.Duration(gpu.Count(roots.Proc))*each
}

// AskVerbs asks libibverbs in a child, if sysfs shows an RDMA device at all.
// It takes 3 s at most.
func AskVerbs(ctx context.Context, roots Roots) verbs.Facts {
	class := dir{fsys: roots.filled().Sys, name: classInfiniBand}
	if len(class.names("")) == 0 {
		return verbs.Facts{Absent: "no device in /sys/class/infiniband"}
	}
	var answer verbs.Facts
	if err := child.Ask(ctx, verbsChild, nil, &answer, verbsBudget); err != nil {
		answer = verbs.Facts{Err: unanswered("libibverbs", err)}
	}
	return answer
}

// unanswered says in one line why a library did not answer.
func unanswered(library string, err error) string {
	if t, ok := errors.AsType[*child.TimeoutError](err); ok {
		s := fmt.Sprintf("%s did not answer within %v", library, t.Limit)
		if t.Abandoned {
			s += fmt.Sprintf("; its process %d hangs in the kernel and cannot be killed", t.PID)
		}
		return s
	}
	return fmt.Sprintf("%s: %v", library, err)
}
