package logs

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// endless is a stream of n bytes that repeats a block.
type endless struct {
	block []byte
	at    int
	left  int64
}

func (e *endless) Read(p []byte) (int, error) {
	if e.left <= 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(int64(len(p)), e.left)], e.block[e.at:])
	e.at = (e.at + n) % len(e.block)
	e.left -= int64(n)
	return n, nil
}

func block() []byte {
	r := rand.New(rand.NewPCG(5, 6))
	var b bytes.Buffer
	for b.Len() < 1<<20 {
		b.WriteString(healthyLog(r))
		for range 200 {
			b.WriteString("blue-1:812:955 [0] NCCL INFO Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0/GDRDMA\n")
		}
	}
	return b.Bytes()
}

func BenchmarkRead(b *testing.B) { benchmark(b, 200<<20, block()) }

// A log in which every line is a failure.
func BenchmarkReadFailures(b *testing.B) {
	text := "[rank3]: RuntimeError: [pair.cc:545] Read error [10.0.0.3]:1: Connection reset by peer\n" +
		"[rank4]: ValueError: x\nTraceback (most recent call last):\n"
	benchmark(b, 50<<20, []byte(strings.Repeat(text, 200)))
}

// benchmark also reports the speed by the processor's time, which other programs disturb less.
func benchmark(b *testing.B, size int64, text []byte) {
	b.SetBytes(size)
	before := processorTime(b)
	n := 0
	for b.Loop() {
		n++
		if _, err := Read(&endless{block: text, left: size}, "-"); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(n)*float64(size)/1e6/(processorTime(b)-before), "MB/cpu-s")
}

func processorTime(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

func TestMemoryIsBounded(t *testing.T) {
	var before, after runtime.MemStats
	f := newFollower()
	runtime.GC()
	runtime.ReadMemStats(&before)
	f.readSource(source{path: stdinArg, name: "stdin"}, &endless{block: block(), left: 64 << 20})
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 8<<20 {
		t.Errorf("64 MiB of log leave %d bytes", grown)
	}
	runtime.KeepAlive(f)
}

func TestLongLinesAreCut(t *testing.T) {
	text := strings.Repeat("x", 5<<20) + "\nValueError: y\n" + strings.Repeat("z", maxLine) + "CUDA out of memory\n"
	r := readText(t, "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n"+text)
	if r.Lines != 5 || len(r.Verdicts) != 1 || r.Verdicts[0].Cause != "rank.failed" || r.First.Where != "stdin:4" {
		t.Errorf("%d lines, verdicts %+v", r.Lines, r.Verdicts)
	}
}

func FuzzRead(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.log")
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("\x1f\x8b\x08\x00\x00"))
	f.Add([]byte("Root Cause\n  rank : 99999999999999999999 (local_rank: 1)\n exitcode  : -9\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := Read(bytes.NewReader(text), "-")
		if err != nil {
			return
		}
		for _, v := range r.Verdicts {
			if v.Says == "" || v.Do == "" || v.Cause == "" || len(v.Says) > 4000 || strings.ContainsAny(v.Says, "\n\x1b") {
				t.Errorf("verdict %+v", v)
			}
		}
		if len(r.Verdicts) > maxVerdicts+1 || len(r.Open) > maxOpenLead+1 {
			t.Errorf("%d verdicts, %d open", len(r.Verdicts), len(r.Open))
		}
	})
}

// TestYearOfALog: times without a year get it from another time in the log.
func TestYearOfALog(t *testing.T) {
	const line = "E0203 04:05:06.7 4711 a.cc:1] Memory access fault by GPU node-2 on address 0x1. Reason: none.\n"
	for _, c := range []struct {
		other string
		year  int
	}{
		{"*** Aborted at 1500432842 (unix time) try \"date -d @1500432842\" if you are using GNU date ***", 2017},
		{"[1548000000.101010] [red-3:4711 :0] ucp_context.c:1 UCX  INFO  x", 2019},
		{"Rank 3 [Thu Feb  3 04:00:00 2022] [red-3] starts", 2022},
		{"2023:02:03-04:05:06:( 4711) |CCL_INFO| x", 2023},
		{"2024-02-03 04:00:00 starts", 2024},
		{"I0000 00:00:1649423660.053391    4711 f236.cc:165] starts", 2022},
	} {
		r := readText(t, line+c.other+"\n")
		if r.First == nil || r.First.Time.Year() != c.year {
			t.Errorf("%q: first %+v; want the year %d", c.other, r.First, c.year)
		}
	}
}

// TestWarningsAreListed: those after which a program goes on are no failure, and are named where there is none.
func TestWarningsAreListed(t *testing.T) {
	const (
		cma   = "[red-3:04711] Read -1, expected 81920, errno =1\n"
		verbs = "libibverbs: Warning: no userspace device-specific driver found for /sys/class/infiniband_verbs/uverbs2\n"
	)
	r := readText(t, cma+cma+verbs)
	if r.First != nil || len(r.Warned) != 2 || !strings.Contains(r.Warned[0].Says, "node red-3") ||
		!strings.Contains(r.Warned[1].Says, "uverbs2") {
		t.Errorf("first %+v, warned %+v", r.First, r.Warned)
	}
	if r = readText(t, strings.ReplaceAll(cma, "errno =1", "errno =3")); len(r.Warned) != 0 {
		t.Errorf("of a process that has ended: warned %+v", r.Warned)
	}
	if r = readText(t, cma+"KeyError: 'vocab'\n"); r.First == nil || len(r.Warned) != 0 {
		t.Errorf("with an error: first %+v, warned %+v", r.First, r.Warned)
	}
}
