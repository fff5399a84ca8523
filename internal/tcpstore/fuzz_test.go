package tcpstore

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"
	"unicode"

	"launch/lab/programs"
)

// state2 is a state of two nodes by torch 2.15.
const state2 = "gASVlgEAAAAAAACMN3RvcmNoLmRpc3RyaWJ1dGVkLmVsYXN0aWMucmVuZGV6dm91cy5keW5hbWljX3JlbmRlenZvdXOUjBBfUmVu" +
	"ZGV6dm91c1N0YXRllJOUKYGUfZQojAVyb3VuZJRLAIwIY29tcGxldGWUiYwIZGVhZGxpbmWUTowGY2xvc2VklImMDHBhcnRpY2lw" +
	"YW50c5R9lChoAIwJX05vZGVEZXNjlJOUKYGUfZQojARhZGRylIwCaDCUjANwaWSUTWwgjAhsb2NhbF9pZJRLAHViSwBoDCmBlH2U" +
	"KGgPjAJoMZRoEU1tIGgSSwB1YksBdYwJd2FpdF9saXN0lI+UjA9yZWR1bmRhbmN5X2xpc3SUj5SMD2xhc3RfaGVhcnRiZWF0c5R9" +
	"lChoDYwIZGF0ZXRpbWWUjAhkYXRldGltZZSTlEMKB+oBAgMEBQAABpRoHIwIdGltZXpvbmWUk5RoHIwJdGltZWRlbHRhlJOUSwBL" +
	"AEsAh5RSlIWUUpSGlFKUaBNoHkMKB+oBAgMEBQAABpRoJ4aUUpR1dWIu"

// canned is a connection whose answers are given: two bytes of length, and as many bytes for one Read.
type canned struct {
	net.Conn
	script *[]byte
}

func (c canned) Read(p []byte) (int, error) {
	s := *c.script
	if len(s) < 2 {
		*c.script = nil
		return 0, io.EOF
	}
	n := min(int(s[0])<<8|int(s[1]), len(s)-2, len(p))
	copy(p, s[2:2+n])
	*c.script = s[2+n:]
	if n == 0 {
		return 0, io.EOF // the next connection goes on
	}
	return n, nil
}

func (canned) Write(b []byte) (int, error)     { return len(b), nil }
func (canned) Close() error                    { return nil }
func (canned) SetDeadline(time.Time) error     { return nil }
func (canned) SetReadDeadline(time.Time) error { return nil }

func le(n byte) string { return string([]byte{n, 0, 0, 0, 0, 0, 0, 0}) }

func lines(answers ...string) []byte {
	var out []byte
	for _, a := range answers {
		out = append(append(out, byte(len(a)>>8), byte(len(a))), a...)
	}
	return out
}

// Whatever a server answers, Read ends with a board or one of its errors, and sends no request that it must not.
func FuzzRead(f *testing.F) {
	state, share := "/torch.rendezvous.j1", "/j1/torchelastic/assigned_ranks/0"
	f.Add(lines(strings.Repeat(le(3), 4), le(3)+le(5)+"init/"+le(20)+state+le(33)+share, "\x00\x00\x00",
		le(1)+"5"+le(12)+nobody+le(12)+"[0, 4, 0, 4]"))
	f.Add(lines("", le(2), "\x00", le(1)+"4", "\x01", strings.Repeat("\x01", 67)))
	f.Add(lines("HTTP/1.1 400 Bad Request\r\n\r\n"))
	f.Add(lines(strings.Repeat("\xff", 40)))
	f.Fuzz(func(t *testing.T, script []byte) {
		dial := func(context.Context) (net.Conn, error) { return canned{script: &script}, nil }
		b, err := Read(t.Context(), dial, Hints{Runs: []string{"j1"}, Nodes: 2, World: 4})
		switch {
		case err == nil:
			if b.Keys < 0 || !b.Unlisted && len(b.Blobs)+len(b.Agents)+len(b.Shares) > b.Keys {
				t.Errorf("board %+v", b)
			}
		case !errors.Is(err, ErrClosed) && !errors.Is(err, ErrGarbage):
			t.Errorf("error %v", err)
		}
	})
}

// The interpreter builds nothing but what a state is made of, and does not take long for any input.
func FuzzState(f *testing.F) {
	if raw, err := base64.StdEncoding.DecodeString(state2); err == nil {
		f.Add(raw)
	}
	f.Add([]byte("\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x00}\x94(h\x00K\x01u."))
	f.Add([]byte("\x80\x04cos\nsystem\n(S'true'\ntR."))
	f.Add([]byte("\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R."))
	f.Fuzz(func(t *testing.T, raw []byte) {
		begin := time.Now()
		r := decodeState("j", []byte(base64.StdEncoding.EncodeToString(raw)))
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("took %v", took)
		}
		if r.ID != "j" || r.Participants == nil || r.Unread != "" && len(r.Participants) > 0 {
			t.Errorf("%+v", r)
		}
		for _, p := range r.Participants {
			if strings.ContainsFunc(p.Host, func(c rune) bool { return !unicode.IsPrint(c) }) {
				t.Errorf("host %q", p.Host)
			}
		}
		decodeState("j", raw)
	})
}

func FuzzValues(f *testing.F) {
	f.Add([]byte(le(2) + "h0" + le(136) + string(make([]byte, 144))))
	f.Add(append([]byte{2, 0}, make([]byte, 134)...))
	f.Add([]byte(`{"role": "default", "rank": 0, "local_world_size": 2}`))
	f.Add([]byte("[0, 4, 0, 4]"))
	f.Fuzz(func(t *testing.T, v []byte) {
		if b, ok := decodeBlob(v); ok && (!b.Addr.IsValid() || b.World < 0 || len(b.Host) > 3*maxHost) {
			t.Errorf("blob %+v", b)
		}
		if a, ok := decodeID(v); ok && !a.IsValid() {
			t.Errorf("id %v", a)
		}
		if a, ok := decodeAgent(v); ok && a.Local < 0 {
			t.Errorf("agent %+v", a)
		}
		if s, ok := decodeShare(v); ok && (s.Base < 0 || s.World < 0) {
			t.Errorf("share %+v", s)
		}
		if n, ok := decodeCount(v); ok && n < 0 {
			t.Errorf("count %d", n)
		}
	})
}

func FuzzKeys(f *testing.F) {
	for _, k := range []string{
		"init/", "/torch.rendezvous.j1.0/MASTER_PORT", "/none/torchelastic/role_info1", "/default_pg/0//1//cpu//0/0",
		"//worker/attempt_0/default_pg/0/0/rank_1", "/default_pg/0//cuda//0:1", "/store_based_barrier_key:0:last_worker",
		"/j/torchelastic/agent/terminal_state/num_members", "/default_pg/0//cpu//0/99999999999",
	} {
		f.Add(k)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if k := parseKey(text); k.text != text || k.index < 0 || k.round < 0 || k.group < -1 ||
			k.kind != kindNone && strings.Contains(k.text, "\n") {
			t.Errorf("%+v", k)
		}
	})
}

// What each key of the recordings is.
func TestKeysOfTorch(t *testing.T) {
	for text, want := range map[string]key{
		"init/":                               {kind: kindInit},
		"/torch.rendezvous.a.1":               {kind: kindState, run: "a.1"},
		"/torch.rendezvous.a.1.2/MASTER_ADDR": {kind: kindMasterAddr, run: "a.1", round: 2},
		"/torch.rendezvous.a.0/torchelastic/role_info/1":          {kind: kindAgent, run: "a", index: 1},
		"/a/b/torchelastic/assigned_ranks/3":                      {kind: kindShare, run: "a/b", index: 3},
		"/none/torchelastic/role_info1":                           {kind: kindAgent, run: "none", index: 1},
		"/none/torchelastic/role_info1.FIN":                       {},
		"/none/torchelastic/agent/terminal_state/num_members":     {kind: kindEnded, run: "none"},
		"/none/torchelastic/agent/terminal_state/last_member":     {run: "none"},
		"/none/torchelastic/agent/terminal_state1":                {kind: kindEndedOld, run: "none", index: 1},
		"/default_pg/store_based_barrier_key:0":                   {kind: kindBarrier},
		"/default_pg/store_based_barrier_key:0:last_worker":       {kind: kindBarrierDone},
		"//worker/attempt_0/default_pg/store_based_barrier_key:1": {kind: kindBarrier},
		"/default_pg/0//cpu//0/3":                                 {kind: kindBlob, index: 3},
		"/0//cpu//0/3":                                            {kind: kindBlob, index: 3},
		"/default_pg/0//2//cpu//0/1":                              {kind: kindBlob, group: 2, index: 1},
		"//worker/attempt_0/default_pg/0/0/3":                     {kind: kindBlob, index: 3},
		"//worker/attempt_0/default_pg/1/0/rank_3":                {kind: kindHost, group: 1, index: 3},
		"/default_pg/0//cuda//0":                                  {kind: kindID},
		"/default_pg/0//cuda//0:1":                                {kind: kindID},
		"/default_pg/0//3//cuda//0":                               {kind: kindID},
		"/default_pg/0/0":                                         {kind: kindID},
		"/default_pg/0/SEQ_NUM_STORE_KEY":                         {},
		"/exception_dump":                                         {},
		"/anything":                                               {},
	} {
		if want.text = text; parseKey(text) != want {
			t.Errorf("%s: %+v, want %+v", text, parseKey(text), want)
		}
	}
}

const states = `
import base64, datetime, pickle
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import _NodeDesc, _RendezvousState
for n in (0, 1, 2, 1500):
    s = _RendezvousState()
    for i in range(n):
        d = _NodeDesc(f"host-{i}", 100000 + i, 0)
        s.participants[d] = i
        s.last_heartbeats[d] = datetime.datetime.fromtimestamp(i, datetime.timezone.utc)
    print(base64.b64encode(pickle.dumps(s)).decode())
`

// States of torch of no node, one, some and many: pickles use other instructions for each.
func TestStatesOfTorch(t *testing.T) {
	out, err := exec.Command(programs.CurrentTorch(t).Python, "-c", states).Output()
	if err != nil {
		t.Fatal(err)
	}
	for i, value := range bytes.Fields(out) {
		want := []int{0, 1, 2, 1500}[i]
		s := decodeState("j", value)
		if s.Unread != "" || len(s.Participants) != want {
			t.Fatalf("%d bytes: %d participants, want %d; %s", len(value), len(s.Participants), want, s.Unread)
		}
		for rank, p := range s.Participants {
			if p.Rank != rank || p.PID != 100000+rank || p.Beat.Unix() != int64(rank) {
				t.Fatalf("participant %d is %+v", rank, p)
			}
		}
	}
}
