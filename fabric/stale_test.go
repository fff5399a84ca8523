package fabric

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestPathsThatTheirFileSystemAnswersWithAnError(t *testing.T) {
	never := make(chan struct{})
	defer close(never)
	answer := func(path string) error {
		switch path {
		case "/nfs/data":
			return unix.ESTALE
		case "/fuse/data":
			return unix.ENOTCONN
		case "/soft/data":
			return unix.ETIMEDOUT
		case "/dead/data":
			<-never
		case "/no":
			return unix.ENOENT
		}
		return nil
	}
	got := stale([]string{"/nfs/data", "/fuse/data", "/soft/data", "/dead/data", "/no", "/well"}, answer,
		200*time.Millisecond)
	if want := map[string]string{"/nfs/data": "ESTALE", "/fuse/data": "ENOTCONN",
		"/soft/data": "ETIMEDOUT"}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got = AskStale(t.Context(), []string{os.TempDir(), filepath.Join(t.TempDir(), "no")}); got == nil || len(got) > 0 {
		t.Errorf("sound paths: %v", got)
	}
}

func TestAFileSystemWithoutRoomOrInodes(t *testing.T) {
	for name, tt := range map[string]struct {
		fs   unix.Statfs_t
		full bool
	}{
		"room":      {unix.Statfs_t{Blocks: 100, Bavail: 1, Files: 10, Ffree: 1}, false},
		"no room":   {unix.Statfs_t{Blocks: 100, Files: 10, Ffree: 1}, true},
		"no inode":  {unix.Statfs_t{Blocks: 100, Bavail: 1, Files: 10}, true},
		"no inodes": {unix.Statfs_t{Blocks: 100, Bavail: 1}, false}, // btrfs does not count them
		"no size":   {unix.Statfs_t{}, false},
	} {
		if full(tt.fs) != tt.full {
			t.Errorf("%s: %v", name, !tt.full)
		}
	}
}
