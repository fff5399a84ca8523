package diagnose

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestPage compares docs/causes.md with the table of causes (UPDATE=1 writes it).
func TestPage(t *testing.T) {
	file := filepath.Join("..", "docs", "causes.md")
	got := page()
	all, err := os.ReadFile(file)
	want, logs, _ := bytes.Cut(all, []byte(logPart)) // what follows is written by diagnose/logs
	if os.Getenv("UPDATE") != "" {
		want, err = got, os.WriteFile(file, slices.Concat(got, []byte(logPart), logs), 0o666)
	}
	if err != nil || !bytes.Equal(want, got) {
		t.Errorf("docs/causes.md differs from the table (%v): UPDATE=1 go test ./diagnose -run Page", err)
	}
}

// Each cause has all that the page shows, and is in one group of it.
func TestEveryCauseSaysWhatItIs(t *testing.T) {
	var grouped []Cause
	for _, g := range pageGroups() {
		grouped = append(grouped, g.causes...)
	}
	if !slices.Equal(grouped, Causes()) {
		t.Errorf("the page has %d causes, the table %d", len(grouped), len(Causes()))
	}
	seen := map[string]bool{}
	for _, c := range grouped {
		texts := []string{c.ID, c.Title, c.Sign, c.For, c.Against, c.Do, c.Source}
		if slices.Contains(texts, "") || c.depth == 0 || seen[c.ID] {
			t.Errorf("%s: %q, depth %d, twice: %v", c.ID, texts, c.depth, seen[c.ID])
		}
		seen[c.ID] = true
	}
}

// pageGroup is one section of the page.
type pageGroup struct {
	title  string
	causes []Cause
}

func pageGroups() []pageGroup {
	return []pageGroup{
		{"A process", processCauses},
		{"Nodes and ranks: missing, or with different settings", meetingCauses},
		{"torch's store", storeCauses},
		{"The network between ranks", pathCauses},
		{"Collectives, the end of a job", collectiveCauses},
		{"NCCL, by its RAS service", ncclCauses},
		{"mpirun", mpiCauses},
	}
}

// logPart begins the part of the page that the tables of diagnose/logs give.
const logPart = "\n<!-- Generated from the tables of diagnose/logs"

const pageHead = `<!-- Generated from diagnose.Causes: UPDATE=1 go test ./diagnose -run Page -->
# Why a job hangs, by symptom

"launch doctor" names these causes, with their evidence ([My job hangs](guide/hangs.md)).
Several causes may hold at once. A cause that explains another one hides it.

Without "launch", find what you see in the first table, and compare the evidence of its causes.
The keys are those of torch's store, as torch 2.15 names them. If the job has failed, look for the
words of its log under [What a log says](#what-a-log-says).

## What you see

| you see | causes |
|---|---|
`

func page() []byte {
	var b bytes.Buffer
	b.WriteString(strings.ReplaceAll(pageHead, `"`, "`"))
	rules := sourceOfRules()
	var signs []string
	of := map[string][]string{}
	for _, c := range Causes() {
		if of[c.Sign] == nil {
			signs = append(signs, c.Sign)
		}
		of[c.Sign] = append(of[c.Sign], fmt.Sprintf("[%s](#%s)", c.ID, strings.ReplaceAll(c.ID, ".", "")))
	}
	for _, s := range signs {
		fmt.Fprintf(&b, "| %s | %s |\n", cell(s), strings.Join(of[s], ", "))
	}
	for _, g := range pageGroups() {
		fmt.Fprintf(&b, "\n## %s\n", g.title)
		for _, c := range g.causes {
			fmt.Fprintf(&b, "\n### %s\n\n| %s | |\n|---|---|\n", c.ID, cell(c.Title))
			for _, r := range [][2]string{
				{"you see", c.Sign}, {"evidence for it", c.For}, {"evidence against it", c.Against}, {"what to do", c.Do},
				{"source", c.Source}, {"exit status", statusOf(c, rules)},
			} {
				fmt.Fprintf(&b, "| %s | %s |\n", r[0], cell(r[1]))
			}
		}
	}
	return b.Bytes()
}

// statusOf returns the exit status of launch doctor where this cause is the only one.
func statusOf(c Cause, rules string) string {
	if !strings.Contains(rules, `"`+c.ID+`"`) {
		return "none: launch doctor does not look for this yet"
	}
	switch (*view)(nil).state([]claim{claimed(c.ID, "", "")}) {
	case "hung":
		return "1"
	case "open":
		return "2: what was seen does not decide"
	}
	return "0: the job is slow, and makes progress"
}

// sourceOfRules returns the files that name the causes that they find.
func sourceOfRules() string {
	var all strings.Builder
	files, _ := filepath.Glob("*.go")
	for _, f := range files {
		if text, err := os.ReadFile(f); err == nil && !strings.HasPrefix(f, "cause") && !strings.HasSuffix(f, "_test.go") {
			all.Write(text)
		}
	}
	return all.String()
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
