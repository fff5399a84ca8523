package preflight

// around is what started this process, and so where its limits are set.
type around string

const (
	inKubernetes around = "kubernetes"
	inContainer  around = "container" // Docker and Podman, whose options are the same
	inSlurm      around = "slurm"
	inSystemd    around = "systemd"
	inShell      around = "shell" // none of these: somebody's own login
)

// surroundings are the innermost that are seen: a container has its own limits
// wherever it runs.
func (in Input) surroundings() around {
	switch in.Node.Container.Kind {
	case "kubernetes":
		return inKubernetes
	case "docker", "podman":
		return inContainer
	}
	if _, slurm := in.env("SLURM_JOB_ID"); slurm {
		return inSlurm
	}
	if _, unit := in.env("INVOCATION_ID"); unit { // systemd.exec(5)
		return inSystemd
	}
	return inShell
}

// remedy is the stanza that fits; the shell's where there is no own.
func (in Input) remedy(all map[around]string) string {
	if s, ok := all[in.surroundings()]; ok {
		return s
	}
	return all[inShell]
}
