package fabric

import (
	"testing"
	"testing/fstest"
	"time"
)

func TestTheProcessorTimeOfAControlGroup(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	for _, tt := range []struct {
		name, groups string
		sys          fstest.MapFS
		used, held   time.Duration
		periods      [2]int64 // of the quota, and those that held it
	}{
		{"version 2, held by the group above", "0::/job/rank\n", fstest.MapFS{
			"fs/cgroup/job/rank/cpu.stat": file("usage_usec 100\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n"),
			"fs/cgroup/job/cpu.stat": file("usage_usec 2000\nuser_usec 1\nnr_periods 40\nnr_throttled 30\n" +
				"throttled_usec 5000\n"),
			"fs/cgroup/cpu.stat": file("usage_usec 9000\n"),
		}, 2 * time.Millisecond, 5 * time.Millisecond, [2]int64{40, 30}},
		{"version 1", "7:cpu,cpuacct:/job\n0::/\n", fstest.MapFS{
			"fs/cgroup/cpu/job/cpu.stat":          file("nr_periods 40\nnr_throttled 30\nthrottled_time 7000\n"),
			"fs/cgroup/cpuacct/job/cpuacct.usage": file("300\n"),
		}, 300, 7000, [2]int64{40, 30}},
		{"no controller", "0::/job\n", fstest.MapFS{"fs/cgroup/job/cpu.stat": file("usage_usec 100\n")}, 0, 0,
			[2]int64{}},
		{"not readable", "0::/job\n", fstest.MapFS{}, 0, 0, [2]int64{}},
	} {
		c := processor(fstest.MapFS{"5/cgroup": file(tt.groups)}, tt.sys, "5")
		if c.used != tt.used || c.held != tt.held {
			t.Errorf("%s: %s, %s; want %s, %s", tt.name, c.used, c.held, tt.used, tt.held)
		}
		if got := [2]int64{c.periods, c.throttled}; got != tt.periods {
			t.Errorf("%s: periods %v, want %v", tt.name, got, tt.periods)
		}
	}
}
