package envgen

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"launch/fabric"
	"launch/fabric/rail"
	"launch/internal/finding"
)

// hcaPort is one port of an HCA.
type hcaPort struct {
	hca fabric.HCA
	fabric.Port
}

func (p hcaPort) String() string { return p.hca.Name + ":" + strconv.Itoa(p.Num) }

func (p hcaPort) driverSeen() finding.Seen {
	return finding.Seen{Where: "/sys/class/infiniband/" + p.hca.Name + "/device/driver", What: p.hca.Driver}
}

// Link layers, as the kernel writes them (ports/N/link_layer).
const (
	infiniBand = "InfiniBand"
	ethernet   = "Ethernet"
)

// ncclPorts returns the ports that NCCL's own IB module takes without NCCL_IB_HCA:
// every ACTIVE one with the link layer InfiniBand or Ethernet, of any vendor, transport
// and speed (src/transport/net_ib/init.cc). EFA's ports have neither; with older
// drivers they had, but NCCL cannot use their queue pairs.
func (v *view) ncclPorts() []hcaPort {
	var out []hcaPort
	for _, h := range v.Node.HCAs {
		if h.Driver == "efa" || v.shut(h.Name) {
			continue
		}
		for _, p := range h.Ports {
			if p.Active() && (p.LinkLayer == infiniBand || p.LinkLayer == ethernet) {
				out = append(out, hcaPort{h, p})
			}
		}
	}
	return out
}

// shut reports whether libibverbs does not open the device, as in a container without
// it: NCCL skips the device.
func (v *view) shut(name string) bool {
	for _, d := range v.Node.Verbs.Devices {
		if d.Name == name {
			return !d.Opens
		}
	}
	return false
}

// rails returns the ports of the training fabric that verbs can use. NCCL cannot
// connect InfiniBand with Ethernet (connect.cc: "Try selecting NICs of only one link
// type"), so if both are equally good all nodes use InfiniBand.
func (v *view) rails() []hcaPort {
	var out []hcaPort
	for _, p := range v.ncclPorts() {
		if slices.ContainsFunc(v.fab.Rails, func(r rail.Rail) bool { return r.HCA == p.hca.Name && r.Port == p.Num }) {
			out = append(out, p)
		}
	}
	if slices.ContainsFunc(out, func(p hcaPort) bool { return p.LinkLayer == infiniBand }) {
		out = slices.DeleteFunc(out, func(p hcaPort) bool { return p.LinkLayer != infiniBand })
	}
	return out
}

// roceRails returns the rails that need a GID.
func (v *view) roceRails() []hcaPort {
	return slices.DeleteFunc(v.rails(), func(p hcaPort) bool { return p.LinkLayer != ethernet })
}

// strangers returns the ports that NCCL would take and that are not rails.
func (v *view) strangers() []hcaPort {
	rails := v.rails()
	return slices.DeleteFunc(v.ncclPorts(), func(p hcaPort) bool { return contains(rails, p) })
}

func contains(all []hcaPort, p hcaPort) bool {
	return slices.ContainsFunc(all, func(q hcaPort) bool { return q.String() == p.String() })
}

// portList returns ports in the notation of NCCL_IB_HCA (without its mark),
// UCX_NET_DEVICES and NVSHMEM_HCA_LIST.
func portList(all []hcaPort) string {
	words := make([]string, len(all))
	for i, p := range all {
		words[i] = p.String()
	}
	return strings.Join(words, ",")
}

// hcaWhy returns the role of a port's device, and why.
func (v *view) hcaWhy(p hcaPort) string {
	i := slices.IndexFunc(v.fab.NICs, func(n rail.NIC) bool { return n.HCA && n.Name == p.hca.Name })
	if i < 0 {
		return fmt.Sprintf("%s at %g Gb/s", p.LinkLayer, p.Rate)
	}
	return string(v.fab.NICs[i].Role) + ": " + v.fab.NICs[i].Why
}
