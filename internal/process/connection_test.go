package process

import (
	"net"
	"os"
	"testing"
	"time"
)

func TestConnectionsOfThisProcess(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	for _, end := range []net.Conn{c, peer} {
		if _, err := end.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
	}
	for until := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		for _, got := range new(Table).Connections(os.Getpid()) {
			if got.Remote == ends(t, l.Addr()) && got.Received == 5 && got.Unanswered() == 0 && got.Unread == 5 {
				if got.Held == 0 || got.Gap() || got.MSS == 0 || got.Sent != 5 {
					t.Errorf("%+v", got)
				}
				if again, ok := got.Again(); !ok || again != got {
					t.Errorf("again %+v, before %+v", again, got)
				}
				c.Close()
				if _, ok := got.Again(); ok {
					t.Error("a connection that has ended is there")
				}
				return
			}
		}
		if time.Now().After(until) {
			t.Fatalf("not seen: %+v", new(Table).Connections(os.Getpid()))
		}
	}
}

// Data waits for what did not arrive, or was sent and had no answer.
func TestWhatALossLeaves(t *testing.T) {
	c := Connection{Held: 2304}
	if !c.Gap() {
		t.Error("data that arrived out of order is no gap")
	}
	c.Unread = 3
	if c.Gap() {
		t.Error("data that a slow process has not read is a gap")
	}
	c.Sent, c.Acked = 2021, 22
	if n := c.Unanswered(); n != 2000 {
		t.Errorf("unanswered: %d", n)
	}
	c.Acked = 2022
	if n := c.Unanswered(); n != 0 {
		t.Errorf("unanswered, of all: %d", n)
	}
}
