package software

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// Packages returns the versions of the packages that the command's Python would import by these names, from where it
// looks for installed ones: "1.2", as the package's metadata has it, else size and checksum of the file that an import
// runs first. A name that is not installed there is missing.
func Packages(root fs.FS, cmd Command, names []string) map[string]string {
	d := detector{files: files{root}, cmd: cmd}
	interpreter, _ := d.interpreter()
	if interpreter == "" || len(names) == 0 {
		return nil
	}
	out := map[string]string{}
	_, sites := d.python(interpreter)
	for _, site := range sites {
		if !strings.Contains(site, "-packages") {
			continue // a folder of PYTHONPATH has no metadata
		}
		has, metadata := map[string]bool{}, map[string]string{}
		for _, entry := range d.names(site) {
			has[entry] = true
			if stem, ok := strings.CutSuffix(entry, ".dist-info"); ok {
				name, version, _ := strings.Cut(stem, "-")
				metadata[strings.ToLower(name)] = version
			}
		}
		for _, name := range names {
			first := ""
			switch {
			case out[name] != "":
				continue
			case has[name]:
				first = path.Join(site, name, "__init__.py")
			case has[name+".py"]:
				first = path.Join(site, name+".py")
			}
			version := metadata[strings.ToLower(name)]
			if text := d.text(first); version == "" && text != "" {
				version = fmt.Sprintf("%d bytes, sha256 %.6x", len(text), sha256.Sum256([]byte(text)))
			}
			if version != "" {
				out[name] = version
			}
		}
	}
	return out
}
