package k8s

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// lostBound is how long a lost machine may take. Kubernetes calls it unreachable after 40 to 50 s.
const lostBound = 3 * time.Minute

// Lost prints the third table of docs/benchmarks.md, Kubernetes: a machine dies, or its kubelet stops while its pods
// go on; with k8s/train.yaml and an operator who says that the machine is off, and with the component lost-machine.
func TestLost(t *testing.T) {
	began, rows := load(), ""
	defer func() {
		fmt.Printf("\nLoad %s at the start and %s at the end.\n\n", began, load())
		fmt.Print("| what is lost, 3 pods | manifest | unreachable after | new pod after | commands after | " +
			"training after |\n|---|---|---|---|---|---|\n" + rows)
	}()
	for round := range rounds() {
		for _, what := range []string{"machine", "kubelet"} {
			for index := range 2 {
				for _, components := range [][]string{nil, {"components/lost-machine"}} {
					name := fmt.Sprintf("lost-%s-%d-%d-%d", what, index, len(components), round)
					t.Run(name, func(t *testing.T) { rows += lose(t, name, what, index, components) })
				}
			}
		}
	}
}

// lose loses the machine of a pod, and returns the row.
func lose(t *testing.T, name, what string, index int, components []string) string {
	const n = 3
	l := up(t, n)
	since := time.Now()
	l.must(t, l.manifest(t, name, n, nil, components...), "apply", "-f", "-")
	if r := l.trains(name, n, since, lostBound); r.after == 0 {
		l.log(t, name)
		t.Fatal("the job does not train")
	}
	p := l.of(t, name, index)
	since = time.Now()
	l.stop(t, what, p.Spec.Node)
	l.unreachable(t, p.Spec.Node, since)
	noticed := time.Since(since)
	manifest := "with `lost-machine`"
	if len(components) == 0 {
		manifest = "as it is; then the operator's taint"
		l.must(t, "", "taint", "node", p.Spec.Node, "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute")
	}
	row := fmt.Sprintf("| the %s of pod %d%s | %s | %.0f s", what, index,
		map[bool]string{true: ", which hosts the store"}[index == 0], manifest, noticed.Seconds())
	r := l.trains(name, n, since, lostBound)
	if r.after == 0 {
		l.log(t, name)
		t.Errorf("the job does not train within %s", lostBound)
		return row + fmt.Sprintf(" | - | - | > %.0f s |\n", lostBound.Seconds())
	}
	made := l.of(t, name, index).Metadata.Created.Sub(since)
	row += fmt.Sprintf(" | %.0f s | %.0f s | %.0f s |\n", made.Seconds(), r.began.Seconds(), r.after.Seconds())
	t.Log(row)
	return row
}

// stop ends a machine with all that runs on it, or stops its kubelet.
func (l *lab) stop(t *testing.T, what, node string) {
	t.Helper()
	line := "kill -9 $(cat " + filepath.Join(l.root, "bin/k8s/var", node, "pid") + ")"
	if what == "kubelet" {
		line = "K8SLAB_IN=" + node + " ./k sh -c 'kill -STOP $(busybox pidof hyperkube)'"
	}
	if out, err := exec.Command("sh", "-c", line).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v %s", line, err, out)
	}
}

// unreachable waits until Kubernetes calls the machine so.
func (l *lab) unreachable(t *testing.T, node string, since time.Time) {
	t.Helper()
	for time.Since(since) < lostBound {
		out, _ := l.kubectl("", "get", "node", node, "-o", "jsonpath={.spec.taints[*].key}")
		if strings.Contains(out, "node.kubernetes.io/unreachable") {
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
	t.Fatalf("node %s is not unreachable within %s", node, lostBound)
}
