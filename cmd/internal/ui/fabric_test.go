package ui

import (
	"encoding/xml"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"
	"unicode/utf8"

	"launch/fabric"
	"launch/fabric/machine/machinetest"
	"launch/fabric/rail"
)

// devices returns the names of the devices in a picture, which must be self-contained XML.
func devices(t *testing.T, svg []byte) (names []string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(string(svg)))
	for {
		token, err := d.Token()
		if err == io.EOF {
			return names
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		for _, a := range start.Attr {
			switch {
			case a.Name.Local == "data-name":
				names = append(names, a.Value)
			case a.Name.Local == "href", a.Name.Local != "xmlns" && strings.Contains(a.Value, "://"),
				strings.Contains(a.Value, "url("):
				t.Errorf("%s refers to %q", start.Name.Local, a.Value)
			}
		}
	}
}

func TestThePictureHoldsEachDeviceOnce(t *testing.T) {
	for _, name := range machinetest.Names() {
		t.Run(name, func(t *testing.T) {
			n := machinetest.Node(t, name)
			f := rail.Of(n, netip.Addr{})
			svg := FabricSVG(n, f)
			count := map[string]int{}
			for _, d := range devices(t, svg) {
				count[d]++
			}
			var want []string
			for _, h := range n.HCAs {
				want = append(want, h.Name)
			}
			for _, g := range f.GPUs {
				want = append(want, fmt.Sprintf("GPU %d", g.Index))
			}
			for _, d := range want {
				if count[d] != 1 {
					t.Errorf("%s is drawn %d times, want once", d, count[d])
				}
			}
			if again := FabricSVG(n, f); string(again) != string(svg) {
				t.Error("the same node gives another picture")
			}
		})
	}
}

// The kernel names the devices, and people can rename them.
func TestAPictureOfOddNamesIsXML(t *testing.T) {
	odd := "a<b>\"&'\x00\x1b]\u2028" + string([]byte{0xff})
	n := fabric.Node{Hostname: odd, Product: odd, HCAs: []fabric.HCA{{Name: odd, PCI: odd,
		Ports: []fabric.Port{{Num: 1, State: 4, LinkLayer: odd, Netdev: odd}}}},
		PCI: []fabric.PCI{{Addr: odd, Path: []string{odd, odd}}}}
	if got := devices(t, FabricSVG(n, rail.Of(n, netip.Addr{}))); len(got) != 1 || !utf8.ValidString(got[0]) ||
		!strings.HasPrefix(got[0], "a<b>\"&'") {
		t.Errorf("devices %q", got)
	}
}

func TestAFabricIsReadIn80Columns(t *testing.T) {
	for _, name := range machinetest.Names() {
		n := machinetest.Node(t, name)
		u, out, _ := log(Options{})
		f := rail.Of(n, netip.Addr{})
		n.Unknown = nil // a path may be longer
		for i := range n.GPUs.Devices {
			n.GPUs.Devices[i].UUID = ""
		}
		u.Fabric(n, f)
		for line := range strings.Lines(out.String()) {
			if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > pageWidth && !strings.HasPrefix(line, "software") {
				t.Errorf("%s: %d columns: %s", name, utf8.RuneCountInString(line), line)
			}
			if strings.Contains(line, "\x1b") {
				t.Errorf("%s: colour in a file: %q", name, line)
			}
		}
		for _, r := range f.Rails {
			if !strings.Contains(out.String(), "\n"+f.Name(r)+" ") {
				t.Errorf("%s: rail %s is not in\n%s", name, f.Name(r), out)
			}
		}
	}
}

func TestLinksAreDescribed(t *testing.T) {
	page := func(name string) string {
		n := machinetest.Node(t, name)
		u, out, _ := log(Options{})
		f := rail.Of(n, n.Route.Src)
		u.Fabric(n, f)
		return out.String() + string(FabricSVG(n, f))
	}
	for name, want := range map[string][]string{
		"aws-p5-48xlarge": {"rdmap79s0   100 Gb/s  EFA ", ">100 Gb/s EFA<"},
		"omnipath":        {" Omni-Path "},
		"cx3-two-fabrics": {">2 x 56 Gb/s InfiniBand<"},
		"gcp-pod-one-nic": {"cloud gcp, a virtual machine, in kubernetes, RDMA namespaces\n  shared\n",
			"host a3u-pod  Google Compute Engine\n"},
		"h100-ib-ndr-bond": {"GPUDirect RDMA: peermem is loaded; DMA-BUF: yes\n",
			"bond0       bond      up           1500  peer      10.20.0.17/22\n"},
	} {
		got := page(name)
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%s: no %q in\n%s", name, w, got)
			}
		}
		if strings.Contains(got, "Unknown") {
			t.Errorf("%s: a link is called Unknown in\n%s", name, got)
		}
	}
	// The interface that the peers use is drawn as a rail.
	if svg := page("slingshot-mi250x"); strings.Contains(svg, paintOf("management").stroke) {
		t.Errorf("a rail is drawn as management:\n%s", svg)
	}
}

// A rail that is down is drawn as missing, not hidden.
func TestAGIDTableThatWasNotReadIsUnknown(t *testing.T) {
	for slots, want := range map[int]string{0: " unknown ", 16: " none "} {
		n := fabric.Node{HCAs: []fabric.HCA{{Name: "mlx5_0", NodeType: 1, Ports: []fabric.Port{
			{Num: 1, State: 4, LinkLayer: "Ethernet", Rate: 100, Netdev: "eth0", GIDSlots: slots}}}}}
		if got := (&UI{}).rails(rail.Of(n, netip.Addr{})); !strings.Contains(got, want) {
			t.Errorf("%d entries: no%sin\n%s", slots, want, got)
		}
	}
}

func TestAMissingRailIsShown(t *testing.T) {
	n := machinetest.Node(t, "h100-roce-8")
	for i := range n.HCAs {
		if name := n.HCAs[i].Name; name == "mlx5_5" || name == "mlx5_11" {
			p := &n.HCAs[i].Ports[0]
			p.State, p.PhysState, p.Rate = 1, 2, 40
		}
	}
	f := rail.Of(n, netip.Addr{})
	u, out, _ := log(Options{})
	u.Fabric(n, f)
	for _, want := range []string{"fabric roce: 6 x Ethernet at 400 Gb/s; 2 more of the same kind have no link\n",
		"\nmlx5_5     missing   no active port: port 1 is down, polling for a cable\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	svg := string(FabricSVG(n, f))
	look := paintOf("missing")
	if got := strings.Count(svg, look.stroke+`" stroke-dasharray`); got != 3 ||
		!strings.Contains(svg, ">"+look.label+"<") {
		t.Errorf("%d boxes are drawn as missing, want the two rails and the legend", got)
	}
}
