package k8s

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// remembers is for how many seconds the cluster's DNS keeps an answer.
const remembers = 30

// DNS prints the fourth table of docs/benchmarks.md, Kubernetes: starts while the cluster's DNS remembers that pod 0's
// name does not exist, or the address that pod 0 of the Job before had.
func TestDNS(t *testing.T) {
	up(t, 2, fmt.Sprintf("K8SLAB_DNS_CACHE=%d", remembers)).tabulate(t, "dns", (*lab).forgets)
}

// forgets starts a Job twice, and replaces pod 0 in between.
func (l *lab) forgets(t *testing.T, w way, name string, n int, results *table) {
	text := l.manifest(t, name, n, w.change(l, name, n))
	defer l.remove(text)
	if l.asked(t, name) {
		t.Fatalf("%s exists before it is made", name)
	}
	if !l.starts(t, `DNS remembers "no such name": first start`, w, name, n, text, results) {
		return
	}
	since, removed := time.Now(), losses()[2]
	if out, err := removed.do(l, l.of(t, name, removed.pod)); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	r := l.trains(name, n, since, w.bound(n))
	l.report(t, w, "DNS remembers: "+removed.what, name, n, r, results)
	if r.after == 0 {
		return
	}
	time.Sleep((remembers + 1) * time.Second) // no cache has the name any more
	if !l.asked(t, name) {
		t.Errorf("no name server knows pod 0 of %s", name)
	}
	l.remove(text)
	if !l.asked(t, name) {
		t.Logf("%s: the old address is not remembered until the next apply", name)
	}
	l.starts(t, "DNS remembers the address of the Job before: next start", w, name, n, text, results)
}

// asked asks the cluster's DNS for pod 0, and reports whether it has an address.
func (l *lab) asked(t *testing.T, name string) bool {
	t.Helper()
	full := fmt.Sprintf("%s-0.%[1]s.default.svc.cluster.local", name)
	c := exec.Command("./k", "busybox", "nslookup", full, "10.96.0.10")
	c.Env = append(os.Environ(), "K8SLAB_IN=node-1")
	out, _ := c.CombinedOutput()
	if !strings.Contains(string(out), "10.96.0.10") {
		t.Fatalf("nslookup: %s", out)
	}
	return strings.Contains(string(out), "10.244.")
}
