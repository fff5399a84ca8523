package preflight

import (
	"regexp"
	"slices"
	"strings"

	"launch/internal/launcher"
)

// around is what started this process, and so where its limits are set.
type Place string

const (
	InKubernetes Place = "kubernetes"
	InContainer  Place = "container" // Docker and Podman, whose options are the same
	InSlurm      Place = "slurm"
	InSystemd    Place = "systemd"
	InShell      Place = "shell" // none of these: somebody's own login
)

// surroundings are the innermost that are seen: a container has its own limits
// wherever it runs.
func (in Input) place() Place {
	switch in.Node.Container.Kind {
	case "kubernetes":
		return InKubernetes
	case "docker", "podman":
		return InContainer
	}
	if _, slurm := in.Getenv("SLURM_JOB_ID"); slurm {
		return InSlurm
	}
	if _, unit := in.Getenv("INVOCATION_ID"); unit { // systemd.exec(5)
		return InSystemd
	}
	return InShell
}

// remedy is the stanza that fits; the shell's where there is no own.
func (in Input) Remedy(all map[Place]string) string {
	if s, ok := all[in.place()]; ok {
		return s
	}
	return all[InShell]
}

// chdir are the options by which a prefix changes the working directory: env -C,
// uv run --directory, conda run --cwd, gdb -cd.
var chdir = regexp.MustCompile(`^(-[0-9A-Za-z]*C|--?c(d|h|wd)|--directory)`)

func Moves(line launcher.Line) bool {
	for _, p := range line.Prefix {
		switch program, _, _ := strings.Cut(p, " "); program {
		case "hatch": // runs in its project's directory
			return true
		case "env", "uv", "conda", "poetry", "gdb":
			return slices.ContainsFunc(line.Argv[:line.At], chdir.MatchString)
		}
	}
	return false
}

// moreMemlock is where the limit of locked memory is set.
func (in Input) MoreMemlock() string {
	return in.Remedy(map[Place]string{
		InKubernetes: "securityContext: {capabilities: {add: [\"IPC_LOCK\"]}} in the container; the limit itself: LimitMEMLOCK=infinity in the runtime's unit (containerd.service)",
		InContainer:  "docker run --ulimit memlock=-1:-1 …",
		InSlurm:      "PropagateResourceLimitsExcept=MEMLOCK in slurm.conf, LimitMEMLOCK=infinity in slurmd.service, then restart slurmd",
		InSystemd:    "LimitMEMLOCK=infinity in the unit's [Service]",
		InShell:      "ulimit -l unlimited, or in /etc/security/limits.d/90-rdma.conf: * - memlock unlimited, and a new login",
	})
}
