package nccl

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"launch/lab/programs"
)

// tools are what TestMain finds or makes once.
var tools struct {
	launch, script string
	torch          programs.Torch
	lacks          string // why there is nothing to test
}

func TestMain(m *testing.M) {
	code := programs.Run(m, func(dir string) (err error) {
		if tools.script, err = filepath.Abs("testdata/sum.py"); err != nil {
			return err
		}
		tools.launch, err = programs.Launch(dir)
		return err
	})
	results.print(os.Stdout)
	os.Exit(code)
}

// needGPU skips the test where torch sees no GPU or has no NCCL.
func needGPU(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("nvidia-smi"); err != nil {
		t.Skip("needs an NVIDIA GPU: there is no nvidia-smi")
	}
	tools.torch = programs.CurrentTorch(t)
	const ask = "import torch; print(torch.cuda.is_available() and torch.distributed.is_nccl_available())"
	out, err := exec.Command(tools.torch.Python, "-c", ask).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "True" {
		t.Skipf("needs a torch that sees a GPU and has NCCL: %v: %s", err, out)
	}
}

// table is what the tests print at the end, a line for each start.
type table []string

var results table

func (r *table) add(format string, args ...any) { *r = append(*r, fmt.Sprintf(format, args...)) }

func (r *table) print(to *os.File) {
	for _, line := range *r {
		fmt.Fprintln(to, line)
	}
}
