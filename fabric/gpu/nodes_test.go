package gpu

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// A step of Slurm sees the driver's files of all GPUs, and may open the nodes of its own.
func TestGPUsThatThisProcessMayNotUse(t *testing.T) {
	proc := fstest.MapFS{}
	for addr, minor := range map[string]string{"0000:1b:00.0": "0", "0000:43:00.0": "5", "0001:52:00.0": "12",
		"0000:9a:00.0": "none"} {
		proc["driver/nvidia/gpus/"+addr+"/information"] = &fstest.MapFile{
			Data: []byte("Model: \t\t NVIDIA A30\nDevice Minor: \t " + minor + "\nGPU Excluded:\t No\n")}
	}
	may := func(node string) bool { return node == "nvidia0" || node == "nvidia12" }
	want := []string{"0000:43:00.0", "0000:9a:00.0"}
	if got := Withheld(proc, []GPU{{PCI: "0000:1b:00.0"}}, may); !slices.Equal(got, want) {
		t.Errorf("Withheld = %v, want %v", got, want)
	}
}

// A container may show a GPU by NVML, and not let a process use it.
func TestANodeThatCUDACannotOpen(t *testing.T) {
	proc := fstest.MapFS{"devices": {Data: []byte("Character devices:\n195 nvidia\n238 nvidia-uvm\n\nBlock devices:\n")}}
	gpus := []GPU{{Index: 0, Minor: 0}, {Index: 1, Minor: 1}, {Index: 2, Minor: -1}, {Index: 3, Minor: 7}}
	dir := t.TempDir()
	node := func(name string, major uint32, minor uint32) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(major, minor))); err != nil {
			t.Skipf("needs the right to make device nodes: %v", err)
		}
		if err := os.Chmod(path, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	node("nvidia0", 195, 0)
	node("nvidia1", 1, 3) // as with /dev/null mounted over it
	node(uvmNode, 238, 0)
	want := []Closed{{"nvidia1", 1, "it is another device (major number 1, not 195)"}}
	if diff := cmp.Diff(want, closed(proc, os.DirFS(dir), gpus)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := os.Remove(filepath.Join(dir, uvmNode)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, uvmNode), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	want = append(want, Closed{uvmNode, -1, "it is no device"})
	if diff := cmp.Diff(want, closed(proc, os.DirFS(dir), gpus)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
