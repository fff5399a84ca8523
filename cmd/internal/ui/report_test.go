package ui

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"launch/fabric"
	"launch/internal/finding"
)

// surveyed returns a check of n nodes. Each node calls the next; the second is unfit,
// and the call from the first to it fails.
func surveyed(n int) Checked {
	s := finding.Survey{Checks: []string{"command.found", "shm.size", "user.<b>x</b>", "gpu.count"}}
	for r := range n {
		node := finding.Surveyed{Rank: r, Name: fmt.Sprintf("host%d (10.0.0.%d)", r, r+1),
			Cells: finding.Cells{finding.Pass, finding.Pass, "", finding.Skip}}
		call := finding.Called{From: r, To: (r + 1) % n}
		if r == 1 {
			node.Unfit, node.Cells = true, finding.Cells{finding.Pass, finding.Warn, finding.Fail, finding.Skip}
		}
		if r == 0 {
			call.Bad = "refused"
		}
		s.Nodes, s.Calls = append(s.Nodes, node), append(s.Calls, call)
	}
	s.Report = finding.Report{
		finding.Warnf("a mount is slow").Named("shm.size").Breaking("it takes longer").Do("mount -o remount /data\ndf /data"),
		finding.Failf("<script>alert(1)</script> & \"more\"").Named("user.<b>x</b>").
			See("/x", "</details><img src=http://evil/>").Do("rm -rf '<x>'"),
	}
	own := append(finding.Report{finding.Passf("found").Named("command.found"),
		finding.Skipf("no GPU").Named("gpu.count")}, s.Report[0])
	return Checked{Survey: s, Own: own, Outcome: Outcome{Job: "job check-x: 5 nodes",
		Node: fabric.Node{Hostname: "host0"}, Version: "v0", At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Took: 1500 * time.Millisecond}}
}

// readPage returns the text of the page of a check.
func readPage(t *testing.T, c Checked) string {
	t.Helper()
	b, err := CheckHTML(c)
	if err != nil {
		t.Fatal(err)
	}
	return wordsOf(t, b)
}

// wordsOf returns the text of a page, which must be well formed and refer to nothing outside.
func wordsOf(t *testing.T, b []byte) string {
	t.Helper()
	if file := os.Getenv("KEEP_PAGE"); file != "" {
		_ = os.WriteFile(file, b, 0o666)
	}
	d := xml.NewDecoder(bytes.NewReader(b))
	d.Strict, d.AutoClose, d.Entity = false, []string{"meta"}, xml.HTMLEntity
	var words strings.Builder
	for {
		tok, err := d.Token()
		if err == io.EOF {
			return words.String()
		}
		if err != nil {
			t.Fatalf("the page is not well formed: %v", err)
		}
		switch e := tok.(type) {
		case xml.CharData:
			words.Write(e)
			words.WriteByte('\n')
		case xml.StartElement:
			if e.Name.Local == "script" || e.Name.Local == "img" || e.Name.Local == "link" {
				t.Errorf("the page has a %s", e.Name.Local)
			}
			for _, a := range e.Attr {
				if (a.Name.Local == "src" || a.Name.Local == "href") || regexp.MustCompile(`url\([^#]`).MatchString(a.Value) {
					t.Errorf("%s %s=%q: an external part", e.Name.Local, a.Name.Local, a.Value)
				}
			}
		}
	}
}

func TestThePageHasAllFindingsAndNoExternalParts(t *testing.T) {
	words := readPage(t, surveyed(5))
	for _, want := range []string{"1 of 5 nodes unfit: host1 (10.0.0.2)", "<script>alert(1)</script> & \"more\"",
		"it takes longer", "mount -o remount /data\ndf /data",
		"</details><img src=http://evil/>", "host3 (10.0.0.4)", "command.found", "1 of 5 calls failed", "refused",
		"2026-01-02 03:04:05 UTC", "launch v0", "checks that every node skipped, not shown: 1"} {
		if !strings.Contains(words, want) {
			t.Errorf("the page does not contain %q", want)
		}
	}
	if strings.Index(words, "alert(1)") > strings.Index(words, "a mount is slow") {
		t.Error("a warning is before the failure")
	}
}

func TestThePageOfOneNodeHasNoPictureOfPeers(t *testing.T) {
	c := surveyed(1)
	c.Calls = nil
	words := readPage(t, c)
	if strings.Contains(words, "Calls between nodes") || !strings.Contains(words, "This node is fit") {
		t.Error(words)
	}
}

func TestAmongManyNodesThoseThatAreAlikeShareARow(t *testing.T) {
	words := readPage(t, surveyed(1000))
	for _, want := range []string{"host1 (10.0.0.2)", "host0 (10.0.0.1) and 998 alike", "998 nodes are not drawn"} {
		if !strings.Contains(words, want) {
			t.Errorf("the page does not contain %q", want)
		}
	}
	if b, _ := CheckHTML(surveyed(1000)); len(b) > 100_000 {
		t.Errorf("%d bytes", len(b))
	}
}

// A link or a device remains: otherwise root would replace /dev/stdout.
func TestMetricsLeaveLinksAndDevices(t *testing.T) {
	dir := t.TempDir()
	link, file := filepath.Join(dir, "link"), filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	read := make(chan []byte)
	go func() {
		b, _ := os.ReadFile(pipe)
		read <- b
	}()
	for _, name := range []string{link, pipe} {
		was, _ := os.Lstat(name)
		if err := WriteMetrics(name, surveyed(1)); err != nil {
			t.Fatal(err)
		}
		if is, err := os.Lstat(name); err != nil || is.Mode() != was.Mode() {
			t.Errorf("%s was %v and is %v", name, was.Mode(), is.Mode())
		}
	}
	b, _ := os.ReadFile(file)
	for name, text := range map[string][]byte{"link": b, "pipe": <-read} {
		if !strings.Contains(string(text), "launch_node_fit") {
			t.Errorf("%s: %q", name, text)
		}
	}
	if err := WriteMetrics(dir, surveyed(1)); err == nil {
		t.Error("a directory was written to")
	}
}

func TestMetricsOfACheck(t *testing.T) {
	file := filepath.Join(t.TempDir(), "launch.prom")
	c := surveyed(3)
	c.Peers, c.NotJudged = []string{"peer.clock", "same.env", "same.nccl"}, []string{"same.nccl"}
	c.Report = append(c.Report, finding.Warnf("clocks").Named("peer.clock"))
	if err := WriteMetrics(file, c); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for line := range strings.Lines(string(b)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && !strings.HasPrefix(line, "#") {
			got[name] = value
		}
	}
	for name, want := range map[string]string{
		`launch_check_status{id="command.found",node="host0"}`: "0", `launch_check_status{id="shm.size",node="host0"}`: "1",
		`launch_check_status{id="gpu.count",node="host0"}`: "-1", `launch_check_status{id="peer.clock",node="host0"}`: "1",
		`launch_check_status{id="same.env",node="host0"}`: "0", `launch_check_status{id="same.nccl",node="host0"}`: "-1",
		`launch_node_fit{node="host0"}`: "1", `launch_check_nodes{node="host0"}`: "3",
		`launch_check_unfit_nodes{node="host0"}`:       "1",
		`launch_check_duration_seconds{node="host0"}`:  "1.5",
		`launch_check_timestamp_seconds{node="host0"}`: "1.767323045e+09",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %s", name, got[name], want)
		}
	}
	if _, of := got[`launch_check_status{id="user.<b>x</b>",node="host0"}`]; of {
		t.Error("a finding of another node counts for this one")
	}
	c.Self = 1
	if err := WriteMetrics(file, c); err != nil {
		t.Fatal(err)
	}
	if b, _ = os.ReadFile(file); !strings.Contains(string(b), `launch_node_fit{node="host0"} 0`) {
		t.Error("an unfit node is fit")
	}
	if WriteMetrics(filepath.Join(t.TempDir(), "no", "x.prom"), c) == nil {
		t.Error("a file in no directory was written")
	}
}

func TestASurveyIsWrittenAsJSON(t *testing.T) {
	var out bytes.Buffer
	New(&out, io.Discard, Options{JSON: true, Env: func(string) string { return "" }}).Survey(surveyed(2))
	var types []string
	for line := range strings.Lines(out.String()) {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatal(err)
		}
		types = append(types, v["type"].(string))
		if v["type"] == "summary" {
			delete(v, "schema")
			if diff := cmp.Diff(map[string]any{"type": "summary", "worst": "fail", "seconds": 1.5, "nodes": 2.0,
				"unfit": []any{"host1 (10.0.0.2)"}}, v); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
	}
	if diff := cmp.Diff([]string{"finding", "finding", "survey", "summary"}, types); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTheSentenceOfACheck(t *testing.T) {
	all := surveyed(2)
	for i := range all.Nodes {
		all.Nodes[i].Unfit = true
	}
	fit := surveyed(2)
	fit.Nodes[1].Unfit = false
	one := surveyed(1)
	for want, c := range map[string]Checked{"this node is fit": one, "all 2 nodes are fit": fit,
		"all 2 nodes are unfit": all, "1 of 2 nodes unfit: host1 (10.0.0.2)": surveyed(2)} {
		if got := c.Sentence(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
