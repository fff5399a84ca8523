package ncclras

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func parse(t *testing.T, text string) Report {
	t.Helper()
	r, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func diff(want, got Report) string {
	return cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{}))
}

func TestTextNamesTheRankThatIsBehind(t *testing.T) {
	who := Member{Rank: 5, Addr: address("10.0.0.2"), PID: 7005}
	want := Report{Version: "2.27.7", Comms: []Comm{{ID: "cf264af53edbe9", Size: 8, Ops: []Op{
		{Name: "AllReduce", Shares: []Share{{Launched: 41, Count: 7}, {Launched: 40, Count: 1, Who: []Member{who}}}},
		{Name: "Broadcast", Shares: []Share{{Launched: 3, Count: 6}, {Count: 2, Who: []Member{who, {Rank: 6}}}}},
	}}}}
	if d := diff(want, parse(t, behind)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestTextNamesProcessesThatDoNotAnswer(t *testing.T) {
	want := Report{Version: "2.27.7",
		Dead:   []Member{{Rank: -1, Addr: address("10.0.0.2"), PID: 7007}},
		Silent: []Member{{Rank: -1, Addr: address("10.0.0.2"), PID: 7006}},
		Comms: []Comm{{ID: "cf264af53edbe9", Size: 8,
			Missing: []Member{{Rank: 6, Addr: address("10.0.0.2"), PID: 7006}, {Rank: 7, Addr: address("10.0.0.2"), PID: 7007}},
			Errors: []Share{{State: "Remote process error", Count: 1,
				Who: []Member{{Rank: 2, Addr: address("10.0.0.1"), PID: 7002}}}}}}}
	if d := diff(want, parse(t, gone)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestTextOfTheFirstVersions(t *testing.T) {
	want := Report{Version: "2.27.7", Comms: []Comm{
		{ID: "cf264af53edbe9", Size: 8, Missing: []Member{{Rank: 6}, {Rank: 7}}, Ops: []Op{{Name: "collective",
			Shares: []Share{{Launched: 41, Count: 5},
				{Launched: 40, Count: 1, Who: []Member{{Rank: 2, Addr: address("10.0.0.1"), PID: 7002}}}}}}},
		{ID: "9e17", Size: 4, Outside: []Member{{Rank: 1}, {Rank: 3}},
			States: []Share{{State: "INIT", Count: 2}, {State: "NOCOMM", Count: 2}}},
	}}
	if d := diff(want, parse(t, first)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// TestJSON reads what 2.28.7 and newer write, with and without the comma that the first of them leave out.
func TestJSON(t *testing.T) {
	lost := Member{Rank: 3, Addr: address("10.0.0.2"), PID: 7003}
	want := Report{Version: "2.30.7", Dead: []Member{{Rank: -1, Addr: address("10.0.0.2"), PID: 7003}}, Comms: []Comm{
		{ID: "cf264af53edbe9", Size: 4, Launched: 131, Missing: []Member{lost}, Ops: []Op{{Name: "AllReduce",
			Shares: []Share{{Launched: 41, Count: 2}, {Launched: 40, Count: 1, Who: []Member{{Rank: 2}}}}}},
			Errors: []Share{{State: "Remote process error", Count: 1,
				Who: []Member{{Rank: 1, Addr: address("10.0.0.1"), PID: 7001}}}}},
		{ID: "9e17", Size: 2, Outside: []Member{{Rank: 1, Addr: address("10.0.0.1"), PID: 7001}}, States: []Share{
			{State: "INIT", Count: 1, Who: []Member{{Rank: 0, Addr: address("10.0.0.1"), PID: 7000}}},
			{State: "NOCOMM", Count: 1, Who: []Member{{Rank: 1, Addr: address("10.0.0.1"), PID: 7001}}}}},
	}}
	for _, comma := range []string{",", ""} {
		if d := diff(want, parse(t, fmt.Sprintf(inJSON, comma))); d != "" {
			t.Errorf("comma %q: -want +got:\n%s", comma, d)
		}
	}
}

func TestAskBothFormats(t *testing.T) {
	for _, s := range []*service{{text: gone}, {text: gone, json: fmt.Sprintf(inJSON, ",")}} {
		r, err := Ask(t.Context(), s.listen(t))
		if err != nil || len(r.Dead) != 1 {
			t.Errorf("%+v %v", r, err)
		}
		want := []string{"client protocol 2", "timeout 1", "set format json", "verbose status"}
		if !slices.Equal(s.commands, want) {
			t.Errorf("commands %q; only these may be sent: %q", s.commands, want)
		}
	}
}

// hostile answers as no RAS does.
var hostile = map[string]struct {
	serve func(net.Conn)
	want  error
}{
	"closes":       {func(net.Conn) {}, ErrGarbage},
	"is silent":    {func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, ErrSilent},
	"is no RAS":    {func(c net.Conn) { fmt.Fprint(c, "HTTP/1.1 400 Bad Request\r\n\r\n") }, ErrGarbage},
	"no line":      {func(c net.Conn) { fmt.Fprint(c, strings.Repeat("x", 1<<20)) }, ErrGarbage},
	"half a line":  {func(c net.Conn) { fmt.Fprint(c, "SERVER PROTO"); _, _ = io.Copy(io.Discard, c) }, ErrSilent},
	"no answer":    {afterHandshake(func(net.Conn) {}), ErrGarbage},
	"other text":   {afterHandshake(func(c net.Conn) { fmt.Fprint(c, "hello\n") }), ErrGarbage},
	"bad JSON":     {afterHandshake(func(c net.Conn) { fmt.Fprint(c, `{"nccl_version": `) }), ErrGarbage},
	"never ends":   {afterHandshake(flood("x\n")), nil},
	"slow":         {afterHandshake(drip), ErrSilent},
	"one long one": {afterHandshake(flood("x")), nil},
}

func afterHandshake(f func(net.Conn)) func(net.Conn) {
	return func(c net.Conn) {
		buf := make([]byte, 4096)
		for _, answer := range []string{"SERVER PROTOCOL 2\n", "OK\n", "OK\n", ""} {
			if _, err := c.Read(buf); err != nil {
				return
			}
			fmt.Fprint(c, answer)
		}
		f(c)
	}
}

func flood(text string) func(net.Conn) {
	return func(c net.Conn) {
		chunk := []byte(strings.Repeat(text, 1<<16))
		for {
			if _, err := c.Write(chunk); err != nil {
				return
			}
		}
	}
}

func drip(c net.Conn) {
	for {
		if _, err := c.Write([]byte("x")); err != nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func TestHostileServers(t *testing.T) {
	for name, h := range hostile {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			_, err := Ask(t.Context(), listen(t, h.serve))
			if err == nil || h.want != nil && !errors.Is(err, h.want) {
				t.Errorf("error %v, want %v", err, h.want)
			}
			if took := time.Since(began); took > limit+2*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
}

func TestAskEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := Ask(ctx, listen(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }))
	if !errors.Is(err, ErrSilent) {
		t.Error(err)
	}
}

// TestLongReportsAreCut: a report stays small, whatever the job's size.
func TestLongReportsAreCut(t *testing.T) {
	var b strings.Builder
	b.WriteString("NCCL version 2.27.7 compiled\nDEAD\n")
	for i := range 5000 {
		fmt.Fprintf(&b, "  Process %d on node 10.0.0.1 managing GPU 1\n", i+1)
	}
	for i := range 5000 {
		fmt.Fprintf(&b, "#0-%d (%x) MISMATCH\n  Communicator ranks have different AllReduce operation counts\n", i, i+1)
	}
	r := parse(t, b.String())
	if len(r.Dead) != maxMembers || len(r.Comms) != maxComms || r.Cut == "" {
		t.Errorf("%d dead, %d communicators, %q", len(r.Dead), len(r.Comms), r.Cut)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{behind, gone, first, fmt.Sprintf(inJSON, ""), "{}", ""} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := Parse(text)
		if err != nil {
			return
		}
		if r.Version == "" || len(r.Comms) > maxComms {
			t.Errorf("%+v", r)
		}
		for _, c := range r.Comms {
			for _, all := range [][]Member{c.Missing, c.Outside} {
				if len(all) > maxMembers {
					t.Errorf("%d members", len(all))
				}
			}
			for _, s := range slices.Concat(c.States, c.Errors) {
				if strings.ContainsAny(s.State, "\n\x1b") || s.Count < 0 {
					t.Errorf("%+v", s)
				}
			}
		}
	})
}
