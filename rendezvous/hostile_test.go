package rendezvous

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"launch/rendezvous/protocol"
)

// What no node can have written is not readable, and nothing that follows sees it.
func TestWhatNoNodeCanHaveWrittenIsNotReadable(t *testing.T) {
	for _, text := range []string{`{}`, `{"size": -7}`, `{"size": 4294967296}`, `{"size": 2, "index": -2}`,
		`{"size": 2, "port": 70000}`, `{"size": 2, "restarts": -1}`, `{"size": 2, "epoch": -1}`, `{"size": 2, "min": 3}`,
		`{"size": 2, "patience": -5}`, `[]`, `{"size": "2"}`} {
		if v := as[Member]([]byte(text)); v != nil {
			t.Errorf("member %s: %+v", text, v)
		}
	}
	for _, text := range []string{`{}`, `{"state": "sealed", "size": 2, "nonce": "0123456789abcdef"}`,
		`{"state": "sealed", "size": 2, "nonce": "1", "master": {}}`, `{"state": "open", "size": -1}`,
		`{"state": "other"}`, `{"state": "started", "nonce": "0123456789abcdef", "master": {"size": -1}}`} {
		if v := as[Epoch]([]byte(text)); v != nil {
			t.Errorf("epoch %s: %+v", text, v)
		}
	}
	for _, text := range []string{`{"rank": -7}`, `{"rank": 1000000000000}`, `{"partners": [{"rank": -1}]}`} {
		if v := as[Place]([]byte(text)); v != nil {
			t.Errorf("place %s: %+v", text, v)
		}
	}
	long, short := strings.Repeat("ü", protocol.NoteText), strings.Repeat("ü", protocol.NoteName)
	for text, want := range map[string]bool{`{"index": -1}`: true, `{"index": -2}`: false,
		`{"name": "` + short + `", "text": "` + long + `"}`: true, `{"text": "` + long + `x"}`: false,
		`{"name": "` + short + `x"}`: false, `{"text": "` + strings.Repeat(long, 100) + `"}`: false} {
		if v := as[Note]([]byte(text)); (v != nil) != want {
			t.Errorf("note %.40s: %t", text, v != nil)
		}
		if v := as[protocol.Report]([]byte(`{"unfit": [` + text + `]}`)); (v != nil) != want {
			t.Errorf("report of note %.40s: %t", text, v != nil)
		}
	}
	for key, want := range map[string]bool{"go/0": true, "go/-7": false, "go/+1": false, "go/01": false, "go/": false,
		"go/1000000000000": false} {
		k := protocol.KeysOf("j")
		if _, _, ok := k.Posted(k.Posts + "1/" + key); ok != want {
			t.Errorf("post %s: %t", key, ok)
		}
	}
}

// Whatever a value says, people read no text that controls a terminal or that is reversed.
func TestTextsOfOtherNodesArePrintable(t *testing.T) {
	const evil = "a\\u001b[2Jb\\u009b\\u202ec\\u0000\\nd"
	const member = `{"id": "` + evil + `", "size": 2, "host": "` + evil + `", "left": "` + evil + `"}`
	const partner = `{"name": "` + evil + `", "id": "` + evil + `"}`
	for name, v := range map[string]any{
		"member": as[Member]([]byte(member)),
		"epoch": as[Epoch]([]byte(`{"state": "sealed", "size": 2, "nonce": "0123456789abcdef", "first": "` + evil +
			`", "why": "` + evil + `", "master": ` + member + `}`)),
		"place": as[Place]([]byte(`{"name": "` + evil + `", "partners": [` + partner + `]}`)),
		"note":  as[Note]([]byte(`{"name": "` + evil + `", "text": "` + evil + `"}`)),
		"report": as[protocol.Report]([]byte(`{"here": ["` + evil + `"], "left": [` + member + `], "unfit": [{"text": "` +
			evil + `"}]}`)),
		"lateness": as[protocol.Lateness]([]byte(`{"who": ["` + evil + `"], "lost": ["` + evil + `"], "failed": ["` + evil +
			`"]}`)),
	} {
		b, err := json.Marshal(v)
		if err != nil || v == nil || !strings.Contains(string(b), "a\ufffd[2Jb\ufffd\ufffdc\ufffd d") {
			t.Errorf("%s: %s, %v", name, b, err)
		}
		if strings.Contains(string(b), `\u00`) || strings.ContainsAny(string(b), "\u009b\u202e") {
			t.Errorf("%s has control characters: %q", name, b)
		}
	}
}

// Posts under ranks that the world does not have do not stand for those that are missing.
func TestPostsOfOtherRanksDoNotCount(t *testing.T) {
	eachStore(t, func(t *testing.T, b *bench) {
		ctx := short(t, 15*time.Second)
		m := func(host string) Member { return Member{Index: -1, Size: 2, Host: host} }
		x, y := b.enter(m("x")), b.enter(m("y"))
		w := worlds(t, x.join(ctx), y.join(ctx))[0]
		k := protocol.KeysOf(b.job)
		for _, rank := range []int{-7, 5, 7} {
			if _, err := b.store.inside(t).Put(ctx, k.Post(w.Epoch, "go", rank), "{}"); err != nil {
				t.Fatal(err)
			}
		}
		done := make(chan error, 2)
		for _, n := range []*node{x, y} {
			time.Sleep(300 * time.Millisecond)
			go func() {
				_, err := n.Round(ctx, "go", []byte(n.me().Host), func(posts [][]byte) ([]byte, bool) {
					if len(posts) != 2 || len(posts[0]) != 1 || len(posts[1]) != 1 {
						t.Errorf("decided on %q", posts)
					}
					return []byte("{}"), true
				})
				done <- err
			}()
		}
		for range 2 {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Whatever the store says, a node that waits for a world does not panic.
func FuzzWhatTheStoreSays(f *testing.F) {
	const nonce = "0123456789abcdef"
	k := protocol.KeysOf("j")
	self := Member{ID: "me", Index: -1, Size: 2, Host: "me", Phase: PhaseArrived}
	master, _ := json.Marshal(self)
	for _, state := range []string{"open", "sealed", "started", "over"} {
		f.Add(fmt.Appendf(nil, `{"n":1,"state":%q,"size":2,"nonce":%q,"master":%s,"restarts":1}`, state, nonce, master),
			[]byte(`{"rank": 1, "id": "me", "partners": [{"rank": 0}]}`), master, []byte(`{}`))
	}
	f.Fuzz(func(t *testing.T, epoch, place, member, post []byte) {
		s := &Session{k: k}
		said := func(key string, value []byte) protocol.KV {
			return s.decode(&mvccpb.KeyValue{Key: []byte(key), Value: value, CreateRevision: 2, ModRevision: 2})
		}
		kvs := []protocol.KV{said(k.Place(nonce, self), place), said(k.Epoch, epoch), said(k.Members+"x", member),
			said(k.Post(1, "go", 0), post), said(k.Leader, member), said(k.Late, post), said(k.Progress, post)}
		now := time.Unix(1, 0)
		n := protocol.New(protocol.Config{Job: "j", TTL: testTTL, StartTimeout: time.Minute, Self: self}, table())
		answer := func(actions []protocol.Action) { // each request, with what it reads of the keys
			for range 50 {
				i := slices.IndexFunc(actions, func(a protocol.Action) bool { return len(a.Then) > 0 || a.Kind == protocol.Grant })
				if i < 0 {
					return
				}
				ask := actions[i]
				now = now.Add(time.Second)
				e := protocol.Event{Kind: ask.Kind, Ask: &ask, OK: true, Lease: 1, Rev: 3}
				if ask.Kind == protocol.ReadPlace {
					e.KVs = kvs[:1]
				} else if ask.Kind != protocol.Grant {
					e.KVs = kvs[1:]
				}
				actions = n.Step(now, e)
			}
		}
		answer(n.Step(now, protocol.Event{Kind: protocol.Join, Budget: time.Hour}))
		answer(n.Step(now, protocol.Event{Kind: protocol.Begin}))
		for _, kind := range []protocol.Kind{protocol.Control, protocol.Own, protocol.Job, protocol.Look, protocol.Woken} {
			answer(n.Step(now, protocol.Event{Kind: kind, KVs: kvs}))
		}
	})
}
