//go:build linux && cgo

package handoff

// #cgo CFLAGS: -Wall -Werror=implicit-function-declaration
// #include <stdlib.h>
// #include "inherit.h"
import "C"

import "unsafe"

// hasConstructor: inherit.c runs before Go. It records what was inherited, and does
// the second half of Detach.
const hasConstructor = true

// Inherited returns what launch inherited.
func Inherited() State {
	in := C.launch_inherited()
	if in.known == 0 {
		return State{Forbidden: in.forbidden != 0}
	}
	return State{
		Known: true, Forbidden: in.forbidden != 0, Nofile: uint64(in.nofile_soft), blocked: signals(in.blocked),
		ignored: signals(in.ignored), deathSignal: int(in.death_signal),
	}
}

// OnAbort has this process print text, and no stacks, and end with a status, where SIGABRT would end it: Go sends it
// where it cannot start a thread.
func OnAbort(text string, status int) {
	c := C.CString(text)
	C.launch_on_abort(c, C.int(status))
	C.free(unsafe.Pointer(c))
}
