package companion

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"launch/diagnose/scene"
	"launch/internal/secret"
	"launch/internal/sidechannel"
	"launch/rendezvous"
)

var lo = netip.MustParseAddr("127.0.0.1")

// seen returns what a node sees.
func seen(host string) scene.Scene {
	return scene.Scene{Schema: scene.Schema, Host: host, Taken: time.Unix(1700000000, 0).UTC(), Span: time.Second,
		Procs: []scene.Proc{{PID: 7, Role: scene.Rank, Env: map[string]string{"RANK": "1"}, Comm: "python3"}}}
}

func TestASceneOutlivesTheWay(t *testing.T) {
	got, err := unpack(pack(seen("host1")))
	if diff := cmp.Diff(seen("host1"), got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" ||
		err != nil {
		t.Errorf("%v (-sent +received):\n%s", err, diff)
	}
	s := seen("host1\x1b[2J")
	s.Procs[0].Comm = "a\nlaunch: well"
	s.Procs[0].Env["RANK"] = strings.Repeat("9", 1<<20)
	if got, err = unpack(pack(s)); err != nil {
		t.Fatal(err)
	}
	all, _ := json.Marshal(got)
	if strings.Contains(string(all), `\u001b`) || strings.Contains(string(all), `\n`) || len(all) > 100<<10 {
		t.Errorf("the texts of another node are not bounded: %d bytes, %.300q", len(all), all)
	}
}

// zipped compresses a text that a function writes.
func zipped(t *testing.T, write func(io.Writer)) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	write(z)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// repeated writes a text until there are n bytes.
func repeated(w io.Writer, text string, n int) {
	chunk := []byte(strings.Repeat(text, 1+(64<<10)/len(text)))
	for ; n > 0; n -= len(chunk) {
		_, _ = w.Write(chunk)
	}
}

// What another node sends may be built to fill the memory: a few kilobytes that become gigabytes, or short values
// that each become a process.
func TestAHostileSceneIsRefusedWithinBoundedMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("it unpacks a GiB, which takes the race detector a minute, and starts no goroutine")
	}
	for name, tc := range map[string]struct {
		sent []byte
		want string
	}{
		"nothing": {nil, "EOF"},
		"no gzip": {[]byte("{}"), "EOF"},
		"a bomb": {zipped(t, func(w io.Writer) {
			_, _ = io.WriteString(w, `{"schema":1,"host":"`)
			repeated(w, "a", 1<<30)
		}), "more than 32 MiB"},
		"processes": {zipped(t, func(w io.Writer) {
			_, _ = io.WriteString(w, `{"schema":1,"procs":[0`)
			repeated(w, ",0", 31<<20)
			_, _ = io.WriteString(w, `]}`)
		}), "commas"},
		"a few less": {zipped(t, func(w io.Writer) {
			_, _ = io.WriteString(w, `{"schema":1,"procs":[{}`)
			repeated(w, ",{}", 3*(1<<19)-100<<10)
			_, _ = io.WriteString(w, `]}`)
		}), "items"},
		"deep": {zipped(t, func(w io.Writer) {
			_, _ = io.WriteString(w, `{"schema":1,"x":`)
			repeated(w, "[", 20<<20)
		}), "depth"},
		"another schema": {zipped(t, func(w io.Writer) { _, _ = io.WriteString(w, `{"schema":99}`) }), "schema 99"},
		"another type":   {zipped(t, func(w io.Writer) { _, _ = io.WriteString(w, `{"schema":1,"procs":7}`) }), "no scene"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := time.Now()
		got, err := unpack(tc.sent)
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), tc.want) || len(got.Procs) > 1<<19 {
			t.Errorf("%s: %v; want %q", name, err, tc.want)
		}
		if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 1500 {
			t.Errorf("%s: %d MiB for %d bytes", name, mb, len(tc.sent))
		} else {
			t.Logf("%s: %d bytes took %d MiB in %s", name, len(tc.sent), mb, time.Since(began).Round(time.Millisecond))
		}
	}
}

func TestWhatACompanionTellsIsBounded(t *testing.T) {
	var said bytes.Buffer
	event := rendezvous.Event{Text: "waiting"}
	tell(&said, []scene.Scene{seen("host1"), seen("host2\x1b[m")}, News{Waiting: &event})
	got, news, err := listened(&said)
	if err != nil || len(got) != 2 || got[0].Host != "host1" || strings.Contains(got[1].Host, "\x1b") ||
		news.Waiting == nil || news.Waiting.Text != "waiting" {
		t.Errorf("%+v, %+v, %v", got, news, err)
	}
	tell(&said, nil, News{})
	if got, news, err = listened(&said); err != nil || len(got) > 0 || news.known() {
		t.Errorf("no news: %v, %v, %v", got, news, err)
	}
	for _, text := range []string{"", "garbage", `{"Scene":{"schema":9}}`, `{"Scene":[]}`, `{"Waiting":{}} x`} {
		if _, _, err := listened(strings.NewReader(text)); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
	tell(&said, []scene.Scene{seen("host1")}, News{})
	said.WriteString("garbage")
	if got, _, err := listened(&said); err == nil || len(got) != 1 {
		t.Errorf("what came before is lost: %v, %v", got, err)
	}
}

// asked asks a socket as launch doctor does.
func asked(t *testing.T, pid int) ([]scene.Scene, []News) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	p := scene.Proc{Role: scene.Companion, PID: pid, User: os.Geteuid()}
	return Consult(ctx, []scene.Proc{p})
}

func TestADoctorAnswersItsUserAlone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p := &companion{ctx: ctx, spec: &Spec{}}
	defer func() { cancel(); p.wg.Wait() }()
	p.openDoctor()
	p.doctor.wait.Store(&rendezvous.Event{Text: "1 of 2"})
	scenes, waiting := asked(t, os.Getpid())
	if len(scenes) > 0 || len(waiting) != 1 || waiting[0].Waiting.Text != "1 of 2" {
		t.Errorf("%v, %v", scenes, waiting)
	}
	if _, waiting = asked(t, os.Getpid()+1); len(waiting) > 0 {
		t.Errorf("a process without a socket says %v", waiting)
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root to be another user")
	}
	for uid, want := range map[int]bool{12345: false, 0: true} {
		if got := readAs(t, uid, socketOf(os.Getpid())); (len(got) > 0) != want {
			t.Errorf("user %d: %q", uid, got)
		}
	}
}

// readAs reads from a socket as another user.
func readAs(t *testing.T, uid int, at *net.UnixAddr) (got []byte) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and the thread ends with this function
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); errno != 0 {
			t.Errorf("become user %d: %v", uid, errno)
			return
		}
		c, err := net.DialUnix("unix", nil, at)
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(5 * time.Second))
		got, _ = io.ReadAll(c)
	}()
	<-done
	return got
}

// Another process is first at the name of a companion's socket: neither the companion nor launch doctor suffers.
func TestASquattedSocketIsNotBelieved(t *testing.T) {
	l, err := net.ListenUnix("unix", socketOf(1)) // PID 1 is no companion
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.AcceptUnix()
			if err != nil {
				return
			}
			tell(c, []scene.Scene{seen("a lie")}, News{Waiting: &rendezvous.Event{Text: "a lie"}})
			c.Close()
		}
	}()
	if scenes, waiting := asked(t, 1); len(scenes) > 0 || len(waiting) > 0 {
		t.Errorf("it is believed: %v, %v", scenes, waiting)
	}
	own, err := net.ListenUnix("unix", socketOf(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	p := &companion{ctx: t.Context(), spec: &Spec{}}
	p.openDoctor() // without a socket
	if uid, pid, ok := peerOf(dialed(t, own)); !ok || uid != os.Geteuid() || pid != os.Getpid() {
		t.Errorf("the other end is %d, %d, %v", uid, pid, ok)
	}
}

// dialed connects to a socket.
func dialed(t *testing.T, l *net.UnixListener) *net.UnixConn {
	t.Helper()
	c, err := net.DialUnix("unix", nil, l.Addr().(*net.UnixAddr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// nodeOf returns a companion in a world, whose doctor has looked, and the partner that others see.
func nodeOf(t *testing.T, token secret.Token, self netip.Addr, known ...rendezvous.Partner) (*doctor,
	rendezvous.Partner) {
	t.Helper()
	p := &companion{ctx: t.Context(), spec: &Spec{Job: "j", Token: token, Self: rendezvous.Member{Host: "host0"}}}
	p.doctor = &doctor{p: p, last: seen("host0"), taken: time.Now().Add(time.Hour), known: known}
	keys := token.Keys("j")
	if keys != nil {
		p.tls = keys.Server()
	}
	l, err := sidechannel.Listen(lo, p.tls, "id", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	p.sideChannel = l
	w := &rendezvous.World{Rank: 1, Self: rendezvous.Member{Addr: self}}
	p.doctor.known = known
	p.doctor.world.Store(w)
	l.Show(p.doctor.shown, p.doctor.heard)
	n := rendezvous.Partner{Name: "host0", Rank: 1, ID: "id", Addr: lo, Peer: l.Port()}
	return p.doctor, n
}

func TestOnlyTheJobsNodesAreShown(t *testing.T) {
	other := netip.MustParseAddr("127.0.0.9")
	const token = secret.Token("0123456789abcdef")
	for _, tt := range []struct {
		name       string
		here, they secret.Token
		known      rendezvous.Partner
		want       bool
	}{
		{"an address of the job", "", "", rendezvous.Partner{Addr: lo}, true},
		{"a further address of the job", "", "", rendezvous.Partner{Addr: other, Addrs: []netip.Addr{lo}}, true},
		{"a stranger", "", "", rendezvous.Partner{Addr: other}, false},
		{"the token, from any address", token, token, rendezvous.Partner{Addr: other}, true},
		{"no token", token, "", rendezvous.Partner{Addr: lo}, false},
		{"another token", token, "fedcba9876543210", rendezvous.Partner{Addr: lo}, false},
	} {
		_, n := nodeOf(t, tt.here, other, tt.known)
		d, _ := nodeOf(t, tt.they, other)
		s, err := d.ask(t.Context(), n)
		if (err == nil) != tt.want || tt.want && s.Host != "host0" {
			t.Errorf("%s: %v, %v", tt.name, s.Host, err)
		}
	}
}

// A node without an answer is a gap; where its companion is gone, it has left.
func TestANodeThatDoesNotAnswer(t *testing.T) {
	_, n := nodeOf(t, "", lo, rendezvous.Partner{Addr: lo})
	refuses := rendezvous.Partner{Name: "host7", Rank: 7, ID: "id", Addr: lo, Peer: 1}
	left := rendezvous.Partner{Name: "host8", Rank: 8}
	odd := n
	odd.Name, odd.Rank, odd.ID = "host9", 9, "another"
	d, _ := nodeOf(t, "", lo, n, refuses, left, odd)
	got := d.consult(t.Context())
	if len(got) != 2 || got[0].Host != "host0" || len(got[1].Gaps) != 1 || got[1].Gaps[0].What != "host9 (node rank 9)" {
		t.Fatalf("%+v", got)
	}
	slices.SortFunc(got[1].Ended, func(a, b scene.Ended) int { return a.Rank - b.Rank })
	want := []scene.Ended{{Name: "host7", Rank: 7}, {Name: "host8", Rank: 8}}
	if diff := cmp.Diff(want, got[1].Ended); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, s := range got {
		if err := s.Sound(); err != nil {
			t.Errorf("%s: %v", s.Host, err)
		}
	}
}

// A look takes seconds, in which other questions are answered.
func TestALookDoesNotKeepOthersWaiting(t *testing.T) {
	d, n := nodeOf(t, "", lo, rendezvous.Partner{Addr: lo})
	d.known = []rendezvous.Partner{n}
	d.looking.Lock()
	defer d.looking.Unlock()
	began := time.Now()
	if all := d.others(t.Context()); len(all) != 1 || time.Since(began) > time.Second {
		t.Errorf("%v after %s", all, time.Since(began))
	}
}
