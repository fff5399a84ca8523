package fabric

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// wired is two network namespaces with a cable between them: one for the test's thread, 10.0.2.1, and one for another
// machine, 10.0.2.2.
type wired struct {
	t     *testing.T
	there string // the other machine's
}

// newWired never gives back its thread, which ends with the test.
func newWired(t *testing.T) *wired {
	t.Helper()
	for _, tool := range []string{"ip", "nft", "bridge", "sysctl"} {
		if _, err := exec.LookPath(tool); err != nil || os.Getuid() != 0 {
			t.Skip("it needs root and ", tool)
		}
	}
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skip(err)
	}
	w := &wired{t, fmt.Sprintf("fabric%d-%d", os.Getpid(), unix.Gettid())}
	w.run("ip netns add " + w.there)
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", w.there).Run() })
	w.run("ip link set lo up; ip link add eth0 type veth peer name eth0 netns " + w.there)
	w.run("ip addr add 10.0.2.1/24 dev eth0; ip link set eth0 up; ip route add default via 10.0.2.2")
	w.far("ip link set lo up; ip addr add 10.0.2.2/24 dev eth0; ip link set eth0 up")
	w.run("until ip link show eth0 | grep -q LOWER_UP; do sleep 0.01; done")
	return w
}

func (w *wired) run(line string) {
	w.t.Helper()
	if out, err := exec.Command("sh", "-ec", line).CombinedOutput(); err != nil {
		w.t.Fatalf("%s: %v\n%s", line, err, out)
	}
}

func (w *wired) far(line string) {
	w.t.Helper()
	w.run("ip netns exec " + w.there + " sh -ec '" + line + "'")
}

// listens opens a port here, or on the other machine.
func (w *wired) listens(far bool, port int) {
	w.t.Helper()
	result := make(chan error)
	open := func() (l net.Listener, err error) {
		return net.Listen("tcp4", fmt.Sprintf(":%d", port))
	}
	if !far {
		l, err := open()
		if err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(func() { l.Close() })
		return
	}
	go func() {
		runtime.LockOSThread()
		f, err := os.Open("/run/netns/" + w.there)
		if err == nil {
			defer f.Close()
			err = unix.Setns(int(f.Fd()), unix.CLONE_NEWNET)
		}
		if err == nil {
			var l net.Listener
			if l, err = open(); err == nil {
				w.t.Cleanup(func() { l.Close() })
			}
		}
		result <- err
	}()
	if err := <-result; err != nil {
		w.t.Fatal(err)
	}
}

// sendsOn adds a rule of NAT here.
func (w *wired) sendsOn(rule string) {
	w.t.Helper()
	w.run("nft 'table ip own { chain o { type nat hook output priority -100; " + rule + "; }; }'")
}

// overlay adds a VXLAN here that sends packets for 10.244.0.2 to a host.
func (w *wired) overlay(host string) {
	w.t.Helper()
	w.run("ip link add vx0 type vxlan id 42 dstport 8472 local 10.0.2.1 nolearning dev eth0; " +
		"ip link set vx0 up; ip addr add 10.244.0.1/24 dev vx0; " +
		"ip neigh replace 10.244.0.2 lladdr 02:00:00:00:00:02 dev vx0 nud permanent; " +
		"bridge fdb append 02:00:00:00:00:02 dev vx0 dst " + host)
}

// overlays is overlay with the other machine's end.
func (w *wired) overlays() {
	w.t.Helper()
	w.overlay("10.0.2.2")
	w.far("ip link add vx0 address 02:00:00:00:00:02 type vxlan id 42 dstport 8472 local 10.0.2.2 remote 10.0.2.1 dev " +
		"eth0; ip link set vx0 up; ip addr add 10.244.0.2/24 dev vx0")
}

// drops adds a rule of a filter here.
func (w *wired) drops(hook, match string) {
	w.t.Helper()
	w.run("nft 'table ip f { chain c { type filter hook " + hook + " priority 0; " + match + " drop; }; }'")
}

// answersLate lets the other machine answer ARP only after more than a second.
func (w *wired) answersLate() {
	w.t.Helper()
	w.far("sysctl -qw net.ipv4.conf.all.arp_ignore=8; ip neigh flush all; " +
		"(sleep 1.5; sysctl -qw net.ipv4.conf.all.arp_ignore=0) >/dev/null 2>&1 &")
	w.run("ip neigh flush all")
}

// NAT and neighbours are the reason only where they are wrong: tables of the same kinds that work give no Fault.
func TestWhichOfThisNodesTablesAreTheReason(t *testing.T) {
	const service, remote = "10.96.0.5:29500", "192.0.2.7:29500"
	const dnat = "ip daddr 10.96.0.5 tcp dport 29500 dnat to "
	for name, tt := range map[string]struct {
		to, want string // want "": no Fault
		make     func(w *wired)
	}{
		"NAT leads to a port that is open": {service, "", func(w *wired) {
			w.listens(true, 29500)
			w.sendsOn(dnat + "10.0.2.2:29500")
		}},
		"NAT leads to a machine that drops": {service, "", func(w *wired) {
			w.listens(true, 29500)
			w.far("nft \"table ip f { chain i { type filter hook input priority 0; tcp dport 29500 drop; }; }\"")
			w.sendsOn(dnat + "10.0.2.2:29500")
		}},
		"NAT leads to a listener here": {"10.0.2.2:29500", "", func(w *wired) {
			w.listens(false, 15001)
			w.sendsOn("meta l4proto tcp redirect to :15001")
		}},
		"NAT leads to a machine that answers ARP late": {service, "", func(w *wired) {
			w.sendsOn(dnat + "10.0.2.2:29500")
			w.answersLate()
		}},
		"NAT leads to no machine": {service, "on to 10.0.2.99:29500, and no machine answers for that address",
			func(w *wired) { w.sendsOn(dnat + "10.0.2.99:29500") }},
		"a router that answers ARP late": {remote, "", func(w *wired) { w.answersLate() }},
		"no router": {remote, "to the router 10.0.2.99 on eth0, and no machine answers", func(w *wired) {
			w.run("ip route replace default via 10.0.2.99")
		}},
		"a host of a VXLAN that answers ARP late": {"10.244.0.2:29500", "", func(w *wired) {
			w.overlays()
			w.answersLate()
		}},
		"no host of a VXLAN": {"10.244.0.2:29500", "to the host 10.0.2.99, and no machine answers there", func(w *wired) {
			w.overlay("10.0.2.99")
		}},
		"a VXLAN whose packets this node drops": {"10.244.0.2:29500",
			"the tunnel's packets (UDP 8472) arrive at eth0, and this node's own firewall drops them", func(w *wired) {
				w.overlays()
				w.drops("input", "udp dport 8472")
			}},
		"a VXLAN whose packets do not leave": {"10.244.0.2:29500", "(UDP 8472) do not leave this node", func(w *wired) {
			w.overlays()
			w.drops("output", "udp dport 8472")
		}},
		"a VXLAN whose packets the other host drops": {"10.244.0.2:29500", "", func(w *wired) {
			w.overlays()
			w.far("nft \"table ip f { chain i { type filter hook input priority 0; udp dport 8472 drop; }; }\"")
		}},
		"a VXLAN that works to a machine that is down": {"10.244.0.3:29500", "", func(w *wired) {
			w.overlays()
			w.run("bridge fdb append 02:00:00:00:00:03 dev vx0 dst 10.0.2.2; " +
				"ip neigh replace 10.244.0.3 lladdr 02:00:00:00:00:03 dev vx0 nud permanent")
		}},
		"another VXLAN between the two hosts whose packets this node drops": {"10.244.0.2:29500", "", func(w *wired) {
			w.overlays()
			w.far("ip link set vx0 down")
			w.run("ip link add vx1 type vxlan id 43 dstport 8472 local 10.0.2.1 remote 10.0.2.2 dev eth0; ip link set vx1 up; " +
				"ip addr add 10.245.0.1/24 dev vx1")
			w.far("ip link add vx1 type vxlan id 43 dstport 8472 local 10.0.2.2 remote 10.0.2.1 dev eth0; ip link set vx1 up; " +
				"ip addr add 10.245.0.2/24 dev vx1; (for i in 1 2 3 4 5 6 7 8; do ping -c 1 -W 1 10.245.0.1; sleep 0.5; done) " +
				">/dev/null 2>&1 &")
		}},
		"a VXLAN that works to a machine that drops calls": {"10.244.0.2:29500", "", func(w *wired) {
			w.overlays()
			w.far("nft \"table ip f { chain i { type filter hook input priority 0; tcp dport 29500 drop; }; }\"")
		}},
		"this node drops the answers": {"10.0.2.2:29500", "the answers of 10.0.2.2 arrive at eth0 of", func(w *wired) {
			w.listens(true, 29500)
			w.drops("input", "tcp sport 29500")
		}},
		"this node drops its calls": {"10.0.2.2:29500", "what this node sends to 10.0.2.2 does not leave by eth0",
			func(w *wired) { w.drops("output", "tcp dport 29500") }},
		"the other machine drops calls, and NAT changes their ports": {"10.0.2.2:29500", "", func(w *wired) {
			w.far("nft \"table ip f { chain i { type filter hook input priority 0; tcp dport 29500 drop; }; }\"")
			w.run("nft 'table ip n { chain c { type nat hook postrouting priority 100; masquerade fully-random; }; }'")
		}},
		"this node rejects its own calls": {"10.0.2.2:29500", "what this node sends to 10.0.2.2 does not leave by eth0",
			func(w *wired) {
				w.run("nft 'table ip f { chain c { type filter hook output priority 0; " +
					"tcp dport 29500 reject with icmp type admin-prohibited; }; }'")
			}},
		"the other machine has a wrong hardware address for this node": {"10.0.2.2:29500", "", func(w *wired) {
			w.listens(true, 29500)
			w.far("ip neigh replace 10.0.2.1 lladdr 02:de:ad:be:ef:01 dev eth0 nud permanent")
			w.run("ping -c 1 -W 1 10.0.2.2 || true") // this node knows the address of that one
		}},
		"the other machine drops calls": {"10.0.2.2:29500", "", func(w *wired) {
			w.far("nft \"table ip f { chain i { type filter hook input priority 0; tcp dport 29500 drop; }; }\"")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWired(t)
			tt.make(w)
			began := time.Now()
			f := Stuck([]netip.AddrPort{netip.MustParseAddrPort(tt.to)})
			if (f.Why == "") != (tt.want == "") || !strings.Contains(f.Why, tt.want) {
				t.Errorf("after %s: %q, want %q", time.Since(began).Round(time.Millisecond), f.Why, tt.want)
			}
		})
	}
}
