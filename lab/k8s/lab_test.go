package k8s

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// lab is the running Kubernetes, and what its pods see of this machine.
type lab struct {
	root   string // of the repository
	out    string // where ranks write
	venv   string // torch
	python string // the Python of the virtual environment
}

const image = "k8slab/host:1"

// up starts the lab, whose programs are built already, with an image that has nothing: the pods see this machine's
// /usr, torch and launch by hostPath.
func up(t *testing.T) *lab {
	t.Helper()
	if os.Getenv("LAUNCH_K8S") == "" {
		t.Skip("make test-k8s runs this: it needs a Kubernetes, which takes 14 minutes of a core to build")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{root: root, out: filepath.Join(t.TempDir(), "out")}
	if err := os.MkdirAll(l.out, 0o777); err != nil {
		t.Fatal(err)
	}
	if l.venv, err = filepath.EvalSymlinks(filepath.Join(root, ".venv")); err != nil {
		t.Fatalf("no torch: tools/torch.sh makes .venv (%v)", err)
	}
	python, err := filepath.EvalSymlinks(filepath.Join(l.venv, "bin", "python"))
	if err != nil {
		t.Fatal(err)
	}
	l.python = filepath.Dir(filepath.Dir(python))
	l.image(t)
	if out, err := exec.Command("./up.sh", nodes()).CombinedOutput(); err != nil {
		t.Fatalf("up.sh: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("./down.sh").CombinedOutput(); err != nil || len(out) > 0 {
			t.Logf("down.sh: %v %s", err, out)
		}
	})
	return l
}

// nodes returns how many nodes the lab has.
func nodes() string {
	if n := os.Getenv("LAUNCH_K8S_NODES"); n != "" {
		return n
	}
	return "2"
}

// image makes an image of links and empty folders.
func (l *lab) image(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{"usr", "etc", "tmp", "proc", "sys", "dev", "run", "root"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{"bin", "lib", "lib64", "sbin"} {
		if err := os.Symlink("usr/"+d, filepath.Join(dir, d)); err != nil {
			t.Fatal(err)
		}
	}
	users := []byte("root:x:0:0:root:/root:/bin/sh\n")
	if err := os.WriteFile(filepath.Join(dir, "etc/passwd"), users, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("./mkimage.sh", image, dir, "/bin/sh").CombinedOutput(); err != nil {
		t.Fatalf("mkimage.sh: %v\n%s", err, out)
	}
}

// kubectl runs kubectl with text as its input, and returns its output.
func (l *lab) kubectl(input string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "./k", append([]string{"kubectl"}, args...)...)
	c.Stdin = strings.NewReader(input)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	return out.String(), err
}

func (l *lab) must(t *testing.T, input string, args ...string) string {
	t.Helper()
	out, err := l.kubectl(input, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// object is a Kubernetes object as YAML has it.
type object = map[string]any

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

// manifest returns k8s/train.yaml for this lab: another name, n pods, this machine's programs, and change applied to
// the Job and its container.
func (l *lab) manifest(t *testing.T, name string, n int, change func(job, container object)) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(l.root, "k8s/train.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var docs []string
	for doc := range strings.SplitSeq(string(text), "\n---\n") {
		var o object
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			t.Fatal(err)
		}
		at(o, "metadata")["name"] = name
		if o["kind"] == "Service" {
			at(o, "spec")["selector"] = object{"batch.kubernetes.io/job-name": name}
		} else {
			l.adapt(o, name, n, change)
		}
		out, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, string(out))
	}
	return strings.Join(docs, "---\n")
}

// adapt gives the Job its number of pods, the folders of this machine, and root, who may read them.
func (l *lab) adapt(o object, name string, n int, change func(job, container object)) {
	spec := at(o, "spec")
	spec["completions"], spec["parallelism"] = n, n
	pod := at(spec, "template", "spec")
	pod["subdomain"] = name
	pod["securityContext"] = object{}
	pod["terminationGracePeriodSeconds"] = 5
	c := pod["containers"].([]any)[0].(object)
	c["image"], c["imagePullPolicy"], c["securityContext"] = image, "Never", object{}
	for _, v := range c["env"].([]any) {
		if v := v.(object); v["name"] == "LAUNCH_NNODES" {
			v["value"] = strconv.Itoa(n)
		}
	}
	c["env"] = append(c["env"].([]any), object{"name": "PATH",
		"value": l.venv + "/bin:" + l.root + "/bin:/usr/bin:/usr/sbin"},
		object{"name": "OMP_NUM_THREADS", "value": "1"})
	c["args"] = []any{"torchrun", "--nproc_per_node=1", l.root + "/lab/k8s/testdata/step.py", l.out + "/" + name}
	for i, dir := range slices.Compact([]string{"/usr", l.venv, l.python, l.root, l.out}) {
		v := fmt.Sprintf("host-%d", i)
		pod["volumes"] = append(pod["volumes"].([]any), object{"name": v, "hostPath": object{"path": dir}})
		c["volumeMounts"] = append(c["volumeMounts"].([]any), object{"name": v, "mountPath": dir})
	}
	if change != nil {
		change(o, c)
	}
}
