package flight

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"launch/diagnose/verdict"
)

// nccl makes the dump of a rank by the names of its operations: "all_reduce", "all_reduce 16" with a size,
// "send 0->1", "tp:all_reduce" in another group, and with ! where it has not ended.
func nccl(rank int, groups map[string][]int, ops ...string) Dump {
	d := Dump{Path: fmt.Sprintf("nccl_trace_rank_%d", rank), Rank: rank, Groups: groups, Changed: time.Unix(1000, 0)}
	seq := map[string]int64{}
	for i, op := range ops {
		op, waits := strings.CutSuffix(op, "!")
		name, rest, ok := strings.Cut(op, ":")
		if !ok {
			name, rest = "0", op
		}
		e := Entry{Record: int64(i), Group: name, Desc: "undefined", Backend: "nccl", Op: rest, State: "completed",
			Created: int64(i+1) * 1e9, Retired: true, At: fmt.Sprintf("train.py:%d", 10+i)}
		if name == "0" {
			e.Desc = "default_pg"
		}
		if waits {
			e.State, e.Retired = "started", false
		}
		e.IsP2P = strings.Contains(rest, "->") || strings.Contains(rest, "<-")
		size := int64(8)
		if kind, n, ok := strings.Cut(rest, " "); ok && !e.IsP2P {
			e.Op = kind
			_, _ = fmt.Sscan(n, &size)
		}
		if !e.IsP2P {
			seq[name]++
			e.Seq = seq[name]
		}
		e.In = &Tensors{Sizes: [][]int64{{size}}, Types: []string{"Float"}}
		e.Out = e.In
		d.Entries = append(d.Entries, e)
	}
	d.finish()
	return d
}

var (
	two   = map[string][]int{"0": {0, 1}}
	three = map[string][]int{"0": {0, 1, 2}}
	four  = map[string][]int{"0": {0, 1, 2, 3}, "tp": {0, 1}}
)

// wrap renumbers the records as if older ones were overwritten.
func wrap(d Dump) Dump {
	for i := range d.Entries {
		d.Entries[i].Record += 5000
	}
	d.finish()
	return d
}

func stale(d Dump) Dump {
	d.Changed = time.Unix(1, 0)
	return d
}

// active leaves out what has ended, as TORCH_INCLUDE_ONLY_ACTIVE does, and says how far the rank has come.
func active(d Dump, enqueued int64) Dump {
	d.Status = map[int64]Status{0: {Enqueued: enqueued}}
	d.Entries = slices.DeleteFunc(d.Entries, func(e Entry) bool { return e.State == "completed" })
	d.finish()
	return d
}

var judged = []struct {
	name  string
	dumps []Dump
	want  string // "cause sure ranks: a part of the sentence"; empty: no verdict
}{
	{"healthy", []Dump{nccl(0, two, "all_reduce", "barrier"), nccl(1, two, "all_reduce", "barrier")}, ""},
	{"all wait in the same", []Dump{nccl(0, two, "all_reduce!"), nccl(1, two, "all_reduce!")}, ""},
	{"one ahead, all stuck in the same", []Dump{nccl(0, two, "all_reduce!", "all_reduce!"), nccl(1, two, "all_reduce!")},
		""},
	{"behind", []Dump{nccl(0, two, "all_reduce", "all_reduce!"), nccl(1, two, "all_reduce")},
		"rank.left certain 1: rank 1 has not called all_reduce #2 of the default group; rank 0 waits there"},
	{"nothing called", []Dump{nccl(0, two, "all_reduce!"), nccl(1, two)},
		"rank.left certain 1: rank 1 has not called all_reduce #1"},
	{"behind by several", []Dump{nccl(0, two, "all_reduce", "broadcast!", "all_reduce!"), nccl(1, two, "all_reduce")},
		"rank.left certain 1: has not called broadcast #2"},
	{"behind, wrapped", []Dump{wrap(nccl(0, two, "all_reduce", "all_reduce!")), wrap(nccl(1, two, "all_reduce"))},
		"rank.left certain 1: all_reduce #2"},
	{"wrapped and nothing of the group", []Dump{nccl(0, two, "all_reduce!"), wrap(nccl(1, two, "tp:all_reduce"))}, ""},
	{"an older dump", []Dump{nccl(0, two, "all_reduce", "all_reduce!"), stale(nccl(1, two, "all_reduce"))},
		"rank.left likely 1: the dump of rank 1 is older"},
	{"a root that need not wait", []Dump{nccl(0, two, "all_reduce", "broadcast"), nccl(1, two, "all_reduce")}, ""},
	{"after the time limit", []Dump{nccl(0, two, "all_reduce", "all_reduce"), nccl(1, two, "all_reduce")},
		"rank.left likely 1: that call has ended"},
	{"no dump of one", []Dump{nccl(0, three, "all_reduce!"), nccl(1, three, "all_reduce!")},
		"rank.left likely 2: ranks 0-1 wait in all_reduce #1 of the default group, at train.py:10; " +
			"there is no dump of rank 2"},
	{"no dump of one, and one behind", []Dump{nccl(0, three, "all_reduce!"), nccl(1, three)}, "rank.left certain 1: "},
	{"only active ones", []Dump{active(nccl(0, two, "all_reduce", "all_reduce!"), 2),
		active(nccl(1, two, "all_reduce", "barrier"), 2)}, ""},
	{"another operation", []Dump{nccl(0, three, "all_reduce!"), nccl(1, three, "broadcast!"),
		nccl(2, three, "all_reduce!")}, "collective.mismatch certain 1: rank 1 calls broadcast (train.py:10), ranks 0,2 all"},
	{"two against two", []Dump{nccl(0, four, "all_reduce!"), nccl(1, four, "barrier!"), nccl(2, four, "all_reduce!"),
		nccl(3, four, "barrier!")}, "collective.mismatch certain 0-3: ranks 1,3 call barrier"},
	{
		"another size",
		[]Dump{nccl(0, three, "all_reduce 16!"), nccl(1, three, "all_reduce!"), nccl(2, three, "all_reduce!")},
		"collective.mismatch certain 0: rank 0 calls all_reduce of [16] Float",
	},
	{
		"another size that was passed",
		[]Dump{nccl(0, two, "all_reduce 16", "barrier"), nccl(1, two, "all_reduce", "barrier")},
		"",
	},
	{"uneven all_to_all", []Dump{nccl(0, two, "all_to_all 16!"), nccl(1, two, "all_to_all!")}, ""},
	{"mismatch in the overwritten part", []Dump{wrap(nccl(0, two, "broadcast", "all_reduce!")),
		wrap(nccl(1, two, "all_reduce", "all_reduce!"))}, ""},
	{"a chain of groups", []Dump{nccl(0, four, "all_reduce", "tp:all_reduce!"), nccl(1, four, "all_reduce"),
		nccl(2, four, "all_reduce", "all_reduce!"), nccl(3, four, "all_reduce", "all_reduce!")},
		"rank.left certain 1: "},
	{"crossed groups", []Dump{nccl(0, map[string][]int{"0": {0, 1}, "tp": {0, 1}}, "all_reduce!"),
		nccl(1, map[string][]int{"0": {0, 1}, "tp": {0, 1}}, "tp:all_reduce!")},
		"collective.mismatch likely 0-1: each waits for the other"},
	{"a receive without a send", []Dump{nccl(0, two, "send 0->1"), nccl(1, two, "recv 1<-0", "recv 1<-0!")},
		"rank.left certain 0: rank 0 has not called the send for recv 1<-0 of the default group; rank 1 waits there"},
	{"a receive from any rank", []Dump{nccl(0, two), nccl(1, two, "recv 1<-?!")}, ""},
	{"a send and a receive", []Dump{nccl(0, two, "send 0->1!"), nccl(1, two, "recv 1<-0!")}, ""},
	{"a receive, wrapped", []Dump{wrap(nccl(0, two, "send 1->0")), nccl(1, two, "recv 1<-0!")}, ""},
	{"two receives in a circle", []Dump{nccl(0, two, "recv 0<-1!"), nccl(1, two, "recv 1<-0!")},
		"collective.mismatch likely 0-1: each waits"},
	{"no dumps", nil, ""},
}

func TestJudge(t *testing.T) {
	for _, c := range judged {
		t.Run(c.name, func(t *testing.T) {
			all := Set{Dumps: c.dumps}.Judge()
			if c.want == "" {
				if len(all) > 0 {
					t.Fatalf("%+v", all)
				}
				return
			}
			if len(all) == 0 {
				t.Fatal("no verdict")
			}
			v := all[0]
			head, part, _ := strings.Cut(c.want, ": ")
			if got := fmt.Sprintf("%s %s %s", v.Cause, v.Sure, verdict.Spans(v.Ranks)); got != head {
				t.Errorf("%s, want %s: %s", got, head, v.Says)
			}
			if !strings.Contains(v.Says, part) {
				t.Errorf("%q lacks %q", v.Says, part)
			}
		})
	}
}

// An all_gather of shares of different sizes is no mismatch where the whole says so.
func TestUnevenGather(t *testing.T) {
	dumps := []Dump{nccl(0, two, "all_gather!"), nccl(1, two, "all_gather!")}
	for i := range dumps {
		e := &dumps[i].Entries[0]
		e.In = &Tensors{Sizes: [][]int64{{int64(i + 1)}}, Types: []string{"Float"}}
		e.Out = &Tensors{Sizes: [][]int64{{1}, {2}}, Types: []string{"Float", "Float"}}
	}
	if all := (Set{Dumps: dumps}).Judge(); len(all) > 0 {
		t.Errorf("%+v", all)
	}
	dumps[1].Entries[0].In.Types[0] = "Half"
	if all := (Set{Dumps: dumps}).Judge(); len(all) > 0 {
		t.Log(all[0].Says)
	}
}
