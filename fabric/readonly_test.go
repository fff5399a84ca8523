package fabric

import (
	"testing"
	"testing/fstest"
)

// A file system that can be written to no more shows that in the options of the mount or of the file system. Of two
// mounts at one place the upper one counts.
func TestMountsThatRefuseToWrite(t *testing.T) {
	const text = `1 0 8:1 / / rw,relatime - ext4 /dev/sda1 rw,errors=remount-ro
2 1 8:2 / /data rw - ext4 /dev/sdb1 ro,errors=remount-ro
3 1 8:3 / /new rw - ext4 /dev/sdc1 rw,emergency_ro,errors=remount-ro
4 1 0:40 / /nfs\040a ro,relatime - nfs4 srv:/a rw,vers=4.2
5 1 0:41 / /nfs rw - nfs4 srv:/rock rw,root=/ro
6 1 0:5 / /proc ro - proc proc ro
7 1 8:2 / /twice ro - ext4 /dev/sdb1 ro
8 1 8:9 / /twice rw - ext4 /dev/sdd1 rw
`
	proc := fstest.MapFS{"7/mountinfo": &fstest.MapFile{Data: []byte(text)}}
	want := map[string]string{"/": "", "/data": "ro", "/new": "emergency_ro", "/nfs a": "ro", "/nfs": "", "/twice": ""}
	got := MountsOf(proc, 7)
	if len(got) != len(want) {
		t.Errorf("%d mounts: %+v", len(got), got)
	}
	for _, m := range got {
		if refuses, known := want[m.Path]; !known || refuses != m.Refuses {
			t.Errorf("%s: %q, want %q", m.Path, m.Refuses, refuses)
		}
		if m.Path == "/data" && (!m.Demands || m.Source != "/dev/sdb1" || m.Device != "8:2") {
			t.Errorf("%+v", m)
		}
		if is, want := m.Holds(got, "/data/ckpt/1.pt"), m.Path == "/data"; is != want {
			t.Errorf("%s holds a path on /data: %t", m.Path, is)
		}
	}
}
