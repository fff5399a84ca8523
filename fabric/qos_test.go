package fabric

import (
	"fmt"
	"testing"
	"testing/fstest"
)

// The eight switches of a port are its priorities; anything else is not known.
func TestQoSOfAnInterface(t *testing.T) {
	files := func(on string, count int, more ...string) fstest.MapFS {
		out := fstest.MapFS{}
		for i := range count {
			for _, side := range []string{"np", "rp"} {
				text := "0\n"
				if fmt.Sprint(i) == on {
					text = "1\n"
				}
				out[fmt.Sprintf("class/net/e0/ecn/roce_%s/enable/%d", side, i)] = &fstest.MapFile{Data: []byte(text)}
			}
		}
		for i := 0; i+1 < len(more); i += 2 {
			out["class/net/e0/qos/"+more[i]] = &fstest.MapFile{Data: []byte(more[i+1] + "\n")}
		}
		return out
	}
	for name, tt := range map[string]struct {
		sys  fstest.MapFS
		want QoS
	}{
		"one priority":  {files("5", 8, "trust", "dscp"), QoS{"e0", "dscp", "", "5", "5"}},
		"no priority":   {files("", 8), QoS{"e0", "", "", "none", "none"}},
		"flow control":  {files("", 0, "pfc", "0,0,0,1,1,0,0,0"), QoS{"e0", "", "3,4", "", ""}},
		"four switches": {files("2", 4), QoS{}},
		"no file":       {files("", 0), QoS{}},
	} {
		if got := readQoS(tt.sys, "e0"); got != tt.want {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
}
