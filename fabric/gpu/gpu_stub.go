//go:build !linux || !cgo || nonvml

package gpu

// ask returns that this build cannot ask NVML.
func ask(Question) Facts {
	return Facts{Err: "this build of launch has no NVML (built without cgo): models and PCI addresses come from /proc " +
		"and /sys, the state of the GPUs is unknown"}
}
