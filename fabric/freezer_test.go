package fabric

import (
	"testing"
	"testing/fstest"
)

func TestTheFreezerOfAControlGroup(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	for _, tt := range []struct {
		name, groups string
		sys          fstest.MapFS
		want         string
		frozen       bool
	}{
		{"version 2, by the group above", "0::/job/rank\n", fstest.MapFS{
			"fs/cgroup/job/rank/cgroup.events": file("populated 1\nfrozen 1\n"),
			"fs/cgroup/job/rank/cgroup.freeze": file("0\n"),
			"fs/cgroup/job/cgroup.freeze":      file("1\n"),
		}, "fs/cgroup/job/cgroup.freeze", true},
		{"version 2, it runs", "0::/job\n", fstest.MapFS{
			"fs/cgroup/job/cgroup.events": file("populated 1\nfrozen 0\n"),
			"fs/cgroup/job/cgroup.freeze": file("0\n"),
		}, "fs/cgroup/job/cgroup.freeze", false},
		{"version 1", "7:freezer:/job\n0::/\n", fstest.MapFS{
			"fs/cgroup/freezer/job/freezer.state":         file("FROZEN\n"),
			"fs/cgroup/freezer/job/freezer.self_freezing": file("1\n"),
		}, "fs/cgroup/freezer/job/freezer.state", true},
		{"version 1, it runs", "7:freezer:/job\n0::/\n", fstest.MapFS{
			"fs/cgroup/freezer/job/freezer.state":         file("THAWED\n"),
			"fs/cgroup/freezer/job/freezer.self_freezing": file("0\n"),
		}, "fs/cgroup/freezer/job/freezer.state", false},
		{"not visible", "7:freezer:/job\n0::/\n", fstest.MapFS{}, "fs/cgroup/freezer/job/freezer.state", false},
		{"no group", "0::/\n", fstest.MapFS{}, "", false},
	} {
		got, frozen := freezer(fstest.MapFS{"5/cgroup": file(tt.groups)}, tt.sys, "5")
		if got != tt.want || frozen != tt.frozen {
			t.Errorf("%s: %q, %v; want %q, %v", tt.name, got, frozen, tt.want, tt.frozen)
		}
	}
}
