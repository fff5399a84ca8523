package rendezvous

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Only a folder that a store of this user has left is removed.
func TestASweepRemovesOnlyWhatAStoreHasLeft(t *testing.T) {
	base, elsewhere := t.TempDir(), t.TempDir()
	store := func(name, text string) string { // as a store makes it, and a process that has ended leaves it
		dir := filepath.Join(base, name)
		if err := os.MkdirAll(filepath.Join(dir, "d"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "lock"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	left := store("launch-store-1234567890", marker)

	kept := map[string]string{
		"another name":   store("launch-store-results", marker),
		"more digits":    store("launch-store-12.bak", marker),
		"without marker": store("launch-store-2", ""),
		"another marker": store("launch-store-3", marker+"x"),
	}
	if os.Geteuid() == 0 {
		kept["another user's"] = store("launch-store-4", marker)
		must(os.Chown(kept["another user's"], 65534, 65534))
		kept["another user's lock"] = store("launch-store-5", marker)
		must(os.Chown(filepath.Join(kept["another user's lock"], "lock"), 65534, 65534))
	}
	kept["behind a symlink"] = filepath.Join(elsewhere, "launch-store-6")
	must(os.Rename(store("launch-store-6", marker), kept["behind a symlink"]))
	must(os.Symlink(kept["behind a symlink"], filepath.Join(base, "launch-store-6")))
	kept["lock is a symlink"] = store("launch-store-7", marker)
	must(os.Rename(filepath.Join(kept["lock is a symlink"], "lock"), filepath.Join(elsewhere, "lock")))
	must(os.Symlink(filepath.Join(elsewhere, "lock"), filepath.Join(kept["lock is a symlink"], "lock")))
	kept["lock is a FIFO"] = store("launch-store-8", marker)
	must(os.Remove(filepath.Join(kept["lock is a FIFO"], "lock")))
	must(unix.Mkfifo(filepath.Join(kept["lock is a FIFO"], "lock"), 0o600))
	runs, lock, err := lockedDir(base)
	must(err)
	defer lock.Close()
	kept["a store that runs"] = runs

	sweep(base)
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", left, err)
	}
	for what, dir := range kept {
		if _, err := os.Stat(filepath.Join(dir, "d")); err != nil && dir != runs {
			t.Errorf("%s: %v", what, err)
		}
	}
	must(lock.Close()) // its process has ended
	sweep(base)
	if _, err := os.Stat(runs); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", runs, err)
	}
}
