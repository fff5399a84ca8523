package truth

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"launch/lab/programs"
)

// systemPython has no torch; the plain program runs with it in a venv.
const systemPython = "/usr/bin/python3"

// tools are the programs under test; TestMain makes them once.
var tools struct {
	launch  string
	data    string // testdata
	venv    string // a Python with the files of a torch, and a stand-in for torchrun
	torch   string // the folder of the real torchrun; "": none
	scripts map[program]string
}

func TestMain(m *testing.M) {
	code := programs.Run(m, makeTools)
	results.print(os.Stdout)
	os.Exit(code)
}

func makeTools(dir string) (err error) {
	if err = os.Chmod(dir, 0o755); err != nil { // an ordinary user runs them too
		return err
	}
	if tools.data, err = filepath.Abs("testdata"); err != nil {
		return err
	}
	if tools.launch, err = programs.Launch(dir); err != nil {
		return err
	}
	tools.scripts = map[program]string{}
	for p, name := range map[program]string{plain: "mesh.py", standIn: "mesh.py", torch: "collective.py"} {
		text, err := os.ReadFile(filepath.Join(tools.data, name))
		if err != nil {
			return err
		}
		tools.scripts[p] = string(text)
	}
	python, err := filepath.Abs(cmp.Or(os.Getenv("LAUNCH_TEST_PYTHON"), "../../.venv/bin/python"))
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(python), "torchrun")); err == nil {
		tools.torch = filepath.Dir(python)
	}
	tools.venv = filepath.Join(dir, "venv")
	return makeVenv(tools.venv, "2.15.0")
}

// makeVenv makes a virtual environment whose torch is its version alone, with the stand-in for torchrun.
func makeVenv(dir, version string) error {
	text, err := os.ReadFile(filepath.Join(tools.data, "torchrun.py"))
	if err != nil {
		return err
	}
	const ask = "import sys; print('python%d.%d' % sys.version_info[:2], end='')"
	minor, err := exec.Command(systemPython, "-c", ask).Output()
	if err != nil {
		return fmt.Errorf("ask %s for its version: %w", systemPython, err)
	}
	bin := filepath.Join(dir, "bin")
	site := filepath.Join(dir, "lib", string(minor), "site-packages")
	for _, d := range []string{bin, filepath.Join(site, "torch")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{
		filepath.Join(dir, "pyvenv.cfg"):            "home = /usr/bin\n",
		filepath.Join(bin, "torchrun"):              "#!" + filepath.Join(bin, "python3") + "\n" + string(text),
		filepath.Join(site, "torch", "__init__.py"): "",
		filepath.Join(site, "torch", "version.py"):  "__version__ = '" + version + "'\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			return err
		}
	}
	return os.Symlink(systemPython, filepath.Join(bin, "python3"))
}

// bin returns the folder of python3 and torchrun of a program.
func bin(p program) string {
	if p == torch {
		return tools.torch
	}
	return filepath.Join(tools.venv, "bin")
}
