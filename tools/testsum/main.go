// Command testsum reads the output of "go test -json" and prints a summary: a line
// for each package, the output of failed tests, tests that took long, skips with
// their reasons, and "N passed, N failed, N skipped". It counts tests that have no
// subtests. A package that failed without a failed test counts as one failure.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

// slow is the number of seconds after which a test is named when it ends, to show progress.
const slow = 5

// event is a line of "go test -json" (go doc test2json).
type event struct {
	Action     string
	Package    string
	ImportPath string // of build-output, which has no Package
	Test       string
	Elapsed    float64
	Output     string
}

// result is one test, or with an empty name one package.
type result struct {
	action string // "" while it runs
	output strings.Builder
	parent bool
}

type summary struct {
	out     io.Writer
	results map[string]map[string]*result // package, test
	build   strings.Builder               // output of the compiler
	passed  int
	failed  int
	skips   []string
}

func main() { os.Exit(run(os.Stdin, os.Stdout)) }

func run(in io.Reader, out io.Writer) int {
	s := &summary{out: out, results: map[string]map[string]*result{}}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			fmt.Fprintln(out, lines.Text()) // not JSON: from the go command
			continue
		}
		s.add(e)
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintln(out, "testsum:", err)
		s.failed++
	}
	return s.close()
}

func (s *summary) add(e event) {
	if e.Action == "build-output" {
		s.build.WriteString(e.Output)
		return
	}
	if e.Package == "" {
		return
	}
	tests := s.results[e.Package]
	if tests == nil {
		tests = map[string]*result{"": {}}
		s.results[e.Package] = tests
	}
	r := tests[e.Test]
	if r == nil {
		r = &result{}
		tests[e.Test] = r
		for i := range e.Test {
			if p := tests[e.Test[:i]]; e.Test[i] == '/' && p != nil {
				p.parent = true
			}
		}
	}
	switch e.Action {
	case "output":
		r.output.WriteString(e.Output)
	case "pass", "fail", "skip":
		r.action = e.Action
		if e.Test == "" {
			s.endPackage(e, tests)
		} else if e.Elapsed >= slow {
			fmt.Fprintf(s.out, "      %-5s %s (%.0f s)\n", e.Action, e.Test, e.Elapsed)
		}
	}
}

// endPackage counts the tests of a package and prints its failures.
func (s *summary) endPackage(e event, tests map[string]*result) {
	var passed, failed, skipped int
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		r := tests[name]
		if name == "" || r.parent && r.action != "fail" {
			continue
		}
		switch r.action {
		case "pass":
			passed++
		case "skip":
			skipped++
			s.skips = append(s.skips, fmt.Sprintf("%s %s: %s", e.Package, name, reason(r.output.String())))
		default: // failed, or did not end
			if !r.parent {
				failed++
			}
			fmt.Fprintf(s.out, "--- %s %s\n%s", e.Package, name, r.output.String())
		}
	}
	if e.Action == "fail" {
		// The package's own output: a panic, a time limit, output of TestMain.
		fmt.Fprint(s.out, tests[""].output.String(), s.build.String())
		s.build.Reset()
		failed = max(failed, 1)
	}
	if passed+failed+skipped > 0 {
		word := map[bool]string{true: "FAIL", false: "ok"}[failed > 0]
		fmt.Fprintf(s.out, "%-5s %-32s %6.1f s  %d passed, %d failed, %d skipped\n",
			word, e.Package, e.Elapsed, passed, failed, skipped)
	}
	s.passed += passed
	s.failed += failed
}

// close prints the end and returns the exit status.
func (s *summary) close() int {
	for _, pkg := range slices.Sorted(maps.Keys(s.results)) {
		if s.results[pkg][""].action == "" {
			fmt.Fprintf(s.out, "FAIL  %s did not end\n", pkg)
			s.failed++
		}
	}
	if len(s.skips) > 0 {
		fmt.Fprintf(s.out, "\n%d skipped:\n  %s\n", len(s.skips), strings.Join(s.skips, "\n  "))
	}
	fmt.Fprintf(s.out, "\n%d passed, %d failed, %d skipped\n", s.passed, s.failed, len(s.skips))
	if s.failed > 0 || s.passed == 0 {
		return 1
	}
	return 0
}

// logged matches a line of t.Skip: "    file_test.go:12: the reason".
var logged = regexp.MustCompile(`(?m)^\s+\S+\.go:\d+: (.*)$`)

// reason returns why a test was skipped: the last line that it logged.
func reason(output string) string {
	all := logged.FindAllStringSubmatch(output, -1)
	if len(all) == 0 {
		return "no reason given"
	}
	return all[len(all)-1][1]
}
