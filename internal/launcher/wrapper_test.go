package launcher

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"launch/internal/exit"
)

// A quote in a line of these tests begins or ends an argument with blanks.
func words(line string) (out []string) {
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			out = append(out, part)
			continue
		}
		out = append(out, strings.Fields(part)...)
	}
	return out
}

func TestATorchrunInAWrapperTakesItsPlaceFromVariables(t *testing.T) {
	const inside, plain, sealed = "torchrun inside", "program", "torchrun inside, sealed"
	for line, want := range map[string]string{
		"bash -c 'cd /x && torchrun t.py'":                                inside,
		"bash -lc 'exec torchrun --nproc-per-node $N t.py'":               inside,
		"bash -c './prep.sh $NODE_RANK && torchrun t.py'":                 inside,
		"bash -c 'export PET_NNODES=2; torchrun t.py'":                    plain,
		"bash -c 'echo $NODE_RANK; torchrun $ARGS t.py'":                  plain,
		"bash -c 'torchrun --nnodes=1 t.py'":                              plain,
		"bash -c 'torchrun --standalone eval.py'":                         plain,
		"bash -c 'torchrun $ARGS t.py'":                                   plain,
		"bash -c 'cd torchrun-examples && python train.py'":               plain,
		"bash -c 'echo no torchrun; python train.py'":                     plain,
		"bash -c 'torchrun --version; python train.py'":                   plain,
		"docker run -e ARGS img bash -c 'torchrun $ARGS t.py'":            plain,
		"docker run img torchrun --standalone eval.py":                    plain,
		"docker run img python train.py --launcher torchrun":              plain,
		"docker run img python -m train torchrun":                         plain,
		"docker run --name torchrun img python train.py":                  plain,
		"docker run -v /a/torchrun:/torchrun img python train.py":         plain,
		"docker run --workdir=/opt/torchrun img python train.py":          plain,
		"singularity exec img python train.py --launcher torchrun":        plain,
		"podman run --env-host img torchrun t.py":                         inside,
		"podman run -e PET_* img torchrun t.py":                           inside,
		"docker run --rm img bash -c 'torchrun t.py'":                     sealed,
		"script -q -c 'torchrun t.py' log.txt":                            inside,
		"script -qec 'torchrun t.py' log.txt":                             inside,
		"singularity exec --nv img torchrun t.py":                         inside,
		"apptainer exec --cleanenv img torchrun t.py":                     sealed,
		"docker run --rm img torchrun t.py":                               sealed,
		"podman run -e PET_NNODES -e PET_NODE_RANK img torchrun t.py":     inside,
		"docker run --env-file f img torchrun t.py":                       inside,
		"bash -c 'torchrun --nnodes $NNODES --node_rank $NODE_RANK t.py'": plain,
		"docker run --rm img torchrun --nnodes=2 t.py":                    sealed,
		"docker run --rm img torchrun --nnodes=2 --node-rank=0 t.py":      plain,
		"bash -c 'torchrun --nnodes $N t.py'":                             plain,
		"bash -c 'torchrun --nnodes=\"$NNODES\" t.py'":                    inside,
		"bash -c 'torchrun --nnodes 2 --rdzv-backend c10d t.py'":          plain,
		"bash -c 'torchrun --nproc-per-node $SLURM_GPUS_ON_NODE t.py'":    inside,
		"bash -c 'PET_MAX_RESTARTS=3 torchrun t.py'":                      inside,
		"bash -c 'python prep.py && torchrun t.py'":                       inside,
		"bash -c 'python -m torch.distributed.run t.py'":                  inside,
		"bash -c 'bash -lc \"torchrun t.py\"'":                            inside,
		"bash -c 'torchrun \"\"'":                                         plain,
		"bash -c 'docker run img torchrun t.py'":                          plain,
		"docker exec c python3 -u -m torch.distributed.run t.py":          sealed,
		"docker exec c launch torchrun t.py":                              plain,
		"docker run x/launch torchrun t.py":                               sealed,
		"docker run x/torchrun python t.py":                               plain,
		"docker exec torchrun ./train.sh":                                 plain,
		"docker exec torchrun torchrun t.py":                              sealed,
		"docker --context c run img torchrun t.py":                        sealed,
		"docker container exec c torchrun t.py":                           sealed,
		"docker-compose run train torchrun t.py":                          sealed,
		"apptainer -q exec img torchrun t.py":                             inside,
		"singularity exec img torchrun --rdzv_endpoint=h:1 t.py":          plain,
		"docker build torchrun":                                           plain,
		"docker exec ctr torchrun t.py":                                   sealed,
		"docker exec -e PET_NNODES ctr torchrun t.py":                     inside,
		"docker compose run --rm train torchrun t.py":                     sealed,
		"docker compose up torchrun":                                      plain,
		"enroot start img torchrun t.py":                                  sealed,
		"enroot import torchrun":                                          plain,
		"bash run.sh torchrun":                                            plain,
		"unbuffer torchrun t.py":                                          inside,
		"valgrind --trace-children=yes torchrun t.py":                     inside,
		"ltrace -f torchrun --nproc-per-node 2 t.py":                      inside,
		"perf record -g torchrun t.py":                                    inside,
		"perf report torchrun":                                            plain,
		"tini -- python -m torch.distributed.run t.py":                    inside,
		"flock /tmp/lock torchrun t.py":                                   inside,
		"flock /tmp/lock -c 'torchrun t.py'":                              inside,
		"uvx --from torch torchrun t.py":                                  inside,
		"pdm run torchrun t.py":                                           inside,
		"pdm add torchrun":                                                plain,
		"systemd-run --scope torchrun t.py":                               inside,
		"unbuffer python t.py --launcher torchrun":                        plain,
		"unbuffer torchrun --rdzv-endpoint=h:1 t.py":                      plain,
		"unbuffer torchrun --standalone t.py":                             plain,
		"python train.py --launcher torchrun":                             plain,
	} {
		l, err := Parse(words(line), "")
		got := string(l.Kind)
		if l.Inside {
			got += " inside"
		}
		if l.Sealed != "" {
			got += ", sealed"
		}
		if err != nil || got != want {
			t.Errorf("%s: %s, want %s (%v)", line, got, want, err)
		}
		if bad := l.CheckNodes(2); (bad != nil) != (want == sealed) || l.CheckNodes(1) != nil {
			t.Errorf("%s: %v", line, bad)
		}
	}
}

func TestASealedWrapperHasALineThatLetsTheVariablesThrough(t *testing.T) {
	const given = "-e PET_NNODES -e PET_NODE_RANK -e PET_MASTER_ADDR -e PET_MASTER_PORT -e NCCL_SOCKET_IFNAME " +
		"-e GLOO_SOCKET_IFNAME "
	for line, want := range map[string]string{
		"docker run --rm img torchrun t.py":                "docker run --network host " + given + "--rm img torchrun t.py",
		"podman run --network=host img torchrun t.py":      "podman run " + given + "--network=host img torchrun t.py",
		"apptainer exec --nv --cleanenv img torchrun t.py": "apptainer exec --nv img torchrun t.py",
		"sudo docker run --net=host img torchrun t.py":     "sudo -E docker run " + given + "--net=host img torchrun t.py",
		"singularity run -e --nv img torchrun t.py":        "singularity run --nv img torchrun t.py",
		"enroot start --rw img torchrun t.py":              "enroot start " + given + "--rw img torchrun t.py",
		"docker compose run --rm train torchrun t.py":      "docker compose run " + given + "--rm train torchrun t.py",
		"docker exec ctr torchrun t.py":                    "docker exec " + given + "ctr torchrun t.py",
		"docker compose -f f run train torchrun t.py":      "docker compose -f f run " + given + "train torchrun t.py",
		"docker container run --net=n img torchrun t.py":   "docker container run " + given + "--net=n img torchrun t.py",
	} {
		argv, once, _ := parse(t, line).Instead(2)
		if diff := cmp.Diff(strings.Fields(want), argv); diff != "" || once {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
		if l := parse(t, strings.Join(argv, " ")); l.Sealed != "" || !l.Inside {
			t.Errorf("%s: %+v", want, l)
		}
	}
}

func TestSudoResetsTheEnvironmentWithoutE(t *testing.T) {
	for line, want := range map[string]bool{
		"sudo torchrun t.py":                        true,
		"sudo -u u -H A=1 torchrun t.py":            true,
		"sudo --preserve-env=PATH -n torchrun t.py": true,
		"sudo -E torchrun t.py":                     false,
		"sudo -nE -u u env PATH=x torchrun t.py":    false,
		"sudo --preserve-env torchrun t.py":         false,
	} {
		l := parse(t, line)
		if l.Kind != Torchrun || l.Inside || l.Env.Clear != want || (len(l.Notes) > 0) != want {
			t.Errorf("%s: %s, clear %v, notes %q", line, l.Kind, l.Env.Clear, l.Notes)
		}
	}
}

func TestLaunchGoesAfterAnSrunOfSeveralNodes(t *testing.T) {
	for line, want := range map[string]string{
		"srun -N 2 --ntasks-per-node=1 torchrun t.py": "srun -N 2 --ntasks-per-node=1 launch torchrun t.py   # once",
		"srun --nodes=4 python t.py":                  "srun --nodes=4 launch python t.py   # once",
		"srun -N 1 -n 8 python t.py":                  "", // its tasks are on one node
		"srun -w n1 -n8 python -m x":                  "",
		"srun -N 1 -n 1 torchrun t.py":                "",
		"srun -N1 torchrun t.py -N 2":                 "",
		"srun -N 2 ./prog":                            "", // where its command begins is not known
	} {
		l := parse(t, line)
		err, _ := errors.AsType[*exit.Error](l.CheckNodes(2))
		if (err == nil) != (want == "") || err != nil && err.Fix != want {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
		if err := l.CheckNodes(1); err != nil {
			t.Errorf("%s on one node: %v", line, err)
		}
	}
	if l := parse(t, "srun -N 2 torchrun --nnodes=2 --rdzv-endpoint=h t.py"); !l.TakesPlace() || l.Hint != "" {
		t.Errorf("%+v", l)
	}
	if l := parse(t, "srun -N 2 torchrun t.py --nnodes=1"); l.TakesPlace() || l.Hint == "" {
		t.Errorf("%+v", l)
	}
}
