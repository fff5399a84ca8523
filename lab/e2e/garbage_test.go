package e2e

import (
	"strings"
	"testing"
	"time"
)

// limit is less than two waits of --join-timeout 6s after launch has read its line: a last look at what is wrong and a
// goodbye take 2.5 s, and more on a busy machine. A wait that begins anew takes longer.
const limit = 11 * time.Second

// holds checks that a node ends within limit after its first line, and returns with what.
func (n *node) holds() int {
	n.t.Helper()
	n.says("store at ")
	began := time.Now()
	status := n.ends()
	if took := time.Since(began); took > limit {
		n.t.Errorf("took %s", took)
	}
	n.t.Logf("%d after %s: %s", status, time.Since(began), n.err)
	return status
}

// garbage is a program that answers every connection to the store's port in one way.
func garbage(answer string) []string {
	return []string{"python3", "-c", `
import os, socket, threading, time
def each(c):
    try:
        ` + answer + `
    except OSError: pass
s = socket.create_server(("", 29377), backlog=512)
print("listens", flush=True)
held = []
while True:
    c, _ = s.accept()
    held.append(c)
    threading.Thread(target=each, args=(c,), daemon=True).start()
`}
}

// Whatever answers at the store's port, the wait ends with --join-timeout and says that no store is there.
func TestTheJoinTimeoutHoldsWhateverAnswers(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"silence":  `time.sleep(1000)`,
		"noise":    `c.sendall(os.urandom(65536)); time.sleep(1000)`,
		"stream":   `[c.sendall(os.urandom(4096)) or time.sleep(0.05) for _ in range(10**6)]`,
		"the end":  `c.close()`,
		"HTTP":     `c.recv(10); c.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"); c.close()`,
		"SSH":      `c.sendall(b"SSH-2.0-OpenSSH_9.2\r\n"); time.sleep(1000)`,
		"settings": `c.sendall(b"\0\0\0\4\0\0\0\0\0"); time.sleep(1000)`,
		"settings and noise": `c.sendall(b"\0\0\0\4\0\0\0\0\0"); c.recv(1000); c.sendall(b"\0\0\0\4\1\0\0\0\0"); ` +
			`time.sleep(0.3); c.sendall(os.urandom(4096)); time.sleep(1000)`,
		"drops": `c.sendall(b"\0\0\0\4\0\0\0\0\0"); time.sleep(0.2); c.close()`,
	} {
		for _, token := range []string{"", "LAUNCH_TOKEN=8c1f0e6b7a2d94b5c3f8a1e0d7b6c5a4"} {
			t.Run(name+" "+token, func(t *testing.T) {
				t.Parallel()
				c := embedded(t, 2)
				g := c.startBare(0, garbage(answer))
				g.prints("listens")
				c.flags = []string{"--nnodes", "2", "--join-timeout", "6s"}
				c.line = []string{"true"}
				if token != "" {
					c.env = append(c.env, token)
				}
				n := c.start(1)
				if status := n.holds(); status != 69 && status != 78 {
					t.Errorf("ended with %d: %s", status, n.err)
				}
			})
		}
	}
}

// A process that speaks gRPC at the store's port, and is no store.
func TestTheJoinTimeoutHoldsWhateverSpeaksGRPC(t *testing.T) {
	t.Parallel()
	bin := stranger(t)
	for _, mode := range []string{"event without a key", "never answers", "says nothing", "is unavailable", "fails",
		"sends noise", "grants, and is silent", "grants no time", "refuses for ever", "registers, and floods"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			c := embedded(t, 2)
			g := c.startBare(0, []string{bin, "serve", mode})
			g.prints("listens")
			c.flags = []string{"--nnodes", "2", "--join-timeout", "6s"}
			c.line = []string{"true"}
			n := c.start(1)
			if status := n.holds(); status != 69 && status != 75 {
				t.Errorf("ended with %d: %s", status, n.err)
			}
			if strings.Contains(n.err.String(), "\x1b") {
				t.Error("it prints what a terminal interprets")
			}
		})
	}
}
