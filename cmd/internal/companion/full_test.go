package companion

import (
	"strings"
	"testing"

	"launch/fabric"
)

// TestAFileSystemThatFilledUpIsNamed: one that was full at the start is no news.
func TestAFileSystemThatFilledUpIsNamed(t *testing.T) {
	w, printed := watcherOf()
	old := fabric.Disk{Path: "/old", Kind: "ext4", Size: 1 << 30}
	w.full = func() []fullDisk { return full(func() []fabric.Disk { return []fabric.Disk{old} }) }
	w.disks = func() []fabric.Disk {
		return []fabric.Disk{old, {Path: "/ckpt", Kind: "tmpfs", Size: 2 << 20},
			{Path: "/many", Kind: "ext4", Size: 1 << 30, Free: 1 << 29, InodeMax: 100},
			{Path: "/well", Kind: "btrfs", Size: 1 << 30, Free: 1 << 29}}
	}
	w.storage()
	if len(*printed) != 2 {
		t.Fatalf("%+v", *printed)
	}
	for i, want := range []string{"/ckpt (tmpfs, 2 MiB) is full", "/many (ext4, 1 GiB) has no inode left"} {
		if f := (*printed)[i]; f.ID != "storage.full" || !strings.Contains(f.What, want) {
			t.Errorf("%s: %s", f.ID, f.What)
		}
	}
}
