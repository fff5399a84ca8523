package gpu

import (
	"fmt"
	"strconv"
	"strings"

	"launch/fabric/gpu"
	"launch/preflight"
)

// number is how nvidia-smi -i takes a GPU.
func number(d gpu.GPU) string { return strconv.Itoa(d.Index) }

func whose(p gpu.Process) string {
	if p.Name == "" {
		return fmt.Sprintf("process %d of the machine", p.PID)
	}
	return fmt.Sprintf("%s (pid %d of the machine)", p.Name, p.PID)
}

func holders(list []gpu.Process) string {
	var out []string
	for _, p := range list {
		s := whose(p)
		if p.Memory > 0 {
			s += ", " + preflight.Size(p.Memory)
		}
		out = append(out, s)
	}
	if len(out) == 0 {
		return "no process is seen"
	}
	return preflight.Some(out)
}

// ending is the line that ends processes. NVML counts them as the machine does,
// so that in a container the numbers are others'.
func ending(list []gpu.Process) string {
	var pids []string
	for _, p := range list {
		pids = append(pids, strconv.Itoa(p.PID))
	}
	return "ps -fp " + strings.Join(pids, ",") + " (on the machine itself, outside of any container), and end what is left over"
}
