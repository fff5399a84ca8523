package mpirun

import (
	"path"
	"strings"
)

// agent finds the program by which mpirun reaches other hosts.
func (r *reader) agent() {
	if r.hydra() {
		r.hydraAgent()
		return
	}
	plm, _ := r.parameter("plm")
	_, slurm := r.variable("SLURM_JOB_ID", "SLURM_JOBID")
	if slurm != "" {
		if has, _ := r.slurm("plm"); !has {
			slurm = ""
		}
	}
	if agent, from := r.parameter("plm_ssh_agent", "plm_rsh_agent", "orte_rsh_agent", "pls_rsh_agent"); agent != "" {
		first, _, _ := strings.Cut(agent, ":") // "ssh : rsh" is a choice
		r.run.Agent = Agent{Argv: strings.Fields(first), From: from}
	} else if slurm != "" && (plm == "" || plm == "slurm") {
		r.run.Agent = srun(slurm)
		return
	} else {
		r.run.Agent = Agent{Argv: []string{"ssh"}, From: "Open MPI's default"}
	}
	if plm != "" && plm != "rsh" && plm != "ssh" {
		r.unclear("mpirun starts its daemons by plm " + plm + ", which launch does not know")
	}
	if args, _ := r.parameter("plm_ssh_args", "plm_rsh_args"); args != "" {
		r.run.Agent.Argv = append(r.run.Agent.Argv, strings.Fields(args)...)
	}
}

func srun(from string) Agent {
	return Agent{Argv: []string{"srun", "--overlap", "--quiet", "--nodes=1", "--ntasks=1", "--input=0"}, From: from,
		Srun: true}
}

// hydraAgent finds Hydra's launcher: an option goes before a variable, and in an allocation of Slurm it is srun.
func (r *reader) hydraAgent() {
	kind, ok := r.option("bootstrap", "launcher", "rmk")
	from := "-bootstrap"
	if !ok {
		kind, from = r.variable("I_MPI_HYDRA_BOOTSTRAP", "HYDRA_BOOTSTRAP", "HYDRA_LAUNCHER")
	}
	if _, slurm := r.variable("SLURM_JOB_ID"); kind == "" && slurm != "" {
		kind, from = "slurm", slurm
	}
	if kind == "" {
		kind, from = "ssh", "Hydra's default"
	}
	program, ok := r.option("bootstrap-exec", "launcher-exec")
	if ok {
		from = "-bootstrap-exec"
	} else if v, name := r.variable("I_MPI_HYDRA_BOOTSTRAP_EXEC", "HYDRA_BOOTSTRAP_EXEC", "HYDRA_LAUNCHER_EXEC"); v != "" {
		program, from = v, name
	}
	switch kind {
	case "ssh", "rsh":
		if program == "" {
			program = kind
		}
		r.run.Agent = Agent{Argv: []string{program}, From: from}
	case "slurm":
		r.run.Agent = srun(from)
		return
	default:
		r.unclear("mpiexec starts its daemons by " + kind + ", which launch does not know")
		return
	}
	args, ok := r.option("bootstrap-exec-args")
	if !ok {
		args, _ = r.variable("I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", "HYDRA_LAUNCHER_EXTRA_ARGS",
			"HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS")
	}
	r.run.Agent.Argv = append(r.run.Agent.Argv, strings.Fields(args)...)
}

// daemon finds what mpirun starts on the other hosts. Hydra names the file next to mpiexec; Open MPI a word that
// the other host looks up, unless mpirun is typed with its path, or --prefix.
func (r *reader) daemon() {
	typed := r.Line.Argv[r.Line.At]
	if r.hydra() {
		dir := path.Dir(r.Binary)
		if strings.Contains(typed, "/") {
			dir = path.Dir(typed)
			if !path.IsAbs(dir) {
				dir = path.Join(r.Dir, dir)
			}
		}
		r.run.Daemon = path.Join(dir, "hydra_pmi_proxy")
		if r.Line.MPI == "intel" {
			r.run.Daemon = path.Join(dir, "hydra_bstrap_proxy")
		}
		return
	}
	name := "orted"
	if r.Line.MPI == "openmpi5" {
		name = "prted"
	}
	if v, _ := r.parameter("orte_launch_agent", "prte_launch_agent"); v != "" {
		name, _, _ = strings.Cut(strings.TrimSpace(v), " ")
	}
	if v, ok := r.option("launch-agent"); ok {
		name = v
	}
	r.run.Daemon = name
	if r.run.Prefix = r.prefix(typed); r.run.Prefix != "" && !strings.Contains(name, "/") {
		r.run.Daemon = path.Join(r.run.Prefix, "bin", name)
	}
}

// prefix returns the installation that Open MPI asks for on the other hosts; "": the daemon is looked up in the PATH
// there. Open MPI 4 passes on the directory of a starter that is typed with its whole path.
func (r *reader) prefix(typed string) string {
	if prefix, ok := r.option("prefix"); ok {
		return prefix
	}
	if r.Line.MPI == "openmpi5" {
		return r.prte(typed)
	}
	if _, no := r.option("noprefix"); no || !path.IsAbs(typed) {
		return ""
	}
	return path.Dir(path.Dir(typed))
}
