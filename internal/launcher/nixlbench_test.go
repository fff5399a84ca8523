package launcher

import (
	"slices"
	"strings"
	"testing"
)

func TestNIXLBenchIsGathered(t *testing.T) {
	several := World{RunID: "R", Nodes: Known(2), NodeRank: Known(0), Several: true, Etcd: "http://e:2379"}
	alone := several
	alone.Several = false
	for line, want := range map[string]string{
		"nixlbench":                                      "--etcd_endpoints=http://e:2379 --benchmark_group=launch-R",
		"/opt/bin/nixlbench --backend UCX":               "--etcd_endpoints=http://e:2379 --benchmark_group=launch-R",
		"numactl -N 0 nixlbench -benchmark_group g":      "--etcd_endpoints=http://e:2379",
		"nixlbench --etcd-endpoints=http://x:1":          "--benchmark_group=launch-R",
		"nixlbench --backend=GDS --filepath /x":          "",
		"nixlbench --runtime_type ASIO":                  "",
		"nixlbench --config_file c.toml":                 "",
		"nixlbench.sh":                                   "",
		"nixlbench --etcd_endpoints a --benchmark_group": "--benchmark_group=launch-R",
	} {
		for _, w := range []World{several, alone} {
			l, err := Parse(strings.Fields(line), "")
			if err != nil {
				t.Fatal(err)
			}
			e, err := l.Command(w, nil, nil)
			added := e.Argv[len(l.Argv):]
			if got := strings.Join(added, " "); err != nil || w.Several && got != want || !w.Several && got != "" {
				t.Errorf("%s (several: %v): added %q, %v; want %q", line, w.Several, got, err, want)
			}
			if !slices.Equal(e.Argv[:len(l.Argv)], l.Argv) || len(e.Changes) != len(added) {
				t.Errorf("%s: %q, changes %v", line, e.Argv, e.Changes)
			}
		}
	}
}

func TestNIXLBenchCounts(t *testing.T) {
	b := NIXLBench{Group: "g"}
	for key, want := range map[string]int{
		"xferbench/g//size":    2, // as it is
		"xferbench/g/size":     2,
		"xferbench/g//rank/0":  0,
		"xferbench/g2//size":   0,
		"xferbench/g/msg/size": 0,
	} {
		if got := b.Counted(key, "2"); got != want {
			t.Errorf("%s: %d; want %d", key, got, want)
		}
	}
}

func TestNIXLBenchWaitsForProcesses(t *testing.T) {
	for line, want := range map[string]int{
		"nixlbench": 2,
		"nixlbench --num_initiator_dev 3 -num_target_dev=4": 7,
		"nixlbench --mode MG --num_initiator_dev 8":         2,
		"nixlbench --mode=SG --num-target-dev 3":            4,
	} {
		l, err := Parse(strings.Fields(line), "")
		if err != nil {
			t.Fatal(err)
		}
		if b, ok := l.NIXLBench(); !ok || b.Processes != want {
			t.Errorf("%s: %d, %v; want %d", line, b.Processes, ok, want)
		}
	}
}
