package software

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"launch/lab/programs"
)

// asking is what torch reports when it runs.
const asking = `import sys, json, torch
mapped = [l.split()[-1] for l in open("/proc/self/maps") if "libnccl.so" in l]
has = torch.version.cuda and torch.distributed.is_nccl_available()
print(json.dumps({"python": sys.version.split()[0], "torch": torch.__version__, "cuda": torch.version.cuda or "",
  "nccl": ".".join(map(str, torch.cuda.nccl.version())) if has else "", "file": mapped[0] if mapped else ""}))`

func TestARealTorchReportsTheSame(t *testing.T) {
	file := programs.CurrentTorch(t).Python
	out, err := exec.Command(file, "-c", asking).Output()
	if err != nil {
		t.Skipf("%s has no torch that runs: %v", file, err)
	}
	var want struct{ Python, Torch, CUDA, NCCL, File string }
	if err := json.Unmarshal(out, &want); err != nil {
		t.Fatal(err)
	}
	f := Detect(t.Context(), os.DirFS("/"), Command{Program: file, Env: os.Environ(), Dir: "/", Home: os.Getenv("HOME")})
	got := want
	got.Python, got.Torch, got.CUDA, got.NCCL = f.Python.Version, f.Torch.Version, f.CUDA, f.NCCL.Version
	if want.File != "" { // else it is in torch itself, or missing
		if want.File, err = filepath.EvalSymlinks(want.File); err != nil {
			t.Fatal(err)
		}
		got.File = f.NCCL.Path
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-torch +files):\n%s", diff)
	}
	t.Logf("%+v", got)
}

// BenchmarkDetect is for a warm machine with a torch and its NCCL of 250 MB.
func BenchmarkDetect(b *testing.B) {
	cmd := Command{Program: programs.CurrentTorch(b).Python, Env: os.Environ(), Dir: "/", Home: os.Getenv("HOME")}
	root := os.DirFS("/")
	for b.Loop() {
		if f := Detect(b.Context(), root, cmd); f.Err != "" {
			b.Fatal(f.Err)
		}
	}
}
