package job

import (
	"slices"
	"strings"

	"launch/internal/exit"
	"launch/internal/finding"
	"launch/internal/launcher"
	"launch/internal/setting"
)

// paste returns this command with more flags, to paste. Typed flags remain;
// LAUNCH_* variables are set anyway.
func (r *resolver) paste(flags ...string) string { return r.pasteOf(r.in.Argv, flags...) }

func (r *resolver) pasteOf(argv []string, flags ...string) string {
	words := []string{"launch"}
	if r.in.Subcommand != "" {
		words = append(words, r.in.Subcommand)
	}
	words = append(words, flags...)
	f := r.in.Flags
	for _, v := range []setting.Value[string]{f.NNodes, f.NodeRank, f.Store, f.Job, f.Addr, f.MasterPort, f.As} {
		if v.Set && strings.HasPrefix(v.From.Name, "--") && !has(flags, v.From.Name) {
			words = append(words, v.From.Name, v.V)
		}
	}
	return launcher.Quote(append(words, argv...))
}

// without returns the line to paste that leaves a variable out.
func (r *resolver) without(variable string) string {
	return "env -u " + variable + " " + r.paste("--nnodes", "4", "--store", "HOST")
}

// has reports whether words contain a flag, as --name or --name=value.
func has(words []string, flag string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return w == flag || strings.HasPrefix(w, flag+"=") })
}

// with returns the line to paste where one flag is missing. If it is after the
// command, where only the command reads it, it moves before it.
func (r *resolver) with(flag, value string) string {
	ours, argv := r.stray()
	if r.likely() != "" { // its own option remains
		argv = r.in.Argv
	}
	if has(ours, flag) {
		return r.pasteOf(argv, ours...)
	}
	return r.paste(flag, value)
}

// stray separates launch's own flags after the command from its other arguments.
// Only flags that few commands have themselves count.
func (r *resolver) stray() (ours, argv []string) {
	rest := min(r.line.Rest+1, len(r.in.Argv))
	argv = slices.Clone(r.in.Argv[:rest])
	for i := rest; i < len(r.in.Argv); {
		name, n := r.flag(r.in.Argv, i)
		switch name {
		case "nnodes", "node-rank", "spares", "store", "store-host", "join-timeout", "port-range":
			ours = append(ours, r.in.Argv[i:i+n]...)
		default:
			n = 1
			argv = append(argv, r.in.Argv[i])
		}
		i += n
	}
	return ours, argv
}

// flag returns the name of launch's own flag at argv[i] and the number of its words, or "".
func (r *resolver) flag(argv []string, i int) (name string, words int) {
	word, ok := strings.CutPrefix(argv[i], "--")
	name, _, joined := strings.Cut(word, "=")
	takes, own := r.in.Own[name]
	switch {
	case !ok || !own:
		return "", 1
	case takes && !joined:
		return name, min(2, len(argv)-i)
	}
	return name, 1
}

// trailing warns about launch's own flags after the command where the job has one
// node: there only the command reads them. A torchrun in the arguments of srun has its own.
func (r *resolver) trailing() {
	ours, argv := r.stray()
	if len(ours) == 0 || r.line.TakesPlace() {
		return
	}
	if r.likely() != "" {
		argv = r.in.Argv
	}
	r.note(finding.Warnf("launch starts one node: %s after the command belongs to the command", launcher.Quote(ours)).
		Named("job.command").Do("if it is for launch, put it before the command: %s", r.pasteOf(argv, ours...)))
}

// misplaced refuses launch's own flags among torchrun's options: torchrun would
// take the value of one for the script.
func (r *resolver) misplaced() error {
	var ours []string
	argv, line := r.in.Argv, r.line
	for {
		i := slices.IndexFunc(line.Unknown, func(at int) bool { name, _ := r.flag(argv, at); return name != "" })
		if i < 0 {
			break
		}
		at := line.Unknown[i]
		_, n := r.flag(argv, at)
		ours = append(ours, argv[at:at+n]...)
		argv = slices.Concat(argv[:at], argv[at+n:])
		var err error
		if line, err = launcher.Parse(argv, r.in.Flags.As.V); err != nil {
			break // there is more to fix
		}
	}
	if len(ours) == 0 {
		return nil
	}
	name, _, _ := strings.Cut(ours[0], "=")
	return exit.Errorf(exit.Usage, "%s is a flag of launch, not of %s: put it before %[2]s", name, r.line.Name()).
		Do("%s", r.pasteOf(argv, ours...))
}

// respelled returns the command with the unknown option that may be meant as flag; false: it has no such option.
func (r *resolver) respelled(flag string) (argv []string, ok bool) {
	argv = slices.Clone(r.in.Argv)
	for at, meant := range r.line.Meant {
		if meant == flag {
			name, _, _ := strings.Cut(argv[at], "=")
			argv[at], ok = flag+argv[at][len(name):], true
		}
	}
	return argv, ok
}

// keep warns where --keep-rdzv has no effect.
func (r *resolver) keep() {
	if !r.in.Flags.KeepRdzv {
		return
	}
	why, b := "", r.backend()
	switch {
	case r.line.Kind != launcher.Torchrun:
		why = "the command is not torchrun"
	case b == "" || b == "static":
		why = "torchrun's rendezvous is static"
	case b != "c10d" && !strings.HasPrefix(b, "etcd"):
		why = "launch can keep c10d and etcd, not " + b
	default:
		return
	}
	r.note(finding.Warnf("--keep-rdzv has no effect: %s", why).Named("job.keep-rdzv").
		Do("drop --keep-rdzv, or name torchrun's --rdzv-backend"))
}
