package main

import (
	"strconv"

	"github.com/urfave/cli/v2"

	"launch/internal/exit"
)

// completeFlag ends a line that a shell wants completed, as urfave/cli has it.
const completeFlag = "--generate-bash-completion"

// complete prints what may follow a line: flags and subcommands, or the place of the command.
func (a *app) complete(own, rest []string) int {
	c := a.cli()
	c.Flags, c.Commands, c.EnableBashCompletion = a.startFlags(), a.subcommands(), true
	line := append([]string{"launch"}, own...)
	if len(rest) > 0 && a.subcommand(rest) == nil {
		a.UI.Print("command " + strconv.Itoa(1+len(own)) + "\n")
		return 0
	}
	_ = c.Run(append(line, rest...))
	return 0
}

// completion prints a script for a shell: launch completes up to the command's
// first word, from there on what the command itself completes.
func (a *app) completion(c *cli.Context) error {
	switch c.Args().First() {
	case "bash":
	case "zsh":
		a.UI.Print("autoload -U +X bashcompinit && bashcompinit\n")
	default:
		return exit.Errorf(exit.Usage, "launch completion supports bash and zsh, not %q", c.Args().First()).
			Do("source <(launch completion bash)")
	}
	a.UI.Print(bashCompletion)
	return nil
}

const bashCompletion = `_launch() {
  local words said cur=${COMP_WORDS[COMP_CWORD]}
  words=("${COMP_WORDS[@]:1:COMP_CWORD-1}")
  [[ $cur == -* ]] && words+=("$cur")
  said=$("${COMP_WORDS[0]}" "${words[@]}" ` + completeFlag + ` 2>/dev/null)
  if [[ $said == "command "* ]]; then
    if declare -F _command_offset >/dev/null; then _command_offset "${said#command }"; fi
    return
  fi
  COMPREPLY=($(compgen -W "$said" -- "$cur"))
  [ ${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -c -- "$cur"))
}
complete -o default -F _launch launch
`
