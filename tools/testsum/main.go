// Command testsum reads the output of "go test -json" and prints a summary: a line
// for each package, the output of failed tests, tests that took long, skips with
// their reasons, and "N passed, N failed, N skipped". It counts tests that have no
// subtests. A package that failed without a failed test counts as one failure.
//
// With -again FILE it writes there, a line each, "package ^Test$" of the tests that may be tried
// again alone: where at most three failed, and none by a panic, a race or a time limit.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
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
	again   []string // "package ^Test$"
	broken  bool     // something failed that no second try excuses
}

// few is the number of failed tests that may be tried again.
const few = 3

func main() {
	again := flag.String("again", "", "`file` for the tests that may be tried again")
	flag.Parse()
	code, names := run(os.Stdin, os.Stdout)
	if *again != "" && len(names) > 0 {
		if err := os.WriteFile(*again, []byte(strings.Join(names, "\n")+"\n"), 0o600); err != nil {
			fmt.Fprintln(os.Stderr, "testsum:", err)
		}
	}
	os.Exit(code)
}

// run returns the exit status, and which tests may be tried again.
func run(in io.Reader, out io.Writer) (code int, again []string) {
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
		s.broken = true
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
			s.retry(e.Package, name, r)
		}
	}
	if e.Action == "fail" {
		s.broken = s.broken || failed == 0
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

// retry notes the top-level test of a failed one.
func (s *summary) retry(pkg, name string, r *result) {
	text := r.output.String()
	if r.action != "fail" || strings.Contains(text, "panic:") || strings.Contains(text, "DATA RACE") {
		s.broken = true
		return
	}
	top, _, _ := strings.Cut(name, "/")
	if line := pkg + " ^" + top + "$"; !slices.Contains(s.again, line) {
		s.again = append(s.again, line)
	}
}

// close prints the end and returns the exit status, and which tests may be tried again.
func (s *summary) close() (code int, again []string) {
	for _, pkg := range slices.Sorted(maps.Keys(s.results)) {
		if s.results[pkg][""].action == "" {
			fmt.Fprintf(s.out, "FAIL  %s did not end\n", pkg)
			s.failed++
			s.broken = true
		}
	}
	if len(s.skips) > 0 {
		fmt.Fprintf(s.out, "\n%d skipped:\n  %s\n", len(s.skips), strings.Join(s.skips, "\n  "))
	}
	fmt.Fprintf(s.out, "\n%d passed, %d failed, %d skipped\n", s.passed, s.failed, len(s.skips))
	switch {
	case s.failed == 0 && s.passed > 0:
		return 0, nil
	case s.broken || len(s.again) > few:
		return 1, nil
	}
	return 1, s.again
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
