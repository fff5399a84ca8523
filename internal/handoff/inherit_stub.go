//go:build !linux || !cgo

package handoff

const hasConstructor = false

// Inherited returns the zero State: without cgo there is no record.
func Inherited() State { return State{} }

// OnAbort does nothing: without cgo Go does not end by SIGABRT where it cannot start a thread.
func OnAbort(string, int) {}
