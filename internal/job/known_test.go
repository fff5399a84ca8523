package job

import (
	"testing"

	"launch/internal/setting"
)

func TestKnownSurvivesWhatResolveRefuses(t *testing.T) {
	flag := func(v string) setting.Value[string] { return setting.Value[string]{V: v, Set: true} }
	all := Flags{NNodes: flag("3"), NodeRank: flag("2"), Store: flag("host0")}
	store := Flags{Store: flag("host0")}
	line := []string{"torchrun", "--nnodes", "3", "--node-rank", "2", "train.py"}
	for name, in := range map[string]Input{
		"a bad port":                {Flags: all, Argv: []string{"torchrun", "--master-port", "x", "train.py"}},
		"an option without a value": {Flags: all, Argv: []string{"torchrun", "--nproc-per-node"}},
		"no command":                {Flags: all},
		"the value of an unknown flag before the command": {Flags: store, Argv: append([]string{"1"}, line...)},
		"a bad --as": {Flags: func() Flags { f := all; f.As = flag("x"); return f }(), Argv: []string{"true"}},
	} {
		t.Run(name, func(t *testing.T) {
			j := Known(in)
			if j.Nodes.V != 3 || j.Index.V != 2 || j.Store.V.Host != "host0" || j.ID.V == "" {
				t.Errorf("nodes %d, index %d, store %q, id %q", j.Nodes.V, j.Index.V, j.Store.V.Host, j.ID.V)
			}
		})
	}
	if j := Known(Input{Argv: []string{"torchrun", "--nnodes", "many", "train.py"}}); j.Several() {
		t.Errorf("a line without a number of nodes is of %d", j.Nodes.V)
	}
}
