package rdma

import (
	"strings"

	"launch/fabric"
	"launch/fabric/rail"
	"launch/internal/finding"
	"launch/preflight"
)

// driverless finds a node with GPUs whose job uses TCP since its RDMA cards have no driver.
func driverless(in preflight.Input) (finding.Finding, bool) {
	fab := rail.Of(in.Node, in.Addr)
	if fab.Kind != rail.TCP || overSockets(in) || len(in.Node.Cards) == 0 || unused(in) != "" {
		return finding.Finding{}, false
	}
	var bare []fabric.PCI
	f := finding.Warnf("")
	for _, nic := range fab.NICs {
		if p, ok := in.Node.Function(nic.Name); ok && nic.HCA && p.Driver == "" {
			f = f.See("/sys/bus/pci/devices/"+p.Addr, "%s:%s, class %s, %s", p.Vendor, p.Device, p.Class, nic.Why)
			bare = append(bare, p)
		}
	}
	if len(bare) == 0 {
		return finding.Finding{}, false
	}
	f.Seen = f.Seen[:min(len(f.Seen), finding.MaxSeen)]
	f.What = "no driver is bound to " + finding.Count(len(bare), "card") + " for RDMA, and there is no other rail"
	return f.Breaking(overTCP).Do("modprobe -a %s   # on the machine itself\nlspci -k -s %s   # names the driver in use; "+
			"dmesg shows why it refused the card\nif the card is not for jobs: --skip rdma.open", module(bare[0]), bare[0].Addr),
		true
}

// module returns the kernel modules of a card without a driver.
func module(p fabric.PCI) string {
	switch {
	case p.Vendor == fabric.VendorMellanox && p.Device < "0x1011": // ConnectX-3 and older
		return "mlx4_core mlx4_ib"
	case p.Vendor == fabric.VendorMellanox:
		return "mlx5_core mlx5_ib"
	case p.Vendor == fabric.VendorAmazon:
		return "efa"
	case strings.HasPrefix(p.Class, "0x0208"):
		return "hfi1"
	}
	return "ib_uverbs   # and the driver of this card:"
}
