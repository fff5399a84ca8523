package companion

import (
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"launch/internal/finding"
)

// One outage does not show a bad cable; each leg of a bond counts on its own.
func TestALinkThatGoesDownAgainAndAgainIsNamed(t *testing.T) {
	net := fstest.MapFS{"bond0/lower_eth0": {}, "bond0/lower_eth1": {}}
	set := func(name string, downs int) {
		net[name+"/carrier_down_count"] = &fstest.MapFile{Data: []byte(strconv.Itoa(downs) + "\n")}
	}
	for _, name := range []string{"bond0", "eth0", "eth1", "eth2"} {
		set(name, 7) // before the job
	}
	l := &links{net: net, known: map[string]*link{}}
	l.add("bond0", false)
	now := time.Now()
	look := func(after time.Duration) []finding.Finding {
		now = now.Add(after)
		return l.look(now)
	}
	for _, step := range []struct {
		after      time.Duration
		eth0, eth1 int
		want       string
	}{
		{0, 7, 7, ""},
		{2 * time.Second, 8, 7, ""},
		{2 * time.Second, 8, 8, ""}, // each once
		{2 * time.Minute, 9, 8, ""}, // long after
		{20 * time.Second, 10, 8, "the link of eth0 went down 2 times within a minute (seen at "},
		{5 * time.Second, 11, 8, ""}, // said a moment ago
		{2 * time.Second, 11, 10, "the link of eth1 went down 2 times within a minute"},
		{70 * time.Second, 14, 10, "the link of eth0 went down 3 times within a minute"},
		{70 * time.Second, 17, 10, ""}, // less and less often
		{2 * time.Second, 17, 10, ""},  // sound again
	} {
		set("eth0", step.eth0)
		set("eth1", step.eth1)
		set("eth2", step.eth0) // of no address of the job
		got := ""
		for _, f := range look(step.after) {
			got += f.What + "\n"
		}
		if !strings.HasPrefix(got, step.want) || (step.want == "") != (got == "") || strings.Count(got, "\n") > 1 {
			t.Errorf("eth0 %d, eth1 %d: %q, want %q", step.eth0, step.eth1, got, step.want)
		}
	}
	delete(net, "eth0/carrier_down_count") // an older kernel, or the card is gone
	if got := look(time.Hour); len(got) > 0 {
		t.Errorf("%v", got)
	}
}
