package k8s

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// object is a Kubernetes object as YAML has it.
type object = map[string]any

// work is the Service and the Job of k8s/train.yaml, and the Job's container.
type work struct{ service, job, container object }

// change adapts a work. An object without fields is not applied.
type change func(work)

// at returns a field of an object, and an empty one that it adds if there is none.
func at(o object, names ...string) object {
	for _, n := range names {
		if _, ok := o[n].(object); !ok {
			o[n] = object{}
		}
		o = o[n].(object)
	}
	return o
}

// setEnv sets a variable of a container.
func setEnv(c object, name, value string) {
	for _, v := range list(c["env"]) {
		if v := v.(object); v["name"] == name {
			v["value"] = value
			return
		}
	}
	c["env"] = append(list(c["env"]), object{"name": name, "value": value})
}

// list returns a field of an object as a list; nil is an empty one.
func list(v any) []any {
	l, _ := v.([]any)
	return l
}

// manifest returns k8s/train.yaml with components for this lab: another name, n pods, this machine's programs, and
// what apply changes.
func (l *lab) manifest(t *testing.T, name string, n int, apply change, components ...string) string {
	t.Helper()
	w := l.train(t, components)
	at(w.service, "metadata")["name"], at(w.job, "metadata")["name"] = name, name
	at(w.service, "spec")["selector"] = object{"batch.kubernetes.io/job-name": name}
	w.container = at(w.job, "spec", "template", "spec")["containers"].([]any)[0].(object)
	l.adapt(w, name, n)
	if apply != nil {
		apply(w)
	}
	var docs []string
	for _, o := range []object{w.service, w.job} {
		if len(o) == 0 {
			continue
		}
		text, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, string(text))
	}
	return strings.Join(docs, "---\n")
}

// train returns what kubectl makes of k8s/train.yaml and components.
func (l *lab) train(t *testing.T, components []string) (w work) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "k8s")
	if out, err := exec.Command("cp", "-r", filepath.Join(l.root, "k8s"), dir).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	text := "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [train.yaml]\ncomponents: [" +
		strings.Join(components, ", ") + "]\n"
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for doc := range strings.SplitSeq(l.must(t, "", "kustomize", dir), "\n---\n") {
		var o object
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			t.Fatalf("%v in %s", err, doc)
		}
		switch o["kind"] {
		case "Service":
			w.service = o
		case "Job":
			w.job = o
		}
	}
	if w.service == nil || w.job == nil {
		t.Fatalf("no Service and Job in k8s/train.yaml with %v", components)
	}
	return w
}

// adapt gives the Job its number of pods, the folders of this machine, and root, who may read them.
func (l *lab) adapt(w work, name string, n int) {
	spec := at(w.job, "spec")
	spec["completions"], spec["parallelism"] = n, n
	pod := at(spec, "template", "spec")
	pod["subdomain"] = name
	pod["securityContext"] = object{}
	pod["terminationGracePeriodSeconds"] = 5
	setEnv(w.container, "LAUNCH_NNODES", strconv.Itoa(n))
	w.container["args"] = l.step(name)
	l.show(pod, w.container)
}

// step returns the line of step.py, whose ranks write to a folder of this name.
func (l *lab) step(name string) []any {
	return []any{"torchrun", "--nproc_per_node=1", l.root + "/lab/k8s/testdata/step.py", l.out + "/" + name}
}

// show gives a container of a pod the programs of this machine.
func (l *lab) show(pod, c object) {
	c["image"], c["imagePullPolicy"], c["securityContext"] = image, "Never", object{}
	setEnv(c, "PATH", l.venv+"/bin:"+l.root+"/bin:/usr/bin:/usr/sbin")
	setEnv(c, "OMP_NUM_THREADS", "1")
	dirs := []string{"/usr", l.venv, l.python, l.root, l.out}
	slices.Sort(dirs)
	for i, dir := range slices.Compact(dirs) {
		v := fmt.Sprintf("host-%d", i)
		pod["volumes"] = append(list(pod["volumes"]), object{"name": v, "hostPath": object{"path": dir}})
		c["volumeMounts"] = append(list(c["volumeMounts"]), object{"name": v, "mountPath": dir})
	}
}
