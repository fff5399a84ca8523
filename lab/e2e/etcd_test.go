package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"launch/lab/netns"
)

// member is one server of an etcd, on a host of its own.
type member struct {
	t    *testing.T
	host *netns.Host
	argv []string
	data string
	log  *watched
	cmd  *exec.Cmd     // nil: not running
	done chan struct{} // closed when it ends
}

// external returns n hosts and an etcd of one member on one more host.
func external(t *testing.T, n int) *cluster {
	c, _ := externalCluster(t, n, 1)
	return c
}

// externalCluster returns n hosts and an etcd of several members, each on one
// further host.
func externalCluster(t *testing.T, n, members int) (*cluster, []*member) {
	t.Helper()
	bin, err := exec.LookPath("etcd")
	if err != nil {
		t.Skip("needs an etcd server in PATH (package etcd-server)")
	}
	lab := netns.New(t, n+members)
	var peers, clients []string
	for _, h := range lab.Hosts[n:] {
		peers = append(peers, h.Name+"=http://"+h.Addr+":2380")
		clients = append(clients, "http://"+h.Name+":2379")
	}
	var out []*member
	for i, h := range lab.Hosts[n:] {
		m := &member{t: t, host: h, data: filepath.Join(t.TempDir(), "data"), log: &watched{}}
		_, peer, _ := strings.Cut(peers[i], "=")
		m.argv = []string{bin, "--name", h.Name, "--data-dir", m.data,
			"--listen-client-urls", "http://0.0.0.0:2379", "--advertise-client-urls", "http://" + h.Addr + ":2379",
			"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", strings.Join(peers, ",")}
		t.Cleanup(m.kill)
		m.start()
		out = append(out, m)
	}
	return newCluster(t, lab, n, strings.Join(clients, ",")), out
}

// start starts the member with its data, unless it runs already.
func (m *member) start() {
	m.t.Helper()
	if m.cmd != nil {
		return
	}
	cmd, done := m.host.Command(m.t.Context(), m.argv...), make(chan struct{})
	cmd.Stdout, cmd.Stderr = m.log, m.log
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	go func() { _ = cmd.Wait(); close(done) }()
	m.cmd, m.done = cmd, done
}

// kill ends the member at once, as a power failure does.
func (m *member) kill() {
	if m.cmd == nil {
		return
	}
	_ = m.cmd.Process.Signal(syscall.SIGKILL)
	<-m.done
	m.cmd = nil
}

var became = regexp.MustCompile(`became leader at term (\d+)`)

// leader returns the member that was elected last.
func leader(members []*member) *member {
	best, term := members[0], -1
	for _, m := range members {
		for _, found := range became.FindAllStringSubmatch(m.log.String(), -1) {
			if n, _ := strconv.Atoi(found[1]); n > term {
				best, term = m, n
			}
		}
	}
	return best
}

// elected waits until there is a leader.
func elected(t *testing.T, members []*member) {
	t.Helper()
	limit := time.After(patience)
	for !became.MatchString(leader(members).log.String()) {
		select {
		case <-limit:
			t.Fatalf("etcd has no leader after %s:\n%s", patience, members[0].log)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// A client has a connection to each of several members, and most are idle. Half a
// minute later, etcd complains about pings on idle connections.
func TestALongWaitForNodesOnSeveralMembersIsQuiet(t *testing.T) {
	t.Parallel()
	c, members := externalCluster(t, 1, 3)
	elected(t, members)
	c.flags = []string{"--nnodes", "2", "--join-timeout", "45s"}
	n := c.startLine(0, []string{"true"})
	n.exits(75)
	n.ownWords()
}

// ownWords checks that launch itself wrote every line of stderr.
func (n *node) ownWords() {
	n.t.Helper()
	for line := range strings.Lines(n.err.String()) {
		if !strings.HasPrefix(line, "launch: ") && !strings.HasPrefix(line, "    ") {
			n.t.Errorf("%s printed a line that is not launch's: %q", n.name, line)
		}
	}
}

// Debian's installer gives a machine's own name the address 127.0.1.1: each node would look for the
// store on itself.
func TestAStoreNamesAnAddressThatOthersReach(t *testing.T) {
	t.Parallel()
	c := embedded(t, 1)
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	c.lab.Hosts[0].Etc("hosts", "127.0.0.1 localhost\n127.0.1.1 "+name+"\n")
	store := c.startBare(0, []string{tools.launch, "store"})
	store.says("on the nodes: launch --store http://10.77.0.1:29377")
	_ = store.cmd.Process.Signal(syscall.SIGINT)
	store.exits(0)
}
