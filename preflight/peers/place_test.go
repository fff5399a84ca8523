package peers

import (
	"fmt"
	"strings"
	"testing"
)

func placeOf(p *Post) Place {
	line := strings.Fields(p.Command)
	return PlaceIn(line, line, p.Name, fmt.Sprint("10.0.0.", p.Rank+1))
}

// Arguments in which each node names its own place differ rightly; all others do not.
func TestThePlaceOfANodeInItsCommandDiffers(t *testing.T) {
	for _, tc := range []struct {
		lines string // of the nodes, with | between them
		want  bool   // a warning
	}{
		{"t.py --node-rank 0|t.py --node-rank 1|t.py --node-rank 2", false},
		{"t.py --node_rank=1|t.py --node_rank=0", false},
		{"t.py --nodeRank=1|t.py --nodeRank=2", false},
		{"t.py --rank 0 --lr 1|t.py --rank 8 --lr 1|t.py --rank 16 --lr 1", false},
		{"bash -c 'NODE_RANK=0 python t.py'|bash -c 'NODE_RANK=1 python t.py'", false},
		{"bash -c \"python t.py --machine-rank 0\"|bash -c \"python t.py --machine-rank 1\"", false},
		{"t.py trainer.node_rank=0|t.py trainer.node_rank=1", false},
		{"t.py --machine 0|t.py --machine 1", false},
		{"t.py --host host0|t.py --host host1", false},
		{"t.py --bind 10.0.0.1:1|t.py --bind 10.0.0.2:1", false},
		{"t.py --node-rank 0|t.py --node-rank 0|t.py --node-rank 1", true},
		{"t.py --node-rank 0|t.py --node-rank 7|t.py --node-rank 3", true},
		{"t.py --node-rank 0 --lr 1|t.py --node-rank 1 --lr 2", true},
		{"t.py --node-rank 0|t.py --node-rank", true},
		{"t.py --lora-rank 8|t.py --lora-rank 16", true},
		{"t.py --run-id 0|t.py --run-id 1", true},
		{"t.py --seed 0|t.py --seed 1", true},
		{"t.py --num-nodes 1|t.py --num-nodes 2", true},
		{"t.py --proc-per-node 0|t.py --proc-per-node 1", true},
		{"t.py --nodes 0|t.py --nodes 1", true},
		{"t.py --master-addr host0|t.py --master-addr host1", true},
		{"MASTER_ADDR=10.0.0.1 t.py|MASTER_ADDR=10.0.0.2 t.py", true},
		{"t.py --host 10.0.0.11|t.py --host 10.0.0.12", true},
	} {
		lines := strings.Split(tc.lines, "|")
		ps := posts(len(lines), func(i int, p *Post) {
			p.Command = lines[i]
			p.Place = placeOf(p)
		})
		if got := compareLines(ps); (len(got) > 0) != tc.want {
			t.Errorf("%s: %+v", tc.lines, got)
		}
		for i := range ps {
			ps[i].Script = fmt.Sprint(i)
		}
		if got := compareScripts(ps); (len(got) == 0) != tc.want {
			t.Errorf("%s: the scripts: %+v", tc.lines, got)
		}
	}
}
