//go:build !linux || !cgo || noverbs

package verbs

import "context"

// Devices returns ErrNoCgo: this build cannot open a C library.
func Devices() ([]Device, error) { return nil, ErrNoCgo }

// Loop returns that this build cannot open a C library.
func Loop(context.Context, LoopTest) (LoopResult, error) { return LoopResult{}, ofLibrary(ErrNoCgo) }

// Run returns that this build cannot open a C library. The other end is told.
func Run(ctx context.Context, t Test, say Exchange) (Result, error) {
	e := ofLibrary(ErrNoCgo)
	Abort(ctx, say, e)
	return Result{}, e
}
