package job

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"launch/internal/exit"
	"launch/internal/finding"
	"launch/internal/launcher"
	"launch/internal/setting"
)

// fits checks the line against the number of nodes. The error has a line to type.
func (r *resolver) fits(nodes int) error {
	err := r.line.CheckNodes(nodes)
	if err == nil {
		return nil
	}
	if word, place, inside := r.line.Entry(); inside {
		return r.enter(err, nodes, word, place)
	}
	argv, once, program := r.line.Instead(nodes)
	e, ok := errors.AsType[*exit.Error](err)
	if !ok || argv == nil {
		return err
	}
	e.Fix = r.insteadOf(argv, once)
	if program {
		e.Fix += "   # or --as program, if each node runs it as typed"
	}
	return e
}

// enter returns the error with the line that has launch where the command starts.
func (r *resolver) enter(err error, nodes, word, place int) error {
	e, ok := errors.AsType[*exit.Error](err)
	if !ok {
		return err
	}
	argv := slices.Clone(r.line.Argv)
	rest := strings.ReplaceAll(strings.Join(argv[word:], " "), "_", "-")
	var flags []string // variables do not get there
	if !strings.Contains(rest, "--nnodes") {
		flags = append(flags, "--nnodes", strconv.Itoa(nodes))
	}
	if !strings.Contains(rest, "--master-addr") && !strings.Contains(rest, "--rdzv-endpoint") {
		flags = append(flags, "--store", cmp.Or(r.in.Flags.Store.V, "HOST"))
	}
	ours := r.pasteOf(nil, flags...)
	if strings.ContainsAny(argv[word], " \t\n") {
		argv[word] = argv[word][:place] + ours + " " + argv[word][place:]
		e.Fix = launcher.Quote(argv)
	} else {
		e.Fix = launcher.Quote(argv[:word]) + " " + ours + " " + launcher.Quote(argv[word:])
	}
	e.Fix += "   # or --as program, if each node runs it as typed"
	return e
}

// insteadOf returns the line to paste with another command.
func (r *resolver) insteadOf(argv []string, once bool) string {
	if once {
		words := []string{"launch"}
		if again, err := launcher.Parse(argv, ""); err == nil && again.Kind != launcher.Mpirun && r.severalAnyway() {
			words = append(words, "--nnodes", "1")
		}
		return launcher.Quote(append(words, argv...)) + "   # once, on the head node"
	}
	var flags []string
	if again, err := launcher.Parse(argv, ""); err == nil && again.NNodes.Set { // the line has it
	} else if !r.in.Flags.NNodes.Set && !r.sched.nodes.Set {
		flags = append(flags, "--nnodes", r.typedNodes())
	}
	if !r.in.Flags.Store.Set && !r.sched.host.Set && !r.line.MasterAddr.Set && !r.line.Endpoint.Set {
		flags = append(flags, "--store", "HOST")
	}
	return r.pasteOf(argv, flags...)
}

// severalAnyway reports whether a line without flags has several nodes: by a variable, or by the scheduler.
func (r *resolver) severalAnyway() bool {
	variable := func(v setting.Value[string]) bool { return v.Set && !strings.HasPrefix(v.From.Name, "--") }
	return r.sched.nodes.Set || variable(r.in.Flags.NNodes) || variable(r.in.Flags.Store)
}

// nodeOptions returns the options by which launchers take the number of nodes.
func nodeOptions() []string {
	return []string{"--nnodes", "--num-nodes", "--num-machines", "--min-nodes"}
}

// typedNodes returns the number of nodes that the command has in an option of its own; 4, as an example,
// if it has none.
func (r *resolver) typedNodes() string {
	argv := r.in.Argv
	for i, w := range argv {
		name, value, joined := strings.Cut(w, "=")
		if !joined && i+1 < len(argv) {
			value = argv[i+1]
		}
		_, _, err := launcher.ParseNNodes(value)
		if err == nil && slices.Contains(nodeOptions(), strings.ReplaceAll(name, "_", "-")) {
			return value
		}
	}
	return "4"
}

// accelerateKey matches a setting of accelerate's configuration file, which is YAML or JSON.
var accelerateKey = regexp.MustCompile(`(?m)^\s*"?(num_processes|num_machines|main_process_ip)"?\s*:\s*` +
	`["']?([\w.:-]+)`)

// accelerate takes from accelerate's configuration file what the line does not set.
func (r *resolver) accelerate() error {
	if r.line.Kind != launcher.Accelerate || r.in.Root == nil {
		return nil
	}
	file := r.accelerateFile()
	if file == "" {
		return nil
	}
	asks := map[string]*launcher.Ask{"num_processes": &r.line.NP, "num_machines": &r.line.NNodes,
		"main_process_ip": &r.line.MasterAddr}
	machines := "1"
	for _, m := range accelerateKey.FindAllStringSubmatch(head(r.in.Root, file), -1) {
		key, value := m[1], m[2]
		if key == "num_machines" {
			machines = value
		}
		one := key == "num_machines" && value == "1" // what `accelerate config` writes for one node
		unset := value == "null" || value == "-1"    // -1: the line has to say it
		if ask := asks[key]; !ask.Set && !unset && !one {
			*ask = launcher.Ask{Value: value, From: file + " " + key, Set: true}
		}
	}
	r.perMachines = machines
	r.job.Line = r.line
	return nil
}

// accelerateFile returns the file that accelerate reads; "" if there is none.
func (r *resolver) accelerateFile() string {
	for _, o := range slices.Backward(r.line.Options) {
		if o.Name == "config_file" {
			return r.absolute(o.Value)
		}
	}
	dir := path.Join(r.env["HOME"], ".cache/huggingface")
	if v := r.env["XDG_CACHE_HOME"]; v != "" {
		dir = path.Join(v, "huggingface")
	}
	if v := r.env["HF_HOME"]; v != "" {
		dir = v
	}
	for _, name := range []string{"default_config.yaml", "default_config.json"} {
		if file := r.absolute(path.Join(dir, "accelerate", name)); r.exists(file) &&
			!slices.ContainsFunc(r.line.Options, func(o launcher.Option) bool { return o.Name == "cpu" }) {
			return file
		}
	}
	return ""
}

// total refuses a total of the configuration file that counts other machines than the job has.
func (r *resolver) total(nodes int) error {
	file, ok := strings.CutSuffix(r.line.NP.From, " num_processes")
	if nodes < 2 || !ok || r.perMachines == strconv.Itoa(nodes) {
		return nil
	}
	each := r.line.Each()
	total, _ := strconv.Atoi(r.line.NP.Value)
	if machines, _ := strconv.Atoi(r.perMachines); machines > 0 && total >= machines {
		each = total / machines
	}
	argv := slices.Insert(slices.Clone(r.line.Argv), r.line.At+1, "--num_processes", strconv.Itoa(each*nodes))
	return contradiction(fmt.Sprintf("%s   # the total, %d on each node", r.insteadOf(argv, false), each),
		"%s has num_processes %s for num_machines %s, but the job has %d nodes", file, r.line.NP.Value, r.perMachines, nodes)
}

// device matches an element of CUDA_VISIBLE_DEVICES that is a GPU.
var device = regexp.MustCompile(`^\s*(?:\d|GPU-|MIG-)`)

// gpus returns how many GPUs a launcher of this node would count; 0: not known.
func (r *resolver) gpus() int {
	visible := strings.Split(r.env["CUDA_VISIBLE_DEVICES"], ",")
	if n := slices.IndexFunc(append(visible, ""), func(d string) bool { return !device.MatchString(d) }); n > 0 {
		return n // CUDA ends the list at the first that is no device
	}
	if r.in.Root == nil {
		return 0
	}
	all, _ := fs.Glob(r.in.Root, "dev/nvidia[0-9]*")
	return len(all)
}

// deepspeedHosts refuses a hostfile of deepspeed with fewer hosts than the job has nodes.
func (r *resolver) deepspeedHosts(nodes int) error {
	if nodes < 2 || r.line.Kind != launcher.DeepSpeed || !r.line.Hostfile.Set {
		return nil
	}
	if n := len(r.hostfile(r.line.Hostfile.Value)); n > 0 && n < nodes {
		return contradiction("add the missing hosts to "+r.line.Hostfile.Value+", a line each: HOST slots=8",
			"deepspeed takes the nodes from %s, which lists %d of the %d nodes", r.line.Hostfile.Value, n, nodes)
	}
	return nil
}

// notLaunchers are programs that start others, and whose names or first arguments look like a launcher's:
// schedulers, containers and package managers.
const notLaunchers = "srun prun jsrun aprun flux sbatch salloc docker podman nerdctl singularity apptainer enroot " +
	"charliecloud ch-run kubectl helm uv uvx poetry pdm rye hatch pipenv pixi conda mamba micromamba npm npx yarn " +
	"cargo go make xvfb-run dbus-run-session systemd-run runuser run-parts runcon flatpak snap"

// launcherOptions are options of launchers of several nodes.
var launcherOptions = regexp.MustCompile(
	`^--(nnodes|num[-_](nodes|machines)|nproc([-_]per[-_]node)?|(node|machine)[-_]rank|hostfile)(=|$)`)

// likely returns the option by which a program that launch does not know looks like a launcher of several
// nodes; "" if it does not. A file that the user names by its path or that ends in .py or .sh is a program.
func (r *resolver) likely() string {
	l := r.line
	if l.Kind != launcher.Program || l.Starter != "" || r.in.Flags.As.Set || l.Script > 0 || l.Program >= len(l.Argv) {
		return ""
	}
	name, words := l.Argv[l.Program], l.Argv[l.Program+1:]
	scripted := slices.ContainsFunc(words, isPython)
	if module, of, ok := moduleOf(name, words); ok { // one that gets a script after its options, and is named for it
		scripted = false
		if !slices.ContainsFunc(of, func(w string) bool { return strings.HasSuffix(w, ".py") }) {
			return ""
		}
		name, words = module[strings.LastIndexByte(module, '.')+1:], of
	}
	sub := len(words) > 0 && (words[0] == "run" || words[0] == "launch")
	named := strings.Contains(name, "launch") || strings.Contains(name, "run") || scripted
	if strings.ContainsAny(name, "/.") || slices.Contains(strings.Fields(notLaunchers), name) || !sub && !named {
		return ""
	}
	for _, w := range words {
		if w == "--" || strings.HasSuffix(w, ".py") || strings.HasSuffix(w, ".sh") {
			break
		}
		if launcherOptions.MatchString(w) {
			option, _, _ := strings.Cut(w, "=")
			return option
		}
	}
	return ""
}

// moduleOf returns the module that Python runs, and its words.
func moduleOf(name string, words []string) (module string, of []string, ok bool) {
	i := slices.Index(words, "-m")
	if !strings.HasPrefix(path.Base(name), "python") || i < 0 || i+1 >= len(words) ||
		slices.ContainsFunc(words[:i], func(w string) bool { return !strings.HasPrefix(w, "-") }) {
		return "", nil, false
	}
	return words[i+1], words[i+2:], true
}

// unknownLauncher warns about a program of several nodes that looks like a launcher.
func (r *resolver) unknownLauncher() {
	option := r.likely()
	if option == "" || !r.job.Several() || r.tasks.Size > 0 {
		return
	}
	name := r.line.Argv[r.line.Program]
	if module, _, ok := moduleOf(name, r.line.Argv[r.line.Program+1:]); ok {
		name += " -m " + module
	}
	r.note(finding.Warnf("%s has %s and looks like a launcher, but launch does not know it", name, option).
		Named("job.command").Breaking("it gets RANK and WORLD_SIZE for one process on each node; if it reads only its " +
		"own options, each node may train alone").
		Do("--as program, if that is right; --as torchrun, if it calls torchrun; else launch torchrun"))
}
