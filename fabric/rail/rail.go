// Package rail interprets the facts of a node: which network device has which role in a training
// job, how certain that is, and why. It reads nothing, judges no health and sets no variable.
package rail

import "fmt"

// Role is the purpose of a device, according to the facts.
type Role string

const (
	Peer       Role = "peer"       // interface with the address that the peers use
	Compute    Role = "compute"    // the training fabric: HCAs, and their interfaces
	Storage    Role = "storage"    // fast, but outside the training fabric: usually storage
	Management Role = "management" // could carry traffic, but another interface leads to the peers or is faster
	Member     Role = "member"     // part of a bond or bridge, which counts in its place
	Virtual    Role = "virtual"    // inside this machine or a VPN: container and VM bridges, veths, tunnels, Soft-RoCE
	Loopback   Role = "loopback"
	Unusable   Role = "unusable" // down, without a cable, without an address
)

// NIC is one network device and its role.
type NIC struct {
	Name string `json:"name"`          // for an HCA without a driver: its PCI address
	HCA  bool   `json:"hca,omitempty"` // an RDMA device; else a network interface
	Role Role   `json:"role"`
	Why  string `json:"why"`
	Sure bool   `json:"sure"` // false: decided by a rule of thumb

	// Missing is true for an unusable HCA of the rails' kind: the node has a rail fewer
	// than its hardware allows. Only the other nodes show whether that is a fault, or
	// whether the cable was never meant to be there.
	Missing bool `json:"missing,omitempty"`
}

// roles returns the role of each interface (in kernel order), then of each HCA (by name).
func (v *view) roles(d decision) []NIC {
	type owner struct {
		hca  string
		role Role
	}
	owners := map[string]owner{} // by interface
	for _, r := range d.others {
		if r.role == Storage {
			owners[r.port.Netdev] = owner{r.hca.Name, Storage}
		}
	}
	for _, c := range d.rails {
		owners[c.port.Netdev] = owner{c.hca.Name, Compute}
	}
	var out []NIC
	for _, f := range v.node.Interfaces {
		nic := interfaceRole(v.node, f)
		if f.Name == v.peer {
			nic.Role, nic.Sure = Peer, v.peerSure
			nic.Why = fmt.Sprintf("carries %v, the address that the peers use", v.addr)
			if !v.peerSure {
				nic.Why = fmt.Sprintf("%v is in a network of this interface", v.addr)
			}
		} else if o, ok := owners[f.Name]; ok && nic.Role == Management {
			nic.Role, nic.Why, nic.Sure = o.role, "belongs to "+o.hca, d.sure && o.role == Compute
			if o.hca == "" {
				nic.Why = d.why
			}
		}
		out = append(out, nic)
	}
	return append(out, v.hcaRoles(d)...)
}
