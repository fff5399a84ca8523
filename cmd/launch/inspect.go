package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/urfave/cli/v2"

	"launch/cmd/internal/record"
	"launch/cmd/internal/ui"
	"launch/fabric/rail"
	"launch/internal/exit"
	"launch/internal/job"
	"launch/internal/setting"
)

// version and commit are set by the Makefile with -X: the build itself does
// not ask git, so that it is the same from any folder.
var (
	version = "dev"
	commit  = "unknown"
)

func versionText() string { return version + " " + commit }

// version prints what this build is and what it can do.
func (a *app) version(c *cli.Context) error {
	flags := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			flags[s.Key] = s.Value
		}
	}
	cgo := flags["CGO_ENABLED"] == "1"
	if a.ui.JSON() {
		a.ui.Emit(true, "version", map[string]any{"version": version, "commit": commit, "go": runtime.Version(),
			"os": runtime.GOOS, "arch": runtime.GOARCH, "cgo": cgo, "flags": flags})
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "launch %s (commit %s)\n%s %s/%s", version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	for _, k := range []string{"-tags", "-ldflags", "-trimpath", "-race", "CGO_ENABLED", "GOAMD64"} {
		if flags[k] != "" {
			fmt.Fprintf(&b, " %s=%s", k, flags[k])
		}
	}
	b.WriteByte('\n')
	if !cgo {
		b.WriteString("built without cgo; it lacks:\n" +
			"  GPUs         NVML is not asked: the number of GPUs is not checked\n" +
			"  verbs        libibverbs is not opened\n" +
			"  signals      ignored or blocked signals other than HUP and INT are not passed on\n" +
			"  nofile       the inherited limit of open files is not known\n")
	}
	a.ui.Print(b.String())
	return nil
}

// look resolves the job and gathers this node's facts.
func (a *app) look(c *cli.Context) (s record.Start, err error) {
	if s.Job, err = a.job(c.Args().Slice()); err != nil {
		return s, err
	}
	s.Node = a.detect(c.Context, s.Job)
	s.Input = a.planInput(c.Context, s.Job, s.Node)
	return s, nil
}

// fabric prints what this node has.
func (a *app) fabric(c *cli.Context) error {
	n, err := a.recorded(c.Context, job.Job{Nodes: setting.Value[int]{V: 2}}) // as for a job of several nodes: the host name counts
	if err != nil {
		return err
	}
	f := rail.Of(n, n.Route.Src)
	if a.o.svg != "" {
		if err := os.WriteFile(a.o.svg, ui.FabricSVG(n, f), 0o666); err != nil {
			return cannotWrite(a.o.from("svg"), a.o.svg, err)
		}
	}
	a.ui.Fabric(n, f)
	return nil
}

// completion prints a script for a shell: flags and subcommands up to the
// command's first word, from there on what the command itself completes.
func (a *app) completion(c *cli.Context) error {
	var words, takes []string
	for _, f := range startFlags(&options{}) {
		words = append(words, "--"+f.Names()[0])
		if ownFlags()[f.Names()[0]] {
			takes = append(takes, "--"+f.Names()[0])
		}
	}
	for _, s := range a.subcommands() {
		words = append(words, s.Name)
	}
	switch c.Args().First() {
	case "bash":
	case "zsh":
		a.ui.Print("autoload -U +X bashcompinit && bashcompinit\n")
	default:
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("completion for which shell? bash or zsh, not %q", c.Args().First()), Fix: "source <(launch completion bash)"}
	}
	a.ui.Print(fmt.Sprintf(bashCompletion, strings.Join(takes, "|"), strings.Join(words, " ")))
	return nil
}

const bashCompletion = `_launch() {
  local i=1 w
  while [ $i -lt $COMP_CWORD ]; do
    w=${COMP_WORDS[i]}
    case $w in
      %s) i=$((i+2)) ;;
      -*) i=$((i+1)) ;;
      *) if declare -F _command_offset >/dev/null; then _command_offset $i; fi; return ;;
    esac
  done
  COMPREPLY=($(compgen -W "%s" -- "${COMP_WORDS[COMP_CWORD]}"))
  [ ${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -c -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _launch launch
`
