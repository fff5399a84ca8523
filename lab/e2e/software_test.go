package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// driver gives a host the device of an NVIDIA driver that does not answer, so that
// its job may use NCCL: a private /dev with the devices that programs need.
const driver = `mount -t tmpfs none /mnt && mkdir /mnt/shm && touch /mnt/nvidiactl && ln -s /proc/self/fd /mnt/fd &&
for n in null zero full random urandom tty; do touch /mnt/$n && mount --bind /dev/$n /mnt/$n || exit; done &&
mount --bind /dev/shm /mnt/shm && mount --rbind /mnt /dev && exec "$@"`

// environment makes the files of a Python environment with a torch for GPUs and an
// NCCL of the given version. Its torchrun is the stand-in.
func environment(t *testing.T, nccl string) string {
	t.Helper()
	dir := t.TempDir()
	python := filepath.Join(dir, "bin/python3")
	for name, text := range map[string]string{
		"pyvenv.cfg":   "home = /usr/bin\nversion = 3.12.3\n",
		"bin/python3":  "#!/bin/sh\nshift\nexec " + filepath.Join(tools.fake, "torchrun") + " \"$@\"\n",
		"bin/torchrun": "#!" + python + "\n",
		"lib/python3.12/site-packages/torch/version.py": "__version__ = " +
			"'2.9.0+cu128'\ncuda = '12.8'\n",
		"lib/python3.12/site-packages/nvidia_nccl_cu12-" + nccl + ".dist-info/METADATA": "",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "bin")
}

// NCCL would refuse after all ranks have loaded; an old version would hang.
func TestANodeWithAnotherNCCLIsNamedAndReplaced(t *testing.T) {
	t.Parallel()
	c := embedded(t, 3)
	good, odd, usual := environment(t, "2.27.5"), environment(t, "2.26.2"), os.Getenv("PATH")
	start := func(host int, env string) *node {
		c.path = env + ":" + usual
		argv := append([]string{"/bin/sh", "-c", driver, "sh", tools.launch, "--store", c.store}, c.flags...)
		return c.startBare(host, append(argv, c.line...))
	}
	a, b := start(0, good), start(1, good)
	c.joined(a, b)
	bad := start(2, odd)
	bad.exits(65)
	bad.quiet()
	for _, n := range []*node{a, b, bad} {
		n.says("fail same.nccl")
		n.says("2 of 3 nodes have NCCL 2.27.5; ")
		n.says("(node rank 2) has NCCL 2.26.2")
	}
	if s := bad.err.String(); !strings.Contains(s, "nvidia_nccl_cu12-2.26.2.dist-info") {
		t.Errorf("the file with the version is not named:\n%s", s)
	}
	a.says("waiting for a replacement")
	trained(t, 2, a, b, start(2, good))
}
