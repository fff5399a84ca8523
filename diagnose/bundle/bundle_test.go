package bundle

import (
	"encoding/json"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"launch/diagnose/scene"
	"launch/internal/tcpstore"
)

// seen returns what two nodes saw of a job of alice.
func seen() []scene.Scene {
	at := netip.MustParseAddrPort("10.1.2.3:29500")
	return []scene.Scene{
		{Schema: 1, Host: "gpu-07", Boot: "11111111-2222-3333-4444-555555555555",
			Addrs: []netip.Addr{at.Addr(), netip.MustParseAddr("fe80::ab%eth0"), netip.MustParseAddr("172.17.3.4")},
			Procs: []scene.Proc{{PID: 7, Role: scene.Agent, Comm: "pt_elastic", State: "S", Wchan: "do_poll",
				Argv: []string{"torchrun", "--rdzv-endpoint=gpu-07.corp.example.com:29400", "--rdzv_id", "alice-run",
					"--master_addr", "h", "/home/alice/secret/train.py", "--logs=/nfs/home/bob/x"},
				Last: []string{"connect to gpu-12.corp.example.com (10.1.2.9) and gpu-[01-04,9] and GPU-07",
					"login.corp.example.com alice@hub HF_TOKEN=hf_abcdefghijklmnopqrstuv password: 'x y'",
					"::ffff:10.1.2.3 [2a00:1::5]:99 8.8.8.8:53 127.0.0.1 ::1 aa:bb:cc:dd:ee:ff 12:30:59 c10d::TCPStore"},
				Env: map[string]string{"MASTER_ADDR": "gpu-07", "RANK": "0", "HOSTNAME": "job-0.svc"}}},
			Sockets: []scene.Socket{{State: "listen", Local: at}},
			Stores: []scene.Store{{Addr: "gpu-07:29500", At: at, Outcome: scene.Answered, Err: "no route to 10.1.2.9",
				Board: &tcpstore.Board{Runs: []string{"alice-run"}, Blobs: []tcpstore.Blob{{Host: "gpu-09", Addr: at}}}}}},
		{Schema: 1, Host: "gpu-09", Procs: []scene.Proc{{Role: scene.MPIRun, Argv: []string{"/usr/bin/ssh", "-x", "-p", "22",
			"carol@box", "orted"}}}},
	}
}

func TestNamesAndAddressesAreReplacedAlike(t *testing.T) {
	m := NewMasker(seen(), "dave")
	all, err := m.Scenes(seen())
	if err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal(all)
	for _, gone := range []string{"gpu-", "GPU-07", "corp", "alice", "bob", "carol", "box", "10.1.2", "8.8.8.8",
		"fe80::ab",
		"2a00", "172.17.3.4", "11111111", "aa:bb", "hf_", "x y", "job-0"} {
		if strings.Contains(string(text), gone) {
			t.Errorf("%q remains in %s", gone, text)
		}
	}
	p := all[0].Procs[0]
	host := all[0].Host
	want := []string{"torchrun", "--rdzv-endpoint=" + host + ".domain-1:29400", "--rdzv_id", "user-run", "--master_addr",
		m.host("h"), "/home/user/secret/train.py", "--logs=/nfs/home/user-2/x"}
	if diff := cmp.Diff(want, p.Argv); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	at := all[0].Sockets[0].Local
	for name, same := range map[string]bool{
		"the store's host": p.Env["MASTER_ADDR"] == host && all[0].Stores[0].Addr == host+":29500",
		"the blob's host":  all[0].Stores[0].Board.Blobs[0].Host == all[1].Host && all[1].Host != host,
		"the address":      all[0].Stores[0].At == at && all[0].Addrs[0] == at.Addr() && at.Port() == 29500,
		"its class":        netip.MustParsePrefix("10.0.0.0/8").Contains(at.Addr()),
		"docker's network": strings.HasPrefix(all[0].Addrs[2].String(), "172.17."),
		"link-local":       all[0].Addrs[1].IsLinkLocalUnicast() && all[0].Addrs[1].Zone() == "eth0",
		"the run":          all[0].Stores[0].Board.Runs[0] == "user-run",
		"what is no name": p.Comm == "pt_elastic" && p.Wchan == "do_poll" && p.Env["RANK"] == "0" && p.Role == scene.Agent &&
			strings.HasSuffix(p.Last[2], "127.0.0.1 ::1 02:00:00:00:00:02 12:30:59 c10d::TCPStore"),
		"ssh": strings.HasPrefix(all[1].Procs[0].Argv[4], "user-3@node-"),
		"a host in a text": strings.HasPrefix(p.Last[0], "connect to node-") &&
			strings.HasSuffix(p.Last[0], "and [hosts] and "+host),
	} {
		if !same {
			t.Errorf("%s is not alike or has changed: %s", name, text)
		}
	}
	again, _ := NewMasker(seen(), "dave").Scenes(seen())
	if diff := cmp.Diff(all, again, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
		cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
		t.Errorf("another time it differs:\n%s", diff)
	}
	if got := m.Changed(); !strings.Contains(got, "users: 4") || !strings.Contains(got, "secrets: 1") {
		t.Errorf("it has changed %s", got)
	}
}

// FuzzNothingRemains puts a host, a user and addresses into any text, and looks for them in what is to be sent.
func FuzzNothingRemains(f *testing.F) {
	f.Add("gpu-07", "alice", "from %h (%4) by %u at %6:\n%h.corp.net", []byte{10, 0, 0, 1}, []byte("0123456789abcdef"))
	f.Add(
		"node-1",
		"user",
		"%4%4 %h%u /home/%u/%h-%4:%6",
		[]byte{198, 18, 0, 1},
		[]byte("\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01"),
	)
	f.Add(
		"node",
		"node-2",
		"x%hx _%u_ [%6]:1 %4.%4 ::%4",
		[]byte{192, 168, 0, 1},
		[]byte("\xfe\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01"),
	)
	name := regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)
	f.Fuzz(func(t *testing.T, host, user, text string, four, six []byte) {
		v4, ok4 := netip.AddrFromSlice(four)
		v6, ok6 := netip.AddrFromSlice(six)
		if !ok4 || !ok6 || !v4.Is4() || !v6.Is6() || v6.Is4In6() || plain(v4) || plain(v6) || !name.MatchString(host) ||
			!name.MatchString(user) || len(text) > 2000 || len(host) > 40 || len(user) > 40 || !telling(host) || !telling(user) {
			t.Skip("no name or address")
		}
		line := strings.NewReplacer("%h", host, "%u", user, "%4", v4.String(), "%6", v6.String()).Replace(text)
		all := []scene.Scene{{Host: host, Addrs: []netip.Addr{v4, v6}, Procs: []scene.Proc{{Last: []string{line},
			Argv: []string{line, "/home/" + user}, Env: map[string]string{"NCCL_X": line}}},
			Stores: []scene.Store{{Err: line}}, Gaps: []scene.Gap{{What: line, Why: line, Fix: line}}}}
		masked, err := NewMasker(all).Scenes(all)
		if err != nil {
			t.Fatal(err)
		}
		p := masked[0].Procs[0]
		if masked[0].Host == host || masked[0].Addrs[0] == v4 || masked[0].Addrs[1] == v6 {
			t.Errorf("a field remains: %+v", masked[0])
		}
		for _, got := range []string{p.Last[0], p.Argv[0], p.Argv[1], p.Env["NCCL_X"], masked[0].Stores[0].Err,
			masked[0].Gaps[0].What} {
			for _, old := range []string{host, user} {
				if regexp.MustCompile(`(?i)(^|[^\pL\pN])` + old + `($|[^\pL\pN])`).MatchString(got) {
					t.Errorf("%q remains in %q, of %q", old, got, line)
				}
			}
			if regexp.MustCompile(`(^|[^\d.])` + regexp.QuoteMeta(v4.String()) + `($|[^\d.])`).MatchString(got) {
				t.Errorf("%v remains in %q, of %q", v4, got, line)
			}
			if regexp.MustCompile(`(^|[^\pL\pN.:])` + v6.String() + `($|[^\pL\pN.:])`).MatchString(got) {
				t.Errorf("%v remains in %q, of %q", v6, got, line)
			}
		}
	})
}

func TestABundleIsReadAgain(t *testing.T) {
	packed, err := Pack([]File{{Name: "README", Text: []byte("x")}, {Name: Answers, Text: []byte(`{"a":1}`)}})
	if err != nil || !IsPacked(packed) {
		t.Fatal(err)
	}
	if got, err := Unpack(packed, 1<<20); err != nil || string(got) != `{"a":1}` {
		t.Errorf("%q, %v", got, err)
	}
	for _, bad := range [][]byte{nil, packed[:5], packed[:len(packed)/2], []byte("\x1f\x8bnonsense")} {
		if _, err := Unpack(bad, 1<<20); err == nil {
			t.Errorf("%d bytes are a bundle", len(bad))
		}
	}
	if _, err := Unpack(packed, 3); err == nil {
		t.Error("a longer one is read")
	}
	if packed, _ = Pack(nil); packed == nil {
		t.Error("an empty one cannot be made")
	}
	if _, err := Unpack(packed, 3); err == nil {
		t.Error("a bundle without answers is read")
	}
}

func FuzzUnpack(f *testing.F) {
	packed, _ := Pack([]File{{Name: Answers, Text: []byte("{}")}})
	f.Add(packed)
	f.Fuzz(func(t *testing.T, b []byte) {
		if out, err := Unpack(b, 1<<16); err == nil && len(out) > 1<<16 {
			t.Errorf("%d bytes", len(out))
		}
	})
}
