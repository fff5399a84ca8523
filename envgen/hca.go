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

type hcaPort struct {
	hca fabric.HCA
	fabric.Port
}

func (p hcaPort) String() string { return p.hca.Name + ":" + strconv.Itoa(p.Num) }

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

// shut reports whether libibverbs does not open the device, as in a container: NCCL skips it.
func (v *view) shut(name string) bool {
	for _, d := range v.Node.Verbs.Devices {
		if d.Name == name {
			return !d.Opens
		}
	}
	return false
}

// closed reports whether this process can open no ACTIVE device of this node.
func (v *view) closed() bool {
	opens := func(p hcaPort) bool { return p.hca.Closed == "" }
	ports := v.ncclPorts()
	active := slices.ContainsFunc(v.Node.HCAs, func(h fabric.HCA) bool {
		return h.Driver != "efa" && slices.ContainsFunc(h.Ports, fabric.Port.Active)
	})
	return active && (len(ports) == 0 || !v.Node.Verbs.Present && !slices.ContainsFunc(ports, opens))
}

// unlisted reports whether no ACTIVE device of this node is among those that libibverbs lists here.
func (v *view) unlisted() bool {
	listed := map[string]bool{}
	for _, d := range v.Node.Verbs.Devices {
		listed[d.Name] = true
	}
	ports := v.ncclPorts()
	return v.Node.Verbs.Present && len(ports) > 0 &&
		!slices.ContainsFunc(ports, func(p hcaPort) bool { return listed[p.hca.Name] })
}

// rails returns the ports of the training fabric that verbs can use: of InfiniBand and Ethernet only
// InfiniBand, since NCCL cannot connect the two (connect.cc: "Try selecting NICs of only one link type").
func (v *view) rails() []hcaPort {
	out := slices.DeleteFunc(v.ncclPorts(), func(p hcaPort) bool {
		return !slices.ContainsFunc(v.fab.Rails, func(r rail.Rail) bool { return r.HCA == p.hca.Name && r.Port == p.Num })
	})
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
func portList(all []hcaPort) string { return strings.Join(finding.Map(all, hcaPort.String), ",") }

// hcaWhy returns the role of a port's device, and why.
func (v *view) hcaWhy(p hcaPort) string {
	nic := v.nic(p)
	if nic.Role == "" {
		return fmt.Sprintf("%s at %g Gb/s", p.LinkLayer, p.Rate)
	}
	return string(nic.Role) + ": " + nic.Why
}

// nic returns what the fabric says of a port's device; the zero NIC: nothing.
func (v *view) nic(p hcaPort) rail.NIC {
	i := slices.IndexFunc(v.fab.NICs, func(n rail.NIC) bool { return n.HCA && n.Name == p.hca.Name })
	if i < 0 {
		return rail.NIC{}
	}
	return v.fab.NICs[i]
}

// Selected returns the RDMA ports of this node that the settings choose, each as its rate and link
// layer ("400 Gb/s InfiniBand"), by variable. It leaves out a variable that is not set, that
// chooses exactly the training fabric, or that chooses no port (which Lint reports).
func Selected(in Input) map[string][]string {
	v := look(in)
	out := map[string][]string{}
	choose := func(name string, takes func(p hcaPort) bool) {
		var words []string
		alike := true
		for _, p := range v.ncclPorts() {
			if takes(p) {
				words = append(words, fmt.Sprintf("%g Gb/s %s", p.Rate, p.LinkLayer))
			}
			alike = alike && takes(p) == contains(v.rails(), p)
		}
		if !alike && len(words) > 0 {
			out[name] = words
		}
	}
	if d, ok := v.decided("NCCL_IB_HCA"); ok && v.gpus() && !v.vendorPlugin() {
		chosen := v.chosen(d.Value)
		choose(d.Name, func(p hcaPort) bool { return contains(chosen, p) })
	}
	// UCX (src/ucs/config/parser.c) also accepts patterns and ranges: not judged.
	if d, ok := v.decided("UCX_NET_DEVICES"); ok && v.ucx() && d.Value != "all" &&
		!strings.ContainsAny(d.Value, "[*?") {
		list, not := strings.CutPrefix(d.Value, "^")
		names := strings.Split(list, ",")
		choose(d.Name, func(p hcaPort) bool {
			return (slices.Contains(names, p.hca.Name) || slices.Contains(names, p.String())) != not
		})
	}
	return out
}

// Ports returns the RDMA ports that the settings allow NCCL's own module, as it names them ("mlx5_0:1").
// It is nil if the settings do not choose: then the plan chooses the rails.
func Ports(in Input) []string {
	v := look(in)
	out := []string{}
	if strings.EqualFold(v.value("NCCL_NET"), "Socket") || leadingInt(v.value("NCCL_IB_DISABLE"), 0) != 0 {
		return out
	}
	d, ok := v.decided("NCCL_IB_HCA")
	if !ok || d.Value == "" || v.vendorPlugin() {
		return nil
	}
	return append(out, finding.Map(v.chosen(d.Value), hcaPort.String)...)
}

// chosen returns the ports that NCCL takes with a value of NCCL_IB_HCA.
func (v *view) chosen(value string) []hcaPort {
	f := parseFilter(value, maxIBs)
	return slices.DeleteFunc(v.ncclPorts(), func(p hcaPort) bool { return !f.match(p.hca.Name, p.Num) })
}
