package hostlist

import "io/fs"

// Once reports whether a file can be read only once: a pipe, as of <(command) or /dev/stdin, or a terminal. What has
// been read of it is gone for the program that was to read it.
func Once(root fs.FS, name string) bool {
	info, err := fs.Stat(root, name)
	return err == nil && info.Mode()&(fs.ModeNamedPipe|fs.ModeSocket|fs.ModeDevice) != 0
}
