package k8s

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// controlled is an object of examples/kubernetes whose controller is a real one.
type controlled struct {
	kind, file, name string
	line             []any          // of each container, in the place of the example's; nil: as it is
	ranks            map[string]int // they train on: how many write to each folder
	hosts            []string       // of the ranks, as the controller numbers its pods; nil: not looked at
	ends, says       string         // else: a condition that is True at its end, and what a pod has printed then
	adapt            func(o object) // what else this lab needs
}

// controllerBound is how long a start by a controller may take.
const controllerBound = 2 * time.Minute

// Manifests of examples/kubernetes run under the controllers that they are for.
func TestControllers(t *testing.T) {
	l := up(t, 2)
	world := l.compile(t, "../mpi/testdata/world.c")
	l.findSSHD(t)
	for _, c := range []controlled{
		{kind: "jobset", file: "jobset.yaml", name: "train", line: l.step("train"), ranks: map[string]int{"train": 3}},
		{kind: "jobset", file: "jobset.yaml", name: "slices", line: l.step("slices"), ranks: map[string]int{"slices": 4}},
		{kind: "jobset", file: "roles.yaml", name: "pair", ends: "Completed", says: "200"},
		{kind: "lws", file: "leaderworkerset.yaml", name: "serve", line: l.step("$(LWS_LEADER_ADDRESS)"),
			ranks: map[string]int{"serve-0.serve.default": 2, "serve-1.serve.default": 2}},
		{kind: "pytorchjob", file: "pytorchjob.yaml", name: "train", line: l.step("pytorchjob"),
			ranks: map[string]int{"pytorchjob": 3}, hosts: []string{"train-master-0", "train-worker-0", "train-worker-1"}},
		{kind: "trainjob", file: "trainjob.yaml", name: "train", ranks: map[string]int{"trainjob": 2},
			hosts: []string{"train-node-0-0", "train-node-0-1"}, adapt: l.override},
		{kind: "mpijob", file: "mpijob.yaml", name: "allreduce", ends: "Succeeded", says: "a world of 4: sum 4",
			line: []any{"mpirun", "--allow-run-as-root", "-np", "4", world}, adapt: l.serveSSH},
		{kind: "vcjob", file: "volcano.yaml", name: "train", line: l.step("vcjob"), ranks: map[string]int{"vcjob": 2},
			adapt: func(o object) { at(o, "spec")["queue"] = "default" }}, // as its webhook does
	} {
		t.Run(c.kind+"/"+c.name, func(t *testing.T) { l.control(t, c) })
	}
}

// control applies one object under its controller, and waits until it trains, or ends well.
func (l *lab) control(t *testing.T, c controlled) {
	run := exec.Command("sh", "-c", `./controllers.sh build $0 && { [ -e ../../bin/k8s/var/cp/$0 ] ||
		./controllers.sh start $0; }`, c.kind)
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text := l.example(t, c)
	defer l.remove(text)
	since := time.Now()
	l.must(t, text, "apply", "-f", "-")
	defer func() {
		if t.Failed() {
			out, _ := l.kubectl("", "get", "pods,jobs", "-o", "wide")
			log, _ := exec.Command("sh", "-c", "tail -n 30 ../../bin/k8s/var/log/"+c.kind+"*.log").CombinedOutput()
			t.Logf("%s\n%s\n%s", out, l.printed(t), log)
		}
	}()
	for _, folder := range slices.Sorted(maps.Keys(c.ranks)) {
		r := l.trains(folder, c.ranks[folder], since, controllerBound)
		if r.after == 0 {
			t.Errorf("%s does not train within %s", folder, controllerBound)
			return
		}
		t.Logf("%s of %s trains after %.1f s", folder, c.file, r.after.Seconds())
		for rank, host := range c.hosts {
			if is, err := os.ReadFile(filepath.Join(l.out, folder, fmt.Sprintf("host-%d", rank))); string(is) != host {
				t.Errorf("rank %d is on %s (%v), not on %s", rank, is, err, host)
			}
		}
	}
	for c.ends != "" {
		if out, _ := l.kubectl("", "get", c.kind, c.name, "-o",
			`jsonpath={.status.conditions[?(@.type=="`+c.ends+`")].status}`); out == "True" {
			t.Logf("%s of %s has ended after %.1f s", c.name, c.file, time.Since(since).Seconds())
			if said := l.printed(t); !strings.Contains(said, c.says) {
				t.Errorf("no pod has printed %q:\n%s", c.says, said)
			}
			return
		}
		if time.Since(since) > controllerBound {
			t.Errorf("%s does not end well within %s", c.name, controllerBound)
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// printed returns the last lines of all pods.
func (l *lab) printed(t *testing.T) (text string) {
	for name := range strings.FieldsSeq(l.must(t, "", "get", "pods", "-o", "jsonpath={.items[*].metadata.name}")) {
		one, _ := l.kubectl("", "logs", "--prefix", "--all-containers", "--tail=25", name)
		text += one
	}
	return text
}

// example returns an object of a manifest, whose pods see the programs of this machine.
func (l *lab) example(t *testing.T, c controlled) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(l.root, "examples", "kubernetes", c.file))
	if err != nil {
		t.Fatal(err)
	}
	for doc := range strings.SplitSeq(string(text), "\n---\n") {
		var o object
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			t.Fatal(err)
		}
		if at(o, "metadata")["name"] != c.name {
			continue
		}
		l.equip(o, c.line)
		if c.adapt != nil {
			c.adapt(o)
		}
		out, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	t.Fatalf("%s has no object %s", c.file, c.name)
	return ""
}

// equip shows each container of an object the programs of this machine, and sets its line, if there is one.
func (l *lab) equip(v any, line []any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			l.equip(e, line)
		}
	case object:
		containers := list(v["containers"])
		for _, c := range containers {
			c := c.(object)
			l.show(v, c)
			delete(c, "resources")
			if line != nil {
				c["args"] = line
			}
		}
		if containers != nil {
			v["terminationGracePeriodSeconds"] = 5
			return
		}
		for _, e := range v {
			l.equip(e, line)
		}
	}
}

// override gives a TrainJob step.py, and shows the pods of its runtime the programs of this machine.
func (l *lab) override(o object) {
	pod, c := object{}, object{}
	l.show(pod, c)
	trainer := at(o, "spec", "trainer")
	trainer["image"], trainer["env"], trainer["args"] = c["image"], c["env"], l.step("trainjob")
	at(o, "spec")["podSpecOverrides"] = []any{object{
		"targetJobs": []any{object{"name": "node"}},
		"volumes":    pod["volumes"],
		"containers": []any{object{"name": "node", "volumeMounts": c["volumeMounts"]}},
	}}
}

// compile makes an MPI program where the pods see it.
func (l *lab) compile(t *testing.T, source string) string {
	t.Helper()
	to := filepath.Join(l.out, "world")
	if out, err := exec.Command("gcc", "-o", to, source, "-l:libmpi.so.40").CombinedOutput(); err != nil {
		t.Fatalf("needs Open MPI, of the Debian package openmpi-bin: %v\n%s", err, out)
	}
	return to
}

// sshd is the line of an MPIJob's workers: what the image of mpi-operator's examples has.
const sshd = `mkdir -p /run/sshd && ssh-keygen -q -t ed25519 -N "" -f /tmp/key &&
LD_LIBRARY_PATH=$0 exec $0/sshd -De -f /dev/null -h /tmp/key \
	-o PermitRootLogin=yes -o StrictModes=no -o UsePAM=no -o PidFile=none`

// findSSHD copies sshd to where the pods see it.
func (l *lab) findSSHD(t *testing.T) {
	t.Helper()
	line := `p=$(PATH=$PATH:/usr/sbin:../../bin/debian/usr/sbin command -v sshd) && cp $p "$0" &&
		cp ../../bin/debian/usr/lib/*/libwrap.so.0 "$0" 2>/dev/null || [ -e "$0/sshd" ]`
	if out, err := exec.Command("sh", "-c", line, l.out).CombinedOutput(); err != nil {
		t.Fatalf("needs sshd, of the Debian package openssh-server: %v\n%s", err, out)
	}
}

// serveSSH has the workers of an MPIJob run sshd.
func (l *lab) serveSSH(o object) {
	pod := at(o, "spec", "mpiReplicaSpecs", "Worker", "template", "spec")
	c := list(pod["containers"])[0].(object)
	c["command"] = []any{"sh", "-c", sshd, l.out}
	delete(c, "args")
}
