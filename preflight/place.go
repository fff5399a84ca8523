package preflight

import (
	"regexp"
	"slices"
	"strings"

	"launch/internal/launcher"
)

// Place is the environment that started this process, and that sets its limits.
type Place string

const (
	InKubernetes Place = "kubernetes"
	InContainer  Place = "container" // Docker or Podman, which have the same options
	InSlurm      Place = "slurm"
	InSystemd    Place = "systemd"
	InShell      Place = "shell" // a user's login
)

// place returns the innermost environment: a container has its own limits wherever it runs.
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

// Remedy returns the fix for the environment of this process, or the one for a shell.
func (in Input) Remedy(all map[Place]string) string {
	if s, ok := all[in.place()]; ok {
		return s
	}
	return all[InShell]
}

// chdir matches the options by which a prefix of the command changes the working
// directory: env -C, uv run --directory, conda run --cwd, gdb -cd.
var chdir = regexp.MustCompile(`^(-[0-9A-Za-z]*C|--?c(d|h|wd)|--directory)`)

// Moves reports whether a prefix of the command may change the working directory.
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

// MoreMemlock returns how to raise the limit of locked memory.
func (in Input) MoreMemlock() string {
	return in.Remedy(map[Place]string{
		InKubernetes: "securityContext: {capabilities: {add: [\"IPC_LOCK\"]}} in the container\n" +
			"or raise the limit: LimitMEMLOCK=infinity in the runtime's unit (containerd.service)",
		InContainer: "docker run --ulimit memlock=-1:-1 …",
		InSlurm: "PropagateResourceLimitsExcept=MEMLOCK in slurm.conf, LimitMEMLOCK=infinity in slurmd.service, " +
			"then restart slurmd",
		InSystemd: "LimitMEMLOCK=infinity in the unit's [Service]",
		InShell:   "ulimit -l unlimited\nor in /etc/security/limits.d/90-rdma.conf: * - memlock unlimited, and log in again",
	})
}
