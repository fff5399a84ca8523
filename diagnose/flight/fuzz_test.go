package flight

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// text returns the instruction that pushes a string.
func word(s string) string {
	return "X" + string(binary.LittleEndian.AppendUint32(nil, uint32(len(s)))) + s
}

// A pickle that is no dump ends with an error that says why, soon and in little memory.
func TestHostilePickles(t *testing.T) {
	head := "\x80\x02"
	double := head + "]q\x00" // each list has the one before twice, so that a walk through it would not end
	for range 60 {
		double += "](h\x00h\x00eq\x00"
	}
	for name, c := range map[string]struct{ in, want string }{
		"empty":        {"", "ends early"},
		"GLOBAL":       {head + "cos\nsystem\n.", "GLOBAL"},
		"REDUCE":       {head + "NNR.", "REDUCE"},
		"BUILD":        {head + "}}b.", "BUILD"},
		"STACK_GLOBAL": {head + word("os") + word("system") + "\x93.", "STACK_GLOBAL"},
		"NEWOBJ":       {head + "N)\x81.", "NEWOBJ"},
		"PERSID":       {head + "P0\n.", "PERSID"},
		"protocol":     {"\x80\x04N.", "protocol"},
		"unknown":      {head + "\xff.", "0xff"},
		"memo":         {head + "h\x09.", "not stored"},
		"large int":    {head + "\x8a\x09123456789.", "64 bits"},
		"long text":    {head + "X\xff\xff\xff\xffabc", "ends early"},
		"marks":        {head + strings.Repeat("(", maxWork+1), "too many"},
		"nested":       {head + strings.Repeat("](", maxWork/4), "too many"},
		"memos":        {head + "N" + strings.Repeat("r\xff\xff\xff\xff", maxWork/4+1), "too many"},
		"left over":    {head + "NN.", "leaves something"},
		"mark in pop":  {head + "(N\x86.", "ends early"},
		"keys":         {head + "}(K\x01K\x02u.", "no text"},
		"no dict":      {double + ".", "leaves something"},
		"list":         {head + "].", "no dict"},
	} {
		begin := time.Now()
		_, err := newReader().fromPickle(c.in)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("%s took %v", name, took)
		}
	}
}

// One long list that each entry names is walked only until the work is used up.
func TestSharedSizes(t *testing.T) {
	in := "\x80\x02}(" + word("version") + word("2.10") + word("entries") + "](" +
		"}(" + word("input_dtypes") + "](" + strings.Repeat("N", 1<<20) + "eq\x00u"
	for range 1000 {
		in += "}(" + word("input_dtypes") + "h\x00u"
	}
	if _, err := newReader().fromPickle(in + "eu."); err != errLarge {
		t.Errorf("%v", err)
	}
}

// A file that unpacks to very much, or is very large, is refused.
func TestLargeFiles(t *testing.T) {
	if _, err := newReader().read(&limit{in: strings.NewReader(strings.Repeat("N", 100)), left: 50}, true); err == nil {
		t.Error("no error")
	}
	path := filepath.Join(t.TempDir(), "nccl_trace_rank_0")
	if err := os.WriteFile(path, []byte("\x80\x02}(X\x09\x00\x00\x00pg_config"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 1<<30); err != nil {
		t.Fatal(err)
	}
	s, rest := Gather([]string{path})
	if len(s.Dumps) != 0 || len(rest) != 0 || len(s.Gaps) != 1 || !strings.Contains(s.Gaps[0].Why, "128 MiB") {
		t.Errorf("%+v %v", s, rest)
	}
}

// Whatever a dump holds, reading it ends, and the judge says nothing of ranks that are not there.
func FuzzPickle(f *testing.F) {
	for scene := range scenes {
		f.Add([]byte(pickleOf(f, "testdata/"+scene+"/nccl_trace_rank_0.gz")))
	}
	other, err := newReader().fromPickle(pickleOf(f, "testdata/behind/nccl_trace_rank_0.gz"))
	if err != nil {
		f.Fatal(err)
	}
	other.finish()
	f.Fuzz(func(t *testing.T, in []byte) {
		d, err := newReader().fromPickle(string(in))
		if err == nil {
			judgeBoth(t, d, other)
		}
	})
}

func FuzzJSON(f *testing.F) {
	for _, path := range []string{"testdata/kinds/trace_1.json.gz", "testdata/behind/trace_1.json.gz"} {
		f.Add([]byte(pickleOf(f, path)))
	}
	f.Add([]byte(`{"version":"2.1","entries":[{"process_group":["0","default_pg"],"input_sizes":[[]]}]}`))
	other, err := newReader().fromJSON(strings.NewReader(pickleOf(f, "testdata/behind/trace_1.json.gz")))
	if err != nil {
		f.Fatal(err)
	}
	other.finish()
	f.Fuzz(func(t *testing.T, in []byte) {
		d, err := newReader().fromJSON(bytes.NewReader(in))
		if err == nil {
			judgeBoth(t, d, other)
		}
	})
}

func judgeBoth(t *testing.T, d, other Dump) {
	d.Rank, other.Rank = 1, 0
	d.finish()
	for _, v := range (Set{Dumps: []Dump{d, other}}).Judge() {
		if v.Cause == "" || v.Sure == "" || v.Do == "" || strings.ContainsAny(v.Says, "\x00\x1b\n") {
			t.Errorf("%+v", v)
		}
	}
}
