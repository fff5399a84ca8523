package faultbench

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"launch/lab/starts"
)

// The program itself, with a libibverbs that carries data, judges the ports of one
// machine: it passes fit ports, and names each broken one.
func TestPortsOfAMachineCarryDataToThemselves(t *testing.T) {
	for _, tt := range []struct {
		name, machine, pattern, broken string
		want                           string // the status, and the beginning of the text
	}{
		{"InfiniBand", onIB, "", "", "ok 8 ports"},
		{"RoCE", onRoCE, "", "", "ok 8 ports"},
		{"one changes data", onIB, `(?m)^mlx5_3 .*`, "$0 corrupt 3", "fail mlx5_3 changes the data"},
		{"one is refused memory", onIB, `(?m)^mlx5_4 .*`, "$0 mr 1", "fail mlx5_4 cannot carry data to itself"},
		{"the firmware of one has failed", onRoCE, `(?m)^mlx5_0 .*`, "$0 wc 19", "fail mlx5_0 cannot carry data to itself"},
		{"two make no connection", onIB, `(?m)^mlx5_[03] .*`, "$0 rtr 110",
			"warn 2 of 8 RDMA ports fail alike (mlx5_0, mlx5_3)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tr := newTrial(t, 1)
			h := tr.sick
			h.equip(tr, tt.machine)
			if tt.pattern != "" {
				h.write(tr, "lib/verbs.txt", regexp.MustCompile(tt.pattern).
					ReplaceAllString(h.read(tr, "lib/verbs.txt"), tt.broken))
			}
			env := append([]string{"PATH=" + tools.fake + ":" + os.Getenv("PATH")}, h.env...)
			h.Exec(t, h.Host, patience, env, tools.launch, "check", "--only", "rdma.loop")
			var got []string
			for l := range strings.Lines(h.Out.String()) {
				var f starts.Said
				if json.Unmarshal([]byte(l), &f) == nil && f.ID == "rdma.loop" {
					got = append(got, f.Status+" "+f.What)
				}
			}
			if len(got) != 1 || !strings.HasPrefix(got[0], tt.want) {
				t.Errorf("%q, want %q:\n%s%s", got, tt.want, tr.printed(), h.Out.String())
			}
		})
	}
}
