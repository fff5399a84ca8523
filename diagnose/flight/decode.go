package flight

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
)

// raw is an entry as both formats have it.
type raw struct {
	Record  int64     `json:"record_id"`
	PG      int64     `json:"pg_id"`
	Group   []string  `json:"process_group"`
	Seq     int64     `json:"collective_seq_id"`
	P2P     int64     `json:"p2p_seq_id"`
	ID      int64     `json:"op_id"`
	Name    string    `json:"profiling_name"`
	Created int64     `json:"time_created_ns"`
	In      [][]int64 `json:"input_sizes"`
	InType  []string  `json:"input_dtypes"`
	Out     [][]int64 `json:"output_sizes"`
	OutType []string  `json:"output_dtypes"`
	State   string    `json:"state"`
	Retired bool      `json:"retired"`
	IsP2P   bool      `json:"is_p2p"`
	at      string
}

// reader makes entries whose equal texts and tensors are shared.
type reader struct {
	texts   map[string]string
	tensors map[string]*Tensors
	frames  map[*dict]string
	left    int
}

func newReader() *reader {
	return &reader{texts: map[string]string{}, tensors: map[string]*Tensors{}, frames: map[*dict]string{}}
}

// text returns a copy that does not hold the whole dump in memory.
func (r *reader) text(s string) string {
	if old, ok := r.texts[s]; ok {
		return old
	}
	s = strings.Clone(tidy(s))
	r.texts[s] = s
	return s
}

// tidy replaces what a terminal must not get, and cuts what is too long.
func tidy(s string) string {
	const most = 500
	if len(s) > most {
		s = s[:most]
	}
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f || c >= 0x80 && c < 0xa0 {
			return '?'
		}
		return c
	}, strings.ToValidUTF8(s, "?"))
}

func (r *reader) tensorsOf(sizes [][]int64, types []string) *Tensors {
	if len(sizes) == 0 && len(types) == 0 {
		return nil
	}
	key := fmt.Sprint(sizes, types)
	if old, ok := r.tensors[key]; ok {
		return old
	}
	t := &Tensors{Sizes: sizes}
	for _, one := range types {
		t.Types = append(t.Types, r.text(one))
	}
	r.tensors[key] = t
	return t
}

func (r *reader) entry(e raw) Entry {
	backend, op := "", e.Name
	if i := strings.LastIndexByte(e.Name, ':'); i >= 0 {
		backend, op = e.Name[:i], e.Name[i+1:]
	}
	out := Entry{
		Record: e.Record, PG: e.PG, Seq: e.Seq, P2P: e.P2P, ID: e.ID, Backend: r.text(backend), Op: r.text(op),
		In: r.tensorsOf(e.In, e.InType), Out: r.tensorsOf(e.Out, e.OutType), Created: e.Created,
		State: r.text(e.State), Retired: e.Retired, IsP2P: e.IsP2P, At: r.text(e.at),
	}
	if len(e.Group) == 2 {
		out.Group, out.Desc = r.text(e.Group[0]), r.text(e.Group[1])
	}
	if kind := out.kind(); kind == "send" || kind == "recv" {
		out.IsP2P = true
	}
	return out
}

// version checks that the fields of a dump are those that this package reads.
func version(v string) error {
	major, _, _ := strings.Cut(v, ".")
	switch n, err := strconv.Atoi(major); {
	case err != nil:
		return fmt.Errorf("has the version %.20q", v)
	case n != 2:
		return fmt.Errorf("has the version %.20s; versions 2.0 to 2.10 are known", v)
	}
	return nil
}

// ranks reads "[0, 1, 2]".
func ranks(s string) []int {
	const most = 1 << 20
	s = strings.Trim(s, "[] ")
	if s == "" {
		return nil
	}
	var out []int
	for part := range strings.SplitSeq(s, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < 0 || n > most || len(out) > most {
			return nil
		}
		out = append(out, n)
	}
	return out
}

// fromPickle returns the dump that torch._C._distributed_c10d._dump_fr_trace wrote.
func (r *reader) fromPickle(in string) (Dump, error) {
	v, err := unpickle(in)
	if err != nil {
		return Dump{}, err
	}
	top, ok := v.(*dict)
	if !ok {
		return Dump{}, errors.New("is no dict")
	}
	r.left = maxWork
	d := Dump{Version: tidy(get[string](top, "version")), Groups: map[string][]int{}, Status: map[int64]Status{}}
	if err := version(d.Version); err != nil {
		return Dump{}, err
	}
	config, _ := find(top, "pg_config").(*dict)
	for _, group := range config.all() {
		if one, ok := group.value.(*dict); ok {
			d.Groups[r.text(group.key)] = ranks(get[string](one, "ranks"))
		}
	}
	status, _ := find(top, "pg_status").(*dict)
	for _, group := range status.all() {
		if one, ok := group.value.(*dict); ok {
			id, _ := strconv.ParseInt(group.key, 10, 64)
			d.Status[id] = Status{get[int64](one, "last_enqueued_collective"),
				get[int64](one, "last_started_collective"), get[int64](one, "last_completed_collective")}
		}
	}
	entries, _ := find(top, "entries").(*list)
	if entries == nil {
		return d, nil
	}
	if len(entries.items) > maxEntries {
		return Dump{}, errLarge
	}
	for _, item := range entries.items {
		one, ok := item.(*dict)
		if !ok {
			return Dump{}, errors.New("has an entry that is no dict")
		}
		d.Entries = append(d.Entries, r.entry(r.raw(one)))
		if r.left < 0 {
			return Dump{}, errLarge
		}
	}
	return d, nil
}

func (r *reader) raw(d *dict) raw {
	r.left -= len(d.keys) + 1
	return raw{
		Record: get[int64](d, "record_id"), PG: get[int64](d, "pg_id"), Group: r.strings(find(d, "process_group")),
		Seq: get[int64](d, "collective_seq_id"), P2P: get[int64](d, "p2p_seq_id"), ID: get[int64](d, "op_id"),
		Name: get[string](d, "profiling_name"), Created: get[int64](d, "time_created_ns"),
		In: r.sizes(find(d, "input_sizes")), InType: r.strings(find(d, "input_dtypes")),
		Out: r.sizes(find(d, "output_sizes")), OutType: r.strings(find(d, "output_dtypes")),
		State: get[string](d, "state"), Retired: get[bool](d, "retired"), IsP2P: get[bool](d, "is_p2p"),
		at: r.line(find(d, "frames")),
	}
}

// items returns the items of a list. The same list may be met often, so that the work is counted.
func (r *reader) items(v any) []any {
	l, ok := v.(*list)
	if !ok {
		return nil
	}
	if r.left -= len(l.items) + 1; r.left < 0 {
		return nil
	}
	return l.items
}

func (r *reader) strings(v any) (out []string) {
	for _, item := range r.items(v) {
		s, _ := item.(string)
		out = append(out, tidy(s))
	}
	return out
}

func (r *reader) sizes(v any) (out [][]int64) {
	for _, item := range r.items(v) {
		size := []int64{}
		for _, n := range r.items(item) {
			i, _ := n.(int64)
			size = append(size, i)
		}
		out = append(out, size)
	}
	return out
}

// line returns the innermost frame that is neither torch's nor Python's.
func (r *reader) line(v any) string {
	for _, item := range r.items(v) {
		frame, ok := item.(*dict)
		if !ok {
			continue
		}
		at, known := r.frames[frame]
		if !known {
			if name := get[string](frame, "filename"); !library(name) {
				at = tidy(name) + ":" + strconv.FormatInt(get[int64](frame, "line"), 10)
			}
			r.frames[frame] = at
		}
		if at != "" {
			return at
		}
	}
	return ""
}

func library(name string) bool {
	switch path.Base(name) {
	case "threading.py", "runpy.py", "??":
		return true
	}
	return name == "" || strings.Contains(name, "/torch/") || strings.HasPrefix(name, "<") ||
		!strings.HasSuffix(name, ".py")
}

type pair struct {
	key   string
	value any
}

func (d *dict) all() (out []pair) {
	if d == nil {
		return nil
	}
	for i, key := range d.keys {
		out = append(out, pair{key, d.values[i]})
	}
	return out
}

func find(d *dict, key string) any {
	for i, k := range d.keys {
		if k == key {
			return d.values[i]
		}
	}
	return nil
}

func get[T any](d *dict, key string) T {
	v, _ := find(d, key).(T)
	return v
}
