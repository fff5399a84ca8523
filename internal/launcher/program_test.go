package launcher

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAProgramGetsItsPlace(t *testing.T) {
	two := World{Nodes: Known(2), NodeRank: Known(1), MasterAddr: "10.0.0.1", MasterPort: Known(29500)}
	tasks := two
	tasks.Task = Task{Rank: 3, Size: 5, Local: 1, LocalSize: 2}
	alone := World{Nodes: Known(1), NodeRank: Known(0), MasterAddr: "127.0.0.1", MasterPort: Known(29777),
		Task: Task{Rank: 0, Size: 2, Local: 0, LocalSize: 2}}
	for what, c := range map[string]struct {
		world World
		want  map[string]string
	}{
		"one process per node": {two, map[string]string{"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0",
			"LOCAL_WORLD_SIZE": "1",
			"NODE_RANK":        "1", "NNODES": "2", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}},
		"a task of several": {tasks, map[string]string{"RANK": "3", "WORLD_SIZE": "5", "LOCAL_RANK": "1",
			"LOCAL_WORLD_SIZE": "2",
			"NODE_RANK":        "1", "NNODES": "2", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}},
		"a task of one node": {alone, map[string]string{"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0",
			"LOCAL_WORLD_SIZE": "2",
			"NODE_RANK":        "0", "NNODES": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29777"}},
		"alone": {World{Nodes: Known(1), Single: true}, map[string]string{}},
	} {
		l, err := Parse([]string{"python", "t.py"}, "")
		if err != nil {
			t.Fatal(err)
		}
		e, err := l.Command(c.world, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, v := range e.Set {
			got[v.Name] = v.Value
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}

// What a shell has of an earlier torchrun would have rank 0 host no store.
func TestAProgramHasNoStoreOfTorchrun(t *testing.T) {
	e, err := parse(t, "python t.py").Command(twoNodes(0), nil, []string{"TORCHELASTIC_USE_AGENT_STORE=True", "HOME=/h"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"TORCHELASTIC_USE_AGENT_STORE=True"}, assignments(e.Unset)); diff != "" {
		t.Errorf("unset (-want +got):\n%s", diff)
	}
}
