package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/cpuguy83/go-md2man/v2/md2man"
)

// stage lays out what is installed, in a folder of its own. A binary with cgo is launch, and launch-static is next to
// it; else the static one is launch.
func (r release) stage(arch string) (build, error) {
	tree, err := os.MkdirTemp("", "launch-dist-")
	b := build{arch: arch, tree: tree}
	if err != nil {
		return b, err
	}
	in := filepath.Join(r.in, arch)
	main, second := filepath.Join(in, "launch"), filepath.Join(in, "launch-static")
	if _, err := os.Stat(main); err != nil {
		main, second = second, ""
	}
	if b.floor, err = floorOf(main); err != nil {
		return b, err
	}
	files := map[string]func() ([]byte, error){
		"usr/bin/launch":                                  read(main),
		"usr/share/man/man1/launch.1.gz":                  r.man,
		"usr/share/doc/launch/copyright":                  read(filepath.Join(r.root, "LICENSE")),
		"usr/share/doc/launch/README.md":                  read(filepath.Join(r.root, "README.md")),
		"usr/share/bash-completion/completions/launch":    r.completion("bash"),
		"usr/share/zsh/site-functions/_launch":            r.completion("zsh"),
		"usr/share/fish/vendor_completions.d/launch.fish": r.completion("fish"),
	}
	if second != "" {
		files["usr/bin/launch-static"] = read(second)
	}
	for name, content := range files {
		data, err := content()
		if err == nil {
			err = put(filepath.Join(tree, name), data, strings.HasPrefix(name, "usr/bin/"))
		}
		if err != nil {
			return b, fmt.Errorf("%s: %w", name, err)
		}
	}
	return b, nil
}

func read(file string) func() ([]byte, error) {
	return func() ([]byte, error) { return os.ReadFile(file) }
}

// put writes a file, and its folders.
func put(file string, data []byte, program bool) error {
	mode := fs.FileMode(0o644)
	if program {
		mode = 0o755
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, data, mode)
}

// own returns the binary that runs here.
func (r release) own() string { return filepath.Join(r.in, runtime.GOARCH, "launch-static") }

// completion returns the script of a shell, as launch prints it.
func (r release) completion(shell string) func() ([]byte, error) {
	return func() ([]byte, error) { return exec.Command(r.own(), "completion", shell).Output() }
}

// man returns the manual page: the help, and the documents of the subcommands and exit statuses.
func (r release) man() ([]byte, error) {
	help, err := exec.Command(r.own(), "--help").Output()
	if err != nil {
		return nil, err
	}
	page := "launch 1 \"\" \"launch " + r.version + "\"\n=====\n\n# NAME\n\n" +
		"launch - check, rank and start a distributed training job\n\n# SYNOPSIS\n\n" +
		"**launch** [*flags*] *COMMAND*\n\n**launch** *SUBCOMMAND* [*flags*]\n\n" +
		"# DESCRIPTION\n\n```\n" + string(help) + "```\n\n"
	for _, part := range []struct{ head, file string }{{"SUBCOMMANDS", "commands.md"}, {"EXIT STATUS", "exit-codes.md"}} {
		text, err := os.ReadFile(filepath.Join(r.root, "docs", part.file))
		if err != nil {
			return nil, err
		}
		_, body, _ := strings.Cut(string(text), "\n\n") // without its title
		page += "# " + part.head + "\n\n" + rows(body) + "\n"
	}
	return zipped(md2man.Render([]byte(page)))
}

// rows writes the rows of tables as lists: a manual page has no room for wide ones.
func rows(markdown string) string {
	var out strings.Builder
	for line := range strings.Lines(markdown) {
		cells, ok := strings.CutPrefix(strings.TrimSpace(line), "| ")
		switch {
		case !ok && strings.HasPrefix(line, "|"): // below the head
		case !ok:
			out.WriteString(line)
		case strings.HasPrefix(cells, "type |"), strings.HasPrefix(cells, "code |"):
		default:
			first, rest, _ := strings.Cut(strings.TrimSuffix(cells, "|"), " | ")
			rest = strings.ReplaceAll(strings.TrimSpace(rest), " | ", "; ")
			fmt.Fprintf(&out, "**%s**\n:   %s\n\n", strings.Trim(first, "`"), rest)
		}
	}
	return out.String()
}

func zipped(data []byte) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(data); err != nil {
		return nil, err
	}
	err = z.Close()
	return b.Bytes(), err
}
