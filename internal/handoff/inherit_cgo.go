//go:build linux && cgo

package handoff

// #cgo CFLAGS: -Wall -Werror=implicit-function-declaration
// #include "inherit.h"
import "C"

// hasConstructor: inherit.c runs before Go, records what was inherited and
// does the second half of Detach.
const hasConstructor = true

// Inherited is what launch was started with.
func Inherited() State {
	in := C.launch_inherited()
	if in.known == 0 {
		return State{}
	}
	return State{
		Known:       true,
		Nofile:      uint64(in.nofile_soft),
		NofileHard:  uint64(in.nofile_hard),
		blocked:     signals(in.blocked),
		ignored:     signals(in.ignored),
		deathSignal: int(in.death_signal),
	}
}
