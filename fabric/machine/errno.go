package machine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"syscall"
)

// errnos are the errors of reading kernel files, by name: their numbers differ between
// architectures.
var errnos = map[string]syscall.Errno{
	"EACCES": syscall.EACCES, "EAGAIN": syscall.EAGAIN, "EBUSY": syscall.EBUSY,
	"EINVAL": syscall.EINVAL, "EIO": syscall.EIO,
	"ENODATA": syscall.ENODATA, "ENODEV": syscall.ENODEV, "ENXIO": syscall.ENXIO, "EOPNOTSUPP": syscall.EOPNOTSUPP,
	"EPERM": syscall.EPERM, "ETIMEDOUT": syscall.ETIMEDOUT,
}

func errnoOf(name string) (syscall.Errno, error) {
	if e, ok := errnos[name]; ok {
		return e, nil
	}
	return 0, fmt.Errorf("unknown error %q; known are %v", name, slices.Sorted(maps.Keys(errnos)))
}

// nameOf returns the name of an error; EIO if it is not in the table.
func nameOf(err error) string {
	for name, e := range errnos {
		if errors.Is(err, e) {
			return name
		}
	}
	return "EIO"
}
