package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

// name returns the file of a package.
func (r release) name(parts ...string) string {
	return filepath.Join(r.out, strings.Join(append([]string{"launch", r.version}, parts...), "-"))
}

// each calls do for the files of a tree, in the order of their names.
func (b build) each(do func(name string, mode fs.FileMode, data []byte) error) error {
	root := os.DirFS(b.tree)
	return fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		data, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		return do(name, info.Mode().Perm(), data)
	})
}

// folder returns the name of an archive for the machines of an architecture, and of the one folder in it.
func (r release) folder(arch string) string { return "launch-" + r.version + "-linux-" + arch }

// archive writes a .tar.gz with one folder, for a prefix such as /usr/local.
func (r release) archive(b build) error {
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err := r.tar(z, b, func(name string) string {
		return path.Join(r.folder(b.arch), strings.TrimPrefix(name, "usr/"))
	}); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, r.folder(b.arch)+".tar.gz"), out.Bytes(), 0o644)
}

// put adds a file with the time of the release.
func (r release) put(to *tar.Writer, name string, mode fs.FileMode, data []byte) error {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: int64(mode), Size: int64(len(data)), ModTime: r.time}
	if err := to.WriteHeader(h); err != nil {
		return err
	}
	_, err := to.Write(data)
	return err
}

// tar writes the files of a tree with other names.
func (r release) tar(to io.Writer, b build, rename func(string) string) error {
	t := tar.NewWriter(to)
	err := b.each(func(name string, mode fs.FileMode, data []byte) error {
		return r.put(t, rename(name), mode, data)
	})
	if err != nil {
		return err
	}
	return t.Close()
}

// distribution is the name on PyPI; launch is taken there.
const distribution = "launch_preflight"

// machines are the architectures in the names of wheels and in ELF.
var machines = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}

// wheels writes a Python wheel for each program: pip takes the one with the newest C library that a machine has.
func (r release) wheels(b build) error {
	const oldest = "manylinux_2_17_%[1]s.musllinux_1_1_%[1]s"
	if err := r.wheel(b, b.static(), fmt.Sprintf(oldest, machines[b.arch])); err != nil || b.floor == "" {
		return err
	}
	return r.wheel(b, "usr/bin/launch", "manylinux_"+strings.ReplaceAll(b.floor, ".", "_")+"_"+machines[b.arch])
}

// wheel writes a Python wheel that puts a program on PATH as launch, by the binary distribution format (PEP 427).
func (r release) wheel(b build, program, platforms string) error {
	version := r.plain()
	if version == "0.0.0" {
		version += ".dev0"
	}
	base := fmt.Sprintf("%s-%s", distribution, version)
	var out bytes.Buffer
	w := wheel{r: r, zip: zip.NewWriter(&out)}
	var readme []byte
	err := b.each(func(name string, _ fs.FileMode, data []byte) error {
		share, shared := strings.CutPrefix(name, "usr/share/")
		switch {
		case name == program:
			return w.add(base+".data/scripts/launch", 0o755, data)
		case name == "usr/share/doc/launch/README.md":
			readme = data
		case shared && !strings.HasPrefix(share, "doc/"):
			return w.add(base+".data/data/share/"+share, 0o644, data)
		}
		return nil
	})
	if err != nil {
		return err
	}
	var tags strings.Builder
	for p := range strings.SplitSeq(platforms, ".") {
		fmt.Fprintf(&tags, "Tag: py3-none-%s\n", p)
	}
	info := base + ".dist-info/"
	for _, f := range []struct{ name, text string }{
		{"METADATA", "Metadata-Version: 2.1\nName: " + strings.ReplaceAll(distribution, "_", "-") + "\nVersion: " + version +
			"\nSummary: one word before torchrun or mpirun: checks the nodes, agrees on ranks, starts the command\n" +
			"License: Apache-2.0\nRequires-Python: >=3.8\nDescription-Content-Type: text/markdown\n\n" + string(readme)},
		{"WHEEL", "Wheel-Version: 1.0\nGenerator: launch\nRoot-Is-Purelib: false\n" + tags.String()},
	} {
		if err := w.add(info+f.name, 0o644, []byte(f.text)); err != nil {
			return err
		}
	}
	w.record.WriteString(info + "RECORD,,\n")
	if err := w.add(info+"RECORD", 0o644, []byte(w.record.String())); err != nil {
		return err
	}
	if err := w.zip.Close(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, base+"-py3-none-"+platforms+".whl"), out.Bytes(), 0o644)
}

// wheel is one that is being written.
type wheel struct {
	r      release
	zip    *zip.Writer
	record strings.Builder
}

func (w *wheel) add(name string, mode fs.FileMode, data []byte) error {
	h := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: w.r.time}
	h.SetMode(mode)
	f, err := w.zip.CreateHeader(h)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	fmt.Fprintf(&w.record, "%s,sha256=%s,%d\n", name, base64.RawURLEncoding.EncodeToString(sum[:]), len(data))
	_, err = f.Write(data)
	return err
}

// linux writes a deb and an rpm.
func (r release) linux(b build) error {
	for _, p := range []struct {
		packager nfpm.Packager
		suffix   string
		needs    string
	}{{deb.Default, ".deb", "libc6 (>= " + b.floor + ")"}, {rpm.DefaultRPM, ".rpm", "glibc >= " + b.floor}} {
		i := &nfpm.Info{Name: "launch-preflight", Arch: b.arch, Platform: "linux", Version: r.plain(), Release: "1",
			Section: "utils", Priority: "optional", License: "Apache-2.0", MTime: r.time,
			Maintainer:  "the authors of launch",
			Description: "checks, ranks and starts distributed training jobs\nOne word before torchrun or mpirun."}
		if b.floor != "" {
			i.Depends = []string{p.needs}
		}
		err := b.each(func(name string, mode fs.FileMode, _ []byte) error {
			i.Contents = append(i.Contents, &files.Content{Source: filepath.Join(b.tree, name), Destination: "/" + name,
				FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: r.time}})
			return nil
		})
		if err != nil {
			return err
		}
		if err := nfpm.PrepareForPackager(i, strings.TrimPrefix(p.suffix, ".")); err != nil {
			return err
		}
		var out bytes.Buffer
		if err := p.packager.Package(i, &out); err != nil {
			return err
		}
		if err := os.WriteFile(r.name("linux", b.arch+p.suffix), out.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}
