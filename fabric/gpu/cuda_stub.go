//go:build !linux || !cgo || nonvml

package gpu

// startCUDA returns 0: this build cannot load libcuda.
func startCUDA() int { return 0 }
