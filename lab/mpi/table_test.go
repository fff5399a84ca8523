package mpi

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// result is one start, for the table.
type result struct {
	outcome
	Case, MPI, Side string
	Whole           bool   // one world, of all ranks
	Names           bool   // the host
	Bad             string // what was wrong with launch's outcome; the table judges anew
}

// results is the directory of the results: one file for each, so that sides and cases may be run apart.
func results() string { return filepath.Join(repository(), "bin", "mpibench") }

// there reports whether a case has a result that is to remain.
func there(name, mpi, side string) bool {
	_, err := os.Stat(file(name, mpi, side))
	return err == nil && slices.Contains(asked, "missing")
}

func file(name, mpi, side string) string {
	return filepath.Join(results(), dashed(strings.Join([]string{name, mpi, side}, "_"))+".json")
}

func (r result) write(t *testing.T) {
	t.Helper()
	text, err := json.MarshalIndent(r, "", " ")
	if err == nil {
		err = os.WriteFile(file(r.Case, r.MPI, r.Side), text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func itoa(n int) string { return strconv.Itoa(n) }

// cell is the outcome in few words: seconds, exit status, whether the host is named.
func (r result) cell() string {
	switch {
	case r.Side == "":
		return "-"
	case r.Cut:
		return fmt.Sprintf("hangs%s", named(r.Names))
	case r.Whole && r.Names:
		return fmt.Sprintf("runs, %.0f s, named", r.Seconds)
	case r.Whole:
		return fmt.Sprintf("runs, %.0f s", r.Seconds)
	case strings.Contains(r.Said, "a world of "):
		return fmt.Sprintf("wrong worlds, exit %d", r.Exit)
	}
	if r.Exit < 0 {
		return fmt.Sprintf("%.0f s, a signal%s", r.Seconds, named(r.Names))
	}
	return fmt.Sprintf("%.0f s, exit %d%s", r.Seconds, r.Exit, named(r.Names))
}

func named(is bool) string {
	if is {
		return ", named"
	}
	return ""
}

// color matches what makes a word red at a terminal.
var color = regexp.MustCompile("\x1b\\[[0-9;]*m")

// words returns the last words of a plain start, and of launch the line that has the finding.
func (r result) words() string {
	lines := r.useful()
	if len(lines) == 0 {
		return "(nothing)"
	}
	said := lines[len(lines)-1]
	for _, line := range lines {
		line = strings.TrimPrefix(color.ReplaceAllString(line, ""), "launch: ")
		if r.Side == launchSide && (strings.HasPrefix(line, "fail ") || strings.HasPrefix(line, "warn ")) {
			said = line
			break
		}
	}
	said = strings.ReplaceAll(strings.Join(strings.Fields(said), " "), "|", "\\|")
	if len(said) > 120 {
		said = said[:120] + "…"
	}
	return said
}

// printTable writes the table for docs/benchmarks.md from all results that are there.
func printTable(w io.Writer) {
	all := map[[3]string]result{}
	files, _ := filepath.Glob(filepath.Join(results(), "*.json"))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		var r result
		if json.Unmarshal(text, &r) == nil {
			all[[3]string{r.Case, r.MPI, r.Side}] = r
		}
	}
	for _, side := range []string{plainSide, launchSide} {
		fmt.Fprintf(w, "\n%s\n\n| fault | %s | words |\n|%s\n", side, strings.Join(Each, " | "),
			strings.Repeat("---|", len(Each)+2))
		for _, f := range allFaults() {
			row, words := "| "+f.name, ""
			for _, mpi := range Each {
				r := all[[3]string{f.name, mpi, side}]
				row += " | " + r.cell()
				if words == "" && r.Side != "" {
					words = r.words()
				}
				if side == launchSide && r.Side != "" {
					if bad := f.judge(mpi, r.outcome, r.Names); bad != "" {
						row += " **" + bad + "**"
					}
				}
			}
			if words != "" {
				fmt.Fprintf(w, "%s | %s |\n", row, words)
			}
		}
	}
}
