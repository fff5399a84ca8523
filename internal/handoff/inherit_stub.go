//go:build !linux || !cgo

package handoff

const hasConstructor = false

// Inherited is what launch was started with; without cgo nobody recorded it.
func Inherited() State { return State{} }
