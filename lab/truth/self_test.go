package truth

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"launch/lab/netns"
	"launch/lab/starts"
)

func TestASeedReplaysItsDraw(t *testing.T) {
	for seed := range 300 {
		first, err := newDraw(strconv.Itoa(seed), torchShare)
		if err != nil {
			t.Fatal(err)
		}
		again, _ := newDraw(strconv.Itoa(seed), torchShare)
		if first.String() != again.String() {
			t.Errorf("seed %d: %s, then %s", seed, first, again)
		}
		for _, change := range first.simpler() {
			less, err := first.changed(change)
			if err != nil {
				t.Errorf("seed %d: %v", seed, err)
				continue
			}
			replayed, err := newDraw(less.seed, torchShare)
			if err != nil || replayed.String() != less.String() || less.String() == first.String() {
				t.Errorf("%s: %s, %v; want %s", less.seed, replayed, err, less)
			}
		}
	}
	for _, bad := range []string{"", "x", "1/none0", "1/drop7", "1/hosts9", "1/weaker9", "1/as7", "1/drop"} {
		if d, err := newDraw(bad, 0); err == nil || !strings.Contains(err.Error(), "TRUTH_SEED") {
			t.Errorf("%q: %s, %v; want an error that names the variable", bad, d, err)
		}
	}
}

// Few draws make most mechanisms: none is unreachable, and names are unique.
func TestEachMechanismIsDrawn(t *testing.T) {
	seen := map[string]int{}
	for _, m := range mechanisms() {
		name := m.topic + ": " + m.name
		if _, twice := seen[name]; twice {
			t.Errorf("two mechanisms are called %q", name)
		}
		seen[name] = 0
	}
	for seed := range 5000 {
		d, err := newDraw(strconv.Itoa(seed), 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range d.faults {
			seen[f.topic+": "+f.name]++
		}
	}
	for name, n := range seen {
		if n == 0 {
			t.Errorf("%s is in no draw", name)
		}
	}
	t.Logf("%d mechanisms", len(seen))
}

func TestEachMechanismHasKnownCauses(t *testing.T) {
	all := map[string]bool{"clock": true}
	for _, list := range families {
		for f := range strings.FieldsSeq(list) {
			all[f] = true
		}
	}
	for _, m := range mechanisms() {
		for c := range strings.FieldsSeq(m.causes) {
			if !all[c] {
				t.Errorf("%s: no check stands for the cause %q", m.name, c)
			}
		}
	}
	for name, want := range map[string]string{"same.torch": "version", "same.command": "line", "env.ifname.gloo": "env",
		"peer.port": "port reach", "store.answers": "reach gone name", "no.such": ""} {
		if got := strings.Join(causesOf(name), " "); got != want {
			t.Errorf("%s stands for %q; want %q", name, got, want)
		}
	}
}

// TestJudge judges what one host of three says about a firewall on the last one.
func TestJudge(t *testing.T) {
	m := &mechanism{topic: "filter", name: "closed", causes: "reach"}
	d := draw{hosts: 3, faults: []fault{{mechanism: m, at: 2}}}
	finding := func(id, what string) starts.Said {
		return starts.Said{Type: "finding", Status: "fail", ID: id, What: what}
	}
	for _, c := range []struct {
		said starts.Said
		by   int
		want verdict
	}{
		{finding("peer.reach", "calls to host2 do not get through"), 0, right},
		{finding("peer.reach", "calls to 10.77.0.3 do not get through"), 0, right},
		{finding("peer.reach", "calls do not get through"), 2, right},
		{finding("peer.reach", "calls do not get through"), 0, vague},
		{finding("peer.reach", "calls to host20 do not get through"), 0, vague},
		{finding("limits.nofile", "few files"), 2, node},
		{finding("limits.nofile", "few files"), 1, wrong},
		{starts.Said{Type: "error", Code: 65, What: "this node is unfit: peer.reach"}, 2, right},
		{starts.Said{Type: "error", Code: 75, What: "missing: host2"}, 0, node},
		{starts.Said{Type: "wait", Kind: "left", Text: "host1 left"}, 0, silent},
		{starts.Said{Type: "note", Text: "host2"}, 2, silent},
		{starts.Said{Type: "finding", Status: "skip", ID: "peer.reach"}, 2, silent},
	} {
		b := said(c.by, c.said, time.Second)
		if got, _ := judgeHarmful(d, b, b.statements()); got != c.want {
			t.Errorf("host%d: %+v: %s; want %s", c.by, c.said, got, c.want)
		}
	}
	late := said(2, finding("peer.reach", "calls do not get through"), sayLimit+2*time.Second)
	late.up = late.last
	if got, _ := judgeHarmful(d, late, late.statements()); got != silent {
		t.Errorf("too late: %s; want silent", got)
	}
}

// said is a run of three hosts, one of which has said something.
func said(by int, what starts.Said, after time.Duration) *bed {
	b := &bed{last: time.Now()}
	for i, addr := range []string{"10.77.0.1", "10.77.0.2", "10.77.0.3"} {
		b.hosts = append(b.hosts, &host{Host: &netns.Host{Name: "host" + strconv.Itoa(i), Addr: addr}, number: i})
	}
	b.hosts[by].Note(starts.Line{At: b.last.Add(after), Said: what})
	return b
}

// A disagreement is known only where its reason holds.
func TestKnownDisagreements(t *testing.T) {
	b := said(1, starts.Said{Type: "error", Code: 65}, 0)
	b.died = b.last.Add(time.Second)
	b.ended = b.died.Add(time.Second)
	for _, h := range b.hosts {
		h.Ended = b.died
	}
	hung := said(1, starts.Said{Type: "error", Code: 75}, 0)
	hung.died, hung.ended = b.died, b.ended
	for _, c := range []struct {
		topic string
		v     verdict
		with  *bed
		want  bool
	}{
		{"time: a rank is killed", silent, b, true},
		{"time: a rank is killed", silent, hung, false},
		{"time: a rank is killed", wrong, b, false},
		{"time: a rank is frozen", silent, b, false},
		{"limit: open files", failed, b, true},
		{"limit: open files", failed, hung, false},
		{"mount: /proc is empty", failed, hung, true},
		{"link: a low rate", failed, b, false}, // launch itself did not start it
	} {
		if _, got := known(result{Topics: []string{c.topic}, Verdict: c.v, with: c.with}); got != c.want {
			t.Errorf("%s, %s: %t; want %t", c.topic, c.v, got, c.want)
		}
	}
}
