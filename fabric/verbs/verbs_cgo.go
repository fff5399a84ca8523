//go:build linux && cgo && !noverbs

package verbs

/*
#cgo CFLAGS: -Wall -Werror=implicit-function-declaration
#cgo LDFLAGS: -ldl
#include "shim.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"syscall"
)

// Devices lists the RDMA devices of this process and tries to open each. It
// can block for as long as a driver does. The error is ErrNoLibrary, ErrNoStack
// or one that libibverbs gave.
func Devices() ([]Device, error) {
	var v C.struct_verbs
	var missing C.int
	// The library stays loaded: its providers do not survive a dlclose.
	if why := C.verbs_load(&v, &missing); why != nil {
		if missing != 0 {
			return nil, fmt.Errorf("%w: %s", ErrNoLibrary, C.GoString(why))
		}
		return nil, errors.New(C.GoString(why))
	}
	var count, errno C.int
	list := C.verbs_list(&v, &count, &errno)
	if list == nil {
		if err := syscall.Errno(errno); err != syscall.ENOSYS {
			return nil, fmt.Errorf("list RDMA devices: %w", err)
		}
		return nil, ErrNoStack
	}
	defer C.verbs_free(&v, list)
	devices := make([]Device, 0, int(count))
	for i := range count {
		d := Device{Name: C.GoString(C.verbs_name(&v, list, i)), Opens: true}
		if errno := C.verbs_try(&v, list, i); errno != 0 {
			d.Opens, d.Err = false, syscall.Errno(errno).Error()
		}
		devices = append(devices, d)
	}
	return devices, nil
}
