//go:build !linux || !cgo || nonvml

package gpu

// ask says that this build cannot ask.
func ask() Facts {
	return Facts{Err: "this build of launch has no NVML (built without cgo): models and PCI addresses come from /proc and /sys, and nothing tells how the GPUs are"}
}
