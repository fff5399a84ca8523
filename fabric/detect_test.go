package fabric

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"launch/fabric/gpu"
)

var compare = cmp.Options{
	cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{}),
	cmpopts.EquateEmpty(),
}

func prefixes(list ...string) (out []netip.Prefix) {
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

var loopback = Interface{Index: 1, Name: "lo", Kind: "loopback", Up: true, Running: true, MTU: 65536, NUMA: -1,
	Type: typeLoopback, Addrs: prefixes("127.0.0.1/8", "::1/128")}

func TestDetectOnAMachineWithoutGPUs(t *testing.T) {
	m := newMachine("cpu-1")
	m.nic(m.pci("0000:00:03.0", "virtio_net", -1), "eth0", 2, map[string]string{"speed": "-1", "mtu": "1400"},
		"10.0.0.5/24", "fe80::1/64")
	files(m.sys, "class/dmi/id", map[string]string{"sys_vendor": "QEMU", "product_name": "Standard PC"})
	want := Node{
		Hostname: "cpu-1", BootID: "6f9f1f0e-0000-4000-8000-000000000001", Product: "QEMU Standard PC",
		Interfaces: []Interface{loopback, {
			Index: 2, Name: "eth0", Kind: "physical", Up: true, Running: true, MTU: 1400, Driver: "virtio_net", NUMA: -1,
			Addrs: prefixes("10.0.0.5/24", "fe80::1/64"), Type: 1, PCI: "0000:00:03.0",
		}},
		Cloud: Cloud{Virtual: true},
		GPUs:  gpu.Facts{Absent: "no /proc/driver/nvidia/version and no /dev/nvidiactl"},
		Limits: Limits{Memlock: 8 << 20, Nofile: 1024, NofileHard: 1 << 19, NofileKnown: true, Shm: 60 << 20,
			ShmSize: 64 << 20},
		Ephemeral: [2]int{32768, 60999},
	}
	roots := m.roots(m.sys)
	got := Detect(t.Context(), roots, Options{
		Nofile: 1024, NofileKnown: true,
		GPU: func(ctx context.Context) gpu.Facts { return AskGPU(ctx, roots, gpu.Question{}) },
	})
	if diff := cmp.Diff(want, got, compare); diff != "" {
		t.Errorf("node (-want +got):\n%s", diff)
	}
}

// eightGPUs is the usual training node: eight InfiniBand HCAs whose IPoIB interfaces
// are down, and one Ethernet card for everything else.
func eightGPUs() machine {
	m := newMachine("gpu-1")
	eth := m.pci("0000:17:00.0", "mlx5_core", 0)
	m.nic(eth, "eno1", 2, map[string]string{"speed": "100000"}, "10.1.0.7/16")
	m.hca(eth, "mlx5_8", 8, map[string]string{
		"state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "100 Gb/sec (4X EDR)", "link_layer": "Ethernet\n\n",
		"gid_attrs/ndevs/0": "eno1", "gid_attrs/types/0": "IB/RoCE v1",
	})
	for i := range 8 {
		pci := m.pci(fmt.Sprintf("0000:%x:00.0", 0x18+i), "mlx5_core", i/4)
		m.nic(pci, fmt.Sprintf("ibp%d", i), 3+i, map[string]string{"type": "32", "flags": "0x1002", "operstate": "down",
			"mtu": "4092"})
		m.hca(pci, fmt.Sprintf("mlx5_%d", i), 7-i, map[string]string{
			"state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "400 Gb/sec (4X NDR)", "link_layer": "InfiniBand",
		})
	}
	return m
}

func TestDetectOnAnEightGPUNodeWithInfiniBand(t *testing.T) {
	m := eightGPUs()
	got := Detect(t.Context(), m.roots(m.sys), Options{})
	if len(got.Unknown) != 0 {
		t.Errorf("unknown = %v, want none", got.Unknown)
	}
	if len(got.HCAs) != 9 || len(got.Interfaces) != 10 {
		t.Fatalf("%d HCAs and %d interfaces, want 9 and 10", len(got.HCAs), len(got.Interfaces))
	}
	want := HCA{
		Name: "mlx5_5", PCI: "0000:1d:00.0", Driver: "mlx5_core", NodeType: 1, Firmware: "28.39.1002", NUMA: 1,
		Uverbs: "/dev/infiniband/uverbs2",
		Ports:  []Port{{Num: 1, State: 4, PhysState: 5, LinkLayer: "InfiniBand", Rate: 400, Lanes: 4, Netdev: "ibp5"}},
	}
	if diff := cmp.Diff(want, got.HCAs[5]); diff != "" {
		t.Errorf("an InfiniBand HCA (-want +got):\n%s", diff)
	}
	wantIf := Interface{Index: 8, Name: "ibp5", Kind: "ipoib", MTU: 4092, Driver: "mlx5_core", NUMA: 1,
		Type: typeInfiniBand, PCI: "0000:1d:00.0"}
	if diff := cmp.Diff(wantIf, got.Interfaces[7], compare); diff != "" {
		t.Errorf("its interface (-want +got):\n%s", diff)
	}
	wantPort := []Port{{Num: 1, State: 4, PhysState: 5, LinkLayer: "Ethernet", Rate: 100, Lanes: 4, Netdev: "eno1"}}
	if diff := cmp.Diff(wantPort, got.HCAs[8].Ports); diff != "" {
		t.Errorf("the Ethernet HCA (-want +got):\n%s", diff)
	}
	if got.Interfaces[1].Speed != 100000 {
		t.Errorf("speed of eno1 = %d, want 100000", got.Interfaces[1].Speed)
	}
}

func TestDetectFindsTheKindsOfVirtualInterfaces(t *testing.T) {
	m := newMachine("dev-1")
	kinds := []struct {
		name    string
		content map[string]string
		want    string
	}{
		{"docker0", map[string]string{"bridge/bridge_id": "8000.0242", "uevent": "DEVTYPE=bridge\nINTERFACE=docker0"},
			"bridge"},
		{"br-old", map[string]string{"bridge/bridge_id": "8000.0242"}, "bridge"},
		{"bond0", map[string]string{"bonding/mode": "802.3ad 4"}, "bond"},
		{"bond0.7", map[string]string{"uevent": "DEVTYPE=vlan\nINTERFACE=bond0.7"}, "vlan"},
		{"tailscale0", map[string]string{"tun_flags": "0x5001", "type": "65534"}, "tun"},
		{"wg0", map[string]string{"uevent": "DEVTYPE=wireguard"}, "tun"},
		{"vetha1", map[string]string{"iflink": "2"}, "veth"},
		{"flannel.1", map[string]string{"uevent": "DEVTYPE=vxlan"}, "vxlan"},
		{"net1", map[string]string{"uevent": "DEVTYPE=macvlan", "iflink": "5"}, "macvlan"},
		{"ipvl0", map[string]string{"iflink": "7", "lower_eth0/x": ""}, "virtual"},
		{"dummy0", nil, "virtual"},
	}
	for i, k := range kinds {
		m.netif(k.name, "virtual/net", 10+i, k.content)
	}
	symlink(m.sys, "devices/virtual/net/vetha1/master", "../docker0")
	m.sys["class/net/bonding_masters"] = m.sys["devices/virtual/net/docker0/mtu"] // a file among the interfaces
	got := Detect(t.Context(), m.roots(m.sys), Options{})
	if len(got.Interfaces) != len(kinds)+1 || len(got.Unknown) != 0 {
		t.Fatalf("%d interfaces, unknown %v, want %d and none", len(got.Interfaces), got.Unknown, len(kinds)+1)
	}
	for i, k := range kinds {
		if f := got.Interfaces[i+1]; f.Name != k.name || f.Kind != k.want {
			t.Errorf("interface %d is %s, a %q, want %s, a %q", i+1, f.Name, f.Kind, k.name, k.want)
		}
	}
	if f, _ := got.Interface("vetha1"); f.Master != "docker0" {
		t.Errorf("master of vetha1 = %q, want docker0", f.Master)
	}
}

func TestOneBadHCAIsOneUnknown(t *testing.T) {
	m := eightGPUs()
	files(m.sys, "devices/pci0000:00/0000:19:00.0/infiniband/mlx5_1/ports/1", map[string]string{"rate": "very fast"})
	symlink(m.sys, "class/infiniband/scif0", "../../devices/virtual/gone")
	sys := failing{m.sys, map[string]error{
		"infiniband/mlx5_0/ports/1/state":      syscall.EIO,
		"infiniband/mlx5_0/ports/1/phys_state": syscall.EIO,
		"infiniband/mlx5_2/fw_ver":             syscall.EINVAL, // as with a driver that has none: nothing to report
		"infiniband/mlx5_3/node_type":          syscall.EACCES,
	}}
	got := Detect(t.Context(), m.roots(sys), Options{})
	if len(got.HCAs) != 10 {
		t.Errorf("%d HCAs, want all 9 and the one whose link dangles", len(got.HCAs))
	}
	want := []Unknown{
		{"class/infiniband/mlx5_0/ports/1/state", "input/output error"},
		{"class/infiniband/mlx5_1/ports/1/rate", `"very fast" does not start with a rate`},
		{"class/infiniband/mlx5_3/node_type", "permission denied"},
		{"class/infiniband/scif0", "file does not exist"},
	}
	if diff := cmp.Diff(want, got.Unknown); diff != "" {
		t.Errorf("unknown (-want +got):\n%s", diff)
	}
	if p := got.HCAs[0].Ports[0]; p.Active() || p.Rate != 400 {
		t.Errorf("port of the bad HCA = %+v, want the rest of its facts and no state", p)
	}
}

func TestPortNetdevIsTheOneOfThisNamespaceThatHoldsTheAddress(t *testing.T) {
	port := func(ndevs map[string]string) map[string]string {
		p := map[string]string{"state": "4: ACTIVE", "link_layer": "Ethernet", "rate": "200 Gb/sec (2X NDR)"}
		for i, name := range ndevs {
			p["gid_attrs/ndevs/"+i] = name
		}
		return p
	}
	m := newMachine("pod-1")
	m.netif("bond1", "virtual/net", 2, map[string]string{"bonding/mode": "802.3ad 4"})
	a := m.pci("0000:01:00.0", "mlx5_core", 0)
	m.nic(a, "enp1s0", 3, nil)
	m.hca(a, "mlx5_bond_0", 0, port(map[string]string{"0": "bond1"}))
	m.netif("gpu0ipvlan0", "virtual/net", 4, nil)
	m.hca(m.pci("0000:02:00.0", "mlx5_core", 0), "mlx5_1", 1, port(map[string]string{"0": "gpu0rdma0", "2": "gpu0rdma0",
		"10": "gpu0ipvlan0"}))
	m.hca(m.pci("0000:03:00.0", "mlx5_core", 0), "mlx5_2", 2, port(map[string]string{"0": "gpu1rdma0"}))
	two := m.pci("0000:04:00.0", "mlx4_core", 0)
	m.nic(two, "eth2", 5, map[string]string{"dev_port": "1"})
	m.nic(two, "ib0", 6, map[string]string{"dev_port": "0", "type": "32"})
	ib := port(nil)
	ib["link_layer"] = "InfiniBand\n\n"
	m.hca(two, "mlx4_0", 3, ib)
	got := map[string]string{}
	for _, h := range Detect(t.Context(), m.roots(m.sys), Options{}).HCAs {
		got[h.Name] = h.Ports[0].Netdev
		if e := h.Ports[0].Elsewhere; e != "" {
			got[h.Name] += "elsewhere: " + e
		}
	}
	want := map[string]string{"mlx5_bond_0": "bond1", "mlx5_1": "gpu0ipvlan0", "mlx5_2": "elsewhere: gpu1rdma0",
		"mlx4_0": "ib0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("netdev of each HCA (-want +got):\n%s", diff)
	}
}

func TestSoftRoCEIsKnownByItsParent(t *testing.T) {
	m := newMachine("lab-1")
	m.netif("eth0", "virtual/net", 2, nil)
	at := "devices/virtual/infiniband/rxe0"
	files(m.sys, at, map[string]string{"node_type": "1: CA", "parent": "eth0", "ports/1/state": "4: ACTIVE",
		"ports/1/rate": "2.5 Gb/sec (1X SDR)", "ports/1/link_layer": "Ethernet"})
	symlink(m.sys, "class/infiniband/rxe0", "../../"+at)
	got := Detect(t.Context(), m.roots(m.sys), Options{})
	want := []HCA{{Name: "rxe0", Driver: "rdma_rxe", NodeType: 1, NUMA: -1,
		Ports: []Port{{Num: 1, State: 4, LinkLayer: "Ethernet", Rate: 2.5, Lanes: 1, Netdev: "eth0"}}}}
	if diff := cmp.Diff(want, got.HCAs); diff != "" {
		t.Errorf("HCAs (-want +got):\n%s", diff)
	}
}

func TestSysOfAnotherNamespaceIsNotBelieved(t *testing.T) {
	m := newMachine("host-1")
	m.nic(m.pci("0000:00:03.0", "virtio_net", -1), "eth0", 2, map[string]string{"speed": "10000"})
	roots := m.roots(m.sys)
	roots.Links = func() ([]Interface, error) {
		return []Interface{{Index: 7, Name: "eth0", Kind: "veth", Up: true, Addrs: prefixes("10.77.0.2/24")}}, nil
	}
	got := Detect(t.Context(), roots, Options{})
	want := []Interface{{Index: 7, Name: "eth0", Kind: "veth", Up: true, NUMA: -1, Addrs: prefixes("10.77.0.2/24")}}
	if diff := cmp.Diff(want, got.Interfaces, compare); diff != "" {
		t.Errorf("interfaces (-want +got):\n%s", diff)
	}
	if len(got.Unknown) != 1 || !strings.Contains(got.Unknown[0].Why, "not of this network namespace") {
		t.Errorf("unknown = %v, want the failure", got.Unknown)
	}
}

func TestDetectSurvivesAnEmptyMachine(t *testing.T) {
	links := func() ([]Interface, error) { return nil, errors.New("operation not permitted") }
	got := Detect(t.Context(), Roots{Links: links}, Options{Resolve: true})
	want := Node{
		HostErr: "this node has no host name",
		Limits:  Limits{Memlock: math.MaxUint64, Shm: -1},
		Unknown: []Unknown{
			{"sys/kernel/hostname", "not there, or empty"},
			{"sys/kernel/random/boot_id", "not there, or empty"},
			{"sys/net/ipv4/ip_local_port_range", "not there, or empty"},
			{"self/limits", "not there, or empty"},
			{"rtnetlink", "operation not permitted"},
		},
	}
	if diff := cmp.Diff(want, got, compare); diff != "" {
		t.Errorf("node (-want +got):\n%s", diff)
	}
}

func TestDetectResolvesItsOwnName(t *testing.T) {
	m := newMachine("localhost")
	got := Detect(t.Context(), m.roots(m.sys), Options{Resolve: true})
	if len(got.HostAddrs) == 0 || got.HostErr != "" {
		t.Errorf("localhost resolves to %v, error %q, want an address", got.HostAddrs, got.HostErr)
	}
	m = newMachine("no such name")
	start := time.Now()
	got = Detect(t.Context(), m.roots(m.sys), Options{Resolve: true})
	if len(got.HostAddrs) != 0 || got.HostErr == "" {
		t.Errorf("an invalid name resolves to %v, error %q, want an error", got.HostAddrs, got.HostErr)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("resolving took %v, want no more than its budget", took)
	}
}

func TestLocalAddresses(t *testing.T) {
	n := Node{Interfaces: []Interface{
		loopback,
		{Name: "eth0", Up: true, Addrs: prefixes("10.0.0.5/24", "fd00::5/64", "fe80::1/64")},
		{Name: "kube-ipvs0", Addrs: prefixes("10.96.0.1/32")}, // down, and on every node
	}}
	for addr, want := range map[string]string{
		"10.0.0.5": "eth0", "::ffff:10.0.0.5": "eth0", "fd00::5": "eth0", "fe80::1%eth0": "eth0", "127.0.0.1": "lo",
		"10.0.0.6": "", "10.96.0.1": "", "0.0.0.0": "",
	} {
		a := netip.MustParseAddr(addr)
		f, ok := n.InterfaceOf(a)
		if f.Name != want || ok != (want != "") || n.IsLocal(a) != ok {
			t.Errorf("InterfaceOf(%s) = %q, IsLocal = %v, want %q", addr, f.Name, n.IsLocal(a), want)
		}
	}
	if !n.IsLocal(netip.MustParseAddr("127.0.1.1")) {
		t.Error("IsLocal(127.0.1.1) = false, want true: all of 127/8 is this machine")
	}
	if _, ok := n.Interface("eth1"); ok {
		t.Error("Interface(eth1) was found")
	}
}

func TestDetectOnThisMachine(t *testing.T) {
	roots := Live()
	start := time.Now()
	n := Detect(t.Context(), roots, Options{})
	t.Logf("detected in %v: %d interfaces, %d HCAs, product %q, unknown %v", time.Since(start), len(n.Interfaces),
		len(n.HCAs), n.Product, n.Unknown)
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if n.Hostname != host || n.BootID == "" {
		t.Errorf("hostname %q, boot id %q, want %q and any", n.Hostname, n.BootID, host)
	}
	if lo, ok := n.Interface("lo"); !ok || lo.Kind != "loopback" {
		t.Errorf("lo = %+v, %v, want a loopback", lo, ok)
	}
	var lim syscall.Rlimit
	if err := syscall.Getrlimit(8 /* RLIMIT_MEMLOCK */, &lim); err != nil || lim.Cur != n.Limits.Memlock {
		t.Errorf("memlock = %d, getrlimit returns %d, %v", n.Limits.Memlock, lim.Cur, err)
	}
	if n.Ephemeral[0] == 0 || n.Ephemeral[1] < n.Ephemeral[0] {
		t.Errorf("ephemeral range = %v", n.Ephemeral)
	}
}

func BenchmarkDetectOnThisMachine(b *testing.B) {
	roots := Live()
	for b.Loop() {
		Detect(b.Context(), roots, Options{})
	}
}
