package fabric

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"launch/fabric/gpu"
	"launch/fabric/verbs"
	"launch/internal/child"
)

// Time limits of the children, seconds since the user waits for them. The first process to use a GPU
// starts it, one after the other, which takes 1 to 3 s each (NVIDIA, "Driver Persistence", Overview).
// The persistence daemon keeps the GPUs started.
const (
	gpuBudget   = 3 * time.Second
	gpuWakes    = 3 * time.Second
	gpuAwake    = 500 * time.Millisecond
	verbsBudget = 3 * time.Second
	cudaBudget  = 3 * time.Second
)

// persistenced exists while NVIDIA's persistence daemon runs. In a container, the runtime passes it on.
const persistenced = "run/nvidia-persistenced/socket"

const (
	gpuChild   = "gpu"
	cudaChild  = "cuda"
	verbsChild = "verbs"
)

// Children returns the children of AskGPU, AskVerbs, AskDisks and ReadAhead; main passes them to child.Dispatch.
func Children() child.Table {
	return child.Table{gpuChild: gpu.Child, cudaChild: gpu.CUDAChild, verbsChild: verbs.Child, diskChild: diskAnswer,
		aheadChild: readAhead, staleChild: staleAnswer}
}

// AskGPU queries NVML in a child, if there is a driver, and reads what the driver wrote to the kernel
// log. It takes 3 s plus 3 s per GPU at most; half a second per GPU with the persistence daemon.
func AskGPU(ctx context.Context, roots Roots, q gpu.Question) gpu.Facts {
	roots = roots.filled()
	seen, ask := gpu.Look(roots.Proc, roots.Dev)
	if !ask {
		return seen
	}
	var answer gpu.Facts
	if err := child.Ask(ctx, gpuChild, q, &answer, gpuLimit(roots)); err != nil {
		answer = gpu.Facts{Err: unanswered("NVML", err)}
	}
	f := gpu.Settle(roots.Proc, roots.Dev, seen, answer)
	if roots.Usable != nil {
		f.Withheld = gpu.Withheld(roots.Proc, f.Devices, roots.Usable)
	}
	if f.Unplaced() && hasNVSwitch(roots.Sys) {
		_ = child.Ask(ctx, cudaChild, nil, &f.Init, cudaBudget) // no answer: unknown
	}
	if f.Absent == "" {
		f.KernelLog() // also if the driver does not answer: the log has the reason
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

// AskVerbs queries libibverbs in a child, if sysfs shows an RDMA device. It takes 3 s at most.
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

// unanswered returns in one line why a library did not answer.
func unanswered(library string, err error) string {
	if t, ok := errors.AsType[*child.TimeoutError](err); ok {
		s := fmt.Sprintf("%s did not answer within %v", library, t.Limit)
		if t.Abandoned {
			s += fmt.Sprintf("; process %d hangs in the kernel and cannot be killed", t.PID)
		}
		return s
	}
	return fmt.Sprintf("%s: %v", library, err)
}

// deviceBudget limits the time to read one device from sysfs. A healthy device takes milliseconds;
// one whose firmware does not answer can take a minute per file (mlx5's command timeout).
const deviceBudget = 3 * time.Second

// reading is the value read from a device, and the first thing that could not be read.
type reading[T any] struct {
	value T
	bad   *Unknown
}

// each reads devices concurrently and returns the answers in the order of names. A device that exceeds
// its time limit becomes an Unknown and its reader is abandoned: nothing ends a read in the kernel.
func each[T any](ctx context.Context, fsys fs.FS, class string, names []string,
	read func(d *dir, name string) T) []reading[T] {
	out := make([]reading[T], len(names))
	answers := make(chan func(), len(names)) // buffered, so that late readers end too
	for i, name := range names {
		go func() {
			d := dir{fsys: fsys, name: path.Join(class, name)}
			v := read(&d, name)
			answers <- func() { out[i] = reading[T]{v, d.bad} }
		}()
		out[i].bad = &Unknown{What: path.Join(class, name), Why: "it did not answer within " + deviceBudget.String()}
	}
	ctx, cancel := context.WithTimeout(ctx, deviceBudget)
	defer cancel()
	for range names {
		select {
		case store := <-answers:
			store()
		case <-ctx.Done():
			return out
		}
	}
	return out
}
