package e2e

import (
	"os/exec"
	"testing"
)

// The others reach the store at the address of a gateway, which does not send the packets of the store's own host
// back to it.
func TestTheStoresHostBehindAGatewayReachesItself(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skip("needs nft")
	}
	const gateway = "203.0.113.9"
	c := embedded(t, 2)
	c.store = gateway
	host, other := c.lab.Hosts[0], c.lab.Hosts[1]
	host.Run("", "ip", "route", "add", "blackhole", gateway)
	other.Run("table ip n {\nchain o {\ntype nat hook output priority -100\nip daddr "+gateway+" dnat to "+host.Addr+
		"\n}\n}\n", "nft", "-f", "-")
	other.Run("", "ip", "route", "add", gateway, "dev", "eth0")
	trained(t, 2, c.start(0, "--store-host", "yes"), c.start(1))
}
