package machine_test

import (
	"context"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"launch/fabric"
	"launch/fabric/gpu"
	"launch/fabric/machine"
	"launch/fabric/machine/machinetest"
	"launch/fabric/software"
)

var equal = cmp.Options{cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{}), cmpopts.EquateEmpty()}

// record detects a machine through a recorder and returns both.
func record(t *testing.T, live fabric.Roots, opt fabric.Options) (fabric.Node, []byte) {
	t.Helper()
	rec := machine.NewRecorder(live)
	n := fabric.Detect(t.Context(), rec.Roots(), opt)
	data, err := rec.File(n)
	if err != nil {
		t.Fatal(err)
	}
	return n, data
}

func replay(t *testing.T, data []byte) fabric.Node {
	t.Helper()
	m, err := machine.Read(data)
	if err != nil {
		t.Fatal(err)
	}
	return m.Detect(t.Context())
}

// ids lists what a recording must not contain, and the relations that it must preserve:
// the order in which each value appears for the first time.
func ids(n fabric.Node) (list []string, pattern []int) {
	seen := map[string]int{}
	add := func(s string) {
		if s == "" {
			return
		}
		if _, ok := seen[s]; !ok {
			seen[s] = len(seen)
			list = append(list, s)
		}
		pattern = append(pattern, seen[s])
	}
	for _, h := range n.HCAs {
		add(h.GUID)
		add(h.System)
		for _, p := range h.Ports {
			for _, g := range p.GIDs {
				add(g.Addr.String())
			}
		}
	}
	for _, f := range n.Interfaces {
		for _, p := range f.Addrs {
			add(p.Addr().String())
		}
	}
	for _, c := range n.Cards {
		add(c.UUID)
	}
	return list, pattern
}

// blank removes what a recording changes from a node.
func blank(n fabric.Node) fabric.Node {
	n.Hostname, n.BootID, n.Product, n.HostAddrs = "", "", "", nil
	n.Route.Src = netip.Addr{}
	n.System.Image = ""
	n.System.Hosts, n.System.Resolver.Servers, n.System.Resolver.Search = nil, nil, nil
	for i := range n.HCAs {
		n.HCAs[i].GUID, n.HCAs[i].System = "", ""
		for j := range n.HCAs[i].Ports {
			for k := range n.HCAs[i].Ports[j].GIDs {
				n.HCAs[i].Ports[j].GIDs[k].Addr = netip.Addr{}
			}
		}
	}
	for i := range n.Interfaces {
		n.Interfaces[i].MAC = ""
		for j, p := range n.Interfaces[i].Addrs {
			n.Interfaces[i].Addrs[j] = netip.PrefixFrom(netip.IPv4Unspecified(), p.Bits()%33)
		}
	}
	for i := range n.Cards {
		n.Cards[i].UUID = ""
	}
	return n
}

func TestARecordingReplaysTheSameMachineWithoutItsIdentity(t *testing.T) {
	for _, name := range machinetest.Names() {
		t.Run(name, func(t *testing.T) {
			was, data := record(t, machinetest.Machine(t, name).Roots(), fabric.Options{})
			got := replay(t, data)
			before, relations := ids(was)
			_, after := ids(got)
			if diff := cmp.Diff(relations, after); diff != "" {
				t.Errorf("which identifiers are the same (-want +got):\n%s", diff)
			}
			_, again := record(t, machinetest.Machine(t, name).Roots(), fabric.Options{})
			for _, id := range before {
				a, err := netip.ParseAddr(id)
				if err == nil && (a.IsLoopback() || a.Is4() && a.IsLinkLocalUnicast()) {
					continue
				}
				// By chance an address may replace itself, but not under two keys.
				form := regexp.MustCompile(`[":/]` + regexp.QuoteMeta(id) + `["/\\]`)
				if form.Match(data) && form.Match(again) {
					t.Errorf("the recording still has %s", id)
				}
			}
			if got.Hostname == was.Hostname && was.Hostname != "node-1" {
				t.Errorf("the recording still has the host name %s", got.Hostname)
			}
			if diff := cmp.Diff(blank(was), blank(got), equal); diff != "" {
				t.Errorf("node (-recorded +replayed):\n%s", diff)
			}
		})
	}
}

func TestThisMachineReplaysFromItsRecording(t *testing.T) {
	was, data := record(t, fabric.Live(), fabric.Options{})
	t.Logf("%d bytes, %d PCI functions, %d interfaces", len(data), len(was.PCI), len(was.Interfaces))
	got := replay(t, data)
	if was.Hostname != "" && len(was.Hostname) > 4 && strings.Contains(string(data), was.Hostname) {
		t.Errorf("the recording still has the host name %s", was.Hostname)
	}
	was, got = blank(was), blank(got)
	was.Limits.Shm, got.Limits.Shm = 0, 0 // other programs write there
	was.GPUs, was.Verbs = got.GPUs, got.Verbs
	if diff := cmp.Diff(was, got, equal); diff != "" {
		t.Errorf("node (-recorded +replayed):\n%s", diff)
	}
}

func TestAddressesOfOneNetworkRemainInOneNetwork(t *testing.T) {
	const text = "machine/1\nhost trainer-12\nroute eth0 10.1.2.3\nvirtual\n" +
		"  net eth0 kind=veth addr=10.1.2.3/24,2001:db8:1:2::5/64\n  net eth1 kind=veth addr=10.1.2.77/24\n  net eth2 " +
		"kind=veth addr=10.1.3.9/24,192.168.1.5/16\n"
	m, err := machine.Read([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	_, data := record(t, m.Roots(), fabric.Options{
		GPU: func(context.Context) gpu.Facts {
			return gpu.Facts{Err: "trainer-12 is lost", Devices: []gpu.GPU{{UUID: "GPU-8b0a1f6e-1111-2222-3333-444455556666"}}}
		},
		Software: func(context.Context) software.Facts {
			return software.Facts{Python: software.Item{Path: "/home/somebody/venv/bin/python3"},
				NCCL: software.Item{Path: "/usr/lib/libnccl.so.2"}}
		},
	})
	n := replay(t, data)
	a, b, c := n.Interfaces[1].Addrs[0], n.Interfaces[2].Addrs[0], n.Interfaces[3].Addrs[0]
	if a.Masked() != b.Masked() || a.Masked() == c.Masked() || a.Addr() == b.Addr() || n.Route.Src != a.Addr() {
		t.Errorf("10.1.2.3/24, 10.1.2.77/24 and 10.1.3.9/24 became %v, %v and %v, the route's source %v", a, b, c,
			n.Route.Src)
	}
	if p := n.Interfaces[3].Addrs[1]; !netip.MustParsePrefix("192.168.0.0/16").Contains(p.Addr()) {
		t.Errorf("192.168.1.5 became %v, which is not private", p)
	}
	for _, secret := range []string{"trainer-12", "10.1.2.3", "8b0a1f6e", "somebody", "db8:1:2"} {
		if strings.Contains(string(data), secret) {
			t.Errorf("the recording still has %s", secret)
		}
	}
	if n.Software.NCCL.Path != "/usr/lib/libnccl.so.2" || n.GPUs.Err != "node-1 is lost" {
		t.Errorf("software %+v and GPUs %+v lost more than names", n.Software, n.GPUs)
	}
}
