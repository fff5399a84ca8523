package e2e

import (
	"os/exec"
	"testing"
)

// server listens where the other nodes do not call it, and later everywhere; then it serves one caller, who says what
// it sees.
const server = `
import socket, time
a = socket.create_server(("127.0.0.1", 7788))
time.sleep(7)
a.close()
b = socket.create_server(("", 7788))
c, _ = b.accept()
print("served", c.recv(99).decode())
`

// A role starts once the other one listens at the address that its nodes call, and nothing but the role calls there.
func TestARoleWaitsUntilAnotherListens(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3")
	}
	c := embedded(t, 3)
	argv := func(more ...string) []string {
		return append([]string{tools.launch, "--store", c.store, "--nnodes", "3", "--join-timeout", joinTimeout}, more...)
	}
	target := c.startBare(1, argv("--role", "target", python, "-c", server))
	idle := c.startBare(0, argv("--role", "idle", "true"))
	reader := c.startBare(2, argv("--role", "reader", "--after", "target:7788", python, "-c",
		`import os, socket; socket.create_connection((os.environ["ROLE_TARGET_ADDR"], 7788)).send(b"a reader")`))
	for _, n := range []*node{target, idle, reader} {
		n.exits(0)
	}
	target.prints("served a reader")
	reader.says("a program listens there, but not at " + c.lab.Hosts[1].Addr)
	reader.says("listens on port 7788, after")
}
