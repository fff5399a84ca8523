package tcpstore_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"launch/internal/tcpstore"
)

// client is a rank's connection to a store of torch 2.x.
func client(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := io.WriteString(c, "\x00\xce\xf7\x85\x3c\x07"); err != nil {
		t.Fatal(err)
	}
	text(c, 8)
	return c
}

func about(op string, key string) string {
	n := binary.LittleEndian.AppendUint64
	b := []byte(op)
	if op != "\x03" {
		b = n(b, 1)
	}
	return string(append(n(b, uint64(len(key))), key...))
}

// A reader wakes no client that waits for a key, and keeps none waiting that asks: 200 wait, one asks all the
// time, and 20 readings of 1,000 keys come in between.
func TestReadDisturbsNobody(t *testing.T) {
	for _, kind := range []string{"libuv", "legacy"} {
		t.Run(kind, func(t *testing.T) {
			var stderr bytes.Buffer
			addr := store(t, kind, 1000, &stderr)
			before := stderr.String()
			var waiting []net.Conn
			for i := range 200 {
				c := client(t, addr)
				if _, err := io.WriteString(c, about("\x06", fmt.Sprint("/waited/", i%50))); err != nil { // WAIT
					t.Fatal(err)
				}
				waiting = append(waiting, c)
			}
			busy := askAlways(t, addr)
			time.Sleep(500 * time.Millisecond)
			quiet := busy()
			busy = askAlways(t, addr)
			var took []time.Duration
			for range 20 {
				begin := time.Now()
				if b := read(t, addr, tcpstore.Hints{}); b.Keys != 1017 {
					t.Fatalf("%d keys", b.Keys)
				}
				took = append(took, time.Since(begin))
			}
			asked := busy()
			t.Logf(
				"%d requests without a reader: longest %v; %d with one: median %v, longest %v; a reading: median %v, longest %v",
				len(quiet),
				slices.Max(quiet),
				len(asked),
				median(asked),
				slices.Max(asked),
				median(took),
				slices.Max(took),
			)
			if worst := slices.Max(asked); worst > time.Second {
				t.Errorf("a client waited %v for an answer", worst)
			}
			for _, c := range waiting {
				_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
				if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Fatalf("a waiting client was woken: %d bytes, %v", n, err)
				}
			}
			if stderr.String() != before {
				t.Errorf("the store wrote: %s", stderr.String())
			}
			// They still wait: the key wakes those that wait for it.
			setter := client(t, addr)
			set := "\x01" + about("", "/waited/7")[8:] + "\x01\x00\x00\x00\x00\x00\x00\x00v"
			if _, err := io.WriteString(setter, set); err != nil {
				t.Fatal(err)
			}
			_ = waiting[7].SetReadDeadline(time.Now().Add(5 * time.Second))
			if got := text(waiting[7], 1); got != "\x00" {
				t.Errorf("the key does not wake its waiter: %q", got)
			}
		})
	}
}

func median(d []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(d))[len(d)/2]
}

// askAlways asks for a key all the time, until end is called, which returns how long each answer took.
func askAlways(t *testing.T, addr string) (end func() []time.Duration) {
	c := client(t, addr)
	var stop atomic.Bool
	done := make(chan []time.Duration)
	go func() {
		var took []time.Duration
		for !stop.Load() {
			begin := time.Now()
			_, _ = io.WriteString(c, about("\x05", "/counter"))
			if got := text(c, 1); got != "\x00" {
				t.Errorf("a check of the job's own: %q", got)
				break
			}
			took = append(took, time.Since(begin))
		}
		done <- took
	}()
	return func() []time.Duration { stop.Store(true); return <-done }
}
