//go:build !linux || !cgo || nonvml

package gpu

// ask says that this build cannot ask.
func ask() Facts {
	return Facts{Err: "this build of launch has no NVML (built without cgo)"}
}
