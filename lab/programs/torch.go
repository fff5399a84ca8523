package programs

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Torch is a Python that has torch.
type Torch struct {
	Python string // absolute; torchrun is in the same directory
	// Env is what its torchrun needs in the environment. torch 1.13 on Python 3.11 loses its
	// defaults of two variables and ends with an AttributeError. 9 is a local rank that does not
	// exist.
	Env []string
}

const debian = "/usr/bin/python3"

// CurrentTorch returns the torch of LAUNCH_TEST_PYTHON, else of .venv, else it skips
// the test, as it does with -short.
func CurrentTorch(t testing.TB) Torch {
	t.Helper()
	long(t)
	python, err := current()
	if err != nil {
		t.Skipf("needs a current torch: %v", err)
	}
	return Torch{Python: python}
}

// AnyTorch returns a current torch, else Debian's, which is older: the test logs it.
func AnyTorch(t testing.TB) Torch {
	t.Helper()
	python, err := current()
	if err != nil {
		t.Logf("using Debian's torch: %v", err)
		return DebianTorch(t)
	}
	return Torch{Python: python}
}

func current() (python string, err error) {
	python, err = filepath.Abs(cmp.Or(os.Getenv("LAUNCH_TEST_PYTHON"), "../../.venv/bin/python"))
	if err == nil && python == debian {
		err = errors.New(debian + " has an older one")
	}
	if err == nil {
		_, err = os.Stat(filepath.Join(filepath.Dir(python), "torchrun")) // pip writes it last
	}
	return python, err
}

// long skips a test that mostly waits for torch, with -short.
func long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts torch, which -short leaves out")
	}
}

// DebianTorch returns the torch of the package python3-torch, else it skips the test, as it does with -short.
func DebianTorch(t testing.TB) Torch {
	t.Helper()
	long(t)
	version, err := exec.Command(debian, "-c", "import torch; print(torch.__version__)").Output()
	if err != nil {
		t.Skip("needs torch, Debian's (package python3-torch) at least")
	}
	if !strings.HasPrefix(string(version), "1.13") {
		t.Logf("Debian's torch is %s", strings.TrimSpace(string(version)))
		return Torch{Python: debian}
	}
	return Torch{Python: debian, Env: []string{"PET_REDIRECTS=9:1", "PET_TEE=9:1"}}
}
