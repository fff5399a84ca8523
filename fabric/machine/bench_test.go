package machine_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"launch/fabric"
	"launch/fabric/machine"
	"launch/fabric/machine/machinetest"
)

func BenchmarkDetectOnARecordedMachine(b *testing.B) {
	for _, name := range []string{"aws-p6-b200", "h100-roce-8"} { // 8 GPUs with 10 and 12 HCAs
		roots := machinetest.Machine(b, name).Roots()
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				fabric.Detect(b.Context(), roots, fabric.Options{})
			}
		})
	}
}

// Files of a disk and full GID tables are the best imitation of the sysfs of a node
// with 12 HCAs.
func BenchmarkDetectOnFiles(b *testing.B) {
	text, err := os.ReadFile("machinetest/machines/h100-roce-8.txt")
	if err != nil {
		b.Fatal(err)
	}
	m, err := machine.Read([]byte(strings.ReplaceAll(string(text), "slots=8", "slots=256")))
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	write(b, m.Roots().Root, dir)
	on := func(name string) fs.FS { return os.DirFS(filepath.Join(dir, name)) }
	roots := fabric.Roots{Sys: on("sys"), Proc: on("proc"), Dev: on("dev"), Etc: on("etc")}
	if n := fabric.Detect(b.Context(), roots, fabric.Options{}); len(n.HCAs) != 12 || len(n.HCAs[0].Ports[0].GIDs) != 4 {
		b.Fatalf("%d HCAs on files", len(n.HCAs))
	}
	for b.Loop() {
		fabric.Detect(b.Context(), roots, fabric.Options{})
	}
}

// write makes real files of a machine, except those that cannot be read.
func write(b *testing.B, root fs.FS, dir string) {
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		to := filepath.Join(dir, name)
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.MkdirAll(to, 0o755)
		case d.Type()&fs.ModeSymlink != 0:
			target, err := fs.ReadLink(root, name)
			if err != nil {
				return err
			}
			return os.Symlink(target, to)
		}
		if data, err := fs.ReadFile(root, name); err == nil {
			return os.WriteFile(to, data, 0o644)
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}
