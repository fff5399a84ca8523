package fabric

import (
	"slices"
	"testing"
)

// TestOnlyLocalFileSystemsThatAreWrittenTo: no server and no FUSE daemon is asked, which may not answer.
func TestOnlyLocalFileSystemsThatAreWrittenTo(t *testing.T) {
	got := places(parseMounts(`1 0 8:1 / / rw - ext4 /dev/sda1 rw
2 1 0:1 / /data rw - nfs4 server:/x rw
3 1 0:2 / /home/a/b rw - fuse.sshfs a:/ rw
4 1 0:3 / /srv/ck rw - tmpfs t rw,size=2048k
5 1 0:4 / /snap ro - squashfs /dev/loop0 ro
6 1 0:5 / /cred ro - tmpfs none ro
7 1 0:6 / /proc rw - proc proc rw
8 1 8:2 / /scratch rw - xfs /dev/sdb rw
`))
	if want := []string{"/", "/scratch", "/srv/ck"}; !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}
