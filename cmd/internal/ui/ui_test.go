package ui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"launch/fabric"
	"launch/fabric/rail"
	"launch/internal/exit"
	"launch/internal/finding"
	"launch/internal/launcher"
	"launch/rendezvous"
)

func log(o Options) (*UI, *bytes.Buffer, *bytes.Buffer) {
	var out, errs bytes.Buffer
	o.Env = func(string) string { return "" }
	return New(&out, &errs, o), &out, &errs
}

var report = finding.Report{
	finding.Passf("8 x H100").Named("gpu.count"),
	finding.Failf("host0 does not resolve").Named("store.resolves").See("look up host0", "no such host").
		Breaking("this node never finds the others").Do("correct it\nor use an address"),
	finding.Skipf("needs store.resolves").Named("store.answers"),
}

func TestALogOfSeveralNodesNamesThemOnEachLine(t *testing.T) {
	u, _, errs := log(Options{Host: "n1"})
	u.Mix()
	u.Findings(report, false)
	u.Note("%d of %d", 1, 2)
	u.Fail(exit.Error{Code: 69, What: "store unreachable", Fix: "look\nagain"})
	for l := range strings.Lines(errs.String()) {
		if !strings.HasPrefix(l, "launch: ") || !strings.Contains(l, " n1") {
			t.Errorf("the line %q does not name the node", l)
		}
	}
	for _, want := range []string{"launch: fail store.resolves  n1: host0 does not resolve\n", "launch: n1: 1 of 2\n",
		"launch: error: n1: store unreachable\n", "launch: hint:  n1: again\n"} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("no line %q in\n%s", want, errs)
		}
	}
}

func TestALogGetsPlainLines(t *testing.T) {
	u, out, errs := log(Options{Host: "n1"})
	u.Status("waiting") // a line that is redrawn has no place in a log
	u.Findings(report, false)
	u.Note("%d of %d", 1, 2)
	u.Fail(exit.Error{Code: 69, What: "store unreachable", Fix: "look\nagain"})
	want := `launch: fail store.resolves  host0 does not resolve
launch:      store.resolves  n1  seen    look up host0: no such host
launch:      store.resolves  n1  breaks  this node never finds the others
launch:      store.resolves  n1  fix     correct it
launch:      store.resolves  n1          or use an address
launch: 1 of 2
launch: error: store unreachable
launch: hint:  look
launch: hint:  again
`
	if diff := cmp.Diff(want, errs.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if out.Len() > 0 {
		t.Errorf("stdout is for data, and a log has no data: %q", out)
	}
}

// A line of a log collector says when and where it was printed. A value's own field of that name remains.
func TestJSONLinesOnStderrSayWhereTheyAreFrom(t *testing.T) {
	u, out, errs := log(Options{JSON: true, Host: "n1"})
	u.Note("before")
	u.Know("j", 3)
	u.Findings(report[1:2], false)
	u.Emit(false, "start", map[string]any{"job": "its own"})
	u.Emit(true, "job", Job{ID: "j"})
	var got []map[string]any
	for l := range strings.Lines(errs.String()) {
		var v map[string]any
		if err := json.Unmarshal([]byte(l), &v); err != nil {
			t.Fatal(err)
		}
		if at, err := time.Parse(time.RFC3339Nano, fmt.Sprint(v["time"])); err != nil || time.Since(at) > time.Minute {
			t.Errorf("%s: %v", l, err)
		}
		got = append(got, map[string]any{"host": v["host"], "job": v["job"], "rank": v["rank"]})
	}
	want := []map[string]any{{"host": "n1", "job": nil, "rank": nil}, {"host": "n1", "job": "j", "rank": 3.0},
		{"host": "n1", "job": "its own", "rank": 3.0}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if strings.Contains(out.String(), "n1") {
		t.Errorf("data is as it was asked for: %s", out)
	}
}

func TestEveryJSONLineHasATypeAndASchema(t *testing.T) {
	u, out, errs := log(Options{JSON: true})
	u.Findings(report, true)
	u.Note("text")
	u.Fail(exit.Error{Code: 69, What: "w"})
	u.Report(report, 0)
	u.Emit(true, "job", Job{ID: "j"})
	for _, l := range strings.Split(strings.TrimSpace(errs.String()+out.String()), "\n") {
		var v struct {
			Type   string
			Schema int
		}
		if err := json.Unmarshal([]byte(l), &v); err != nil || v.Type == "" || v.Schema != 1 {
			t.Errorf("%s: %v", l, err)
		}
	}
	if n := strings.Count(out.String(), "\n"); n != 5 {
		t.Errorf("%d lines of data, want 3 findings, a summary and a job:\n%s", n, out)
	}
}

// Control characters that another node sends are shown escaped.
func TestTextOfOtherNodesCannotControlTheTerminal(t *testing.T) {
	const evil = "a\x1b[2Jb\nlaunch: \u202eall is well\x9b\r"
	u, out, errs := log(Options{})
	u.Note("%s left", evil)
	u.Findings(finding.Report{{ID: "x" + evil, Status: finding.Fail + evil, What: evil, Breaks: evil, Fix: evil,
		Seen: []finding.Seen{{Where: evil, What: evil}}}}, true)
	u.Fail(exit.Error{What: evil, Fix: evil})
	u.Job(Job{
		ID: evil, Epoch: rendezvous.Epoch{State: evil},
		Places: []rendezvous.Place{{Partner: rendezvous.Partner{ID: "1", Name: evil}},
			{Partner: rendezvous.Partner{ID: "2", Name: evil}}},
		Members: []rendezvous.Member{{ID: "2", Host: evil, Phase: evil}, {ID: "3", Host: evil, Phase: evil}},
	})
	text := errs.String() + out.String()
	if strings.ContainsAny(text, "\x1b\u009b\u202e\r") {
		t.Errorf("a terminal would interpret %q", text)
	}
	if !strings.Contains(text, `launch: a\x1b[2Jb; launch: \u202eall is well`) ||
		strings.Contains(text, "\nlaunch: \\u202e") {
		t.Errorf("the text is not on one line: %q", text)
	}
}

// A page or a file of metrics that is printed on a terminal does not control it.
func TestAPageHasNoControlCharacters(t *testing.T) {
	const evil = "a\x1b[2Jb\u009b\u202ec\x00\u2066\x7f ü"
	c := surveyed(2)
	c.Node.Hostname = evil
	c.Report = append(c.Report, finding.Finding{ID: "x", Status: finding.Fail, What: evil, Breaks: evil, Fix: evil,
		Seen: []finding.Seen{{Where: evil, What: evil}}})
	b, err := CheckHTML(c)
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := textOf(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{string(b), metrics} {
		if i := strings.IndexFunc(text, func(r rune) bool {
			return unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r)
		}); i >= 0 {
			t.Errorf("%q", text[max(0, i-20):i+20])
		}
		if !strings.Contains(text, " ü") {
			t.Error("a letter is missing")
		}
	}
}

// JSON that is looked at on a terminal does not control it, and is the same text.
func TestJSONHasNothingThatATerminalInterprets(t *testing.T) {
	const evil = "a\x1b[2J\u009b2J \u202ell\u2066x\x7f \U000e0001 ü"
	u, out, _ := log(Options{JSON: true})
	u.Emit(true, "x", map[string]string{"text": evil})
	for _, r := range out.String() {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Errorf("%U in %q", r, out.String())
		}
	}
	var back struct{ Text string }
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || back.Text != evil {
		t.Errorf("got %q, %v", back.Text, err)
	}
}

func TestALineThatIsCutEndsWithAnEllipsis(t *testing.T) {
	cuts := map[string]string{"waiting": "waiting", "waiting…": "waiting…", "waiting for": "waiting…"}
	for text, want := range cuts {
		if got := cut(text, 8); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	if got := cut("text", -3); got != "…" {
		t.Errorf("no room: got %q", got)
	}
}

func TestColumnsAreAsWideAsTheLongestWord(t *testing.T) {
	u, out, _ := log(Options{})
	u.Report(append(report, finding.Passf("fine").Named("command.executable")), 0)
	want := "launch: ok   gpu.count           8 x H100\n"
	if !strings.HasPrefix(out.String(), want) || !strings.Contains(out.String(), "command.executable  fine\n") {
		t.Errorf("got:\n%swant first:\n%s", out, want)
	}
	out.Reset()
	u.changes([]launcher.Change{{New: "--master_addr=<from rendezvous>", Reason: "r1"}, {New: "--n=1", Reason: "r2"},
		{Old: strings.Repeat("x", 60), Reason: "r3"}})
	want = `  + --master_addr=<from rendezvous>  r1
  + --n=1                            r2
  - ` + strings.Repeat("x", 60) + "  r3\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAddressesStayWholeOnATerminal(t *testing.T) {
	n := fabric.Node{Interfaces: []fabric.Interface{{Name: "eth0",
		Addrs: []netip.Prefix{netip.MustParsePrefix("10.0.0.5/24"), netip.MustParsePrefix("fd00::5/64")}}}}
	u, out, _ := log(Options{})
	u.Fabric(n, rail.Fabric{})
	if !strings.Contains(out.String(), "10.0.0.5/24 fd00::5/64\n") {
		t.Errorf("a log has an interface on one line:\n%s", out)
	}
	out.Reset()
	u.outWidth = 80
	u.Fabric(n, rail.Fabric{})
	if !strings.Contains(out.String(), "10.0.0.5/24\n") || !strings.Contains(out.String(), " fd00::5/64\n") {
		t.Errorf("two addresses on one line:\n%s", out)
	}
}

func TestWrapKeepsWordsAndWidth(t *testing.T) {
	text := "the store's host does not resolve yet and-a-word-longer-than-the-width retrying"
	lines := wrap(text, 24)
	if got := strings.Join(lines, " "); got != text {
		t.Errorf("words were lost: %q", got)
	}
	for _, l := range lines {
		if len(l) > 24 && strings.Contains(l, " ") {
			t.Errorf("%q is wider than 24", l)
		}
	}
	if got := wrap(text, 0); len(got) != 1 {
		t.Errorf("a log was wrapped: %q", got)
	}
}

func TestACommandInAFixIsNotBroken(t *testing.T) {
	u, _, errs := log(Options{})
	u.width = 80
	const command = "mount -o remount,size=64G,nr_inodes=1000000,huge=within_size,mode=1777 /dev/shm"
	const prose = "raise the limit of the container and start launch with the same line on the nodes of this job"
	u.Findings(finding.Report{finding.Failf("x").Named("shm.size").Do(command + "\n" + prose)}, true)
	u.Fail(exit.Error{What: "x", Fix: command})
	if n := strings.Count(errs.String(), command+"\n"); n != 2 {
		t.Errorf("%d of 2 commands are whole:\n%s", n, errs)
	}
	for line := range strings.Lines(errs.String()) {
		if len(line) > 80 && !strings.Contains(line, command) {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	if strings.Contains(errs.String(), prose) {
		t.Errorf("a sentence was not wrapped:\n%s", errs)
	}
}

func TestMissingNamesTheNodesThatHaveNotJoined(t *testing.T) {
	for _, tc := range []struct {
		joined  int
		names   []string
		indexes []int
		hosts   []string
		want    string
	}{
		{1, []string{"a"}, []int{1, 2}, nil, "node 1, 2"},
		{2, []string{"a"}, []int{1}, []string{"n0", "n1"}, "node 1 (n1)"},
		{1, []string{"a"}, []int{1}, nil, "node 1, 1 more"},
		{1, []string{"a"}, nil, nil, "2 more (joined: a)"},
		{2, []string{"a"}, nil, nil, "1 more (joined: a, 1 more)"},
		{0, nil, nil, nil, "3 more (joined: no node)"},
	} {
		a := rendezvous.Attendance{Joined: tc.joined, Want: 3, Here: tc.names, Missing: tc.indexes}
		if got := Missing(a, tc.hosts); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
}

func TestUnfitNodesWithOneReasonAreNamedTogether(t *testing.T) {
	note := func(name, text string) rendezvous.Note { return rendezvous.Note{Name: name, Text: text} }
	for _, tc := range []struct {
		notes []rendezvous.Note
		more  int
		want  string
	}{
		{[]rendezvous.Note{note("node 3 vm (10.0.0.7)", "gpu.count: 7 GPUs, 8 asked")}, 0,
			"node 3 vm (10.0.0.7) is unfit: gpu.count: 7 GPUs, 8 asked"},
		{[]rendezvous.Note{note("a", "x"), note("b", "y"), note("c", "x")}, 1,
			"a, c are unfit: x; b is unfit: y; 1 more node is unfit"},
		{[]rendezvous.Note{note("a", "x")}, 7, "a is unfit: x; 7 more nodes are unfit"},
	} {
		if got := Unfit(tc.notes, tc.more); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
		e := rendezvous.Event{Kind: rendezvous.Progress, Attendance: &rendezvous.Attendance{Joined: 1, Want: 2,
			Here: []string{"z"}, Unfit: tc.notes, More: tc.more}}
		want := "1 of 2 nodes joined; waiting for 1 more (joined: z); " + tc.want + "; waiting for a fix or a replacement"
		if got := Event(e); got != want {
			t.Errorf("the progress is %q, want %q", got, want)
		}
	}
}

// short is a writer that accepts the given number of bytes.
type short int

func (s *short) Write(b []byte) (int, error) {
	if len(b) > int(*s) {
		return 0, io.ErrShortWrite
	}
	*s -= short(len(b))
	return len(b), nil
}

func TestDataThatWasNotWrittenIsRemembered(t *testing.T) {
	for _, json := range []bool{false, true} {
		out := short(200)
		u := New(&out, io.Discard, Options{JSON: json, Env: func(string) string { return "" }})
		u.Note("a note is no data")
		if u.Report(report, 0); u.Unwritten() == nil {
			t.Errorf("json %v: a report is longer than 200 bytes, and Unwritten is nil", json)
		}
		out = 1 << 20
		if u.Report(report, 0); u.Unwritten() == nil {
			t.Errorf("json %v: Unwritten forgot an error", json)
		}
	}
	u, _, _ := log(Options{})
	if u.Report(report, 0); u.Unwritten() != nil {
		t.Errorf("all was written: %v", u.Unwritten())
	}
}

func TestSkipsWithOneReasonAreOneRow(t *testing.T) {
	r := finding.Report{finding.Skipf("no GPU").Named("gpu.a"), finding.Passf("fine").Named("b"),
		finding.Skipf("no GPU").Named("gpu.c"), finding.Skipf("other").Named("d")}
	looked, skipped := apart(r)
	if len(looked) != 2 || looked[0].ID != "b" || looked[1].ID != "d" || len(skipped) != 1 ||
		skipped[0].ID != "gpu.a, gpu.c" {
		t.Errorf("got %+v and %+v", looked, skipped)
	}
}
