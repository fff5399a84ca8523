package gpu

import (
	"fmt"
	"strconv"
	"strings"

	"launch/fabric/gpu"
	"launch/internal/finding"
)

// number returns a GPU as nvidia-smi -i takes it.
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
			s += ", " + finding.Size(p.Memory)
		}
		out = append(out, s)
	}
	if len(out) == 0 {
		return "no visible process"
	}
	return finding.Some(out)
}

// ending returns the commands that end processes. NVML has their pids on the machine,
// which differ from those in a container.
func ending(list []gpu.Process) string {
	var pids []string
	for _, p := range list {
		pids = append(pids, strconv.Itoa(p.PID))
	}
	return "ps -fp " + strings.Join(pids, ",") + "   # on the machine itself, outside any container; end what is left over"
}
