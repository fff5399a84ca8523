package e2e

import (
	"debug/elf"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"launch/lab/programs"
)

// skew builds the library that sets the wall clock of a process ahead. The result
// returns what to add to the environment. libfaketime does not serve: it replaces
// functions of libc, which Go does not call for the time.
func skew(t *testing.T) (ahead func(time.Duration) []string) {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil || runtime.GOARCH != "amd64" {
		t.Skip("needs gcc and x86-64 to set a process's clock")
	}
	lib := filepath.Join(t.TempDir(), "skew.so")
	if out, err := exec.Command(gcc, "-O2", "-fno-stack-protector", "-fcf-protection=none", "-shared", "-fPIC", "-o", lib,
		"testdata/skew.c").CombinedOutput(); err != nil {
		t.Fatalf("testdata/skew.c: %v\n%s", err, out)
	}
	ahead = func(d time.Duration) []string {
		return []string{"LD_PRELOAD=" + lib, "SKEW=" + strconv.Itoa(int(d.Seconds()))}
	}
	date := exec.Command("date", "+%s")
	date.Env = ahead(time.Hour)
	out, err := date.CombinedOutput()
	if said, _ := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64); err != nil || said < time.Now().
		Add(time.Hour/2).Unix() {
		t.Skipf("this machine does not allow a process another clock: %q, %v", out, err)
	}
	return ahead
}

// loaded skips the test where launch is static and cannot preload a library.
func loaded(t *testing.T) {
	t.Helper()
	f, err := elf.Open(tools.launch)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Section(".interp") == nil {
		t.Skip("needs a launch built with cgo, to set its clock")
	}
}

func TestANodeWithAWrongClockStarts(t *testing.T) {
	for name, off := range map[string]time.Duration{"20 s": 20 * time.Second, "1 h": time.Hour, "-1 h": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			ahead := skew(t)
			loaded(t)
			eachStore(t, 3, func(c *cluster) {
				// host0 hosts the embedded store, so its clock differs from all others.
				for _, host := range []int{0, 2} {
					clockOff(c, host, off, ahead(off))
				}
			})
		})
	}
}

// clockOff trains while the clock of one host is wrong.
func clockOff(c *cluster, host int, off time.Duration, env []string) {
	c.t.Helper()
	argv := append([]string{tools.launch, "--store", c.store, "--job", "off-" + c.lab.Hosts[host].Name}, c.flags...)
	argv = append(argv, c.line...)
	// With a token the store speaks TLS, and certificates have a time.
	secret := "LAUNCH_TOKEN=0123456789abcdef0123456789abcdef"
	var nodes []*node
	for i := range 3 {
		if i == host {
			nodes = append(nodes, c.startBare(i, argv, append(env, secret)...))
		} else {
			nodes = append(nodes, c.startBare(i, argv, secret))
		}
	}
	trained(c.t, 2, nodes...)
	if c.t.Failed() {
		return
	}
	// Its output shows that its clock was wrong.
	seen := until(c.t, nodes[host]).Sub(until(c.t, nodes[1])) - off
	if seen = (seen+36*time.Hour)%(24*time.Hour) - 12*time.Hour; seen.Abs() > 10*time.Second {
		c.t.Errorf("the clock of host%d is off by %s; want %s", host, off+seen, off)
	}
}

var untilTime = regexp.MustCompile(`until (\d\d:\d\d:\d\d)`)

// until returns the time of day until which a node prints that it waits.
func until(t *testing.T, n *node) time.Time {
	t.Helper()
	found := untilTime.FindStringSubmatch(n.err.String())
	if found == nil {
		t.Fatalf("%s did not print until when it waits", n.name)
	}
	at, err := time.Parse(time.TimeOnly, found[1])
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// c10d is one node of torch's own rendezvous of two.
const c10d = `
import datetime, os, sys, time
from torch.distributed import TCPStore
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import DynamicRendezvousHandler, RendezvousTimeout
me = sys.argv[1]
store = TCPStore("host0", 29400, is_master=me == "host0", wait_for_workers=False,
                 timeout=datetime.timedelta(seconds=60))
wait = RendezvousTimeout(join=datetime.timedelta(seconds=40))
handler = DynamicRendezvousHandler.from_backend("x", store, C10dRendezvousBackend(store, "x"), 2, 2, timeout=wait)
try:
    got = handler.next_rendezvous()
    rank, size = (got.rank, got.world_size) if hasattr(got, "rank") else got[1:]
    print("node", rank, "of", size, flush=True)
except Exception as e:
    print(type(e).__name__, e, flush=True)
if me == "host0":
    store.wait(["done"])
else:
    store.set("done", "yes")
os._exit(0)
`

// torch's c10d counts a node as dead if its heartbeat is older than 15 s by the
// reader's clock. The two nodes then have different worlds, and both continue.
func TestC10dMakesTwoWorldsWhereAClockIsOff(t *testing.T) {
	torch, ahead := programs.AnyTorch(t), skew(t)
	for name, off := range map[string]time.Duration{"right": 0, "1 h ahead": time.Hour} {
		t.Run(name, func(t *testing.T) {
			c := withTorch(t, 2, torch)
			nodes := []*node{
				c.startBare(0, []string{torch.Python, "-c", c10d, "host0"}),
				c.startBare(1, []string{torch.Python, "-c", c10d, "host1"}, ahead(off)...),
			}
			whole := 0
			for _, n := range nodes {
				n.exits(0)
				t.Logf("%s: %s", n.name, strings.TrimSpace(n.out.String()))
				if strings.Contains(n.out.String(), " of 2\n") {
					whole++
				}
			}
			if same := whole == 2; same != (off == 0) {
				t.Errorf("%d of 2 nodes are in a world of 2", whole)
			}
		})
	}
}
