package handoff

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLinks is how many links the kernel follows on the way to a file (path_resolution(7)).
const maxLinks = 40

// Barred returns the first folder on the way to a file, links followed, that this user may not enter; "": it may enter
// all, as far as the way leads.
func Barred(file string) string {
	at := "/" // it has no link in it
	if !filepath.IsAbs(file) {
		here, _ := os.Getwd()
		file = here + "/" + file
	}
	rest := strings.Split(file, "/")
	for links := 0; len(rest) > 0; {
		next := rest[0]
		if rest = rest[1:]; next == "" || next == "." {
			continue
		}
		if unix.Faccessat(unix.AT_FDCWD, at, unix.X_OK, unix.AT_EACCESS) == unix.EACCES {
			return at
		}
		to := filepath.Join(at, next)
		target, err := os.Readlink(to)
		if err != nil {
			at = to
			continue
		}
		if links++; links > maxLinks {
			return ""
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return ""
}
