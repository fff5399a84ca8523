package peers

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"launch/internal/finding"
)

func posts(n int, edit func(rank int, p *Post)) []Post {
	out := make([]Post, n)
	for i := range out {
		out[i] = Post{Rank: i, Name: fmt.Sprintf("host%d", i), NProc: "2", Version: "1", Command: "torchrun t.py"}
		if edit != nil {
			edit(i, &out[i])
		}
	}
	return out
}

func TestDecide(t *testing.T) {
	other := func(rank int, nameless bool) func(int, *Post) {
		return func(i int, p *Post) {
			p.Nameless = nameless
			if i == rank {
				p.Command = "torchrun u.py"
			}
		}
	}
	for _, tc := range []struct {
		name  string
		posts []Post
		want  Decision
	}{
		{"all alike", posts(4, nil), Decision{Go: true}},
		{"one has another number of processes", posts(4, func(i int, p *Post) {
			if i == 3 {
				p.NProc = "4"
			}
		}), Decision{Go: true, Findings: finding.Report{{ID: "same.nproc", Nodes: []string{"host3"}, Status: finding.Warn,
			What:   `processes per node differs: 3 of 4 nodes have "2", host3 has "4"`,
			Breaks: "the ranks are unevenly spread; programs that split work by node go wrong", Fix: "use the same command " +
				"line on every node"}}}},
		{"one runs something else in a job that has a name", posts(3, other(2, false)),
			Decision{Go: true, Findings: finding.Report{{ID: "same.command", Nodes: []string{"host2"}, Status: finding.Warn,
				What:   `command differs: 2 of 3 nodes have "torchrun t.py", host2 has "torchrun u.py"`,
				Breaks: "ranks that run different programs wait for each other's collectives", Fix: "use the same command line " +
					"on every node"}}}},
		{"one runs another command where only the store address identifies the job", posts(2, other(1, true)),
			Decision{Unfit: []int{1}, Who: "host1", Findings: finding.Report{{ID: "same.command", Status: finding.Fail,
				Nodes:  []string{"host1"},
				What:   `command differs: 1 of 2 nodes have "torchrun t.py", host1 has "torchrun u.py"`,
				Breaks: "ranks that run different programs wait for each other's collectives",
				Fix: "use the same command line on every node, or name the one job on all of them: --job NAME\n" +
					"if it is another job, give that one its own port: --store HOST:PORT"}}}},
		{"arguments differ on purpose where the scripts are one", posts(3, func(i int, p *Post) {
			p.Nameless, p.Script = true, "9 bytes, sha256 00"
			p.Command = fmt.Sprint("torchrun t.py --out ", i)
		}), Decision{Go: true, Findings: finding.Report{{ID: "same.command", Status: finding.Warn,
			What: `command differs: 1 of 3 nodes have "torchrun t.py --out 0", host1 has "torchrun t.py --out 1", ` +
				`host2 has "torchrun t.py --out 2"`,
			Breaks: "ranks that run different programs wait for each other's collectives",
			Fix:    "use the same command line on every node"}}}},
		{"files with the node's own name", posts(3, func(i int, p *Post) {
			p.Nameless, p.Command = true, "torchrun t.py --out /tmp/"+p.Name+".log"
			p.Place = placeOf(p)
		}), Decision{Go: true}},
		{"a host name that is also a number of processes", posts(2, func(i int, p *Post) {
			p.Names.Host, p.NProc = fmt.Sprint(i+1), fmt.Sprint(i+1)
		}), Decision{Go: true, Findings: finding.Report{{ID: "same.nproc", Status: finding.Warn,
			What:   `processes per node differs: 1 of 2 nodes have "1", host1 has "2"`,
			Breaks: "the ranks are unevenly spread; programs that split work by node go wrong",
			Fix:    "use the same command line on every node"}}}},
		{"one script lies in other folders", posts(3, func(i int, p *Post) {
			p.Script, p.Bare = "9 bytes, sha256 00", "python t.py"
			p.Command = fmt.Sprintf("python /node%d/t.py", i)
		}), Decision{Go: true}},
		{"scripts of one name and other contents", posts(2, func(i int, p *Post) {
			p.Script, p.Bare, p.Nameless = fmt.Sprint("9 bytes, sha256 0", i), "python t.py", true
			p.Command = fmt.Sprintf("python /node%d/t.py", i)
		}), Decision{Unfit: []int{1}, Who: "host1", Findings: finding.Report{{ID: "same.command", Status: finding.Fail,
			Nodes:  []string{"host1"},
			What:   `command differs: 1 of 2 nodes have "python /node0/t.py", host1 has "python /node1/t.py"`,
			Breaks: "ranks that run different programs wait for each other's collectives",
			Fix: "use the same command line on every node, or name the one job on all of them: --job NAME\n" +
				"if it is another job, give that one its own port: --store HOST:PORT"}}}},
		{"rank 0 is one against many", posts(3, other(0, true)),
			Decision{Unfit: []int{1, 2}, Who: "host1, host2", Findings: finding.Report{{ID: "same.command", Status: finding.Fail,
				Nodes:  []string{"host0"},
				What:   `command differs: 2 of 3 nodes have "torchrun t.py", host0 has "torchrun u.py"`,
				Breaks: "ranks that run different programs wait for each other's collectives",
				Fix: "use the same command line on every node, or name the one job on all of them: --job NAME\n" +
					"if it is another job, give that one its own port: --store HOST:PORT"}}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.want.Form = Form
			if diff := cmp.Diff(tc.want, Decide(tc.posts, nil)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A launch whose posts the others misread must leave; one of another version and the same form is a warning.
func TestAnotherLaunch(t *testing.T) {
	for _, tc := range []struct {
		name    string
		version string
		form    int
		unfit   []int
		want    string
	}{
		{"the same", "v2", Form, nil, ""},
		{"another version", "v3", Form, nil, `launch version differs: 2 of 3 nodes have "v2", host2 has "v3"`},
		{"an older form", "v1", Form - 1, []int{2}, "host2 runs an older launch, v1; the others run v2"},
		{"a newer form", "v9", Form + 1, []int{2}, "host2 runs a newer launch, v9; the others run v2"},
	} {
		d := Decide(posts(3, func(i int, p *Post) {
			p.Version, p.Form = "v2", Form
			if i == 2 {
				p.Version, p.Form = tc.version, tc.form
			}
		}), nil)
		got := ""
		if len(d.Findings) > 0 {
			got = d.Findings[0].What
		}
		if got != tc.want || !slices.Equal(d.Unfit, tc.unfit) || d.Go != (tc.unfit == nil) {
			t.Errorf("%s: %q, unfit %v; want %q, %v", tc.name, got, d.Unfit, tc.want, tc.unfit)
		}
	}
	d, other := Decision{Go: true}.OfAnotherForm("host0", "v2")
	if !other || d.Go || d.Unfit[0] != 0 || !strings.Contains(d.Findings[0].What, "host0, which decides for all nodes, ") {
		t.Errorf("an older launch decides: %+v", d)
	}
	if _, other := (Decision{Go: true, Form: Form}).OfAnotherForm("host0", "v2"); other {
		t.Error("this launch's own decision is not read")
	}
}

func TestWhatIsWaivedIsStillTold(t *testing.T) {
	was := Decide(posts(3, func(i int, p *Post) { p.Restarts = map[bool]string{true: "1", false: "0"}[i == 2] }), nil)
	got := was.Waive()
	if was.Go || len(was.Findings) != 1 || was.Findings[0].Status != finding.Fail {
		t.Fatalf("not waived: %+v", was)
	}
	warning := was.Findings[0]
	warning.Status = finding.Warn
	want := Decision{Go: true, Form: Form, Nodes: was.Nodes, Findings: finding.Report{warning}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
