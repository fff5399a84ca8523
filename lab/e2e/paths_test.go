package e2e

import (
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"launch/lab/netns"
)

// talks has ranks 1 and 2 exchange some bytes now and then, until they have no connection.
const talks = `
import os, socket, sys, time
rank = int(os.environ["RANK"])
print("begun", flush=True)
if rank == 0:
    time.sleep(600)
if rank == 2:
    with socket.create_server(("", 9000)) as l:
        c, _ = l.accept()
while rank == 1:
    try:
        c = socket.create_connection(("host2", 9000))
        break
    except OSError:
        time.sleep(0.1)
print("talks", flush=True)
while True:
    c.sendall(b"x" * 64)
    c.recv(64, socket.MSG_WAITALL)
    time.sleep(0.1)
`

// sayLimit is how soon a node says that a path to another one is lost: a connection is stuck after 1.4 s, then come a
// poll of 5 s and a look of 4 s.
const sayLimit = 15 * time.Second

// pairs starts three nodes, of which the last two exchange bytes, and waits until a poll has found nothing.
func pairs(t *testing.T) (c *cluster, nodes []*node) {
	t.Helper()
	c = embedded(t, 3)
	c.line = []string{"python3", "-c", talks}
	c.flags = append(c.flags, "--nnodes", "3")
	for i := range 3 {
		nodes = append(nodes, c.start(i, "--node-rank", strconv.Itoa(i)))
	}
	nodes[1].prints("talks\n")
	nodes[2].prints("talks\n")
	pause(t, 7*time.Second)
	return c, nodes
}

func TestAPathThatIsLostWhileTheJobRunsIsNamedByBothEnds(t *testing.T) {
	t.Parallel()
	c, nodes := pairs(t)
	hosts := c.lab.Hosts
	at := time.Now()
	hosts[1].Filter("input", "ip saddr 10.77.0.3 drop")
	hosts[2].Filter("input", "ip saddr 10.77.0.2 drop")
	for i, to := range map[int]string{1: "10.77.0.3", 2: "10.77.0.2"} {
		nodes[i].says("job.path")
		nodes[i].says("path.lost")
		nodes[i].says(to)
		nodes[i].says("vm (10.77.0.1) reaches both")
		if took := time.Since(at); took > sayLimit {
			t.Errorf("%s says it after %s", nodes[i].name, took)
		}
	}
	pause(t, 8*time.Second)
	for i, want := range []int{0, 1, 1} {
		if got := strings.Count(nodes[i].err.String(), "launch: warn job.path"); got != want {
			t.Errorf("%s says it %d times, want %d:\n%s", nodes[i].name, got, want, nodes[i].err)
		}
	}
	for _, n := range nodes {
		_ = n.cmd.Process.Signal(syscall.SIGTERM)
		n.exits(143)
	}
}

// TestTheEndThatDropsIsNamed: in one direction packets arrive, or one end shows itself why they do not.
func TestTheEndThatDropsIsNamed(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fault func(h *netns.Host, others ...*netns.Host)
		says  string
	}{
		"a filter of what arrives": {func(h *netns.Host, _ ...*netns.Host) { h.Filter("input", "ip saddr 10.77.0.3 drop") },
			"the answers of 10.77.0.3 arrive at eth0 of vm (10.77.0.2), and vm (10.77.0.2) drops them, or " +
				"rewrites their addresses: its own rules"},
		"rp_filter": {func(h *netns.Host, others ...*netns.Host) {
			h.NIC("eth9", "192.168.99.2/24")
			for _, o := range others { // they do not take eth9's hardware address for the way to h
				o.Run("", "sh", "-c", "ip neigh show "+h.Addr+" | "+
					"awk '{print \"ip neigh replace\", $1, \"lladdr\", $5, \"dev\", $3, \"nud permanent\"}' | sh")
			}
			h.Run("", "sysctl", "-qw", "net.ipv4.conf.all.rp_filter=1")
			h.Run("", "ip", "route", "add", others[1].Addr, "dev", "eth9")
		}, "vm (10.77.0.2) sends packets from 10.77.0.2 to 10.77.0.3 by eth9 now, and sent them by eth0 while they arrived"},
		"IPsec": {func(h *netns.Host, _ ...*netns.Host) {
			h.Run("", "ip", "xfrm", "policy", "add", "dst", "10.77.0.3/32", "dir", "out", "tmpl", "src", "10.77.0.2", "dst",
				"10.77.0.3", "proto", "esp", "mode", "transport")
		}, "vm (10.77.0.2)'s IPsec has a policy for packets to 10.77.0.3 and no security association"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, nodes := pairs(t)
			at := time.Now()
			tt.fault(c.lab.Hosts[1], c.lab.Hosts[0], c.lab.Hosts[2])
			nodes[2].says(tt.says)
			nodes[1].says(tt.says)
			if took := time.Since(at); took > 2*sayLimit { // a second look, on a busy machine
				t.Errorf("said after %s", took)
			}
			for _, n := range nodes {
				_ = n.cmd.Process.Signal(syscall.SIGTERM)
				n.exits(143)
			}
		})
	}
}
