//go:build linux && cgo && !nonvml

package gpu

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// maxLinks is more than any GPU has: 18 since Hopper, and the headers of newer drivers mention 36.
const maxLinks = 36

// nvlink asks where each link leads, and reads the errors of all links in one call.
func (a *asker) nvlink(d nvml.Device, g *GPU) nvml.Return {
	l := &NVLink{CRC: -1, Replays: -1, Recoveries: -1}
	for i := range maxLinks {
		state, ret := d.GetNvLinkState(i)
		if ret == nvml.ERROR_INVALID_ARGUMENT {
			break
		}
		if ret == nvml.ERROR_NOT_SUPPORTED { // this model lacks the link; another may follow
			continue
		}
		if ret == nvml.ERROR_GPU_IS_LOST || ret == nvml.ERROR_NO_PERMISSION { // the other links would give the same error
			return ret
		}
		l.Total++
		if ret != nvml.SUCCESS {
			g.Unknown = append(g.Unknown, Unknown{What: fmt.Sprintf("nvlink %d", i),
				Why: sentence("nvmlDeviceGetNvLinkState", int(ret))})
			continue
		}
		if state != nvml.FEATURE_ENABLED {
			l.Down = append(l.Down, i)
			continue
		}
		l.Up++
		l.lead(a.remote(d, i))
	}
	if l.Total == 0 {
		return nvml.ERROR_NOT_SUPPORTED
	}
	if a.has("nvlink.crc", "nvmlDeviceGetFieldValues") {
		l.errors(d)
	}
	g.NVLink = l
	return nvml.SUCCESS
}

// remote returns where one link leads, as far as NVML knows.
func (a *asker) remote(d nvml.Device, link int) Remote {
	var r Remote
	if a.has("nvlink.remotes.type", "nvmlDeviceGetNvLinkRemoteDeviceType") {
		if kind, ret := d.GetNvLinkRemoteDeviceType(link); ret == nvml.SUCCESS {
			r.Type = remoteType(int(kind))
		}
	}
	if a.has("nvlink.remotes.pci", "nvmlDeviceGetNvLinkRemotePciInfo_v2", "nvmlDeviceGetNvLinkRemotePciInfo") {
		if info, ret := d.GetNvLinkRemotePciInfo(link); ret == nvml.SUCCESS && info.PciDeviceId != math.MaxUint32 {
			r.PCI = busID(info)
		}
	}
	return r
}

// lead counts one link to r.
func (l *NVLink) lead(r Remote) {
	i := slices.IndexFunc(l.Remotes, func(o Remote) bool { return o.Type == r.Type && o.PCI == r.PCI })
	if i < 0 {
		i = len(l.Remotes)
		l.Remotes = append(l.Remotes, r)
	}
	l.Remotes[i].Links++
}

// errors reads the totals over all links that the driver counts.
func (l *NVLink) errors(d nvml.Device) {
	values := []nvml.FieldValue{
		{FieldId: nvml.FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL},
		{FieldId: nvml.FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL},
		{FieldId: nvml.FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL},
		{FieldId: nvml.FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL},
	}
	if d.GetFieldValues(values) != nvml.SUCCESS {
		return
	}
	for i, to := range []*int64{&l.CRC, &l.CRC, &l.Replays, &l.Recoveries} {
		if n, ok := number(values[i]); ok {
			*to = max(*to, 0) + n
		}
	}
}

// number returns a field's value, in any of NVML's types. ok is false if the GPU does not count it.
func number(v nvml.FieldValue) (n int64, ok bool) {
	if nvml.Return(v.NvmlReturn) != nvml.SUCCESS {
		return 0, false
	}
	raw := binary.NativeEndian.Uint64(v.Value[:])
	switch nvml.ValueType(v.ValueType) {
	case nvml.VALUE_TYPE_UNSIGNED_INT:
		return int64(binary.NativeEndian.Uint32(v.Value[:])), true
	case nvml.VALUE_TYPE_UNSIGNED_LONG, nvml.VALUE_TYPE_UNSIGNED_LONG_LONG:
		return int64(min(raw, math.MaxInt64)), true
	}
	return 0, false // the types of counters
}

// fabricV reads the newest form that this library knows.
func fabricV(d nvml.Device, g *GPU) nvml.Return {
	handler := d.GetGpuFabricInfoV()
	v3, ret := handler.V3()
	if ret == nvml.SUCCESS {
		keepFabric(g, v3.State, v3.Status, v3.ClusterUuid, v3.CliqueId, v3.HealthMask)
		if g.Fabric != nil {
			g.Fabric.Health = fabricHealth(int(v3.HealthSummary))
		}
		return ret
	}
	// A library that knows only the second form answers ARGUMENT_VERSION_MISMATCH, or INVALID_ARGUMENT.
	if ret != nvml.ERROR_ARGUMENT_VERSION_MISMATCH && ret != nvml.ERROR_INVALID_ARGUMENT {
		return ret
	}
	v2, ret := handler.V2()
	if ret == nvml.SUCCESS {
		keepFabric(g, v2.State, v2.Status, v2.ClusterUuid, v2.CliqueId, v2.HealthMask)
	}
	return ret
}

// fabricV1 reads the form before R545, which has no health.
func fabricV1(d nvml.Device, g *GPU) nvml.Return {
	v1, ret := d.GetGpuFabricInfo()
	if ret == nvml.SUCCESS {
		keepFabric(g, v1.State, v1.Status, v1.ClusterUuid, v1.CliqueId, 0)
	}
	return ret
}

// keepFabric stores a place in a fabric; state 0 means that there is none.
func keepFabric(g *GPU, state uint8, status uint32, cluster [16]uint8, clique, mask uint32) {
	if state == nvml.GPU_FABRIC_STATE_NOT_SUPPORTED {
		return
	}
	g.Fabric = &Fabric{State: fabricState(int(state)), Problems: fabricProblems(mask)}
	if state == nvml.GPU_FABRIC_STATE_COMPLETED { // before that, the rest is meaningless (nvml.h)
		g.Fabric.Status, g.Fabric.Cluster, g.Fabric.Clique = nameOf(int(status)), uuid(cluster), clique
	}
}
