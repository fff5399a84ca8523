//go:build !linux || !cgo || noverbs

package verbs

import "context"

// Devices returns ErrNoCgo: this build cannot open a C library.
func Devices() ([]Device, error) { return nil, ErrNoCgo }

// Loop returns the error that this build cannot open a C library.
func Loop(context.Context, Test) (LoopResult, error) { return LoopResult{}, ofLibrary(ErrNoCgo) }

// Run returns the error that this build cannot open a C library, and reports it to the other end.
func Run(ctx context.Context, t Test, say Exchange) (Result, error) {
	e := ofLibrary(ErrNoCgo)
	Abort(ctx, say, e)
	return Result{}, e
}
