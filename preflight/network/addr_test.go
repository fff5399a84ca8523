package network

import (
	"io/fs"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"launch/fabric"
	"launch/internal/launcher"
	"launch/internal/setting"
	"launch/preflight"
	"launch/preflight/checktest"
)

func TestAddrUsable(t *testing.T) {
	at := func(addr, store string) preflight.Input {
		in := checktest.Four()
		in.Addr = netip.MustParseAddr(addr)
		in.Job.Store.V.Host = store
		return in
	}
	on := func(i fabric.Interface, prefix, store string) preflight.Input {
		p := netip.MustParsePrefix(prefix)
		in := at(p.Addr().String(), store)
		i.Addrs, i.Up, i.Running = []netip.Prefix{p}, true, true
		in.Node.Interfaces = append(in.Node.Interfaces, i)
		return in
	}
	two := func(second string, edit func(*fabric.Node)) preflight.Input {
		in := on(fabric.Interface{Name: "eno7", Kind: "physical", Speed: 1000}, "192.168.3.12/20", "host0")
		in.Node.Interfaces = append(in.Node.Interfaces, fabric.Interface{Name: "enp9", Kind: "physical", Up: true,
			Running: true, Addrs: []netip.Prefix{netip.MustParsePrefix(second)}})
		edit(&in.Node)
		return in
	}
	taken := func(addr string) preflight.Input {
		in := at(addr, "host0")
		in.Node.Interfaces = slices.Clone(in.Node.Interfaces)
		in.Node.Interfaces[len(in.Node.Interfaces)-1].Taken = []netip.Addr{netip.MustParseAddr("fd00::5")}
		return in
	}
	same := func(*fabric.Node) {}
	active := func(n *fabric.Node) {
		n.HCAs = []fabric.HCA{{Name: "mlx5_0", Ports: []fabric.Port{{Num: 1, State: 4}}}}
	}
	cray := func(n *fabric.Node) { n.PCI = []fabric.PCI{{Vendor: fabric.VendorCray}} }
	cable := fabric.Interface{Name: "eth7", Kind: "veth"}
	for _, tt := range []struct {
		name string
		in   preflight.Input
		want string
	}{
		{"on lo, as routes lead to it", on(fabric.Interface{Name: "lo", Kind: "loopback"}, "10.79.4.11/32", "host0"),
			"warn 10.79.4.11 is on lo, which NCCL and Gloo leave out"},
		{"the same by IPv6", on(fabric.Interface{Name: "lo", Kind: "loopback"}, "2001:db8::7/128", "host0"), "warn on lo"},
		{"on a dummy interface", on(fabric.Interface{Name: "dummy0", Kind: "virtual"}, "10.79.4.11/32", "host0"),
			"ok dummy0"},
		{"docker's bridge, from inside", on(cable, "172.17.0.2/16", "10.0.0.9"), "warn an address of docker's own bridge"},
		{"the same by name", on(cable, "172.17.0.9/16", "host0"), "warn an address of docker's own bridge"},
		{"the store is a container here", on(cable, "172.17.0.2/16", "172.17.0.3"), "ok 172.17.0.2 on eth7"},
		{"a pod's address", on(cable, "172.17.3.2/24", "host0"), "ok 172.17.3.2 on eth7"},
		{"a network of that number", on(fabric.Interface{Name: "eno7", Kind: "physical"}, "172.17.0.2/16", "host0"),
			"ok 172.17.0.2 on eno7"},
		{"two cards in one network", two("192.168.5.13/20", same), "warn 192.168.3.12 on eno7 and enp9 are in one network"},
		{"two cards, one network in the other", two("192.168.3.200/25", same), "warn are in one network"},
		{"two cards in two networks", two("192.168.77.13/20", same), "ok 192.168.3.12 on eno7"},
		{"two cards in one network and RDMA", two("192.168.5.13/20", active), "ok 192.168.3.12 on eno7"},
		{"links of Slingshot in one network", two("192.168.5.13/20", cray), "ok 192.168.3.12 on eno7"},
		{"on the network", at("10.0.0.5", "host0"), "ok 10.0.0.5 on eth0"},
		{"IPv4-mapped", at("::ffff:10.0.0.5", "host0"), "ok 10.0.0.5 on eth0"},
		{"loopback, store too", at("127.0.0.1", "127.0.0.1"), "ok all nodes are on this machine"},
		{"loopback, store on localhost", at("127.0.0.1", "localhost"), "ok all nodes are on this machine"},
		{"loopback, store elsewhere", at("127.0.0.1", "10.0.0.1"), "fail the store is on another machine"},
		{"loopback by the host name, as Debian's 127.0.1.1", at("127.0.1.1", "node5"), "warn only if all 4 nodes"},
		{"loopback, store on this machine's address", at("127.0.0.1", "10.0.0.5"), "warn only if all 4 nodes"},
		{"link-local IPv6", at("fe80::5", "host0"), "fail link-local IPv6"},
		{"link-local IPv6, since another machine has its own", taken("fe80::5"), "fail another machine has fd00::5, too"},
		{"another machine has an address that it does not need", taken("10.0.0.5"), "ok 10.0.0.5 on eth0"},
		{"link-local IPv4, two machines on a cable", at("169.254.1.5", "host0"), "warn link-local"},
		{"link-local IPv4, the store too", at("169.254.1.5", "169.254.1.7"), "ok link-local"},
		{"docker0", at("172.17.0.1", "host0"), "warn docker0"},
		{"docker0 has the store's address", at("172.17.0.1", "172.17.0.1"),
			"warn the store's address 172.17.0.1 is this machine's own on docker0"},
		{"behind NAT", at("203.0.113.9", "host0"), "warn not an address of this node"},
		{"netlink is forbidden", forbidden(t, at("10.0.0.5", "host0")), "fail this process may not read the addresses"},
		{"any", at("0.0.0.0", "host0"), "fail not an address of a node"},
		{"one node", checktest.Nodes(at("127.0.0.1", "host0"), 1), "skip one node"},
		{"unknown", func() preflight.Input { in := checktest.Four(); in.Addr = netip.Addr{}; return in }(),
			"skip not known yet"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			checktest.Wants(t, checktest.Verdict(t, Checks(), "addr.usable", tt.in),
				tt.want)
		})
	}
}

// forbidden is the node of a process that may not open a netlink socket.
func forbidden(t *testing.T, in preflight.Input) preflight.Input {
	n := fabric.Detect(t.Context(), fabric.Roots{Sys: fstest.MapFS{}, Proc: fstest.MapFS{},
		Links: func() ([]fabric.Interface, error) { return nil, syscall.EAFNOSUPPORT }}, fabric.Options{})
	in.Node.Interfaces, in.Node.Unknown = nil, n.Unknown
	return in
}

func TestHostResolves(t *testing.T) {
	named, unknown := checktest.Four(), checktest.Four()
	named.Node.HostAddrs = []string{"127.0.1.1"}
	unknown.Node.HostErr = "no such host"
	checktest.Wants(t, checktest.Verdict(t, Checks(), "host.resolves", named), "ok node5 is 127.0.1.1")
	checktest.Wants(t, checktest.Verdict(t, Checks(), "host.resolves", checktest.Four()), "skip ")
	f := checktest.Verdict(t, Checks(), "host.resolves", unknown)
	checktest.Wants(t, f, "warn node5 does not resolve")
	for services, want := range map[string]string{"dns": "warn nsswitch.conf does not read /etc/hosts",
		"files dns": "warn node5 does not resolve", "resolve": "warn node5 does not resolve"} {
		unlisted := checktest.Four()
		unlisted.Node.HostErr, unlisted.Node.System.Resolver.Services = "no such host", strings.Fields(services)
		unlisted.Node.System.Hosts = []fabric.HostsLine{{Addr: netip.MustParseAddr("10.0.0.4")}}
		checktest.Wants(t, checktest.Verdict(t, Checks(), "host.resolves", unlisted), want)
	}
	unread := checktest.Four()
	unread.Stat = func(string) (fs.FileMode, error) { return 0, fs.ErrPermission }
	checktest.Wants(t, checktest.Verdict(t, Checks(), "host.resolves", unread), "warn cannot read /etc/hosts")
	if want := `echo "10.0.0.5 node5" >> /etc/hosts`; f.Fix != want {
		t.Errorf("fix %q, want %q", f.Fix, want)
	}
}

func TestPortMaster(t *testing.T) {
	from := func(in preflight.Input, tier setting.Tier) preflight.Input {
		in.Job.MasterPort = setting.Value[int]{V: 4000, Set: true, From: setting.Source{Tier: tier, Name: "--master-port"}}
		return in
	}
	index := func(in preflight.Input, i int) preflight.Input {
		in.Job.Index = setting.Value[int]{V: i, Set: true}
		return in
	}
	host := func(in preflight.Input) preflight.Input {
		in.Serve = []netip.AddrPort{netip.MustParseAddrPort("10.0.0.5:29377")}
		return in
	}
	single := checktest.Nodes(checktest.Four(), 1)
	standalone := checktest.Nodes(checktest.Four(), 1)
	standalone.Job.Line.Standalone.Set = true
	program := checktest.Nodes(checktest.Four(), 1)
	program.Job.Line.Kind = launcher.Program
	mpirun := checktest.Four()
	mpirun.Job.Line.Kind = launcher.Mpirun
	torch, launch := preflight.PortUse{Taken: true, By: "python3 (pid 7)"}, preflight.PortUse{Taken: true, Launch: true,
		By: "launch (pid 7)"}
	for _, tt := range []struct {
		name string
		in   preflight.Input
		use  preflight.PortUse
		err  error
		want string
	}{
		{"free", checktest.Four(), preflight.PortUse{}, nil, "ok port 29500 is free"},
		{"the default is taken", host(checktest.Four()), torch, nil, "ok the nodes agree on another one"},
		{"the line's is taken", host(from(checktest.Four(), setting.Line)), torch, nil,
			"ok port 4000 is taken by python3 (pid 7), the nodes agree on another one"},
		{"MASTER_PORT is taken", index(from(checktest.Four(), setting.Ambient), 0), torch, nil,
			"ok port 4000 is taken by python3 (pid 7), the nodes agree on another one"},
		{"typed, may be node 0", from(checktest.Four(), setting.Explicit), torch, nil,
			"warn port 4000 is taken by python3 (pid 7), on this node"},
		{"typed, may be node 0, held by a launch", from(checktest.Four(), setting.Explicit), launch, nil,
			"warn port 4000 is taken by launch (pid 7)"},
		{"typed, is node 0", index(from(checktest.Four(), setting.Explicit), 0), torch, nil,
			"fail port 4000 is taken by python3 (pid 7), on this node, which is node 0"},
		{"typed, hosts the store", host(from(checktest.Four(), setting.Explicit)), torch, nil,
			"fail port 4000 is taken by python3 (pid 7)"},
		{"typed, hosts the store, by whom is unknown", host(from(checktest.Four(), setting.Explicit)),
			preflight.PortUse{Taken: true}, nil, "fail port 4000 is taken by a process that this user cannot see"},
		{"typed, hosts the store, has index 2", index(host(from(checktest.Four(), setting.Explicit)), 2), torch, nil,
			"skip only node 0 needs it"},
		{"typed, the other node on this machine holds it", host(from(checktest.Four(), setting.Explicit)), launch, nil,
			"skip launch (pid 7) has port 4000"},
		{"typed, privileged", index(from(checktest.Four(), setting.Explicit), 0), preflight.PortUse{}, syscall.EACCES,
			"fail port 4000 cannot be used"},
		{"one node, torchrun's default", single, torch, nil, "warn torchrun needs it"},
		{"one node, standalone", standalone, torch, nil, "skip "},
		{"one node, a program", program, torch, nil, "skip "},
		{"mpirun", mpirun, torch, nil, "skip mpirun"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.PortUse = func(netip.AddrPort) (preflight.PortUse, error) { return tt.use, tt.err }
			checktest.Wants(t, checktest.Verdict(t, Checks(), "port.master", tt.in), tt.want)
		})
	}
	checktest.Wants(t, checktest.Verdict(t, Checks(), "port.master", checktest.Four()), "skip this run opens no port")
}

func TestOwnNameMeansThisNode(t *testing.T) {
	for _, tt := range []struct {
		addrs []string
		want  string
	}{
		{[]string{"10.0.0.5"}, "ok node5 is 10.0.0.5"},
		{[]string{"127.0.1.1"}, "ok "},
		{[]string{"10.0.0.99", "10.0.0.5"}, "ok "},
		{[]string{"10.0.0.99"}, "warn this node's host name node5 resolves to 10.0.0.99, which is no address of this node"},
	} {
		in := checktest.Four()
		in.Node.HostAddrs = tt.addrs
		checktest.Wants(t, checktest.Verdict(t, Checks(), "host.resolves", in), tt.want)
	}
	for _, tt := range []struct{ name, addr, want, fix string }{
		{"05", "0.0.0.5", "warn this node's host name 05 leads to 0.0.0.5", "hostnamectl set-hostname node-05"},
		{"0x1f", "0.0.0.31", "warn this node's host name 0x1f leads to", "hostnamectl"},
		{"node5", "0.0.0.0", "warn this node's host name node5 leads to 0.0.0.0", "correct its line in /etc/hosts"},
		{"5a", "10.0.0.5", "ok 5a is 10.0.0.5", ""},
		{"beef", "10.0.0.5", "ok ", ""},
	} {
		in := checktest.Four()
		in.Node.Hostname, in.Node.HostAddrs = tt.name, []string{tt.addr}
		f := checktest.Verdict(t, Checks(), "host.resolves", in)
		checktest.Wants(t, f, tt.want)
		if !strings.HasPrefix(f.Fix, tt.fix) {
			t.Errorf("%s: fix %q, want %q", tt.name, f.Fix, tt.fix)
		}
	}
}

func TestLoopbackUp(t *testing.T) {
	lo := func(up, hosts bool) preflight.Input {
		in := checktest.Four()
		in.Node.Interfaces = []fabric.Interface{{Name: "lo", Kind: "loopback", Up: up}}
		if hosts {
			in.Serve = []netip.AddrPort{netip.MustParseAddrPort("10.0.0.5:29377")}
		}
		return in
	}
	for want, in := range map[string]preflight.Input{
		"ok lo is up": lo(true, true), "warn lo is down": lo(false, false), "fail lo is down": lo(false, true),
	} {
		checktest.Wants(t, checktest.Verdict(t, Checks(), "addr.loopback", in), want)
	}
}
