package tcpstore_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"launch/internal/tcpstore"
)

// blob is a value of Gloo in torch 2.x.
func blob(host string, world int) string {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(host)))
	b = binary.LittleEndian.AppendUint64(append(b, host...), 136)
	addr := [136]byte{2, 0, 0x8d, 0xe1, 10, 88, 0, 1}
	return string(append(append(b, addr[:]...), make([]byte, 8*world)...))
}

// A store of torch 2.2 to 2.9 closes at the request for a list: the next connection asks by name.
func TestReadByName(t *testing.T) {
	f := &fake{noList: true, keys: map[string]string{
		"init/":                            "5",
		"/none/torchelastic/role_info/0":   `{"role": "default", "rank": 0, "local_world_size": 2}`,
		"/none/torchelastic/role_info/1":   `{"role": "default", "rank": 1, "local_world_size": 2}`,
		"/default_pg/0//cpu//0/3":          blob("h1", 4),
		"/default_pg/0//cpu//0/4":          blob("h1", 4), // outside the world that the agents make
		"/none/torchelastic/role_info/100": "{}",          // outside of the hints
	}}
	b, err := tcpstore.Read(t.Context(), f.start(t), tcpstore.Hints{})
	if err != nil {
		t.Fatal(err)
	}
	if !b.Unlisted || b.Keys != 6 || b.Clients != 5 || len(b.Agents) != 2 || len(b.Blobs) != 1 || b.Blobs[0].World != 4 {
		t.Errorf("board %+v", b)
	}
	if !strings.Contains(b.Cut, "torch before 2.10 cannot list its keys") {
		t.Errorf("cut %q", b.Cut)
	}
}

// A key that is deleted between CHECK and GET is no key, with both servers, and no error.
func TestKeyThatIsDeletedMeanwhile(t *testing.T) {
	for _, legacy := range []bool{false, true} {
		f := &fake{legacy: legacy, gone: "/default_pg/0//cpu//0/0", keys: map[string]string{
			"init/": "2", "/default_pg/0//cpu//0/0": blob("h0", 2),
		}}
		b, err := tcpstore.Read(t.Context(), f.start(t), tcpstore.Hints{})
		if err != nil || b.Clients != 2 {
			t.Errorf("legacy %v: %+v, %v", legacy, b, err)
		}
		if known := slices.ContainsFunc(b.Blobs, func(b tcpstore.Blob) bool { return b.Addr.IsValid() }); known {
			t.Errorf("legacy %v: %+v", legacy, b.Blobs)
		}
		if legacy != strings.Contains(b.Cut, "stopped answering") {
			t.Errorf("legacy %v: cut %q", legacy, b.Cut)
		}
	}
}

// Of a store that is far too large for its list, only what matters is read. Blobs of a large world are counted
// where their values are too many.
func TestLargeStores(t *testing.T) {
	many := &fake{keys: map[string]string{"init/": "7"}}
	for i := range 20_001 {
		many.keys[fmt.Sprint("/program/", i)] = "x"
	}
	b, err := tcpstore.Read(t.Context(), many.start(t), tcpstore.Hints{Nodes: 1, World: 1})
	if err != nil || b.Clients != 7 || !strings.Contains(b.Cut, "too many to list") ||
		slices.Contains(many.asked, "list") {
		t.Errorf("%+v, %v", b, err)
	}
	wide := &fake{keys: map[string]string{"/default_pg/0//cpu//0/0": strings.Repeat("x", 65<<10)}}
	for i := range 599 {
		wide.keys[fmt.Sprint("/default_pg/0//cpu//0/", i+1)] = blob("h", 4000)
	}
	wide.keys["/"+strings.Repeat("k", 5000)] = ""
	b, err = tcpstore.Read(t.Context(), wide.start(t), tcpstore.Hints{})
	if err != nil || b.Keys != 601 || len(b.Blobs) != 600 || b.Blobs[0].Addr.IsValid() || !b.Blobs[1].Addr.IsValid() ||
		b.Blobs[599].Addr.IsValid() {
		t.Errorf("%d keys, %d blobs, %v", b.Keys, len(b.Blobs), err)
	}
	for _, part := range []string{"1 keys are longer", "only 16 MiB of values were read", "1 values are too large"} {
		if !strings.Contains(b.Cut, part) {
			t.Errorf("cut %q does not say %q", b.Cut, part)
		}
	}
}

// A store that is slow is left before the time is over, between two requests; the blobs are counted.
func TestSlowStore(t *testing.T) {
	f := &fake{slow: 2 * time.Millisecond, keys: map[string]string{"init/": "9"}}
	for i := range 900 {
		f.keys[fmt.Sprint("/default_pg/0//cpu//0/", i)] = blob("h", 4)
	}
	b, err := tcpstore.Read(t.Context(), f.start(t), tcpstore.Hints{})
	if err != nil || b.Clients != 9 || len(b.Blobs) != 900 || !strings.Contains(b.Cut, "time was not enough") {
		t.Errorf("%d blobs, cut %q, %v", len(b.Blobs), b.Cut, err)
	}
}

// recorder keeps every write of a connection.
type recorder struct {
	net.Conn
	mu     *sync.Mutex
	writes *[]string
}

func (r recorder) Write(b []byte) (int, error) {
	r.mu.Lock()
	*r.writes = append(*r.writes, string(b))
	r.mu.Unlock()
	return r.Conn.Write(b)
}

// Each write is whole requests of the five that disturb nobody, whatever the store is: the first write of a
// connection is the handshake, keys are short, and no write is large.
func TestReadWritesWholeHarmlessRequests(t *testing.T) {
	keys := map[string]string{"init/": "3"}
	for i := range 500 {
		keys[fmt.Sprint("/default_pg/0//cpu//0/", i)] = blob("h0", 4)
		keys["/default_pg/store_based_barrier_key:"+strings.Repeat("k", i)] = "1"
	}
	keys["/default_pg/store_based_barrier_key:"+strings.Repeat("k", 3000)] = "1"
	for name, f := range map[string]*fake{
		"current": {keys: keys}, "without a list": {keys: keys, noList: true}, "old": {keys: keys, old: true},
	} {
		var mu sync.Mutex
		var writes [][]string
		dial := f.start(t)
		b, err := tcpstore.Read(t.Context(), func(ctx context.Context) (net.Conn, error) {
			conn, err := dial(ctx)
			writes = append(writes, nil)
			return recorder{conn, &mu, &writes[len(writes)-1]}, err
		}, tcpstore.Hints{Runs: []string{strings.Repeat("r", 5000), "a"}, World: 500, Nodes: 500})
		slow := strings.Contains(b.Cut, "the time was not enough") // on a busy machine; the requests are the same
		if err != nil || b.Clients != 3 || len(b.Blobs) == 0 && !slow {
			t.Errorf("%s: %+v, %v", name, b, err)
		}
		for i, of := range writes {
			spoken := f.old && i == 1 // the first one is for a current store
			for n, w := range of {
				if err := harmless(w, n == 0, spoken); err != nil {
					t.Errorf("%s, connection %d, write %d: %v", name, i, n, err)
				}
			}
		}
		if slices.Contains(f.asked, "") != (f.noList || f.old) && name != "old" {
			t.Errorf("%s: asked something unknown", name)
		}
	}
}

func harmless(w string, first, old bool) error {
	if len(w) > 16<<10 {
		return fmt.Errorf("%d bytes", len(w))
	}
	keyless, keyed := "\x07\x11", "\x05\x03" // GETNUMKEYS, LIST_KEYS; CHECK, GET
	if old {
		keyless, keyed = "\x06", "\x04\x02"
	} else if first {
		if w != "\x00\xce\xf7\x85\x3c\x07\x07\x07\x07" {
			return fmt.Errorf("begins with %q", w)
		}
		return nil
	}
	for w != "" {
		op := w[0]
		w = w[1:]
		switch {
		case strings.IndexByte(keyless, op) >= 0:
			continue
		case strings.IndexByte(keyed, op) < 0:
			return fmt.Errorf("the request %d", op)
		case op == keyed[0]:
			if len(w) < 8 || w[:8] != "\x01\x00\x00\x00\x00\x00\x00\x00" {
				return errors.New("a CHECK of more than one key, or half of one")
			}
			w = w[8:]
		}
		if len(w) < 8 {
			return errors.New("half a request")
		}
		n := binary.LittleEndian.Uint64([]byte(w))
		if w = w[8:]; n > 1<<10 || uint64(len(w)) < n {
			return fmt.Errorf("a key of %d bytes in %d", n, len(w))
		}
		w = w[n:]
	}
	return nil
}

func TestAddressesAreThoseOfTheBlob(t *testing.T) {
	f := &fake{keys: map[string]string{
		"/default_pg/0//cpu//0/0":                                   blob("h\x1b0", 4),
		"/default_pg/0//7//cpu//0/1":                                blob("h1", 0), // TORCH_GLOO_LAZY_INIT=1
		"/default_pg/0//" + strings.Repeat("ab", 20) + "//cpu//0/0": blob("h1", 2),
	}}
	b, err := tcpstore.Read(t.Context(), f.start(t), tcpstore.Hints{})
	if err != nil || len(b.Blobs) != 3 {
		t.Fatalf("%+v, %v", b, err)
	}
	at := netip.MustParseAddrPort("10.88.0.1:36321")
	want := []tcpstore.Blob{{Group: -1, Host: "h1", World: 2}, {Host: "h?0", World: 4}, {Group: 7, Index: 1, Host: "h1"}}
	for i, w := range want {
		w.Key, w.Addr = b.Blobs[i].Key, at
		if !reflect.DeepEqual(b.Blobs[i], w) {
			t.Errorf("blob %+v, want %+v", b.Blobs[i], w)
		}
	}
}
