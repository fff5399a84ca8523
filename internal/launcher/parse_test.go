package launcher

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"launch/internal/exit"
)

func parse(t *testing.T, line string) Line {
	t.Helper()
	l, err := Parse(strings.Fields(line), "")
	if err != nil {
		t.Fatalf("Parse(%s): %v", line, err)
	}
	return l
}

// at returns the argument of a line's launcher, with its kind.
func at(l Line) string {
	word := ""
	if l.At < len(l.Argv) {
		word = l.Argv[l.At]
	}
	return string(l.Kind) + " " + word
}

func TestWordsOfTheEnvironmentPrecedeTheCommand(t *testing.T) {
	for line, want := range map[string]string{
		"A=1 B= torchrun t.py":   "env A=1 B= torchrun t.py",
		"torchrun t.py A=1":      "torchrun t.py A=1",
		"./A=1/run t.py":         "./A=1/run t.py",
		"A=1":                    "A=1", // no command: it may be the name of a program
		"env A=1 torchrun t.py":  "env A=1 torchrun t.py",
		"hydra.run.dir=x run.sh": "hydra.run.dir=x run.sh",
	} {
		if got := strings.Join(Assigned(strings.Fields(line)), " "); got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
}

func TestLauncherIsFoundAfterPrefixes(t *testing.T) {
	for line, want := range map[string]string{
		"torchrun t.py":                        "torchrun torchrun",
		"/opt/venv/bin/torchrun t.py":          "torchrun /opt/venv/bin/torchrun",
		"torchrun-3.11 t.py":                   "torchrun torchrun-3.11",
		"torchrun2 t.py":                       "torchrun torchrun2",
		"python -m torch.distributed.run t.py": "torchrun torch.distributed.run",
		"python3.12 -u -X dev -Wignore -m torch.distributed.launch t.py": "torchrun torch.distributed.launch",
		"python -Im torch.distributed.run t.py":                          "torchrun torch.distributed.run",
		"python -mtorch.distributed.run t.py":                            "torchrun -mtorch.distributed.run",
		"python -W ignore /usr/bin/torchrun t.py":                        "torchrun /usr/bin/torchrun",
		"python /x/torch/distributed/run.py t.py":                        "torchrun /x/torch/distributed/run.py",
		"env -i -u FOO A=b C= torchrun t.py":                             "torchrun torchrun",
		"env -uFOO -C /tmp -- A=b torchrun t.py":                         "torchrun torchrun",
		"env --unset=X --chdir /tmp A=b torchrun t.py":                   "torchrun torchrun",
		"env - PATH=/bin torchrun t.py":                                  "torchrun torchrun",
		"numactl -N 0 --membind=0 torchrun t.py":                         "torchrun torchrun",
		"numactl --cpunodebind 0 -l torchrun t.py":                       "torchrun torchrun",
		"taskset -c 0-7 torchrun t.py":                                   "torchrun torchrun",
		"taskset 0xff torchrun t.py":                                     "torchrun torchrun",
		"nice -n 5 torchrun t.py":                                        "torchrun torchrun",
		"nice -10 torchrun t.py":                                         "torchrun torchrun",
		"ionice -c2 -n 0 torchrun t.py":                                  "torchrun torchrun",
		"chrt -f 10 torchrun t.py":                                       "torchrun torchrun",
		"stdbuf -oL -e L torchrun t.py":                                  "torchrun torchrun",
		"/usr/bin/time -v -o out torchrun t.py":                          "torchrun torchrun",
		"timeout -k 5 --signal=INT 1h torchrun t.py":                     "torchrun torchrun",
		"nohup setsid -w torchrun t.py":                                  "torchrun torchrun",
		"strace -ff -e trace=network -o o torchrun t.py":                 "torchrun torchrun",
		"gdb -ex run --args python -m torch.distributed.run t.py":        "torchrun torch.distributed.run",
		"nsys profile -t cuda,nvtx -o torchrun -f true torchrun t.py":    "torchrun torchrun",
		"nsys profile --trace=cuda --sample none torchrun t.py":          "torchrun torchrun",
		"ncu --set full -f -o rep torchrun t.py":                         "torchrun torchrun",
		"rocprof --hip-trace -o o.csv torchrun t.py":                     "torchrun torchrun",
		"rocprofv3 --hip-trace --sys-trace -- torchrun t.py":             "torchrun torchrun",
		"uv run --with numpy -p 3.12 torchrun t.py":                      "torchrun torchrun",
		"uv --quiet run -- python -m torch.distributed.run t.py":         "torchrun torch.distributed.run",
		"uv run -m torch.distributed.run t.py":                           "torchrun torch.distributed.run",
		"conda run -n e --no-capture-output torchrun t.py":               "torchrun torchrun",
		"poetry run torchrun t.py":                                       "torchrun torchrun",
		"pipenv run torchrun t.py":                                       "torchrun torchrun",
		"pixi run -e gpu --frozen torchrun t.py":                         "torchrun torchrun",
		"compute-sanitizer --tool memcheck torchrun t.py":                "torchrun torchrun",
		"py-spy record -o p.svg -- torchrun t.py":                        "torchrun torchrun",
		"hatch -e gpu run torchrun t.py":                                 "torchrun torchrun",
		"env A=b numactl -N 0 nsys profile -o x torchrun t.py":           "torchrun torchrun",
		"mpirun -np 2 ./a.out":                                           "mpirun mpirun",
		"/usr/bin/mpiexec.openmpi -n 2 ./a.out":                          "mpirun /usr/bin/mpiexec.openmpi",
		"nice orterun ./a.out":                                           "mpirun orterun",
		"mpiexec.hydra -n 2 ./a.out":                                     "mpirun mpiexec.hydra",
		"python train.py --torchrun":                                     "program python",
		"python -c x torchrun":                                           "program python",
		"python -m pytest torchrun":                                      "program python",
		"numactl -N 0 python train.py":                                   "program python",
		"uv run train.py":                                                "program train.py",
		"./train.sh":                                                     "program ./train.sh",
		"env":                                                            "program env",
	} {
		if got := at(parse(t, line)); got != want {
			t.Errorf("%s\n got %s\nwant %s", line, got, want)
		}
	}
}

func TestTheProgramAfterPrefixesIsFound(t *testing.T) {
	for line, want := range map[string]string{
		"torchrun t.py": "torchrun",
		"python -u -m torch.distributed.run t.py":      "python",
		"nice -10 /opt/py/bin/python3 t.py":            "/opt/py/bin/python3",
		"env A=b conda run -n e torchrun t.py":         "torchrun",
		"uv run -m torch.distributed.run t.py":         "torch.distributed.run",
		"uv run --active train.py":                     "train.py",
		"numactl -N 0 mpirun -np 2 ./a.out":            "mpirun",
		"timeout 1h ./train.sh":                        "./train.sh",
		"env -i A=b python3.12 /usr/bin/torchrun t.py": "python3.12",
	} {
		if l := parse(t, line); l.Argv[l.Program] != want {
			t.Errorf("%s: got %q, want %q", line, l.Argv[l.Program], want)
		}
	}
}

func TestTheFileThatPythonRunsIsFound(t *testing.T) {
	for line, want := range map[string]string{
		"torchrun --nnodes 2 t.py x.py":                  "t.py",
		"torchrun -- t.py":                               "t.py",
		"python -m torch.distributed.run t.py":           "t.py",
		"torchrun -m pkg.train":                          "",
		"torchrun --no-python ./train":                   "",
		"torchrun --brand-new 3 t.py":                    "",
		"torchrun --help":                                "",
		"python t.py x.py":                               "t.py",
		"numactl -N 0 python3.12 -uW ignore -X dev t.py": "t.py",
		"python -":                 "",
		"python -c pass t.py":      "",
		"python -m pkg t.py":       "",
		"python -V t.py":           "",
		"python":                   "",
		"sh t.py":                  "",
		"mpirun -np 2 python t.py": "",
	} {
		l, err := Parse(strings.Fields(line), "")
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		got := ""
		if l.Script > 0 {
			got = l.Argv[l.Script]
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}

func TestUnknownPrefixIsAPlainProgramWithAHint(t *testing.T) {
	for line, want := range map[string]string{
		"srun -N 4 torchrun t.py":              "add --as torchrun",
		"numactl --new-option 3 torchrun t.py": "does not see where the command after numactl",
		"env -S torchrun t.py":                 "does not see where the command after env",
		"flux run /usr/bin/torchrun t.py":      "add --as torchrun",
	} {
		l := parse(t, line)
		if l.Kind != Program || l.At != 0 {
			t.Errorf("%s: %s at %d, want a program at 0", line, l.Kind, l.At)
		}
		if notes := strings.Join(append(l.Notes, l.Hint), "\n"); !strings.Contains(notes, want) {
			t.Errorf("%s: notes %q do not mention %q", line, notes, want)
		}
	}
	if l := parse(t, "python train.py"); len(l.Notes) != 0 || l.Hint != "" {
		t.Errorf("an ordinary program has notes %q", l.Notes)
	}
}

func TestPrefixesAreNamed(t *testing.T) {
	l := parse(t, "env A=b nsys profile -o x uv run python -u -m torch.distributed.run t.py")
	if diff := cmp.Diff([]string{"env", "nsys profile", "uv run", "python -m"}, l.Prefix); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEnvironIsWhatTheLauncherSees(t *testing.T) {
	env := []string{"A=1", "PET_NNODES=9", "Z=26"}
	for line, want := range map[string]string{
		"torchrun t.py":                       "A=1 PET_NNODES=9 Z=26",
		"env -u A PET_NNODES=2 torchrun t.py": "PET_NNODES=9 Z=26 PET_NNODES=2",
		"env -i B=2 env C=3 torchrun t.py":    "B=2 C=3",
		"env --unset A -uZ torchrun t.py":     "PET_NNODES=9",
	} {
		got := strings.Join(parse(t, line).Environ(env), " ")
		if got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

func TestAsTakesTheLineAsGiven(t *testing.T) {
	script := []string{"bash", "train.sh"}
	if l, err := Parse(script, "torchrun"); err != nil || l.Kind != Torchrun || !l.Inside || len(l.Notes) != 0 {
		t.Errorf("--as torchrun: %+v, %v", l, err)
	}
	direct := []string{"torchrun", "--nnodes", "2", "t.py"}
	if l, err := Parse(direct, "torchrun"); err != nil || l.Inside || l.NNodes.Value != "2" {
		t.Errorf("--as torchrun before torchrun itself: %+v, %v", l, err)
	}
	if l, err := Parse(direct, "program"); err != nil || l.Kind != Program || l.NNodes.Set {
		t.Errorf("--as program: %+v, %v", l, err)
	}
	_, err := Parse(script, "horovod")
	if bad, ok := errors.AsType[*exit.Error](err); !ok || bad.Code != 64 {
		t.Errorf("--as horovod: %v", err)
	}
}

func TestNoCommandIsAUsageError(t *testing.T) {
	_, err := Parse(nil, "")
	if bad, ok := errors.AsType[*exit.Error](err); !ok || bad.Code != 64 || bad.Fix == "" {
		t.Errorf("got %v", err)
	}
}

func TestEnvIgnoringTheEnvironmentIsNoted(t *testing.T) {
	if l := parse(t, "env -i torchrun t.py"); len(l.Notes) != 1 || !l.Env.Clear {
		t.Errorf("notes %q", l.Notes)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"torchrun --nnodes 2 -mr3 -- t.py", "env -i -u X A=b torchrun --rdzv x", "mpirun -np 2 a : -x A b :",
		"nsys profile -o", "python -Wm", "uv run -m", "taskset", "gdb --args", "chrt -f", "torchrun -m- --=",
	} {
		f.Add(s, "")
	}
	f.Add("bash x", "torchrun")
	f.Fuzz(func(t *testing.T, s, as string) {
		argv := strings.Split(s, " ")
		l, err := Parse(argv, as)
		if err != nil {
			if _, ok := errors.AsType[*exit.Error](err); !ok {
				t.Fatalf("%q: %T is no *Error", s, err)
			}
			return
		}
		if l.At >= len(argv) || l.Rest > len(argv) || l.Rest < l.At {
			t.Fatalf("%q: at %d, rest %d of %d", s, l.At, l.Rest, len(argv))
		}
		e, err := l.Command(World{RunID: "r", Nodes: Known(2), MasterAddr: "10.0.0.1", MasterPort: Known(1)}, nil, nil)
		if err != nil {
			return
		}
		if tail := argv[l.Rest:]; l.Kind == Torchrun && !cmp.Equal(tail, e.Argv[len(e.Argv)-len(tail):]) {
			t.Fatalf("%q: the script's words changed: %q", s, e.Argv)
		}
	})
}
