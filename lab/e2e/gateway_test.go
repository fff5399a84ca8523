package e2e

import (
	"os/exec"
	"strings"
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

// A node beyond a router that does not forward names the router, and the error at the end does so, too. Where the
// router forwards, and the store's host drops what arrives, the router is no more than the last that answers.
func TestARouterThatDoesNotForwardIsNamed(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		forward string
		want    string
	}{
		"it does not forward": {"0", "or the router 10.78.0.254 on the way, which says nothing of them"},
		"the host drops":      {"1", "packets get as far as the router 10.78.0.254"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := embedded(t, 3)
			router, far := c.lab.Hosts[1], c.lab.Hosts[2]
			for _, line := range []string{"ip addr add 10.78.0.254/24 dev eth0", "sysctl -qw net.ipv4.ip_forward=" + tt.forward,
				"sysctl -qw net.ipv4.conf.all.send_redirects=0 net.ipv4.conf.eth0.send_redirects=0"} {
				router.Run("", strings.Fields(line)...)
			}
			for _, line := range []string{"ip addr flush dev eth0", "ip addr add 10.78.0.3/24 dev eth0",
				"ip route add 10.77.0.0/24 via 10.78.0.254"} {
				far.Run("", strings.Fields(line)...)
			}
			c.lab.Hosts[0].Filter("input", "ip saddr 10.78.0.0/24 drop")
			c.flags = []string{"--join-timeout", "8s"}
			n := c.start(2)
			n.exits(69)
			if n.says(tt.want); strings.Count(n.err.String(), tt.want) < 2 {
				t.Errorf("the error at the end does not name it:\n%s", n.err)
			}
		})
	}
}
