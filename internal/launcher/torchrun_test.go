package launcher

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"launch/internal/exit"
)

// The answers were compared with torch 2.15's own parser on Python 3.11,
// except where argparser says that it differs on purpose.
func TestOptionsAreReadAsArgparseReadsThem(t *testing.T) {
	for line, want := range map[string]string{
		"--nnodes 2 t.py --nnodes 3":                 "nnodes=2 | t.py --nnodes 3",
		"--nnodes=2 --nnodes=4 t.py":                 "nnodes=2 nnodes=4 | t.py",
		"--nproc_per_node=8 --nproc-per-node 4 t.py": "nproc_per_node=8 nproc_per_node=4 | t.py",
		"--nnod 2 --nproc gpu t.py":                  "nnodes=2 nproc_per_node=gpu | t.py",
		"--rdzv_e=h:1 t.py":                          "rdzv_endpoint=h:1 | t.py",
		"--nnodes 2 -- t.py --x":                     "nnodes=2 | t.py --x",
		"-mr3 mod a":                                 "module redirects=3 | mod a",
		"-mr 3 t.py":                                 "module redirects=3 | t.py",
		"-r=3 -t0:1,1:2 t.py":                        "redirects=3 tee=0:1,1:2 | t.py",
		"-m mod":                                     "module | mod",
		"--rdzv-id -5 t.py":                          "rdzv_id=-5 | t.py",
		"-r -3 t.py":                                 "redirects=-3 | t.py",
		"--rdzv_conf= t.py":                          "rdzv_conf= | t.py",
		"--rdzv-id=a=b t.py":                         "rdzv_id=a=b | t.py",
		"-5 x":                                       "| -5 x",
		"- x":                                        "| - x",
		"--log d t.py":                               "log_dir=d | t.py",
		"--standalone --help":                        "standalone help |",
		"--rdzv-id - t.py":                           "rdzv_id=- | t.py",
	} {
		l := parse(t, "torchrun "+line)
		var got []string
		for _, o := range l.Options {
			text := o.Name
			if o.Words == 2 || strings.Contains(l.Argv[o.At], "=") || o.Value != "" {
				text += "=" + o.Value
			}
			got = append(got, text)
		}
		got = append(got, "|")
		if diff := cmp.Diff(want, strings.Join(append(got, l.Argv[l.Rest:]...), " ")); diff != "" {
			t.Errorf("torchrun %s (-want +got):\n%s", line, diff)
		}
	}
}

func TestArgumentsWithASpaceAreNotOptions(t *testing.T) {
	l, err := Parse([]string{"torchrun", "--rdzv-id", "-a b", "", "--nnodes", "2"}, "")
	if err != nil || l.RdzvID.Value != "-a b" || l.Rest != 3 || l.NNodes.Set {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestLinesThatTorchrunWouldRefuseAreUsageErrors(t *testing.T) {
	for line, want := range map[string]string{
		"--n 2 t.py": "ambiguous: it could be --nnodes, --nproc-per-node, --no-python, --node-rank, " +
			"--numa-binding",
		"--rdzv x t.py":       "--rdzv-backend, --rdzv-endpoint, --rdzv-id, --rdzv-conf",
		"--lo x t.py":         "--local-addr",
		"--nnodes":            "needs a value",
		"--nnodes 2":          "no script",
		"--nnodes -- 2 t.py":  "needs a value",
		"--rdzv-id -x t.py":   "needs a value",
		"--role --tee 3 t.py": "needs a value",
		// as --master_addr $MASTER_ADDR --master_port $MASTER_PORT without these variables
		"--master_addr --master_port t.py": "may be empty in this shell",
		"--rdzv-id --nnodes t.py":          "needs a value",
		"-r":                               "needs a value",
		"--standalone=1 t.py":              "takes no value",
		"-mfoo t.py":                       "takes no value",
		"-m= t.py":                         "takes no value",
		"--rdzv-conf timeout t.py":         "is not KEY=VALUE",
		"--rdzv-conf a=1,,b=2 t.py":        "is not KEY=VALUE",
	} {
		_, err := Parse(strings.Fields("torchrun "+line), "")
		bad, ok := errors.AsType[*exit.Error](err)
		if !ok || bad.Code != 64 || !strings.Contains(bad.What, want) {
			t.Errorf("torchrun %s: %v, want code 64 with %q", line, err, want)
		}
	}
}

func TestUnknownTorchrunOptionIsPassedOnWithANote(t *testing.T) {
	l := parse(t, "torchrun --brand-new=3 --nnodes 2 t.py")
	if l.NNodes.Value != "2" || len(l.Notes) != 1 || !strings.Contains(l.Notes[0], "--brand-new") {
		t.Errorf("%+v", l)
	}
}

func TestUseEnvBelongsToDistributedLaunch(t *testing.T) {
	if l := parse(t, "python -m torch.distributed.launch --use_env --nnodes 2 t.py"); len(l.Notes) != 0 ||
		l.NNodes.Value != "2" {
		t.Errorf("%+v", l)
	}
	if l := parse(t, "torchrun --use-env t.py"); len(l.Notes) != 1 {
		t.Errorf("torchrun takes --use-env: %+v", l)
	}
}

func TestAsksNameTheirOption(t *testing.T) {
	l := parse(t, "torchrun --nnodes=2:4 --nproc-per-node 8 --node_rank 1 --rdzv-backend c10d --rdzv-endpoint h:1 "+
		"--rdzv-id j "+
		"--rdzv_conf k=v --master-addr m --master-port 2 --local-addr a --max-restarts 3 --standalone t.py")
	want := Line{
		NNodes: said("torchrun --nnodes", "2:4"), NProc: said("torchrun --nproc-per-node", "8"),
		NodeRank: said("torchrun --node-rank", "1"),
		Backend:  said("torchrun --rdzv-backend", "c10d"), Endpoint: said("torchrun --rdzv-endpoint", "h:1"),
		RdzvID:   said("torchrun --rdzv-id", "j"),
		RdzvConf: said("torchrun --rdzv-conf", "k=v"), MasterAddr: said("torchrun --master-addr", "m"),
		MasterPort: said("torchrun --master-port", "2"),
		LocalAddr:  said("torchrun --local-addr", "a"), MaxRestarts: said("torchrun --max-restarts", "3"),
		Standalone: said("torchrun --standalone", "1"),
	}
	l.Kind, l.Argv, l.At, l.Rest, l.Script, l.Options = "", nil, 0, 0, 0, nil
	if diff := cmp.Diff(want, l); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestParseNNodes(t *testing.T) {
	for in, want := range map[string][2]int{"4": {4, 4}, "1:4": {1, 4}, "3:3": {3, 3}} {
		low, high, err := ParseNNodes(in)
		if err != nil || low != want[0] || high != want[1] {
			t.Errorf("%q: %d, %d, %v", in, low, high, err)
		}
	}
	for _, in := range []string{"", "0", "-1", "x", "4:1", "1:2:3", "0:2", "1:"} {
		if low, high, err := ParseNNodes(in); err == nil {
			t.Errorf("%q is %d:%d, want an error", in, low, high)
		}
	}
}

func TestEverywhereDropsWhatDiffersBetweenNodes(t *testing.T) {
	a := parse(t, "torchrun --nnodes 2 --node_rank 0 --local-addr 10.0.0.1 --rdzv-conf is_host=1 t.py --node_rank 7").
		Everywhere()
	b := parse(t, "torchrun --nnodes 2 --node_rank=1 --rdzv-conf=is_host=0 t.py --node_rank 7").Everywhere()
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("(-node 0 +node 1):\n%s", diff)
	}
	if diff := cmp.Diff(strings.Fields("torchrun --nnodes 2 t.py --node_rank 7"), a); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
