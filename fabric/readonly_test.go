package fabric

import (
	"testing"
)

// A file system that can be written to no more shows that in its own options. A mount may be read-only while its file
// system is not. Of two mounts at one place the upper one counts.
func TestMountsThatRefuseToWrite(t *testing.T) {
	const text = `1 0 8:1 / / rw,relatime - ext4 /dev/sda1 rw,errors=remount-ro
2 1 8:2 / /data rw - ext4 /dev/sdb1 ro,errors=remount-ro
3 1 8:3 / /new rw - ext4 /dev/sdc1 rw,emergency_ro,errors=remount-ro
4 1 0:40 / /nfs\040a ro,relatime - nfs4 srv:/a rw,vers=4.2
5 1 0:41 / /nfs rw - nfs4 srv:/rock rw,root=/ro
7 1 8:2 / /twice ro - ext4 /dev/sdb1 ro
8 1 8:9 / /twice rw - ext4 /dev/sdd1 rw
`
	got := ParseMounts(text)
	want := map[string]Mount{"/": {}, "/data": {Refuses: "ro"}, "/new": {Refuses: "emergency_ro"},
		"/nfs a": {ReadOnly: true}, "/nfs": {}, "/twice": {}}
	if len(got) != len(want) {
		t.Errorf("%d mounts: %+v", len(got), got)
	}
	for at, m := range got {
		if w, known := want[at]; !known || m.Path != at || w.Refuses != m.Refuses || w.ReadOnly != m.ReadOnly {
			t.Errorf("%s: %+v, want %+v", at, m, w)
		}
	}
	if m := got["/data"]; !m.Demands || m.Source != "/dev/sdb1" || m.Device != "8:2" {
		t.Errorf("%+v", m)
	}
	for name, at := range map[string]string{"/data/ckpt/1.pt": "/data", "/data": "/data", "/database/x": "/", "/": "/",
		"/data/../new/x/": "/new"} {
		if m, ok := got.On(name); !ok || m.Path != at {
			t.Errorf("%s is on %q, want %q", name, m.Path, at)
		}
	}
	if m, ok := (Mounts{}).On("/data"); ok {
		t.Errorf("without mounts a path is on %+v", m)
	}
}
