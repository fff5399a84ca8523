package launcher

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"launch/internal/exit"
)

// elsewhere are programs that start their command in another session, or on another machine: launch would end at once,
// or its variables would not get there.
const elsewhere = "tmux screen systemd-run ssh kubectl oc"

// naming matches an option of them whose value is the name of a session, a window or a unit.
var naming = regexp.MustCompile(`^(?:-[A-Za-z]*[sSun]|--unit|--slice|--description)$`)

// Entry returns where launch has to go in a line whose program starts the command elsewhere: the index of a word, and
// the place in it, which is not 0 in the text of a shell.
func (l Line) Entry() (word, place int, ok bool) {
	for i := l.elsewhere(); i > 0 && i < len(l.Argv); i++ {
		w := l.Argv[i]
		if strings.ContainsAny(w, " \t\n") {
			if place, found, ours := entryIn(w); found {
				return i, place, !ours
			}
			continue
		}
		if path.Base(w) == "launch" {
			return 0, 0, false
		}
		if starts(l.Argv[i:]) && !naming.MatchString(l.Argv[i-1]) {
			return i, 0, true
		}
	}
	return 0, 0, false
}

// elsewhere returns the index of the first word that may be in a command which starts elsewhere; 0: there is no such
// word.
func (l Line) elsewhere() int {
	if l.Kind != Program || l.AsTyped || l.Program >= len(l.Argv) {
		return 0
	}
	name, words := path.Base(l.Argv[l.Program]), l.Argv[l.Program+1:]
	if !slices.Contains(strings.Fields(elsewhere), name) || Placed(strings.Join(words, " ")) {
		return 0
	}
	switch name {
	case "systemd-run":
		if slices.Contains(words, "--scope") { // it then executes the command itself
			return 0
		}
	case "kubectl", "oc":
		end := slices.Index(words, "--")
		if end < 0 || !slices.Contains(words[:end], "exec") {
			return 0
		}
		return l.Program + 1 + end
	}
	return l.Program + 1
}

// starts reports whether a command is a launcher or a Python with arguments.
func starts(argv []string) bool {
	if len(argv) < 2 {
		return false
	}
	name := path.Base(argv[0])
	_, _, ok := findStarter(argv, 0)
	return ok || torchrunName.MatchString(name) || pythonName.MatchString(name)
}

// entryIn returns the place of the first command in a shell's text that has a launcher or a Python. ours: the text has
// launch before it.
func entryIn(text string) (place int, found, ours bool) {
	for _, c := range shellCalls(text) {
		if path.Base(c.argv[0]) == "launch" {
			return 0, true, true
		}
		l, err := Parse(c.argv, "")
		if l.Kind == Mpirun {
			continue
		}
		if err != nil || l.Kind != Program || l.Starter != "" || starts(c.argv[l.Program:]) {
			return c.at, true, false
		}
	}
	return 0, false, false
}

// checkEntry returns the error of a line whose program starts the command elsewhere.
func (l Line) checkEntry() error {
	if _, _, ok := l.Entry(); !ok {
		return nil
	}
	return exit.Errorf(exit.Config, "%s starts the command in another session or on another machine, without the "+
		"variables of launch: each node would train alone", path.Base(l.Argv[l.Program]))
}
