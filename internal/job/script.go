package job

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"launch/internal/finding"
	"launch/internal/launcher"
)

// lightningUse is Lightning as a library in use.
const lightningUse = "lightning"

// jaxCall is a call in the script by which jax finds its processes alone.
const jaxCall = "jax.distributed.initialize()"

var (
	comment = regexp.MustCompile(`(?m)#.*$`)
	// startsLightning matches what makes Lightning start processes.
	startsLightning = regexp.MustCompile(`\b(Trainer|Fabric|LightningCLI)\s*\(`)
	numNodes        = regexp.MustCompile(`\bnum_nodes["\']?\s*[=:]\s*(\d+)?`)
	// initializeJAX matches a call of jax.distributed.initialize, with what is before its name, and its arguments.
	initializeJAX = regexp.MustCompile(`(?:(\w+)\s*\.\s*)?\binitialize\s*\(((?:[^()]|\([^()]*\))*)\)`)
	// importsJAX matches an import of this function, or of its module under another name.
	importsJAX = regexp.MustCompile(`\bfrom\s+jax\.distributed\s+import\s+(initialize)\b|` +
		`\bfrom\s+jax\s+import\s+distributed\s+as\s+(\w+)|\bimport\s+jax\.distributed\s+as\s+(\w+)`)
	// asksJAX matches the arguments of a call that leaves the number of processes and this one's to jax.
	asksJAX = regexp.MustCompile(`^(?:\s*(?:initialization_timeout|local_device_ids|heartbeat_timeout_seconds|` +
		`shutdown_timeout_seconds|coordinator_bind_address|coordinator_address)\s*=(?:\[[^\]]*\]|[^=,])+(?:,|$))*\s*$`)
)

// A launcher that a shell script starts.
var (
	inShell = regexp.MustCompile(`(?m)(?:^|[;&|(]|\bexec\b)[ \t]*(?:\w+=\S*[ \t]+)*(?:python\S*[ \t]+-m[ \t]+)?` +
		`(torchrun|torch\.distributed\.(?:run|launch)|ft_launcher|accelerate[ \t]+launch|deepspeed|fabric[ \t]+run|` +
		`lightning[ \t]+run|torchx[ \t]+run|colossalai[ \t]+run|dlrover-run|horovodrun)(?:[ \t\\]|$)`)
)

// shortC matches the option of a shell before its text.
var shortC = regexp.MustCompile(`^-[a-z]*c$`)

// shellScript returns the name and the text of the shell script that the command runs, or of a shell's -c, without
// comments.
func (r *resolver) shellScript() (name, text string) {
	l := r.line
	if l.Kind != launcher.Program || l.Program >= len(l.Argv) || r.in.Root == nil {
		return "", ""
	}
	words := l.Argv[l.Program:min(l.Program+3, len(l.Argv))]
	for i, w := range words { // ./run.sh, bash run.sh, bash -e run.sh, bash -lc TEXT
		if i == 1 && len(words) == 3 && strings.HasSuffix(path.Base(words[0]), "sh") && shortC.MatchString(w) {
			return path.Base(words[0]) + " -c", comment.ReplaceAllString(words[2], "")
		}
		if strings.HasSuffix(w, ".sh") {
			return w, comment.ReplaceAllString(head(r.in.Root, r.absolute(w)), "")
		}
	}
	return "", ""
}

// shellLauncher warns about a shell script that starts a launcher which knows nothing of the other nodes: neither by
// variables of launch, nor by options in the script or in the script's own arguments.
func (r *resolver) shellLauncher() {
	if !r.job.Several() || r.job.Tasks.Size > 0 || r.in.Flags.As.Set {
		return
	}
	script, text := r.shellScript()
	m := inShell.FindStringSubmatch(text)
	torchrun := m != nil && strings.HasPrefix(m[1], "torch") && !strings.HasPrefix(m[1], "torchx")
	if torchrun && strings.HasSuffix(script, " -c") { // the line has a note about that
		return
	}
	if m == nil || launcher.Placed(text+" "+strings.Join(r.line.Argv, " ")) && !launcher.Waits(text) {
		return
	}
	f := finding.Warnf("%s starts %s, which does not take its place from launch", script, m[1]).Named("job.command").
		Breaking("each node would train or wait alone").
		Do("put launch before %[1]s in %[2]s, and run %[2]s without launch", m[1], script)
	if torchrun {
		f = f.Do("%s", r.paste("--as", "torchrun"))
	}
	r.note(f)
}

// script returns the text of the Python program that a plain line runs, all its files; "" if it runs no Python.
func (r *resolver) script() string {
	l := r.line
	if l.Kind != launcher.Program || len(r.files) == 0 {
		return ""
	}
	command := l.Argv[l.Program:]
	if _, _, ok := moduleOf(command[0], command[1:]); !ok && l.Script == 0 && !isPython(command[0]) {
		return "" // an argument of another program
	}
	var all strings.Builder
	for _, f := range r.files {
		all.WriteString(f.text)
	}
	return all.String()
}

// spawns finds a script that starts the processes of its node itself, by Lightning: each node runs it once,
// and the script's own num_nodes must be the number of nodes.
func (r *resolver) spawns() error {
	if r.in.Flags.As.Set || !slices.Contains(r.job.Uses, lightningUse) || r.script() == "" {
		return nil
	}
	r.line.Spawns = "Lightning"
	r.job.Line = r.line
	if !r.job.Several() || r.job.Tasks.Size > 0 {
		return nil
	}
	script := r.line.Argv[max(r.line.Script, r.line.Program)]
	if !isPython(script) {
		script = r.files[0].name
	}
	var literals []string
	named := slices.ContainsFunc(r.line.Argv, func(w string) bool { return strings.Contains(w, "num_nodes") })
	for _, m := range numNodes.FindAllStringSubmatch(r.script(), -1) {
		named = true
		if !slices.Contains(literals, m[1]) {
			literals = append(literals, m[1])
		}
	}
	nodes := strconv.Itoa(r.job.Nodes.V)
	switch {
	case len(literals) == 1 && literals[0] != "" && literals[0] != nodes && r.job.Min == 0:
		return contradiction("num_nodes="+nodes+"   # in "+script,
			"%s has num_nodes=%s, but the job has %s nodes (%s): Lightning would start another world", script, literals[0],
			nodes, r.job.Nodes.From.Name)
	case !named:
		r.note(finding.Warnf("%s uses Lightning and does not name num_nodes, which is 1 by default", script).
			Named("job.command").Breaking("each node would train alone").
			Do("num_nodes=%s   # in the Trainer or Fabric of %s", nodes, script))
	}
	return nil
}

// callsJAX finds a script that leaves it to jax to find the other processes.
func (r *resolver) callsJAX() {
	if slices.Contains(r.job.Uses, "jax") && leavesToJAX(r.script()) {
		r.job.Uses = append(r.job.Uses, jaxCall)
		r.line.JAX, r.job.Line.JAX = true, true
	}
}

// leavesToJAX reports whether a Python text calls jax.distributed.initialize() without the numbers of processes.
func leavesToJAX(text string) bool {
	modules, bare := []string{"distributed"}, false
	for _, m := range importsJAX.FindAllStringSubmatch(text, -1) {
		bare = bare || m[1] != ""
		modules = append(modules, m[2]+m[3])
	}
	return slices.ContainsFunc(initializeJAX.FindAllStringSubmatch(text, -1), func(m []string) bool {
		return (m[1] == "" && bare || m[1] != "" && slices.Contains(modules, m[1])) && asksJAX.MatchString(m[2])
	})
}

// rayAlone warns about a script that starts a Ray on each node.
func (r *resolver) rayAlone() {
	script := r.script()
	if !r.job.Several() || !slices.Contains(r.job.Uses, "ray") || script == "" || r.in.Flags.As.Set ||
		r.env["RAY_ADDRESS"] != "" || !strings.Contains(script, "ray.init") || strings.Contains(script, "address") {
		return
	}
	argv := slices.Insert(slices.Clone(r.line.Argv), r.line.Program, "ray", "symmetric-run", "--")
	r.note(finding.Warnf("the script uses Ray, and names no address of a Ray cluster").Named("job.command").
		Breaking("each node would start a Ray of its own, and run the script on it").
		Do("%s", r.insteadOf(argv, false)))
}
