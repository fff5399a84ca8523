//go:build !linux || !cgo || noverbs

package verbs

// Devices returns ErrNoCgo: this build cannot open a C library.
func Devices() ([]Device, error) { return nil, ErrNoCgo }
