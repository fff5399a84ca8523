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
	shell := c.Args().First()
	script, ok := map[string]string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}[shell]
	if !ok {
		return exit.Errorf(exit.Usage, "launch completion supports bash, zsh and fish, not %q", shell).
			Do("source <(launch completion bash)")
	}
	a.UI.Print(script)
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

// zshCompletion may be sourced, or be the file _launch in a folder of $fpath.
const zshCompletion = `#compdef launch
_launch() {
  local said n
  local -a own found
  own=("${(@)words[2,CURRENT-1]}")
  [[ ${words[CURRENT]} == -* ]] && own+=("${words[CURRENT]}")
  said="$("${words[1]}" "${own[@]}" ` + completeFlag + ` 2>/dev/null)"
  if [[ $said == "command "* ]]; then
    n=${said#command }
    words=("${(@)words[n+1,-1]}")
    (( CURRENT -= n ))
    _normal
    return
  fi
  found=("${(@f)said}")
  compadd -a found || _command_names -e || _files
}
if [[ ${funcstack[1]} == _launch ]]; then _launch "$@"; else compdef _launch launch; fi
`

const fishCompletion = `function __launch_complete
    set -l line (commandline -opc)
    set -l cur (commandline -ct)
    set -l program $line[1]
    set -l own $line[2..-1]
    string match -q -- '-*' $cur; and set -a own $cur
    set -l said ($program $own ` + completeFlag + ` 2>/dev/null)
    if string match -q -- 'command *' $said[1]
        set -l rest $line[(math 1 + (string replace 'command ' '' -- $said[1]))..-1] $cur
        complete -C "$rest"
    else
        printf '%s\n' $said
    end
end
complete -c launch -a '(__launch_complete)'
`
