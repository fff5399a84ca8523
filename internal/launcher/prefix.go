package launcher

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// prefix is a program that runs the rest of its line as a command. short follows getopt: a letter, with
// ':' after it if it takes a value. long names have '=' if they take one, '[' if only as --name=value.
type prefix struct {
	names       string // space-separated
	sub         string // "run" in uv run, "profile" in nsys profile
	short, long string
	values      bool   // every option not in short or long takes a value
	words       int    // positionals before the command: taskset's mask
	until       string // the command follows this argument, and nothing else is parsed
	assigns     bool   // env: NAME=VALUE before the command
	resets      bool   // sudo: the command has another environment, without -E
	module      bool   // -m/--module takes the command's module, as python's does
	numbers     bool   // -10 is an option: nice
}

// prefixes returns the programs whose lines launch can parse reliably; an option that is not in a
// row ends the search, and the line counts as a plain program. Containers are wrappers: their command runs in
// another file system.
func prefixes() []prefix {
	return []prefix{
		{names: "env", short: "i0vu:C:", assigns: true,
			long: "ignore-environment null debug unset= chdir= block-signal[ default-signal[ ignore-signal[ " +
				"list-signal-handling"},
		{names: "sudo", short: "ABbEHnkPSC:D:g:p:R:r:T:t:u:", assigns: true, resets: true,
			long: "askpass bell background preserve-env preserve-env[ set-home non-interactive preserve-groups stdin " +
				"reset-timestamp close-from= chdir= group= prompt= chroot= role= command-timeout= type= user="},
		{names: "numactl", short: "abli:m:N:C:p:w:P:",
			long: "all balancing localalloc interleave= membind= cpunodebind= physcpubind= preferred= " +
				"weighted-interleave= preferred-many="},
		{names: "taskset", short: "ac", long: "all-tasks cpu-list", words: 1},
		{names: "nice", short: "n:", long: "adjustment=", numbers: true},
		{names: "ionice", short: "c:n:t", long: "class= classdata= ignore"},
		{names: "chrt", short: "bdfiorRvaT:P:D:", words: 1,
			long: "batch deadline fifo idle other rr reset-on-fork verbose all-tasks sched-runtime= " +
				"sched-period= sched-deadline="},
		{names: "stdbuf", short: "i:o:e:", long: "input= output= error="},
		{names: "time gtime", short: "apvqf:o:", long: "append portability verbose quiet format= output="},
		{names: "timeout", short: "fpvk:s:", long: "foreground preserve-status verbose kill-after= signal=", words: 1},
		{names: "nohup"},
		{names: "setsid", short: "cfw", long: "ctty fork wait"},
		{names: "strace", short: "cCdfFhiknqrtTvVwxyYzZDAa:b:e:E:I:o:O:p:P:s:S:u:U:X:",
			long: "follow-forks output-separately output= trace= string-limit= decode-fds[ stack-traces " +
				"summary-only timestamps[ absolute-timestamps[ relative-timestamps[ syscall-times[ seccomp-bpf"},
		{names: "gdb cuda-gdb", until: "--args"},
		{names: "nsys", sub: "profile", short: "h", long: "help", values: true},
		{names: "nsys", sub: "launch", short: "h", long: "help", values: true},
		{names: "ncu nv-nsight-cu-cli", short: "fh", values: true,
			long: "force-overwrite nvtx csv call-stack disable-extra-suffixes quiet help"},
		{names: "compute-sanitizer cuda-memcheck", short: "hV", values: true},
		{names: "py-spy", sub: "record", until: "--"},
		{names: "rocprof", short: "i:o:d:t:m:",
			long: "stats hip-trace hsa-trace sys-trace roctx-trace hip-api kernel-trace timestamp= " +
				"basenames= obj-tracking= tool-version="},
		{names: "rocprofv3", until: "--"},
		{names: "uv", sub: "run", short: "nqvs" + "p:w:f:i:P:C:", long: uvLong, module: true},
		{names: "conda mamba micromamba", sub: "run", short: "vsn:p:",
			long: "verbose no-capture-output live-stream dev debug-wrapper-scripts name= prefix= cwd="},
		{names: "poetry", sub: "run", short: "nqvC:P:",
			long: "no-interaction quiet verbose no-cache no-plugins ansi no-ansi directory= project="},
		{names: "pipenv", sub: "run", short: "vq", long: "verbose quiet"},
		{names: "pixi", sub: "run", short: "xnhvqe:p:m:",
			long: "executable environment= platform= clean-env skip-deps templated manifest-path= frozen locked as-is " +
				"no-install no-lockfile-update revalidate verbose quiet color= no-progress no-config config-file="},
		{names: "hatch", sub: "run", short: "e:p:vq", long: "env= project= verbose quiet"},
	}
}

const uvLong = "" +
	"all-extras all-groups no-dev dev only-dev no-default-groups no-editable inexact exact isolated active " +
	"no-sync locked frozen no-project no-config no-cache no-index offline quiet verbose no-progress " +
	"native-tls system-certs managed-python no-managed-python no-env-file all-packages script gui-script " +
	"upgrade reinstall refresh compile-bytecode no-sources no-build no-binary no-build-isolation extra= " +
	"no-extra= group= no-group= only-group= env-file= with= with-editable= with-requirements= package= " +
	"python= directory= project= config-file= cache-dir= color= index= default-index= index-url= " +
	"extra-index-url= find-links= index-strategy= keyring-provider= resolution= prerelease= fork-strategy= " +
	"exclude-newer= link-mode= upgrade-package= reinstall-package= refresh-package= config-setting= " +
	"python-platform= allow-insecure-host="

var (
	torchrunName = regexp.MustCompile(`^torchrun(-?[0-9]+(\.[0-9]+)*)?$`)
	pythonName   = regexp.MustCompile(`^python([0-9]+(\.[0-9]+)?t?)?$`)
	mpirunName   = regexp.MustCompile(`^(mpirun|mpiexec|orterun|prterun)(\.(openmpi|mpich|hydra))?$`)
)

// Assigned returns a command in the form of env(1) where words NAME=VALUE precede it, as a shell takes them.
func Assigned(argv []string) []string {
	i := slices.IndexFunc(argv, func(w string) bool { return !assignment.MatchString(w) })
	if i < 1 {
		return argv
	}
	return slices.Concat([]string{"env"}, argv)
}

// locate finds the launcher after the prefixes. module is what a Python runs:
// torch.distributed.launch adds an option of its own. notes are for a plain program.
func (l *Line) locate() (module string, notes []string) {
	for l.At < len(l.Argv) {
		l.Program = l.At
		base := path.Base(l.Argv[l.At])
		switch {
		case torchrunName.MatchString(base):
			l.Kind = Torchrun
			return "", nil
		case base == ftName:
			l.Kind, l.FT = Torchrun, true
			return ftModule, nil
		case l.start(l.At):
			return "", nil
		case mpirunName.MatchString(base):
			l.Kind = Mpirun
			return "", nil
		case pythonName.MatchString(base):
			return l.python(), nil
		}
		s, title, known := l.scanPrefix(base)
		if title == "" {
			if known {
				notes = append(notes, "launch does not see where the command after "+base+" begins: write "+
					"options of "+base+" as --option=value, or put launch after "+base)
			}
			l.Hint = l.hint()
			return "", notes
		}
		if s.module {
			l.Program = s.at
			return l.pythonModule(s.argv[s.at], s.at, title+" -m"), nil
		}
		l.Prefix, l.Env, l.At = append(l.Prefix, title), s.env, s.at
	}
	return "", nil
}

// scanPrefix tries the rows of a program name; title is "" if none fits, and known
// reports whether there is a row.
func (l *Line) scanPrefix(base string) (s scan, title string, known bool) {
	for _, p := range prefixes() {
		if !slices.Contains(strings.Fields(p.names), base) {
			continue
		}
		s = scan{argv: l.Argv, at: l.At + 1, env: l.Env}
		if s.prefix(p) && s.at < len(l.Argv) {
			return s, p.title(), true
		}
		known = known || p.sub == "" || slices.Contains(l.Argv[l.At+1:], p.sub)
	}
	return scan{}, "", known
}

func (p prefix) title() string {
	name, _, _ := strings.Cut(p.names, " ")
	return strings.TrimSpace(name + " " + p.sub)
}
