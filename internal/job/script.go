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
	// initializeJAX matches a call of jax.distributed.initialize up to its arguments, with what is before its name.
	initializeJAX = regexp.MustCompile(`(?:(\w+)\s*\.\s*)?\binitialize\s*\(`)
	// importsJAX matches an import of this function, or of its module under another name.
	importsJAX = regexp.MustCompile(`\bfrom\s+jax\.distributed\s+import\s+(initialize)\b|` +
		`\bfrom\s+jax\s+import\s+distributed\s+as\s+(\w+)|\bimport\s+jax\.distributed\s+as\s+(\w+)`)
	// asksJAX matches an argument that leaves the number of processes and this one's to jax.
	asksJAX = regexp.MustCompile(`^\s*(?:(?:initialization_timeout|local_device_ids|heartbeat_timeout_seconds|` +
		`shutdown_timeout_seconds|coordinator_bind_address|coordinator_address)\s*=[^=]|$)`)
)

// A launcher that a shell script starts.
var (
	inShell = regexp.MustCompile(`(?m)(?:^|[;&|(]|\bexec\b)[ \t]*(?:\w+=\S*[ \t]+)*(?:python\S*[ \t]+-m[ \t]+)?` +
		`(torchrun|torch\.distributed\.(?:run|launch)|ft_launcher|accelerate[ \t]+launch|deepspeed|fabric[ \t]+run|` +
		`lightning[ \t]+run|torchx[ \t]+run|colossalai[ \t]+run|dlrover-run|horovodrun)(?:[ \t\\]|$)`)
)

// oneNode matches an option by which torchrun is for one node, whatever the variables say.
var oneNode = regexp.MustCompile(`\s--(?:standalone\b|nnodes[=\s]1\b)`)

// shortC matches the option of a shell before its text.
var shortC = regexp.MustCompile(`^-[a-z]*c$`)

// shellScript returns the name and the text of the shell script that the command runs, or of a shell's -c.
func (r *resolver) shellScript() (name, text string) {
	l := r.line
	if l.Kind != launcher.Program || l.Program >= len(l.Argv) || r.in.Root == nil {
		return "", ""
	}
	words := l.Argv[l.Program:min(l.Program+3, len(l.Argv))]
	for i, w := range words { // ./run.sh, ./run, bash run.sh, bash -e run.sh, bash -lc TEXT
		if i == 1 && len(words) == 3 && strings.HasSuffix(path.Base(words[0]), "sh") && shortC.MatchString(w) {
			return path.Base(words[0]) + " -c", words[2]
		}
		if strings.HasSuffix(w, ".sh") && (i == 0 || launcher.Executes(words[0])) {
			return w, head(r.in.Root, r.absolute(w))
		}
		if i == 0 && strings.Contains(w, "/") {
			if text := head(r.in.Root, r.absolute(w)); byShell.MatchString(text) {
				return w, text
			}
		}
	}
	return "", ""
}

// byShell matches the first line of a script that a shell reads.
var byShell = regexp.MustCompile(`^#![^\n]*\b(?:ba|da|z|k)?sh\b`)

// shellTorchrun takes a script for a shell as the torchrun in it, where that has no place of its own in the job: it
// takes one from variables, as a torchrun in bash -c does.
func (r *resolver) shellTorchrun() {
	script, text := r.shellScript()
	if r.in.Flags.As.Set || strings.HasSuffix(script, " -c") || !launcher.Waits(text) {
		return
	}
	if line, err := launcher.Parse(r.line.Argv, string(launcher.Torchrun)); err == nil {
		r.line = line.Of(r.job.MPI)
	}
}

// shellLauncher warns about a shell script that starts a launcher which knows nothing of the other nodes: neither by
// variables of launch, nor by options in the script or in the script's own arguments.
func (r *resolver) shellLauncher() {
	if !r.job.Several() || r.job.Tasks.Size > 0 || r.in.Flags.As.Set {
		return
	}
	script, all := r.shellScript()
	text := comment.ReplaceAllString(all, "")
	placed := launcher.Placed(text + " " + strings.Join(r.line.Argv, " "))
	if name := launcher.MpirunIn(all); name != "" && !placed {
		r.note(finding.Warnf("%s starts %s, which starts the processes on all hosts itself", script, name).
			Named("job.command").Breaking("each node would start a job of its own").
			Do("launch %s …   # in %s, and run that once, without launch", name, script))
		return
	}
	m := inShell.FindStringSubmatch(text)
	torchrun := m != nil && strings.HasPrefix(m[1], "torch") && !strings.HasPrefix(m[1], "torchx")
	if torchrun && strings.HasSuffix(script, " -c") { // the line has a note about that
		return
	}
	if m == nil || placed && !launcher.Waits(all) {
		return
	}
	f := finding.Warnf("%s starts %s, which does not take its place from launch", script, m[1]).Named("job.command").
		Breaking("each node would train or wait alone").
		Do("put launch before %[1]s in %[2]s, and run %[2]s without launch", m[1], script)
	if torchrun {
		f = f.Do("%s", r.paste("--as", "torchrun"))
		if one := oneNode.FindString(text); one != "" {
			f = f.Do("%s\nremove %s from %s", f.Fix, strings.TrimSpace(one), script)
		}
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
	for _, at := range initializeJAX.FindAllStringSubmatchIndex(text, -1) {
		of := ""
		if at[2] >= 0 {
			of = text[at[2]:at[3]]
		}
		args, ok := arguments(text[at[1]:])
		if ok && (of == "" && bare || of != "" && slices.Contains(modules, of)) &&
			!slices.ContainsFunc(args, func(a string) bool { return !asksJAX.MatchString(a) }) {
			return true
		}
	}
	return false
}

// pythonText matches a string of Python.
var pythonText = regexp.MustCompile(`^(?s:"""(?:[^\\]|\\.)*?"""|\'\'\'(?:[^\\]|\\.)*?\'\'\'|"(?:[^"\\\n]|\\.)*"|` +
	`\'(?:[^\'\\\n]|\\.)*\')`)

// arguments returns the arguments of a call in Python, whose text begins after the parenthesis. ok: the call ends.
func arguments(text string) (args []string, ok bool) {
	from, depth := 0, 0
	for i := 0; i < len(text); i++ {
		if s := pythonText.FindString(text[i:min(len(text), i+maxText)]); s != "" {
			i += len(s) - 1
			continue
		}
		switch text[i] {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			if depth--; depth < 0 {
				return append(args, text[from:i]), text[i] == ')'
			}
		case ',':
			if depth == 0 {
				args, from = append(args, text[from:i]), i+1
			}
		}
	}
	return nil, false
}

// maxText bounds a string among the arguments of a call.
const maxText = 4096

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
