package main

import (
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"launch/internal/exit"
	"launch/internal/outfile"
)

// copy writes this program to a file, or into a folder: an image that has nothing else brings it into a volume so.
func (a *app) copy(c *cli.Context) error {
	to := c.Args().First()
	if to == "" {
		return exit.Errorf(exit.Usage, "launch copy needs a file or a folder").Do("launch copy /opt/launch/launch")
	}
	if info, err := os.Stat(to); err == nil && info.IsDir() {
		to = filepath.Join(to, "launch")
	}
	program, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = outfile.Write(to, program)
	}
	if err == nil {
		err = os.Chmod(to, 0o755) // whatever the umask
	}
	if err != nil {
		return exit.Errorf(exit.Unwritten, "the program was not copied: %v", err).
			Do("ls -ld %s   # the folder must be there, and this user must be able to write into it", filepath.Dir(to))
	}
	return nil
}
