package k8s

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// lab is the running Kubernetes, and what its pods see of this machine.
type lab struct {
	root   string // of the repository
	out    string // where ranks write
	venv   string // torch
	python string // the Python of the virtual environment
}

const image = "k8slab/host:1"

// up starts the lab of n nodes, whose programs are built already, with an image that has nothing: the pods see this
// machine's /usr, torch and launch by hostPath. env goes to up.sh.
func up(t *testing.T, n int, env ...string) *lab {
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
	t.Cleanup(func() {
		if out, err := exec.Command("./down.sh").CombinedOutput(); err != nil || len(out) > 0 {
			t.Logf("down.sh: %v %s", err, out)
		}
	})
	start := exec.Command("./up.sh", strconv.Itoa(n))
	start.Env = append(os.Environ(), env...)
	if out, err := start.CombinedOutput(); err != nil {
		t.Fatalf("up.sh: %v\n%s", err, out)
	}
	return l
}

// image makes an image of links, empty folders and what ssh reads.
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
	if err := os.Mkdir(filepath.Join(dir, "etc/ssh"), 0o755); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{
		"etc/passwd": "root:x:0:0:root:/root:/bin/sh\nsshd:x:101:65534::/run/sshd:/usr/sbin/nologin\n",
		// The images of mpi-operator's examples have it: each worker makes a host key of its own.
		"etc/ssh/ssh_config": "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("cp", "-a", "/etc/alternatives", filepath.Join(dir, "etc")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out) // mpirun is a link into it
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
