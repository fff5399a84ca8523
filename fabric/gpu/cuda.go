package gpu

import (
	"context"
	"encoding/json"
	"io"
	"slices"
)

// NotReady is cuInit's error before the fabric manager has set up the NVSwitches (CUDA_ERROR_SYSTEM_NOT_READY).
const NotReady = 802

// Unplaced reports that NVML lists GPUs with NVLinks and has no state of their fabric. Its state came with Hopper;
// whether the fabric manager has set up older GPUs only CUDA knows.
func (f Facts) Unplaced() bool {
	return slices.ContainsFunc(f.Devices, func(g GPU) bool { return g.NVLink != nil }) &&
		!slices.ContainsFunc(f.Devices, func(g GPU) bool { return g.Fabric != nil })
}

// CUDAChild is the child process that starts CUDA: it writes the result of cuInit.
func CUDAChild(_ context.Context, _ io.Reader, out io.Writer) error {
	return json.NewEncoder(out).Encode(startCUDA())
}
