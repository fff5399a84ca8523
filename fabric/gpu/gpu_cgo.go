//go:build linux && cgo && !nonvml

package gpu

import (
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// asker is one conversation with NVML.
type asker struct {
	Question
	lib   nvml.Interface
	knows map[string]bool // functions by name: whether the library has them
	facts *Facts
}

// ask asks NVML. It calls nothing before Init has succeeded, and no function that the library
// lacks: go-nvml leaves NVML's symbols to the loader, and a call of a missing one ends the process.
//
// It does not call Shutdown: the process ends with its answer, and a Shutdown that
// hangs would cost the answer.
func ask(q Question) Facts {
	lib := nvml.New()
	if ret := lib.Init(); ret != nvml.SUCCESS {
		return Facts{Err: sentence("nvmlInit", int(ret)), Code: nameOf(int(ret))}
	}
	f := Facts{Present: true}
	a := &asker{Question: q, lib: lib, knows: map[string]bool{}, facts: &f}
	if a.has("driver", "nvmlSystemGetDriverVersion") {
		f.Driver, _ = lib.SystemGetDriverVersion()
	}
	if a.has("cuda", "nvmlSystemGetCudaDriverVersion") {
		if v, ret := lib.SystemGetCudaDriverVersion(); ret == nvml.SUCCESS {
			f.CUDA = cudaVersion(v)
		}
	}
	if !a.has("devices", "nvmlDeviceGetCount_v2", "nvmlDeviceGetCount") ||
		!a.has("devices", "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex") {
		return Facts{Driver: f.Driver, CUDA: f.CUDA, Err: f.Unknown[len(f.Unknown)-1].Why}
	}
	n, ret := lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return Facts{Driver: f.Driver, CUDA: f.CUDA, Err: sentence("nvmlDeviceGetCount", int(ret)), Code: nameOf(int(ret))}
	}
	handles := make([]nvml.Device, n)
	for i := range n {
		g := GPU{Index: i, Minor: -1, MemoryNUMA: -1}
		if q.Load {
			g.Load = &Load{-1, -1, -1, -1, -1}
		}
		handles[i] = a.device(i, &g)
		f.Devices = append(f.Devices, g)
	}
	a.pairs(handles)
	return f
}

// exports reports whether the library has one of the functions, which are versions of one.
func (a *asker) exports(functions []string) bool {
	for _, name := range functions {
		known, asked := a.knows[name]
		if !asked {
			known = a.lib.Extensions().LookupSymbol(name) == nil
			a.knows[name] = known
		}
		if known {
			return true
		}
	}
	return false
}

// has is exports, and records the fields that are unknown without the function.
func (a *asker) has(what string, functions ...string) bool {
	if a.exports(functions) {
		return true
	}
	a.facts.addUnknown(what, "the NVML of this driver has no "+strings.Join(functions, " and no "))
	return false
}

// device asks one GPU everything. The handle is nil if the GPU cannot be asked about its neighbours.
func (a *asker) device(i int, g *GPU) nvml.Device {
	dev, ret := a.lib.DeviceGetHandleByIndex(i)
	if ret != nvml.SUCCESS {
		g.Err, g.Code = sentence("nvmlDeviceGetHandleByIndex", int(ret)), nameOf(int(ret))
		return nil
	}
	for _, q := range a.questions() {
		w, ok := a.way(q)
		if !ok {
			continue
		}
		before := *g
		switch ret := w.read(dev, g); ret {
		case nvml.SUCCESS:
		case nvml.ERROR_NOT_SUPPORTED:
			*g = before
		default:
			*g = before
			why := sentence(w.functions[0], int(ret))
			if ret == nvml.ERROR_GPU_IS_LOST || ret == nvml.ERROR_RESET_REQUIRED {
				g.Err, g.Code = why, nameOf(int(ret))
			}
			if ret == nvml.ERROR_GPU_IS_LOST { // every further call returns the same error
				return nil
			}
			g.Unknown = append(g.Unknown, Unknown{What: q.what, Why: why})
		}
	}
	return dev
}

// way returns the first way to ask a question that this library supports.
func (a *asker) way(q question) (way, bool) {
	for _, w := range q.ways {
		if a.exports(w.functions) {
			return w, true
		}
	}
	return way{}, a.has(q.what, q.ways[0].functions...)
}

// pairs asks how the GPUs reach each other.
func (a *asker) pairs(devices []nvml.Device) {
	topology := a.has("pairs", "nvmlDeviceGetTopologyCommonAncestor")
	peers := a.has("pairs", "nvmlDeviceGetP2PStatus")
	// answered returns the word for an answer; "" where NVML has none.
	answered := func(call string, n int, ret nvml.Return, words func(int) string) string {
		switch ret {
		case nvml.SUCCESS:
			return words(n)
		case nvml.ERROR_NOT_SUPPORTED:
			return ""
		}
		a.facts.addUnknown("pairs", sentence(call, int(ret)))
		return ""
	}
	for i, one := range devices {
		for j := i + 1; j < len(devices); j++ {
			other := devices[j]
			if one == nil || other == nil || !topology && !peers {
				continue
			}
			p := Pair{A: i, B: j}
			if topology {
				level, ret := one.GetTopologyCommonAncestor(other)
				p.Distance = answered("nvmlDeviceGetTopologyCommonAncestor", int(level), ret, distance)
			}
			status := func(index nvml.GpuP2PCapsIndex) string {
				if !peers {
					return ""
				}
				s, ret := one.GetP2PStatus(other, index)
				return answered("nvmlDeviceGetP2PStatus", int(s), ret, p2p)
			}
			p.Read, p.Write = status(nvml.P2P_CAPS_INDEX_READ), status(nvml.P2P_CAPS_INDEX_WRITE)
			p.NVLink = status(nvml.P2P_CAPS_INDEX_NVLINK)
			a.facts.Pairs = append(a.facts.Pairs, p)
		}
	}
}

// text converts a C string in a fixed array.
func text(c []int8) string {
	var b []byte
	for _, ch := range c {
		if ch == 0 {
			break
		}
		b = append(b, byte(ch))
	}
	return string(b)
}
