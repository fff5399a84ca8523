//go:build !linux || !cgo

package handoff

const hasConstructor = false

// Inherited returns the zero State: without cgo there is no record.
func Inherited() State { return State{} }
